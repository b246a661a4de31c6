"""Image datasets from their files: class folders, lists, or Parquet.

A folder of classes may be in a folder ``train``, with ``val`` or ``test`` or both; the name of a
Parquet file or of its folder gives its split. A folder that holds images itself is a class, under
any name. Without splits, some images of each class are held out. Numeric labels take their names
from ``classes.txt`` or ``classes.tsv`` of the folder.
"""

import glob
import os
from collections.abc import Sequence
from pathlib import Path

from resultant._core.files import read_bytes
from resultant._core.text import listed, one_line
from resultant.features.naming import Location, is_shown, split_of
from resultant.images.decode import SUFFIXES
from resultant.images.files import (
    FileImages,
    is_image,
    read_folder,
    read_list,
    read_paths,
    subfolders,
    walk,
)
from resultant.images.held_out import divide
from resultant.images.parquet import has_column, read_parquet
from resultant.images.source import (
    ImageSource,
    ImageSplits,
    LabelledImages,
    coded,
    without_broken,
    without_labels,
)

SPLITS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
}
NAME_FILES = ("classes.tsv", "classes.txt")


def open_images(
    data: Location | None = None,
    *,
    train_list: Location | None = None,
    val_list: Location | None = None,
    test_list: Location | None = None,
    images: Location | None = None,
    class_names: Location | Sequence[str] | None = None,
    held_out: float = 0.2,
    split_seed: int = 0,
    image_column: str = "image",
    label_column: str = "label",
    skip_broken: bool = False,
    allow_outside: bool = False,
    workers: int | None = None,
) -> ImageSplits:
    """Open an image dataset as splits, whose ``skipped`` names everything that was left out.

    Args:
        data: Folder of class folders or of Parquet files, or a pattern of Parquet files.
        train_list: List of the training images, ``path label`` or ``path,class name`` per line.
        val_list: List of the validation images.
        test_list: List of the test images.
        images: Folder that the paths of the lists are relative to; by default ``data``.
        class_names: File of class names, or the names themselves, that numeric labels index.
        held_out: Share of the images to hold out as test, for a dataset without held-out images;
            the path of an image decides, see `resultant.images.held_out`.
        split_seed: Seed of the hashes of the paths.
        image_column: Parquet column of the images.
        label_column: Parquet column of the labels.
        skip_broken: Decode every image once; leave out broken and missing ones, and empty classes.
        allow_outside: Allow lists to name absolute paths, and paths that leave the folder.
        workers: Number of threads that look for broken images; None for one per core.

    Raises:
        ValueError: If the dataset is missing or broken, in one line that names the file and row.

    Example:
        >>> from resultant.images.opening import open_images
        >>> images = open_images("photos")  # doctest: +SKIP
        >>> images.class_names, len(images.train), len(images.test)  # doctest: +SKIP
        (('cat', 'dog'), 8, 2)
    """
    if not 0 < held_out < 1:
        raise ValueError(f"expected held_out in (0, 1), got {held_out}")
    lists = {"train": train_list, "val": val_list, "test": test_list}
    given = {name: Path(path) for name, path in lists.items() if path is not None}
    skipped: list[str] = []
    if given:
        raw = {}
        for name, path in given.items():
            root = Path(images if images is not None else data if data is not None else ".")
            raw[name], missing = read_list(path, root, skip=skip_broken, outside=allow_outside)
            skipped += missing
    elif data is None:
        raise ValueError("expected a folder of images or a list of training images, got neither")
    else:
        raw = _read_data(Path(data), image_column, label_column)
    if "train" not in raw:
        rule = "expected a training split too, not only " + " and ".join(raw)
        raise ValueError(f"{rule}, got none in {data if not given else 'the lists'}")
    if class_names is None and data is not None and raw["train"].labels.dtype.kind == "i":
        folder = Path(data) if Path(data).is_dir() else Path(data).parent
        class_names = next((folder / n for n in NAME_FILES if (folder / n).is_file()), None)
    if isinstance(class_names, str | os.PathLike):
        class_names = read_class_names(Path(class_names))
    skipped += [name for split in raw.values() for name in split.skipped]
    sources, left_out = coded(raw, class_names, skip_broken)
    splits = ImageSplits(
        sources["train"], sources.get("val"), sources.get("test"), skipped=(*skipped, *left_out)
    )
    if skip_broken:
        splits = without_broken(splits, workers)
    return divide(splits, held_out, split_seed) if len(raw) == 1 else splits


