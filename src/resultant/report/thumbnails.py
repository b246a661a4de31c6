"""Small pictures of rows whose file is an image."""

import base64
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

# Suffixes of files that are opened, and the longest side of a picture.
SUFFIXES = (".jpg", ".jpeg", ".jfif", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm")
SIDE = 64


def thumbnail(name: str, folders: Iterable[Path]) -> Any:
    """Return an image as part of the page if a folder has it inside, else its name as text."""
    if Path(name).suffix.lower() not in SUFFIXES:
        return name
    # A hostile file of features may name images elsewhere on this machine.
    inside = (
        path
        for folder in folders
        if (path := (folder / name).resolve()).is_relative_to(folder.resolve()) and path.is_file()
    )
    path = next(inside, None)
    data = None if path is None else small(path)
    if data is None:
        return name
    from markupsafe import Markup

    source = f"data:image/jpeg;base64,{base64.b64encode(data).decode()}"
    return Markup('<img src="{}" alt="" loading="lazy"> {}').format(source, name)


def small(path: Path) -> bytes | None:
    """Return a small picture as JPEG; None for a broken image, or without Pillow."""
    try:
        from PIL import Image, ImageOps
    except ImportError:
        return None
    made = io.BytesIO()
    try:
        with Image.open(path) as image:
            image.draft("RGB", (2 * SIDE, 2 * SIDE))
            image = ImageOps.exif_transpose(image)
            image.thumbnail((SIDE, SIDE))
            image.convert("RGB").save(made, "JPEG", quality=70)
    except Exception:
        # A decoder may raise anything for a broken file; its name remains.
        return None
    return made.getvalue()
