"""Lets torchvision be imported with a torch build that its compiled operators do not fit.

Its import only looks the operators' schemas up; nothing here calls the operators.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch

SCHEMAS = {
    "nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}

_library: torch.library.Library | None = None


def define_missing() -> None:
    global _library
    result = importlib.util.find_spec("torchvision")
    if _library is not None or result is None or result.origin is None:
        return
    for compiled in Path(result.origin).parent.glob("_C*.so"):
        try:
            torch.ops.load_library(str(compiled))
        except OSError:
            _library = torch.library.Library("torchvision", "DEF")
            for name, schema in SCHEMAS.items():
                _library.define(name + schema)
        return
