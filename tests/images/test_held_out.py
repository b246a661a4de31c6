"""Images that are held out of a folder follow their files, and no network is tested on images that
it was trained on."""

import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from images.photos import photo_bytes, write_folder, write_parquet
from resultant.images.files import read_folder
from resultant.images.held_out import divide, held_out, validation_images, without_trained
from resultant.images.opening import open_images
from resultant.images.source import ImageSource, ImageSplits, coded

SIZES = {"a": 40, "b": 25, "c": 12, "d": 2, "e": 1}


def places(splits: ImageSplits) -> dict[str, str]:
    """Return the split of each image by its path below the folder."""
    sources = {"train": splits.train, **splits.held_out_splits}
    return {s.key(i): name for name, s in sources.items() for i in range(len(s))}


def photos(root: Path) -> Path:
    for k, (name, number) in enumerate(SIZES.items()):
        write_folder(root, {name: number}, first=100 * k)
    return root


def test_a_share_of_every_class_but_two_images(tmp_path: Path) -> None:
    sizes = {"a": 400, "b": 200, "c": 2, "d": 1}
    for k, (name, number) in enumerate(sizes.items()):
        (tmp_path / name).mkdir()
        for i in range(number):
            (tmp_path / name / f"{i}.png").write_bytes(f"{k} {i}".encode())
    splits = open_images(tmp_path)
    tested = Counter(key[0] for key, split in places(splits).items() if split == "test")
    # Five standard deviations of a binomial number.
    assert abs(tested["a"] - 80) < 40 and abs(tested["b"] - 40) < 29 and tested.keys() == {"a", "b"}
    assert splits.divided and splits.val is None
    assert (
        places(open_images(tmp_path))
        == places(splits)
        != places(open_images(tmp_path, split_seed=1))
    )
    most = open_images(tmp_path, held_out=0.999)
    assert most.counts.tolist() == [2, 2, 2, 1]


@pytest.mark.parametrize("form", ["folder", "list", "parquet"])
def test_added_and_removed_images_move_no_other(form: str, tmp_path: Path) -> None:
    names = {f"{name}/{i}.png": photo_bytes(100 * k + i)
             for k, (name, number) in enumerate(SIZES.items()) for i in range(number)}  # fmt: skip

    def opened(root: Path, kept: dict[str, bytes]) -> dict[int, str]:
        for name, data in kept.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(data)
        if form == "list":
            lines = "".join(f"{name},{name[0]}\n" for name in kept)
            (root / "list.csv").write_text(lines)
            splits = open_images(root, train_list=root / "list.csv")
        elif form == "parquet":
            labels, contents = [name[0] for name in kept], list(kept.values())
            splits = open_images(write_parquet(root / "x.parquet", labels, images=contents))
        else:
            splits = open_images(root)
        sources = {"train": splits.train, **splits.held_out_splits}
        return {c: name for name, s in sources.items() for c in s.contents.tolist()}

    first = opened(tmp_path / "one", names)
    new = {f"a/0{i}.png": photo_bytes(900 + i) for i in range(30)}
    kept = {name: data for i, (name, data) in enumerate(names.items()) if i % 5}
    second = opened(tmp_path / "two", dict(sorted({**new, **kept}.items())))
    shared = first.keys() & second.keys()
    assert len(shared) == len(kept) and {first[c] for c in shared} == {"train", "test"}
    assert all(first[c] == second[c] for c in shared)


def test_copies_stay_together(tmp_path: Path) -> None:
    photos(tmp_path)
    for i in range(20):
        shutil.copy(tmp_path / "a" / f"{i}.png", tmp_path / "b" / f"copy{i}.png")
    splits = open_images(tmp_path)
    assert splits.test is not None
    assert not np.isin(splits.test.contents, splits.train.contents).any()


def test_trained_images_of_a_given_split_are_left_out(tmp_path: Path) -> None:
    write_folder(tmp_path / "train", {"a": 4, "b": 4})
    write_folder(tmp_path / "test", {"a": 3, "b": 1}, first=2)
    splits = open_images(tmp_path)
    # The test images 2 and 3 of "a", and 2 of "b", are training images of both classes.
    checked = without_trained(splits, splits.train.contents)
    assert checked.test is not None and [checked.test.key(i) for i in range(1)] == ["a/2.png"]
    assert len(checked.test) == 1 and len(checked.skipped) == 3
    assert "test/a/0.png of test, which the network was trained on" in checked.skipped[0]
    alike = without_trained(splits, np.r_[splits.train.contents, checked.test.contents][:4])
    assert alike.train is splits.train
    with pytest.raises(ValueError, match=r"test images that the network was not .* all 4 trained"):
        without_trained(splits, np.r_[splits.train.contents, checked.test.contents])


def test_nothing_to_hold_out(tmp_path: Path) -> None:
    source = open_images(photos(tmp_path)).train
    few = ImageSource(source.images, source.every_label, source.class_names, np.arange(3))
    with pytest.raises(ValueError, match=r"of three images or more.*got none held out of 3 images"):
        held_out(few, 1e-9)
    assert divide(ImageSplits(source), 0.5).divided


def test_validation_images_are_of_every_class(tmp_path: Path) -> None:
    """One at least of four, two stay; copies stay in training; another seed, other images."""
    sizes = {"a": 40, "b": 9, "c": 4, "d": 3, "e": 1}
    for k, (name, number) in enumerate(sizes.items()):
        write_folder(tmp_path, {name: number}, first=1000 * k)
    source = open_pictures_of_classes(tmp_path)
    held = validation_images(source, 0.1, 7)
    assert np.bincount(source.labels[held], minlength=5).tolist() == [4, 1, 1, 0, 0]
    assert np.array_equal(held, validation_images(source, 0.1, 7))
    assert not np.array_equal(held, validation_images(source, 0.1, 8))
    half = validation_images(source, 0.9, 7)
    assert np.bincount(source.labels[~half], minlength=5).tolist() == [4, 2, 2, 3, 1]
    # A copy in another class keeps both images for training.
    first = int(np.flatnonzero(held)[0])
    shutil.copy(source.name(first), tmp_path / "e" / "copy.png")
    again = open_pictures_of_classes(tmp_path)
    marked = {again.name(i) for i in np.flatnonzero(validation_images(again, 0.1, 7)).tolist()}
    assert source.name(first) not in marked and str(tmp_path / "e" / "copy.png") not in marked


def open_pictures_of_classes(root: Path) -> ImageSource:
    splits, _ = coded({"train": read_folder(root)})
    return splits["train"]
