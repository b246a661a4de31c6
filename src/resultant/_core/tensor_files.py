"""Tensors and JSON in one safetensors file with a checksum; files of `torch.save`, not executed."""

import hashlib
import json
import os
import pickle
import re
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from resultant._core.files import make_folder, parse_json, replacing, require_input_file
from resultant._core.text import one_line

KEY = "resultant"
# Checksum of the tensors and the JSON object of `save`, and checksums by tensor in the metadata of
# other files; files of earlier versions and of other programs have none.
CHECKSUM, CHECKSUMS = "sha256", "crc32"


def save(path: str | os.PathLike[str], tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
    """Write ``tensors`` and the JSON object ``about`` to a file; create its folder."""
    path = Path(path)
    make_folder(path.parent)
    contiguous = {name: a.detach().cpu().contiguous() for name, a in tensors.items()}
    # One entry of metadata: safetensors writes several in no fixed order.
    text = json.dumps({**about, CHECKSUM: checksum(contiguous, json.dumps(about))})
    write_tensors(path, contiguous, {KEY: text})


def require_name(path: Path) -> None:
    """Raise unless the name of a file to write ends in .safetensors."""
    if path.suffix != ".safetensors":
        raise ValueError(f"expected a name that ends in .safetensors, got {path}")


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Write a safetensors file that is complete or absent; raise an OSError if the disk is full."""
    if KEY not in metadata:
        sums = {name: zlib.crc32(bytes_of(a)) for name, a in sorted(tensors.items())}
        metadata = {**metadata, CHECKSUMS: json.dumps(sums)}
    with replacing(path) as temporary:
        try:
            save_file(tensors, temporary, metadata)
        except SafetensorError as error:
            raise OSError(f"expected to write all of {path}, got: {error}") from None


def checksum(tensors: dict[str, Tensor], text: str) -> str:
    """Compute the SHA-256 of a text and of contiguous tensors with their names and shapes."""
    digest = hashlib.sha256(text.encode())
    for name, a in sorted(tensors.items()):
        digest.update(f"{name} {a.dtype} {tuple(a.shape)}".encode())
        digest.update(bytes_of(a))
    return digest.hexdigest()


def bytes_of(tensor: Tensor) -> memoryview:
    """Return the bytes of a contiguous tensor on the CPU, without a copy."""
    return tensor.reshape(-1).view(torch.uint8).numpy().data


def load(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read the tensors and the JSON object that `save` wrote; raise a ValueError if damaged."""
    if not Path(path).exists():
        raise FileNotFoundError(f"expected a checkpoint, got no file at {path}")
    tensors, about = load_tensors(path)[0], read_metadata(path)
    if about is None:
        rule = f"expected {path} to hold a network, a checkpoint or a classifier"
        raise ValueError(f"{rule}, with metadata {KEY!r}, got none")
    if about.pop(CHECKSUM, None) not in (None, checksum(tensors, json.dumps(about))):
        raise ValueError(f"expected the checksum of its content in {path}, got another: damaged")
    return tensors, about


def load_tensors(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read all tensors of a safetensors file and its metadata; errors as in `load`."""
    require_input_file(path)
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in sorted(file.keys())}
            metadata = file.metadata() or {}
        for name, expected in parse_json(metadata.get(CHECKSUMS, "{}")).items():
            if name in tensors and zlib.crc32(bytes_of(tensors[name])) != expected:
                raise ValueError(f"another checksum of {name!r:.80}: damaged")
    except (SafetensorError, ValueError, AttributeError) as error:
        raise ValueError(f"expected a whole safetensors file, got {path} ({error})") from None
    return tensors, metadata


def read_metadata(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Return the JSON object of a file of this package, None for any other file."""
    try:
        require_input_file(path)
        with safe_open(path, "pt") as file:
            about = parse_json((file.metadata() or {}).get(KEY, "null"))
    except (OSError, SafetensorError, ValueError):
        return None
    return about if isinstance(about, dict) else None


def load_torch(path: Path, stand_ins: Sequence[tuple[Callable[..., Any], str]] = ()) -> Any:
    """Load tensors, numbers, texts and collections, and stand-ins for classes by full name."""
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                if (damaged := archive.testzip()) is not None:
                    raise ValueError(f"another checksum of {damaged!r}: damaged")
        # Opened here: torch takes the kind of a file from its name.
        with path.open("rb") as file, torch.serialization.safe_globals(list(stand_ins)):
            return torch.load(file, map_location="cpu", weights_only=True)
    except (ValueError, OSError, MemoryError):
        raise
    except pickle.UnpicklingError as error:
        name = re.search(r"GLOBAL (\S+)", str(error))
        named = "" if name is None else f" ({one_line(name[1])[:80]})"
        raise ValueError(f"other objects{named}, which are never loaded") from None
    except Exception as error:
        # A broken pickle may run into any error.
        raise ValueError(one_line(error)[:200] or type(error).__name__) from None
