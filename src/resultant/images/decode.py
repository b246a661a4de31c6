"""Decoding of image files to RGB of 8 bits, without transparency, with one-line errors."""

import io
import struct
import warnings
from contextlib import suppress
from typing import Any

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError, features

from resultant._core.text import one_line

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
# Endings of the names of image files, in lower case: those of torchvision's ImageFolder, and more.
SUFFIXES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
SUFFIXES += (".jfif", ".gif")
if features.check("avif"):
    FORMATS, SUFFIXES = (*FORMATS, "AVIF"), (*SUFFIXES, ".avif")
# Above the largest cameras; Pillow itself refuses a third more.
MAX_PIXELS = 2**27

# Such as those of odd EXIF data.
warnings.filterwarnings("ignore", module=r"PIL\.")


class ImageError(ValueError):
    """Image that is missing or broken, in one line that names the image."""

    # Advice that the command adds to the line.
    remedy = "--skip-broken leaves broken images out"


def decode(data: bytes, name: str) -> Image.Image:
    """Decode the content of an image file to mode RGB; errors have the name of the image."""
    rule = f"expected {name} to be a whole image"
    few = f"expected {name} to have at most {MAX_PIXELS:,} pixels"
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                raise ImageError(f"{few}, got {width:,} x {height:,}")
            frames = getattr(image, "n_frames", 1)
            # An MPO is a JPEG with further pictures, as phones write it; the first one counts.
            if frames > 1 and image.format != "MPO":
                raise ImageError(f"expected {name} to be a still image, got {frames} frames")
            return _rgb(image, name)
    except (ImageError, MemoryError):
        raise
    except UnidentifiedImageError:
        got = "no known format" if data else "an empty file"
        raise ImageError(f"{rule}, got {got}") from None
    except Image.DecompressionBombError:
        raise ImageError(f"{few}, got more than Pillow opens") from None
    except Exception as error:
        # The decoders of Pillow raise almost any error on broken bytes.
        raise ImageError(f"{rule}, got: {one_line(error) or type(error).__name__}") from None


def as_picture(image: Any, name: str) -> Image.Image:
    """Return an image in mode RGB from the content of a file, a picture of Pillow or an array."""
    if isinstance(image, bytes):
        return decode(image, name)
    if isinstance(image, Image.Image):
        return image.convert("RGB")
    pixels = np.asarray(image)
    if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3) or pixels.shape[2:] not in ((), (3,)):
        rule = f"expected {name} to be a picture, bytes, or uint8 [H, W, 3]"
        raise ImageError(f"{rule}, got {pixels.dtype} {list(pixels.shape)}")
    return Image.fromarray(pixels).convert("RGB")


def _rgb(image: Image.Image, name: str) -> Image.Image:
    with suppress(ValueError, TypeError, KeyError, SyntaxError, struct.error):
        # As cameras turn a picture, by its EXIF data; odd data turn nothing.
        image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I;16"):
        # Pillow would clip to 255.
        return Image.fromarray((np.asarray(image) // 257).astype(np.uint8)).convert("RGB")
    if image.mode in ("I", "F"):
        raise ImageError(f"expected {name} to have 8 or 16 bits per channel, got 32")
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("RGB")
