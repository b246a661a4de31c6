"""Import of torchvision, with a plain error if it does not fit the installed torch."""

from __future__ import annotations

import importlib
from importlib.metadata import version
from typing import Any

import torch


def torchvision_module(name: str) -> Any:
    """Import ``torchvision.NAME``.

    Raises:
        ValueError: If torchvision was built for another torch, whose own error is obscure.
    """
    try:
        return importlib.import_module(f"torchvision.{name}")
    except RuntimeError as error:
        rule = f"expected a torchvision that was built for torch {torch.__version__}"
        raise ValueError(f"{rule}, got torchvision {version('torchvision')}: {error}") from None
