"""CIFAR as sheets of 32 x 32 tiles, whole or with some of the training images alone.

A folder of sheets ``*.webp``, row by row and in the order of their names, holds the training images
and after them the test images. ``labels.json`` says {"train": [...], "test": [...]}, the labels of
*all* images; where the sheets hold some of the training images, {"held": [...]} are their
positions. A long-tailed subset keeps in this way the positions that define it.
"""

from __future__ import annotations

import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from resultant._core.files import replacing

if TYPE_CHECKING:
    from resultant.images.cifar import Cifar

# Of the training pixels [50000, 32, 32, 3] of CIFAR-100 by class, then by file name.
CLASS_ORDER_SHA256 = "2aa2e92a742ec0fbd361b0b1386394899dfac5a05c448330d3371fd9b63b3e87"

# Tiles of a sheet that is written: rows and columns.
SIDE = 50

Split = tuple[np.ndarray, np.ndarray]  # pixels [n, 32, 32, 3] uint8, labels [N]


def pixels(path: Path) -> np.ndarray:
    """An image as [H, W, 3] uint8."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            return np.asarray(image.convert("RGB"))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise ValueError(f"expected {path} to be a whole image, got: {error}") from None


def read_sheets(name: str, folder: Path) -> tuple[Split, Split, np.ndarray | None]:
    """Both splits of the data set ``name``, and which training images are there if not all."""
    tiles, paths = [], sorted(folder.glob("*.webp"))
    with ThreadPoolExecutor() as pool:
        sheets = list(pool.map(pixels, paths))
    for path, sheet in zip(paths, sheets, strict=True):
        rows, columns = sheet.shape[0] // 32, sheet.shape[1] // 32
        if sheet.shape[:2] != (32 * rows, 32 * columns):
            raise ValueError(f"expected {path} in tiles of 32 x 32, got {sheet.shape[:2]}")
        cut = sheet.reshape(rows, 32, columns, 32, 3).swapaxes(1, 2)
        tiles.append(cut.reshape(-1, 32, 32, 3))
    images = np.concatenate(tiles)
    train, test, held = _labels(name, folder, images)
    split = len(train) if held is None else len(held)
    end = split + len(test)
    if len(images) < end:
        rule = f"expected {end} tiles in {folder}/*.webp"
        raise ValueError(f"{rule}, one a label, got {len(images)}")
    return (images[:split], train), (images[split:end], test), held


def _labels(
    name: str, folder: Path, images: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    path = folder / "labels.json"
    rule = f'expected {path} to hold {{"train": [...], "test": [...]}}, lists of integers'
    if not path.is_file():
        by_class = hashlib.sha256(images[:50_000].tobytes()).hexdigest()
        if name != "cifar100" or by_class != CLASS_ORDER_SHA256:
            raise ValueError(f"{rule}, got no such file, and the sheets are not CIFAR-100 by class")
        return np.repeat(np.arange(100), 500), np.repeat(np.arange(100), 100), None
    try:
        lists: Any = json.loads(path.read_bytes())
        train, test = (np.array(lists[split]) for split in ("train", "test"))
        held = np.array(lists["held"]) if "held" in lists else None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{rule}, got: {error}") from None
    if held is not None:
        whole = held.ndim == 1 and np.issubdtype(held.dtype, np.integer)
        if not (whole and len(held) and (np.diff(held) > 0).all()):
            raise ValueError(f"expected held in {path} to be ascending positions, got others")
        if held[0] < 0 or held[-1] >= len(train):
            odd = held[0] if held[0] < 0 else held[-1]
            raise ValueError(f"expected held in {path} in [0, {len(train)}), got {odd}")
    return train, test, held


def write_sheets(
    data: Cifar, folder: str | os.PathLike[str], rows: Tensor | None = None, side: int = SIDE
) -> None:
    """Write CIFAR as sheets, with all training images or those at the positions ``rows`` alone.

    `resultant.data.load_cifar` reads the folder that holds this one, whose name is that of the data
    set. ``labels.json`` comes last, without which nothing is read.
    """
    from PIL import Image

    # Before anything goes: images may be asked for that are not there.
    held = None if rows is None else rows.unique()
    kept = data.train_images if held is None else data.images_at(held)
    tiles = np.concatenate([a.permute(0, 2, 3, 1).numpy() for a in (kept, data.test_images)])
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for old in (folder / "labels.json", *folder.glob("*.webp")):
        old.unlink(missing_ok=True)
    for i, top in enumerate(range(0, len(tiles), side * side)):
        sheet = np.zeros((side * side, 32, 32, 3), np.uint8)
        piece = tiles[top : top + side * side]
        sheet[: len(piece)] = piece
        whole = sheet.reshape(side, side, 32, 32, 3).swapaxes(1, 2).reshape(32 * side, -1, 3)
        path = folder / f"{i:03d}.webp"
        Image.fromarray(np.ascontiguousarray(whole)).save(path, lossless=True)
    lists = {"train": data.train_labels.tolist(), "test": data.test_labels.tolist()}
    if held is not None:
        lists["held"] = held.tolist()
    with replacing(folder / "labels.json") as temporary:
        temporary.write_text(json.dumps(lists))
