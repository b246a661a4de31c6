"""Import of torchvision and timm, even if the compiled operators of torchvision do not fit torch:
their schemas, which the import looks up and this package never calls, are declared if missing."""

import sys
from importlib import import_module
from importlib.metadata import version
from typing import Any

import torch

from resultant._core.text import one_line

OPERATORS = ("nms", "qnms")
MISFITS = (ImportError, RuntimeError, AttributeError)

_declared: list[torch.library.Library] = []


def vision_module(name: str) -> Any:
    """Import a module of torchvision or timm; raise a ValueError if it does not fit torch."""
    declare_operators()
    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise
    except MISFITS as error:
        rule = f"expected torchvision and timm that fit torch {torch.__version__}"
        got = f"torchvision {version('torchvision')}: {one_line(error)}"
        raise ValueError(f"{rule}, got {got}") from None


def declare_operators() -> None:
    """Declare the operators of a torchvision whose compiled ones do not load."""
    try:
        import_module("torchvision")
    except ModuleNotFoundError:
        return
    except MISFITS:
        if not _declared:
            _declared.append(torch.library.Library("torchvision", "FRAGMENT"))
            for name in OPERATORS:
                arguments = "Tensor dets, Tensor scores, float iou_threshold"
                _declared[0].define(f"{name}({arguments}) -> Tensor")
        # A failed import is forgotten, so that the next one starts again.
        for name in [n for n in sys.modules if n.partition(".")[0] in ("torchvision", "timm")]:
            del sys.modules[name]
