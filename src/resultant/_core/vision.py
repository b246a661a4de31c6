"""Import of torchvision and timm, even if the compiled operators of torchvision do not fit torch.

The import of torchvision only looks up the schemas of some operators, which this package never
calls. They are declared if they are missing because the wheel was built for another torch.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from resultant._core.text import one_line

SCHEMAS = {
    "nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}

_declared: list[torch.library.Library] = []


def vision_module(name: str) -> Any:
    """Import a module of torchvision or timm by its full name.

    Raises:
        ModuleNotFoundError: If it is not installed.
        ValueError: If it does not fit the installed torch in another way.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        raise
    except (ImportError, RuntimeError, AttributeError):
        declare_operators()
    try:
        return importlib.import_module(name)
    except (ImportError, RuntimeError, AttributeError) as error:
        rule = f"expected torchvision and timm that fit torch {torch.__version__}"
        raise ValueError(f"{rule}, got torchvision {_version()}: {one_line(error)}") from None


def declare_operators() -> None:
    """Declare the operators of a torchvision whose compiled ones do not load.

    A failed import of torchvision is forgotten, so that the next import starts again.
    """
    installed = importlib.util.find_spec("torchvision") if not _declared else None
    if installed is None or installed.origin is None:
        return
    for compiled in Path(installed.origin).parent.glob("_C*.so"):
        try:
            torch.ops.load_library(str(compiled))
        except OSError:
            library = torch.library.Library("torchvision", "DEF")
            for name, schema in SCHEMAS.items():
                library.define(name + schema)
            _declared.append(library)
            break
    for name in [n for n in sys.modules if n.partition(".")[0] in ("torchvision", "timm")]:
        del sys.modules[name]


def _version() -> str:
    try:
        return version("torchvision")
    except PackageNotFoundError:
        return "none"
