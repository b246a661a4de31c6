"""Versions of the software behind a result."""

from __future__ import annotations

import platform

import torch

from resultant._version import __version__


def versions(device: torch.device) -> dict[str, str]:
    """Return the versions of resultant, torch and Python, and the name of a CUDA device."""
    record = {
        "resultant": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    if device.type == "cuda":
        record["device"] = torch.cuda.get_device_name(device)
    return record
