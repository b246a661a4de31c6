"""Temporary folders for copies of features."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from resultant._core import chunks


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files; 100 bytes are much, and pieces are small."""
    folder = tmp_path / "spool"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(chunks, "HELD_BYTES", 100)
    monkeypatch.setattr(chunks, "READ_BYTES", 300)
    return folder
