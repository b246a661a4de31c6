"""Import of torchvision and timm that were built for another torch."""

from __future__ import annotations

import importlib
import re
import sys
from typing import Any

import pytest
import torch

from programs import run_program
from resultant._core import vision
from resultant._core.vision import vision_module

BROKEN = """
import importlib, sys
from types import ModuleType, SimpleNamespace

import torch
from resultant._core import vision

# A torchvision whose compiled operators do not load, as that of another torch.
vision._declared.clear()
real = importlib.import_module


def import_module(name):
    if name == "timm" and not vision._declared:
        sys.modules["torchvision.half"] = ModuleType("torchvision.half")
        raise RuntimeError("operator torchvision::nms does not exist")
    return real("json")


def load_library(path):
    raise OSError("undefined symbol")


importlib.import_module = import_module
torch.ops.load_library = load_library
torch.library.Library = lambda *_: SimpleNamespace(define=lambda schema: print(schema[:4]))
print(vision.vision_module("timm").__name__, "torchvision.half" in sys.modules)
"""


@pytest.mark.slow
def test_missing_operators_are_declared() -> None:
    pytest.importorskip("torchvision")
    out, _ = run_program(BROKEN)
    assert out.split() == ["nms(", "qnms", "json", "False"]


def test_without_torchvision_nothing_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vision, "_declared", [])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    vision.declare_operators()
    assert vision._declared == []


def test_other_misfits_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(name: str) -> Any:
        raise ImportError("cannot import\nname x from torch")

    monkeypatch.setattr(importlib, "import_module", fails)
    monkeypatch.setattr(vision, "declare_operators", lambda: None)
    rule = rf"fit torch {re.escape(torch.__version__)}, got torchvision .*: cannot import name x"
    with pytest.raises(ValueError, match=rule):
        vision_module("timm")


def test_absent_modules_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ModuleNotFoundError) as caught:
        vision_module("timm")
    assert caught.value.name == "timm"
