"""Versions of the software behind a result."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from pathlib import Path

import torch

from resultant._version import __version__


def versions(device: torch.device) -> dict[str, str]:
    """Return the versions of resultant, torch and Python, a digest of the source files as ``code``,
    and the name of a CUDA device."""
    record = {"resultant": __version__, "code": _code()}
    record |= {"torch": torch.__version__, "python": platform.python_version()}
    if device.type == "cuda":
        record["device"] = torch.cuda.get_device_name(device)
    return record


@cache
def _code() -> str:
    folder, digest = Path(__file__).parent.parent, hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(folder)} {content}\n".encode())
    return digest.hexdigest()[:12]
