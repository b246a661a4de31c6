"""Image datasets in folders, lists and Parquet: splits, classes, and errors of one line."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from images.photos import counts, photo, photo_bytes, same, write_folder, write_parquet
from resultant.images.decode import ImageError, decode
from resultant.images.files import read_folder, read_list
from resultant.images.opening import open_images, read_class_names
from resultant.images.source import ImageSource, ImageSplits


def test_folders_of_splits(tmp_path: Path) -> None:
    for split, sizes in (("train", (4, 3)), ("Validation", (1, 2)), ("test", (2, 0))):
        write_folder(tmp_path / split, dict(zip(("cat", "dog"), sizes, strict=True)))
    (tmp_path / "train" / "dog" / "deep").mkdir()
    (tmp_path / "train" / "dog" / "deep" / "x.JPEG").write_bytes(photo_bytes(9, "JPEG"))
    for name in ("notes.txt", ".hidden.png"):
        (tmp_path / "train" / "cat" / name).write_bytes(b"no image")
    splits = open_images(tmp_path)
    assert splits.class_names == ("cat", "dog") and splits.counts.tolist() == [4, 4]
    assert counts(splits.val) == [1, 2] and counts(splits.test) == [2, 0]
    assert same(splits.train.read(2), photo(2))
    assert splits.train.name(0) == str(tmp_path / "train" / "cat" / "0.png")


def test_numbers_with_gaps_keep_their_names(tmp_path: Path) -> None:
    write_parquet(tmp_path / "train.parquet", [7, 3, 7, 90])
    write_parquet(tmp_path / "test.parquet", [90, 3])
    splits = open_images(tmp_path)
    assert splits.class_names == ("3", "7", "90") and splits.train.labels.tolist() == [1, 0, 1, 2]
    assert splits.test is not None and splits.test.labels.tolist() == [2, 0]


def test_digest_follows_the_images_alone(tmp_path: Path) -> None:
    """A folder may be renamed, copied or touched; other pixels of the same size are found."""
    root = write_folder(tmp_path / "one", {"a": 3, "b": 3})
    first = read_folder(root)
    digest = ImageSource(first.images, np.zeros(6, int), ("a",)).digest
    os.utime(root / "a" / "0.png", (1, 1))
    shutil.copytree(root, tmp_path / "two")
    for folder in ("one", "two"):
        again = read_folder(tmp_path / folder).images
        assert ImageSource(again, np.zeros(6, int), ("a",)).digest == digest
    content = bytearray((root / "a" / "0.png").read_bytes())
    content[-20] ^= 1
    (root / "a" / "0.png").write_bytes(content)
    assert ImageSource(read_folder(root).images, np.zeros(6, int), ("a",)).digest != digest


@pytest.mark.parametrize("stray", ["metadata.parquet", ".cache/x.parquet"])
def test_tables_beside_images_are_no_images(stray: str, tmp_path: Path) -> None:
    write_folder(tmp_path, {"a": 3, "b": 3})
    (tmp_path / stray).parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({"file_name": ["a/0.png"], "label": ["a"]}), tmp_path / stray)
    splits = open_images(tmp_path, held_out=0.9)
    assert splits.class_names == ("a", "b") and splits.counts.sum() >= 4


def test_broken_images_are_named_or_skipped(tmp_path: Path) -> None:
    write_folder(tmp_path / "train", {"a": 4, "b": 3, "empty": 0})
    write_folder(tmp_path / "test", {"a": 2, "b": 1, "only here": 1})
    path = tmp_path / "train" / "a" / "1.png"
    path.write_bytes(photo_bytes(1)[:60])
    (tmp_path / "train" / "b" / "2.png").write_bytes(b"")
    (tmp_path / "test" / "a" / "0.png").write_bytes(b"text")
    splits = open_images(tmp_path, skip_broken=True, workers=2)
    assert splits.class_names == ("a", "b") and splits.counts.tolist() == [3, 2]
    assert counts(splits.test) == [1, 1] and len(splits.skipped) == 5
    text = "\n".join(splits.skipped)
    for part in ("class empty", "only here", "a/1.png", "b/2.png", "test/a/0.png"):
        assert part in text
    (tmp_path / "train" / "empty").rmdir()
    source = open_images(tmp_path / "train").train
    index = next(i for i in range(len(source)) if source.name(i) == str(path))
    with pytest.raises(ImageError, match=f"^expected {path} to be a whole image, got: "):
        source.read(index)
    path.unlink()
    with pytest.raises(ImageError, match=f"^expected {path} to be an image, got no such file$"):
        source.read(index)
    (tmp_path / "train" / "b" / "0.png").write_bytes(b"x")
    (tmp_path / "train" / "b" / "1.png").write_bytes(b"x")
    with pytest.raises(ValueError, match="expected training images of every class, got none of b"):
        open_images(tmp_path, skip_broken=True)


def test_names_of_splits_as_classes_and_as_splits(tmp_path: Path) -> None:
    """A folder that holds images is a class, as a train among vehicles; Training and Testing, as on
    Kaggle, are splits."""
    vehicles = write_folder(tmp_path / "one", {"train": 8, "car": 9, "test": 7})
    assert open_images(vehicles, held_out=0.9).class_names == ("car", "test", "train")
    for split in ("Training", "Testing"):
        write_folder(tmp_path / "two" / split, {"train": 3, "car": 2})
    (tmp_path / "two" / "docs").mkdir()
    splits = open_images(tmp_path / "two")
    assert splits.class_names == ("car", "train") and splits.counts.tolist() == [2, 3]
    assert counts(splits.test) == [2, 3] and not splits.divided


def test_links_are_followed_and_other_files_are_counted(tmp_path: Path) -> None:
    """As torchvision's ImageFolder reads them."""
    from torchvision.datasets import ImageFolder

    write_folder(tmp_path / "far", {"a": 6, "b": 4}, first=50)
    root = write_folder(tmp_path / "here" / "train", {"a": 2, "b": 2})
    write_folder(tmp_path / "here" / "test", {"a": 2, "b": 2}, first=20)
    (root / "a" / "linked").symlink_to(tmp_path / "far" / "a")
    (root / "b" / "linked").symlink_to(tmp_path / "far" / "b")
    # A circle.
    (root / "a" / "self").symlink_to(root / "a")
    (root / "a" / "x.jfif").write_bytes(photo_bytes(70, "JPEG"))
    for name in ("a/phone.heic", "a/Thumbs.db"):
        (root / name).write_bytes(b"")
    splits = open_images(tmp_path / "here")
    assert splits.counts.tolist() == [9, 6]
    (root / "a" / "self").unlink()
    known = [str(Path(path).relative_to(root)) for path, _ in ImageFolder(str(root)).samples]
    keys = [splits.train.key(i) for i in range(15)]
    assert sorted(known) == sorted(key for key in keys if not key.endswith("jfif"))
    text = "\n".join(splits.skipped)
    assert len(splits.skipped) == 2 and "Thumbs.db" in text
    assert "phone.heic, of a kind that is not read" in text
    (root / "loose.png").write_bytes(b"")
    with pytest.raises(ValueError, match=r"classes in .*train, got loose\.png and the folder a$"):
        open_images(tmp_path / "here")
    skipped = read_folder(root).skipped
    assert [name for name in skipped if "loose.png, in no class folder" in name]


