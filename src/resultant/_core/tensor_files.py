"""Tensors and JSON in one safetensors file, which is complete or absent, with a checksum."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from resultant._core.files import replacing

KEY = "resultant"
# Checksum of the tensors and the JSON object; files of earlier versions have none.
CHECKSUM = "sha256"


def save(path: str | os.PathLike[str], tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
    """Write ``tensors`` and the JSON object ``about`` to a file; create its folder."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    contiguous = {name: a.detach().cpu().contiguous() for name, a in tensors.items()}
    # One entry of metadata: safetensors writes several in no fixed order.
    text = json.dumps({**about, CHECKSUM: checksum(contiguous, json.dumps(about))})
    write_tensors(path, contiguous, {KEY: text})


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Write a safetensors file that is complete or absent; raise an OSError if the disk is full."""
    with replacing(path) as temporary:
        try:
            save_file(tensors, temporary, metadata)
        except SafetensorError as error:
            raise OSError(f"expected to write all of {path}, got: {error}") from None


def checksum(tensors: dict[str, Tensor], text: str) -> str:
    """Compute the SHA-256 of a text and of contiguous tensors with their names and shapes."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        a = tensors[name]
        digest.update(f"{name} {a.dtype} {tuple(a.shape)}".encode())
        digest.update(a.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def load(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read the tensors and the JSON object of a file that `save` wrote.

    Raises:
        FileNotFoundError: If there is no file.
        ValueError: If the file is truncated, changed or of another kind.
    """
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
    if about.pop(CHECKSUM, None) not in (None, checksum(tensors, json.dumps(about))):
        raise ValueError(f"expected the checksum of its content in {path}, got another: damaged")
    return tensors, about
