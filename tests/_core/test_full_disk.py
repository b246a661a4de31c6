"""A full disk while tensors or figures are written: an OSError, and the old file is kept."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from resultant._core import tensor_files
from resultant.classes.statistics import ClassStatistics
from resultant.features.store import write_store
from resultant.report import style
from small_features import small_features

resource = pytest.importorskip("resource")


@contextmanager
def no_room(size: int) -> Iterator[None]:
    """Limit files to ``size`` bytes, as on a full disk; Python ignores the signal."""
    usual, compiled = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, usual[1]))
    # Python would keep a part of a compiled module.
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
        sys.dont_write_bytecode = compiled


TENSORS: dict[str, Callable[[Path], None]] = {
    "checkpoint": lambda path: tensor_files.save(path, {"x": torch.zeros(10_000)}, {}),
    "statistics": lambda path: ClassStatistics(100, 100).save(path),
    "features": lambda path: write_store(path, small_features()),
}


@pytest.mark.parametrize("kind", TENSORS)
def test_tensors(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    path.write_text("old")
    message = f"^{re.escape(f'expected to write all of {path}, got: ')}.*too large"
    with pytest.raises(OSError, match=message), no_room(1000):
        TENSORS[kind](path)
    assert path.read_text() == "old" and os.listdir(tmp_path) == [path.name]
    TENSORS[kind](path)
    assert path.stat().st_size > 1000


@pytest.mark.slow
def test_figures(tmp_path: Path) -> None:
    """Also without room for a header, where matplotlib would fail on exit."""
    figures = pytest.importorskip("matplotlib.figure")
    path = tmp_path / "a.pdf"
    path.write_text("old")
    with style.style():
        figure = figures.Figure()
        figure.subplots().plot([1, 2], [3, 4])
    for size in (0, 1000):
        message = re.escape(f"too large: '{path}'")
        with pytest.raises(OSError, match=message), no_room(size):
            style.save(figure, tmp_path / "a")
        assert path.read_text() == "old" and os.listdir(tmp_path) == [path.name]