def test_pictures_are_turned_as_cameras_say(tmp_path: Path) -> None:
    image, exif = photo(0, (20, 60)), Image.Exif()
    exif[0x0112] = 6
    image.save(tmp_path / "a.png", exif=exif)
    turned = decode((tmp_path / "a.png").read_bytes(), "a")
    assert turned.size == (60, 20) and same(turned, image.rotate(-90, expand=True))
    image.save(tmp_path / "b.jpg", exif=b"Exif\0\0garbage")
    assert decode((tmp_path / "b.jpg").read_bytes(), "b").size == (20, 60)


Make = Callable[[Path], object]


def table(**columns: Any) -> Make:
    return lambda root: pq.write_table(pa.table(columns), root / "train.parquet")


def folders(train: dict[str, int], test: dict[str, int] | None = None) -> Make:
    def make(root: Path) -> None:
        write_folder(root if test is None else root / "train", train)
        write_folder(root / "test", test or {})

    return make


def nested(*splits: str, plain: str = "") -> Make:
    def make(root: Path) -> None:
        for split in splits:
            write_folder(root / split, {"a": 2, "b": 2})
        if plain:
            write_folder(root, {plain: 1})

    return make


def parquet(names: Any = None, **files: Any) -> Make:
    def make(root: Path) -> None:
        for name, labels in files.items():
            write_parquet(root / f"{name.replace('_', '-')}.parquet", labels, names=names)

    return make


