"""Class names of a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from images.photos import write_parquet
from resultant.images.labelling import read_class_names
from resultant.images.opening import open_images


def test_class_names_of_a_file(tmp_path: Path) -> None:
    write_parquet(tmp_path / "train.parquet", [0, 1, 1, 0])
    write_parquet(tmp_path / "test.parquet", [1])
    assert open_images(tmp_path).class_names == ("0", "1")
    (tmp_path / "classes.tsv").write_text("label\twnid\tname\n1\tn1\ttench, Tinca\n0\tn0\tcarp\n")
    assert open_images(tmp_path).class_names == ("carp", "tench, Tinca")
    (tmp_path / "own.txt").write_text("x\n\ny\n")
    assert open_images(tmp_path, class_names=tmp_path / "own.txt").class_names == ("x", "y")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("label\t" + "n" * 200_000, "expected columns label and name"),
        ("label\tname\n0\ta\n\n0\tb", "a new label >= 0 and a name at .*:4, got '0' and 'b'"),
        ("label\tname\n" + "9" * 5000 + "\ta", "a new label >= 0"),
        ("label\tname\n0", "a new label >= 0 and a name at .*:2"),
    ],
)
def test_class_names_that_are_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "own.tsv").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_class_names(tmp_path / "own.tsv")
