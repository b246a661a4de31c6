"""Lists of images: files, labels, and errors that name the line or file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from listed import image_files
from resultant.images.files import read_list


def write_lines(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def test_numbers(tmp_path: Path) -> None:
    names = image_files(tmp_path, 7)
    path = write_lines(tmp_path / "list.txt", [f"{n} {i % 3}" for i, n in enumerate(names)] + [""])
    raw, skipped = read_list(path, tmp_path)
    assert raw.labels.tolist() == [0, 1, 2, 0, 1, 2, 0] and not skipped
    images = raw.images
    assert len(images) == 7 and images[3] == (tmp_path / names[3]).read_bytes()
    assert images.name(3) == f"{tmp_path / names[3]} ({path}:4)"


def test_names_with_commas_and_blanks(tmp_path: Path) -> None:
    lines = ["n0/a.JPG,goldfish, Carassius auratus", "b c.png , tench", '"x,y.png","a, b"']
    for name in ("n0/a.JPG", "b c.png", "x,y.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    raw, _ = read_list(write_lines(tmp_path / "list.csv", lines), tmp_path)
    assert raw.labels.tolist() == ["goldfish, Carassius auratus", "tench", "a, b"]


def test_long_labels(tmp_path: Path) -> None:
    """No row takes the room of the longest label, and long numbers are names."""
    (tmp_path / "a.png").touch()
    lines = ["a.png,0", "a.png,99999999999999999999", f"a.png,{'x' * 10**6}"]
    raw, _ = read_list(write_lines(tmp_path / "list.csv", lines), tmp_path)
    assert raw.labels.tolist() == [line.partition(",")[2] for line in lines]
    assert raw.labels.nbytes < 100


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a.png 0", "b.png"], r"list\.txt:2, got 'b\.png'"),
        (["a.png 0", "", "b.png -1"], r"list\.txt:3, got 'b\.png -1'"),
        (["a.png 0.5"], r"list\.txt:1"),
        (["a.png ²"], r"list\.txt:1"),
        (["a.png 99999999999999999999"], r"list\.txt:1"),
        (["path,label"], r"list\.txt:1"),
        # A regular expression would try every pair of blanks.
        (["a" + " " * 10**6 + "b"], r"list\.txt:1"),
        (['"' + "a" * 200_000 + '","b"'], r"list\.txt:1"),
        (["a.png,"], r"list\.txt:1"),
        (['"a.png"'], r"list\.txt:1"),
        ([""], "expected lines 'path label' .*, got none"),
    ],
)
def test_errors_name_the_line(lines: list[str], message: str, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "list.txt", lines)
    with pytest.raises(ValueError, match=message):
        read_list(path, tmp_path)


def test_missing_files_are_named_or_counted(tmp_path: Path) -> None:
    names = image_files(tmp_path, 4)
    path = write_lines(tmp_path / "list.txt", [f"{n} {i % 3}" for i, n in enumerate(names)])
    (tmp_path / names[2]).unlink()
    rule = r"expected every image of .*list\.txt below .*, got 1 of 4 missing: .*list\.txt:3\)$"
    with pytest.raises(ValueError, match=rule):
        read_list(path, tmp_path)
    raw, skipped = read_list(path, tmp_path, skip=True)
    assert raw.labels.tolist() == [0, 1, 0]
    assert skipped == [f"{tmp_path / names[2]} ({path}:3), no such file"]
    with pytest.raises(ValueError, match="got 4 of 4 missing"):
        read_list(path, tmp_path / "nowhere", skip=True)


def test_the_list_itself(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected the list .*none\.txt, got no such file"):
        read_list(tmp_path / "none.txt", tmp_path)
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=r"expected .*a\.txt to be a text file, got: "):
        read_list(tmp_path / "a.txt", tmp_path)


@pytest.mark.parametrize("name", ["../secret.png", "a/../../secret.png", "/etc/secret.png"])
def test_paths_outside_of_the_folder(name: str, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "secret.png").touch()
    name = str(tmp_path / "secret.png") if name.startswith("/") else name
    path = write_lines(tmp_path / "list.txt", [f"{name} 0"])
    with pytest.raises(ValueError, match=r"list\.txt:1, got .*secret\.png; --allow-outside"):
        read_list(path, tmp_path / "images")
    if "a/" not in name:
        assert len(read_list(path, tmp_path / "images", outside=True)[0].labels) == 1


def test_a_pipe_is_no_list(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "list.txt")
    with pytest.raises(ValueError, match=r"got a pipe or a device: .*list\.txt"):
        read_list(tmp_path / "list.txt", tmp_path)
