"""Image datasets of few small images: as folders, and as Parquet of the Hugging Face hub."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

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
    column = pa.array(
        contents if plain else [{"bytes": a, "path": None} for a in contents],
        pa.binary() if plain else pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
    )
    table = pa.table({"image": column, "label": pa.array(labels)})
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
