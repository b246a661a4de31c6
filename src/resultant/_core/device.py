"""Devices: the choice of one, Triton kernels, versions of software."""

import hashlib
import importlib
import importlib.util
import platform
from functools import cache
from pathlib import Path
from types import ModuleType

import torch

from resultant._version import __version__


def require_device(device: torch.device | str) -> torch.device:
    """Return the device; raise a ValueError if it is not available."""
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        first = str(error).partition("\n")[0]
        raise ValueError(f"expected a device to compute on, got {device!r}: {first}") from None


# Makes the device of a tensor the current one within a context: Triton launches on the current
# device and its current stream, wherever the tensors are. On the CPU it does nothing.
device_of = torch.cuda.device_of


@cache
def kernel_module(name: str) -> ModuleType | None:
    """Import a module of Triton kernels by its full name; None without Triton."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def has_triton() -> bool:
    """Return True if Triton is installed, which the fused kernels need."""
    return importlib.util.find_spec("triton") is not None


def versions(device: torch.device) -> dict[str, str]:
    """Return versions of the software, a digest of the sources, and the name of a CUDA device."""
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
