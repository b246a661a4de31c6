"""torchvision, or a plain word where it does not fit the torch beside it."""

from __future__ import annotations

import importlib
from importlib.metadata import version
from typing import Any

import torch


def torchvision_module(name: str) -> Any:
    """``torchvision.NAME``. Beside a torch that its operators were not built for, torchvision stops
    with an error of torch's own as it is imported."""
    try:
        return importlib.import_module(f"torchvision.{name}")
    except RuntimeError as error:
        rule = f"expected a torchvision that was built for torch {torch.__version__}"
        raise ValueError(f"{rule}, got torchvision {version('torchvision')}: {error}") from None