# Datasets that are refused, and the fact in the message.
REFUSED: list[tuple[Make, str]] = [
    (folders({"a": 2, "b": 2}, {"a": 1, "z": 1}), r"of train in test, got z of .*test/z/0\.png"),
    (folders({"a": 2, "c": 0}, {"a": 1}), "training images of every class, got none of c"),
    # The accent as a character, and as a mark behind the letter.
    (folders({"\u00e9l\u00e9ment": 2, "e\u0301le\u0301ment": 2}), "'.*ment' for classes 0 and 1"),
    (parquet(["a", "b", "a"], train=[0, 1, 2, 0]), "got 'a' for classes 0 and 2"),
    (table(image=[1.5], label=[0]), r"'image' of .*train\.parquet to be binary .* got double"),
    (table(image=[photo_bytes(0)], label=[0.5]), r"'label' of .* integers or strings, got double"),
    (table(img=[b""], label=[0]), r"a column 'image' in .*train\.parquet, got img, label"),
    (parquet(train=[0, None]), r"a label in 'label' at .*train\.parquet row 1, got null"),
    (
        lambda root: (root / "train.parquet").write_bytes(b"PAR1 but no more"),
        r"expected .*train\.parquet to be Parquet, got: ",
    ),
    (parquet(train=[0, 1], test=["a", "b"]), "one kind in all splits, got names in test, numbers"),
    (parquet(train_0=[0, 1], train_1=["a", "b"]), "label of one type in all files, got both"),
    (parquet(train=pa.array([0, 2**63], pa.uint64())), r"below 2\^63, got 9223372036854775808"),
    (parquet(["a", "b"], train=[0, 1, 5]), r"among the 2 class names, got 5 of .*parquet row 2"),
    (parquet(val=[0, 1], test=[0, 1]), "a training split too, not only test and val, got none"),
    (lambda root: (root / "a.png").touch(), r"a folder of images per class in .*, got a\.png"),
    (nested("Testing", "val"), "expected a training split too, not only test and val|and test"),
    (nested("train", "Training"), "one folder of train images in .*, got Training and train"),
    (nested("train", "test", plain="cat"), "or one folder per class, got test, train and cat"),
    (folders({"a": 0, "b": 0}), "expected images in the class folders of .*, got none"),
    (parquet(train=[0, 1], more=[0, 1]), r"every Parquet file, or of none, got .*more\."),
    (lambda root: os.mkfifo(root / "train.parquet"), "got a pipe or a device"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_refused(make: Make, message: str, tmp_path: Path) -> None:
    make(tmp_path)
    with pytest.raises(ValueError, match=message) as caught:
        open_images(tmp_path)
    assert "\n" not in str(caught.value)


def test_refused_arguments(tmp_path: Path) -> None:
    def refused(message: str, *arguments: Any, **options: Any) -> None:
        with pytest.raises(ValueError, match=message):
            open_images(*arguments, **options)

    refused("a folder of images or a list of training images, got neither")
    refused("got nothing at .*nowhere", tmp_path / "nowhere")
    refused(r"held_out in \(0, 1\), got 1.0", tmp_path, held_out=1.0)
    write_folder(tmp_path / "train", {"a": 1, "b": 1})
    refused("classes of three images or more, .* got none held out of 2 images", tmp_path)
    a = open_images(write_folder(tmp_path / "x", {"a": 9, "b": 2}), held_out=0.9)
    refused("labels among the 1 class names, got b of .*b/0", tmp_path / "x", class_names=["a"])
    b = open_images(write_folder(tmp_path / "y", {"a": 9, "c": 2}), held_out=0.9)
    with pytest.raises(ValueError, match="expected the classes of train in test, got other names"):
        ImageSplits(a.train, test=b.train)


def test_class_names_of_a_file(tmp_path: Path) -> None:
    mark = "\ufeff"
    write_parquet(tmp_path / "train.parquet", [0, 1, 1, 0])
    write_parquet(tmp_path / "test.parquet", [1])
    assert open_images(tmp_path).class_names == ("0", "1")
    table = mark + "label\twnid\tname\n1\tn1\ttench, Tinca\n0\tn0\tcarp\n"
    (tmp_path / "classes.tsv").write_text(table)
    assert open_images(tmp_path).class_names == ("carp", "tench, Tinca")
    (tmp_path / "own.txt").write_text(mark + "x\n\ny\n")
    assert open_images(tmp_path, class_names=tmp_path / "own.txt").class_names == ("x", "y")


def write_lines(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def test_list_of_numbers(tmp_path: Path) -> None:
    write_folder(tmp_path, {"n 0": 3, "n 1": 2, "n 2": 2})
    names = [f"n {i % 3}/{i // 3}.png" for i in range(7)]
    path = write_lines(tmp_path / "list.txt", [f"{n} {i % 3}" for i, n in enumerate(names)] + [""])
    splits = open_images(tmp_path, train_list=path, test_list=path)
    assert splits.train.labels.tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert counts(splits.test) == [3, 2, 2]
    assert splits.train.name(3) == f"{tmp_path / names[3]} ({path}:4)"
    (tmp_path / names[2]).unlink()
    rule = r"expected every image of .*list\.txt below .*, got 1 of 7 missing: .*list\.txt:3\)$"
    with pytest.raises(ValueError, match=rule):
        read_list(path, tmp_path)
    raw, skipped = read_list(path, tmp_path, skip=True)
    assert raw.labels.tolist() == [0, 1, 0, 1, 2, 0]
    assert skipped == [f"{tmp_path / names[2]} ({path}:3), no such file"]
    with pytest.raises(ValueError, match="got 7 of 7 missing"):
        read_list(path, tmp_path / "nowhere", skip=True)
    (tmp_path / "images").mkdir(exist_ok=True)
    lines = [f"../{names[0]} 0", f"{tmp_path / names[0]} 0"]
    raw, _ = read_list(write_lines(path, lines), tmp_path / "images", outside=True)
    assert raw.labels.tolist() == [0, 0]


def test_list_of_names(tmp_path: Path) -> None:
    """Commas and blanks in names of files and classes; long numbers are names."""
    for name in ("n0/a.JPG", "b c.png", "x,y.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    labels = ["goldfish, Carassius auratus", "tench", "a, b", "9" * 20, "x" * 10**6]
    lines = [f"n0/a.JPG,{labels[0]}", "b c.png , tench", '"x,y.png","a, b"']
    lines += [f"b c.png,{label}" for label in labels[3:]]
    raw, _ = read_list(write_lines(tmp_path / "list.csv", lines), tmp_path)
    assert raw.labels.tolist() == labels
    # No row takes the room of the longest label.
    assert raw.labels.nbytes < 100


@pytest.mark.parametrize(
    "text",
    [
        "path,label\nn 0/a.png,cat\n\nb.png,dog\n",
        "id,image_path,split,label\n7,n 0/a.png,train,cat\n8,b.png,train,dog",
        "Label;FileName\r\ncat;n 0/a.png\r\ndog;b.png\r\n",
        'label\timage\tnote\ncat\t"n 0/a.png"\t\ndog\tb.png\tx',
        "n 0/a.png\tcat\nb.png\tdog\n",
    ],
)
def test_list_with_columns(text: str, tmp_path: Path) -> None:
    """A header line names them, as in tables of Kaggle; tabs need none."""
    (tmp_path / "n 0").mkdir()
    for name in ("n 0/a.png", "b.png"):
        (tmp_path / name).touch()
    (tmp_path / "list.csv").write_text(text)
    raw, _ = read_list(tmp_path / "list.csv", tmp_path)
    assert raw.labels.tolist() == ["cat", "dog"]
    assert [raw.images.key(i) for i in range(2)] == ["n 0/a.png", "b.png"]
    assert raw.images.name(1).endswith(("list.csv:2)", "list.csv:3)", "list.csv:4)"))


# Class names and lists that are refused, and the fact in the message.
NAMES, LIST = read_class_names, read_list
TEXTS: list[tuple[Callable[..., Any], bytes | None, str]] = [
    (NAMES, b"", "expected class names in .*, got none"),
    (NAMES, b"a\tb\n0\tx\n", "expected columns label and name in .*, got a, b"),
    (NAMES, b"label\tname\n0\ta\n\n0\tb", "labels 0 to 1 once with a name in .*, got none for 1"),
    (NAMES, b"label\tname\n" + b"9" * 5000 + b"\ta", "got none for 0"),
    (NAMES, b"label\tname\n0\t\n", "got none for 0"),
    (NAMES, None, r"expected class names in .*list\.txt, got: "),
    (LIST, b"a.png 0\nb.png", r"list\.txt:2, got 'b\.png'"),
    (LIST, b"a.png 0\n\nb.png -1", r"list\.txt:3, got 'b\.png -1'"),
    (LIST, b"a.png 99999999999999999999", r"list\.txt:1"),
    # A regular expression would try every pair of blanks.
    (LIST, b"a" + b" " * 10**6 + b"b", r"list\.txt:1"),
    (LIST, b'"' + b"a" * 200_000 + b'","b"', r"list\.txt:1"),
    (LIST, b"a.png,0,train", r"list\.txt:1, got 'a\.png,0,train'; a header line may name"),
    (LIST, b"a.png\t0\ttrain", r"list\.txt:1, got .*; a header line may name the columns"),
    (LIST, b"path,label\na.png,carp, gold", r"path, label at .*:2, got 'a\.png,carp, gold'"),
    (LIST, b"path,label\na.png,", r"expected path, label at .*:2, got 'a\.png,'"),
    (LIST, b"\n", "expected lines 'path label' .*, got none"),
    (LIST, b"../secret.png 0", r"list\.txt:1, got .*secret\.png; --allow-outside"),
    (LIST, b"/etc/secret.png 0", r"list\.txt:1, got .*secret\.png; --allow-outside"),
    (LIST, None, r"expected the list .*list\.txt, got no such file"),
    (LIST, b"\xff\xfe\x00", r"expected the list .*list\.txt, got .*codec"),
]


@pytest.mark.parametrize("case", range(len(TEXTS)))
def test_refused_texts(case: int, tmp_path: Path) -> None:
    read, text, message = TEXTS[case]
    path = tmp_path / "list.txt"
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(ValueError, match=message):
        read(path, *[tmp_path] * (read is LIST))
