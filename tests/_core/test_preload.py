"""Imports with the collector paused."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import pytest

from resultant._core.preload import preload


def test_preload_pauses_the_collector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "preloaded.py").write_text("import gc\ncollecting = gc.isenabled()\n")
    monkeypatch.syspath_prepend(tmp_path)
    preload(["preloaded"])
    assert sys.modules.pop("preloaded").collecting is False and gc.isenabled()
