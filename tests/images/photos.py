"""Image datasets of few small images, as folders and as Parquet of the Hugging Face hub; and
photographs as flat pixels, with their views by PIL, torchvision and timm."""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from resultant.images.photo_views import COLUMNS, CUBIC, OPERATIONS, STEPS
from resultant.images.source import ImageSource


def photo(seed: int, size: tuple[int, int] = (12, 10)) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def photo_bytes(seed: int, kind: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    photo(seed).save(buffer, kind)
    return buffer.getvalue()


def write_folder(root: Path, sizes: Mapping[str, int], first: int = 0) -> Path:
    """Write ``root/CLASS/i.png`` with as many images as the sizes say."""
    for name, number in sizes.items():
        (root / name).mkdir(parents=True, exist_ok=True)
        for i in range(number):
            (root / name / f"{i}.png").write_bytes(photo_bytes(first + i))
    return root


def write_parquet(
    path: Path,
    labels: Sequence[Any],
    *,
    images: Sequence[bytes | None] | None = None,
    plain: bool = False,
    names: Sequence[str] | None = None,
    group: int = 3,
) -> Path:
    """Write images as structs of bytes and path, or as plain binary, with labels."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    contents = [photo_bytes(i) for i in range(len(labels))] if images is None else images
    column = contents if plain else [{"bytes": a, "path": "a.png"} for a in contents]
    table = pa.table({"image": column, "label": labels})
    if names is not None:
        features = {"label": {"names": list(names), "_type": "ClassLabel"}}
        metadata = json.dumps({"info": {"features": features}})
        table = table.replace_schema_metadata({"huggingface": metadata})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=group)
    return path


def same(a: Image.Image, b: Image.Image) -> bool:
    return np.array_equal(np.array(a), np.array(b))


def counts(source: ImageSource | None) -> list[int]:
    """Return the images per class of a split."""
    assert source is not None
    return np.bincount(source.labels, minlength=len(source.class_names)).tolist()


BILINEAR, BICUBIC = Image.Resampling.BILINEAR, Image.Resampling.BICUBIC
Picture = Image.Image
FILL = (120, 111, 102)
# Smallest probability of a statistical test.
LEAST_P = 1e-3


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def column(parameters: Tensor, name: str) -> np.ndarray:
    return parameters[:, COLUMNS.index(name)].numpy()


def levels(pictures: list[Picture]) -> Tensor:
    return torch.stack([torch.from_numpy(np.array(p)).permute(2, 0, 1) for p in pictures])


def photographs(n: int, low: int = 20, high: int = 70) -> tuple[Tensor, Tensor, Tensor]:
    """Return flat pixels, offsets [n] and sizes [n, 2] of smooth images with noise, and three of
    one level or two."""
    g = seeded(3)
    sizes = torch.randint(low, high, (n, 2), generator=g)
    parts = []
    for i, (h, w) in enumerate(sizes.tolist()):
        coarse = torch.rand(1, 3, 5, 5, generator=g)
        x = torch.nn.functional.interpolate(coarse, size=(h, w), mode="bicubic")[0]
        x = 330 * x * torch.rand(1, generator=g) + 20 * torch.randn(3, h, w, generator=g)
        x = x.clamp(0, 255).to(torch.uint8)
        if i < 3:
            x[:] = (0, 255, 77)[i]
            x[:, : h // 2] += i // 2
        parts.append(x.permute(1, 2, 0).reshape(-1))
    ends = torch.tensor([len(part) for part in parts]).cumsum(0)
    return torch.cat(parts), ends - torch.tensor([len(part) for part in parts]), sizes


def picture(pixels: Tensor, offset: int, size: list[int]) -> Picture:
    h, w = size
    return Image.fromarray(pixels[offset : offset + 3 * h * w].view(h, w, 3).numpy())


def colours() -> dict[str, Callable[[Picture, float], Picture]]:
    """Return the operations on colours by torchvision and timm."""
    # Not at the top: kernels are interpreted in a process without torchvision.
    from timm.data import auto_augment as timm

    from resultant.images.vision import vision_module

    tv = vision_module("torchvision.transforms.functional")
    return {
        "brightness": tv.adjust_brightness,
        "contrast": tv.adjust_contrast,
        "saturation": tv.adjust_saturation,
        "hue": tv.adjust_hue,
        "grey": lambda p, v: tv.rgb_to_grayscale(p, 3),
        "sharpness": timm.sharpness,
        "autocontrast": lambda p, v: timm.auto_contrast(p),
        "equalize": lambda p, v: timm.equalize(p),
        "invert": lambda p, v: timm.invert(p),
        "posterize": lambda p, v: timm.posterize(p, int(v)),
        "solarize": lambda p, v: timm.solarize(p, int(v)),
        "solarize_add": lambda p, v: timm.solarize_add(p, int(v)),
    }


def reference(p: Picture, row: list[float], size: int, fill: tuple[float, ...] = FILL) -> Picture:
    """Compute the view of a picture from a row of parameters."""
    from timm.data import auto_augment as timm

    of = dict(zip(COLUMNS, row, strict=True))
    top, left, height, width = (int(of[k]) for k in ("top", "left", "height", "width"))
    p = p.crop((left, top, left + width, top + height))
    p = p.resize((size, size), BILINEAR)
    p = ImageOps.mirror(p) if of["flip"] else p
    warp: dict[str, Any] = {"fillcolor": tuple(map(int, fill))}
    named = colours() | {
        "rotate": lambda p, v: timm.rotate(p, v, **warp),
        "shear_x": lambda p, v: timm.shear_x(p, v, **warp),
        "shear_y": lambda p, v: timm.shear_y(p, v, **warp),
        "translate_x": lambda p, v: timm.translate_x_rel(p, v / size, **warp),
        "translate_y": lambda p, v: timm.translate_y_rel(p, v / size, **warp),
    }
    for k in range(STEPS):
        if of[f"code{k}"]:
            warp["resample"] = BICUBIC if of[f"filter{k}"] == CUBIC else BILINEAR
            p = named[OPERATIONS[int(of[f"code{k}"])]](p, of[f"value{k}"])
    return p


def references(
    pixels: Tensor, offsets: Tensor, sizes: Tensor, parameters: Tensor, size: int
) -> Tensor:
    """Return the views of all pictures, uint8 [n, 3, size, size]."""
    rows = zip(offsets.tolist(), sizes.tolist(), parameters.tolist(), strict=True)
    return levels([reference(picture(pixels, o, s), row, size) for o, s, row in rows])
