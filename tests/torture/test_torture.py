"""The mutations of ``python -m torture``, and all files that once broke a reader."""

import random
from pathlib import Path

import pytest

from torture import files


@pytest.mark.slow
def test_files_that_broke_a_reader_are_read_or_refused() -> None:
    """One child reads them all, and sees an error that no command would report."""
    kept = files.kept()
    # Without a reader: an error of another kind.
    *failures, last = files.read([*kept, ("no reader", Path("absent.txt"))])
    assert [(own, failure) for own, failure in zip(kept, failures, strict=True) if failure] == []
    assert "KeyError" in last


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
