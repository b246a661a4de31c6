"""Tensors and JSON in one safetensors file, which is complete or absent."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from resultant._core.files import replacing

KEY = "resultant"


def save(path: str | os.PathLike[str], tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
    """Write ``tensors`` and the JSON object ``about`` to a file; create its folder."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    contiguous = {name: a.detach().cpu().contiguous() for name, a in tensors.items()}
    write_tensors(path, contiguous, {KEY: json.dumps(about)})


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Write a safetensors file that is complete or absent; raise an OSError if the disk is full."""
    with replacing(path) as temporary:
        try:
            save_file(tensors, temporary, metadata)
        except SafetensorError as error:
            raise OSError(f"expected to write all of {path}, got: {error}") from None


def load(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read the tensors and the JSON object of a file that `save` wrote."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"expected a checkpoint, got no file at {path}")
    try:
        with safe_open(path, "pt") as file:
            about = json.loads((file.metadata() or {}).get(KEY, "null"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError) as error:
        raise ValueError(f"expected a whole safetensors file, got {path} ({error})") from None
    if not isinstance(about, dict):
        raise ValueError(f"expected a file with metadata {KEY!r}, got none in {path}")
    return tensors, about
