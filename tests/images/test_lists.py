"""Lists of images: files, labels, and errors that name the line or file."""

from __future__ import annotations

from pathlib import Path

import pytest

from listed import image_files
from resultant.images.lists import DATASETS, load_lists, read_list


def write_lines(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def test_read_list(tmp_path: Path) -> None:
    names = image_files(tmp_path, 7)
    path = write_lines(tmp_path / "list.txt", [f"{n} {i % 3}" for i, n in enumerate(names)] + [""])
    images = read_list(path, tmp_path)
    assert images.labels.tolist() == [0, 1, 2, 0, 1, 2, 0] and images.num_classes == 3
    assert list(images.paths) == [str(tmp_path / n) for n in names] and len(images) == 7
    (tmp_path / names[3]).unlink()
    with pytest.raises(ValueError, match=r"got 1 of 7 missing: .*image 3\.png"):
        read_list(path, tmp_path)
    assert len(read_list(path, tmp_path, check_files=2)) == 7
    assert len(read_list(path, "nowhere", check_files=0)) == 7
    with pytest.raises(ValueError, match=r"got 2 of 2 missing: .*image 0\.png, .*image 6\.png"):
        read_list(path, "nowhere", check_files=2)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a.png 0", "b.png"], r"list\.txt:2, got 'b\.png'"),
        (["a.png 0", "", "b.png -1"], r"list\.txt:3, got 'b\.png -1'"),
        (["a.png 0.5"], r"list\.txt:1"),
        (["a.png ²"], r"list\.txt:1"),
        (["a.png 99999999999999999999"], r"list\.txt:1"),
        ([" 1"], r"list\.txt:1"),
        (["a.png 3"], r"a label in \[0, 3\) at .*list\.txt:1, got 3"),
        (["a.png 1"], r"all 3 classes in .*list\.txt, got none of 2: 0, 2$"),
        ([""], "expected lines 'path label' in .*, got none"),
    ],
)
def test_list_errors_name_the_line(lines: list[str], message: str, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "list.txt", lines)
    with pytest.raises(ValueError, match=message):
        read_list(path, tmp_path, num_classes=3, check_files=0)


def test_list_gaps(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "list.txt", ["a 999999999", "b 2", "c 0"])
    rule = "all 1000000000 classes .* none of 999999997: 1, 3, 4, 5, 6, ...$"
    with pytest.raises(ValueError, match=rule):
        read_list(path, tmp_path, check_files=0)
    images = read_list(path, tmp_path, check_files=0, allow_gaps=True)
    assert images.labels.tolist() == [999999999, 2, 0]
    with pytest.raises(ValueError, match="expected check_files >= 0, got -1"):
        read_list(path, tmp_path, check_files=-1)
    with pytest.raises(ValueError, match="got no such file"):
        read_list(tmp_path / "none.txt", tmp_path)
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe 0")
    with pytest.raises(ValueError, match=r"bytes\.txt to be a text file"):
        read_list(tmp_path / "bytes.txt", tmp_path)
    with pytest.raises(ValueError, match=r"to be a text file, got: .*Is a directory"):
        read_list(tmp_path, tmp_path)


@pytest.mark.parametrize("name", DATASETS)
def test_registered_lists(name: str, tmp_path: Path) -> None:
    (image,) = image_files(tmp_path, 1)
    dataset = DATASETS[name]
    for split, file in dataset.files.items():
        write_lines(tmp_path / file, [f"{image} {c}" for c in range(dataset.num_classes)])
        images = load_lists(name, tmp_path, tmp_path, split, check_files=5)
        assert len(images) == images.num_classes == dataset.num_classes
    with pytest.raises(ValueError, match=f"split of {name} in train, val"):
        load_lists(name, tmp_path, tmp_path, "nothing")
    with pytest.raises(ValueError, match="expected name to be one of imagenet-lt"):
        load_lists("imagenet", tmp_path, tmp_path, "train")


def test_held_out_split() -> None:
    held_out = {name: dataset.held_out for name, dataset in DATASETS.items()}
    assert held_out == {"imagenet-lt": "test", "places-lt": "test", "inaturalist18": "val"}


def test_published_names() -> None:
    files = [f for d in DATASETS.values() for f in d.files.values()]
    assert {"ImageNet_LT_test.txt", "Places_LT_val.txt", "iNaturalist18_train.txt"} <= set(files)
