"""The folder of a report: whole or as it was before."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from resultant._core.files import beside
from resultant.report import page

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

NAMES = ("<script>alert(1)</script>", "a & b", '"quoted"', "$x^$", "five", "six")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def test_a_folder_takes_its_place_whole(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    with page.whole_folder(out) as folder:
        (folder / "x").write_text("1")
        assert not out.exists()

    def interrupted() -> None:
        with page.whole_folder(out) as folder:
            (folder / "y").write_text("2")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [p.name for p in out.parent.iterdir()] == ["out"]
    assert [p.name for p in out.iterdir()] == ["x"]


@pytest.mark.parametrize("error", [OSError("busy"), KeyboardInterrupt()])
@pytest.mark.parametrize("last", [2, 3])
def test_an_old_report_outlives_a_failed_rename(
    error: BaseException, last: int, tmp_path: Path, monkeypatch: Any
) -> None:
    """The new one cannot take its place; with ``last`` = 3 the old one cannot go back to it."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "x").write_text("old")
    rename, calls = os.rename, []

    def failing(a: Path, b: Path) -> None:
        calls.append(a)
        if 2 <= len(calls) <= last:
            raise error
        rename(a, b)

    def replaced() -> None:
        with page.whole_folder(out) as folder:
            (folder / "x").write_text("new")

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(type(error)):
        replaced()
    (kept,) = tmp_path.iterdir()
    assert (kept / "x").read_text() == "old" and (kept == out) == (last == 2)
    replaced()
    assert (out / "x").read_text() == "new"


@pytest.mark.parametrize("there", [False, True])
def test_names_of_a_killed_process_of_the_same_number(there: bool, tmp_path: Path) -> None:
    """As in a container that begins again. Killed between two renames, it left the only report."""
    out = tmp_path / "out"
    left = [beside(out), beside(out, "old"), *([out] if there else [])]
    for folder in left:
        folder.mkdir()
        (folder / "x").write_text(folder.name)

    def interrupted() -> None:
        with page.whole_folder(out) as folder:
            assert not list(folder.iterdir())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert (out / "x").read_text() == (out.name if there else left[1].name)
    for folder in left[:2]:
        folder.mkdir()
        (folder / "x").write_text("left")
    with page.whole_folder(out) as folder:
        (folder / "x").write_text("new")
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert (out / "x").read_text() == "new"


def test_a_link_to_a_report_stays(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with page.whole_folder(tmp_path / "link") as folder:
        (folder / "x").write_text("1")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real" / "x").exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "real"]


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