def _read_data(data: Path, image_column: str, label_column: str) -> dict[str, LabelledImages]:
    if not data.is_dir():
        files = [Path(name) for name in sorted(glob.glob(str(data), recursive=True))]
        if not files:
            rule = "expected a folder of images, Parquet files or a pattern of them"
            raise ValueError(f"{rule}, got nothing at {data}")
        return _read_files(files, data.parent, image_column, label_column)
    files = sorted(path for path in data.glob("**/*.parquet") if is_shown(path, data))
    images = (p for p in data.glob("*/**/*") if p.suffix.lower() in SUFFIXES and is_shown(p, data))
    # Folders of images may hold other tables, such as metadata.
    if files and (not any(images) or any(has_column(p, image_column) for p in files)):
        return _read_files(files, data, image_column, label_column)
    return {name: read_folder(path) for name, path in split_folders(data).items()}


def open_pictures(
    data: Location, images: Location | None = None, image_column: str = "image"
) -> ImageSource:
    """Open images without labels: all below a folder, one file, a list of paths, or Parquet.

    Args:
        data: The folder, the file or a pattern of Parquet files.
        images: Folder that the paths of a list are relative to; by default that of the list.
        image_column: Parquet column of the images.

    Raises:
        ValueError: If there are no images.
    """
    path = Path(data)
    if path.is_file() and is_image(path.name):
        return without_labels(FileImages([str(path)], str(path.parent)))
    if path.is_file() and path.suffix.lower() != ".parquet":
        return without_labels(read_paths(path, Path(images or path.parent)))
    if path.is_dir() and (files := sorted(file for file in walk(str(path)) if is_image(file))):
        return without_labels(FileImages(files, str(path)))
    tables = path.glob("**/*.parquet") if path.is_dir() else map(Path, glob.glob(str(path)))
    if tables := sorted(tables):
        return without_labels(read_parquet(tables, image_column, None).images)
    raise ValueError(f"expected images in {data}, got none")


def split_folders(data: Path) -> dict[str, Path]:
    """Return the folder of each split: ``data`` itself as ``train`` if it holds the classes.

    The folder of a split has the name of one, and holds folders and no images.
    """
    folders: dict[str, Path] = {}
    others: list[str] = []
    for name in subfolders(data):
        path, split = data / name, SPLITS.get(name.lower())
        if split is None or not (below := subfolders(path)):
            others.append(name)
        elif loose := [file for file in os.listdir(path) if is_image(file)]:
            got = f"{loose[0]} and the folder {below[0]}"
            raise ValueError(f"expected images or folders of classes in {path}, got {got}")
        elif split in folders:
            got = f"{folders[split].name} and {name}"
            raise ValueError(f"expected one folder of {split} images in {data}, got {got}")
        else:
            folders[split] = path
    classes = [name for name in others if any(map(is_image, walk(str(data / name))))]
    if folders and classes:
        rule = f"expected folders of splits in {data}, or one folder per class"
        splits = ", ".join(path.name for path in folders.values())
        raise ValueError(f"{rule}, got {splits} and {listed(classes, 3)}")
    return folders or {"train": data}


def _read_files(
    files: list[Path], root: Path, image_column: str, label_column: str
) -> dict[str, LabelledImages]:
    """Read Parquet files by the split that their name or their folder names."""
    splits: dict[str, list[Path]] = {}
    for path in files:
        folders = path.parent.relative_to(root).parts if path.is_relative_to(root) else ()
        words = [word for part in (path.stem, *reversed(folders)) if (word := split_of(part))]
        splits.setdefault(words[0] if words else "", []).append(path)
    if "" in splits and len(splits) > 1:
        rule = "expected train, val or test in the name of every Parquet file, or of none"
        raise ValueError(f"{rule}, got {listed(map(str, splits['']), 3)}")
    # Files of a single split of any name are the whole dataset.
    splits = {"train": files} if len(splits) == 1 else splits
    return {name: read_parquet(part, image_column, label_column) for name, part in splits.items()}


def read_class_names(path: str | Path) -> tuple[str, ...]:
    """Read class names: one per line, or columns ``label`` and ``name`` separated by tabs."""
    try:
        lines = read_bytes(Path(path)).decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"expected class names in {path}, got: {one_line(error)}") from None
    lines = [line.strip() for line in lines if line.strip()]
    if not lines:
        raise ValueError(f"expected class names in {path}, got none")
    if "\t" not in lines[0]:
        return tuple(lines)
    head, *rows = (line.split("\t") for line in lines)
    if not {"label", "name"} <= set(head):
        got = one_line(", ".join(head))
        raise ValueError(f"expected columns label and name in {path}, got {got}")
    cells = [dict(zip(head, row, strict=False)) for row in rows]
    by_label = {cell["label"]: cell.get("name", "").strip() for cell in cells}
    names = tuple(by_label.get(str(c), "") for c in range(len(rows)))
    if not all(names):
        rule = f"expected each of the labels 0 to {len(rows) - 1} once with a name in {path}"
        raise ValueError(f"{rule}, got none for {names.index('')}")
    return names
