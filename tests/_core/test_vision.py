"""Import of torchvision and timm that were built for another torch."""

from __future__ import annotations

import re
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from resultant._core import vision


def test_missing_operators_are_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed import is forgotten; a module that fails again is refused in one line."""
    declared: list[str] = []

    def broken(name: str) -> Any:
        if name == "timm" and declared:
            return SimpleNamespace(name=name)
        monkeypatch.setitem(sys.modules, "torchvision.half", ModuleType("torchvision.half"))
        raise RuntimeError("operator torchvision::nms\ndoes not exist")

    library = SimpleNamespace(define=lambda schema: declared.append(schema[:4]))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    monkeypatch.setattr(vision, "_declared", [])
    monkeypatch.setattr(vision, "import_module", broken)
    monkeypatch.setattr(vision, "version", lambda name: "0.1")
    monkeypatch.setattr(torch.library, "Library", lambda *_: library)
    assert vision.vision_module("timm").name == "timm" and declared == ["nms(", "qnms"]
    assert "torchvision.half" not in sys.modules
    rule = rf"fit torch {re.escape(torch.__version__)}, got torchvision 0.1: operator .*nms does"
    with pytest.raises(ValueError, match=rule):
        vision.vision_module("torchvision.datasets")


def test_absent_modules_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torchvision", "timm"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError) as caught:
        vision.vision_module("timm")
    assert caught.value.name == "timm"
