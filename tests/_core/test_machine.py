"""Devices, processes that wait for each other, and torchvision that was built for another torch."""

import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from programs import run_processes
from resultant.images import vision
from resultant.training.precision import full_precision

LATE = """
import time
from datetime import timedelta
from resultant._core import distributed

def main(rank):
    distributed.wait_for_all()
    set_timeout = getattr(dist, "set_timeout", dist.distributed_c10d._set_pg_timeout)
    set_timeout(timedelta(seconds=0.5))
    began = time.monotonic()
    if rank == 0:
        time.sleep(1)
    distributed.wait_for_all()
    assert time.monotonic() - began > 0.9
"""


@pytest.mark.slow
def test_a_late_process_is_waited_for(tmp_path: Path) -> None:
    """Longer than other exchanges would wait."""
    run_processes(LATE, 2, tmp_path)


def test_full_precision_of_older_versions_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    matmul, cudnn = SimpleNamespace(allow_tf32=True), SimpleNamespace(allow_tf32=True)
    monkeypatch.setattr(torch.backends.cuda, "matmul", matmul)
    monkeypatch.setattr(torch.backends, "cudnn", cudnn)
    with full_precision(torch.device("cpu")):
        assert not matmul.allow_tf32 and not cudnn.allow_tf32
    assert matmul.allow_tf32 and cudnn.allow_tf32


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
