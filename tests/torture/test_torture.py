"""A few trials of each kind of ``python -m torture``, and all files that once broke a reader."""

import random
from pathlib import Path

import pytest

from torture import files, numbers


@pytest.mark.slow
@pytest.mark.parametrize("reader", sorted({name for name, _ in files.kept()}))
def test_files_that_broke_a_reader_are_read_or_refused(reader: str) -> None:
    paths = [path for name, path in files.kept() if name == reader]
    assert files.read(reader, paths) == [""] * len(paths)


@pytest.mark.slow
@pytest.mark.parametrize("check", numbers.CHECKS, ids=lambda check: check.__name__)
def test_numbers_find_no_failure(check: numbers.Check) -> None:
    assert check(0) == ""


def test_a_failing_reader_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The harness sees an error that no command would report."""
    assert files.read("class names", [tmp_path / "absent.txt"]) == [""]
    # A reader that is not known is an error of another kind.
    (failure,) = files.read("no reader", [tmp_path / "absent.txt"])
    assert "KeyError" in failure


def test_mutations_change_a_file(tmp_path: Path) -> None:
    before, changed = b"label,x0\n1,2\n", 0
    for seed in range(20):
        path = tmp_path / str(seed) / "a.csv"
        path.parent.mkdir()
        path.write_bytes(before)
        files.change(path, random.Random(seed))
        same = path.is_file() and path.stat().st_size == len(before)
        changed += not same or path.read_bytes() != before
    assert changed > 15
