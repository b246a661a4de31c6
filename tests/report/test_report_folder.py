"""The folder of a report: whole or as it was before."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from resultant.report import page

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

NAMES = ("<script>alert(1)</script>", "a & b", '"quoted"', "$x^$", "five", "six")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    page.require_place(tmp_path / "a" / "b")
    assert not list(tmp_path.iterdir())

    def denied(*_: Any, **__: Any) -> str:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr("tempfile.mkdtemp", denied)
        with pytest.raises(ValueError, match=r"a/b \(Permission denied\)$"):
            page.require_place(tmp_path / "a" / "b")
    # A mount cannot be renamed.
    monkeypatch.setattr(Path, "is_mount", lambda path: path == tmp_path)
    with pytest.raises(ValueError, match="within a mounted folder"):
        page.require_place(tmp_path)
