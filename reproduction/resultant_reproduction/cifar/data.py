"""CIFAR-10 and CIFAR-100 from archives, extracted batches, an .npz or an image folder, whose
long-tailed subsets have the usual sizes, but not the usual members."""

import hashlib
import io
import os
import pickle
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from resultant._core.arrays import require_labels
from resultant._core.files import read_bytes
from resultant._core.text import one_line
from resultant.features.arrays import read_npz
from resultant.features.declared import require_content
from resultant.features.rows import Rows, reading
from resultant.images.decode import ImageError, decode
from resultant.images.files import read_folder
from resultant.images.longtail import long_tail_indices
from resultant.images.source import Images, ImageSource, ImageSplits, in_threads
from resultant.images.vision import vision_module

CIFAR10_CLASSES = "airplane automobile bird cat deer dog frog horse ship truck"
CIFAR100_CLASSES = (
    "apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus "
    "butterfly camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch "
    "crab crocodile cup dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo "
    "keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain "
    "mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain "
    "plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk "
    "skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone "
    "television tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm"
)

# MD5 of the archives at https://www.cs.toronto.edu/~kriz/cifar.html
MD5 = {
    "cifar-10-python.tar.gz": "c58f30108f718f92721af3b95e74349a",
    "cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530",
    "cifar-100-python.tar.gz": "eb9058c3a382ffc7106e4002c42a8d85",
    "cifar-100-binary.tar.gz": "03b5dce01913d631647c71ecec9e9cb8",
}

# The names that a python batch may use: a pickle is a program, and calls nothing but these.
RECONSTRUCT = np.empty(0, np.uint8).__reduce__()[0]
PICKLED = {
    ("numpy.core.multiarray", "_reconstruct"): RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): RECONSTRUCT,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    # Python 3 writes bytes for Python 2 in this way.
    ("_codecs", "encode"): lambda text, encoding: text.encode("latin1"),
}

Split = tuple[np.ndarray, np.ndarray]  # pixels [N, 3, 32, 32] uint8, labels [N]
Splits = tuple[Split, Split]  # training and test images


@dataclass(frozen=True, eq=False)
class TensorImages(Images):
    """Images uint8 [N, 3, H, W] as a collection of pictures."""

    pixels: Tensor
    title: str

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int) -> np.ndarray:
        return self.pixels[index].permute(1, 2, 0).numpy()

    def name(self, index: int) -> str:
        return f"{self.title} {index}"

    def facts(self) -> Iterator[bytes]:
        yield self.pixels.contiguous().numpy().tobytes()


@dataclass(frozen=True, eq=False)
class Cifar:
    """Images uint8 [N, 3, 32, 32] and labels int64 [N] of CIFAR, or of another dataset (None)."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor
    class_names: tuple[str, ...]
    dataset: str | None = None

    held_out: ClassVar[str] = "test"

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    def members(self, imbalance: float, subset: int = 0) -> Tensor:
        """Return the positions of a long-tailed subset (`long_tail_indices`)."""
        return long_tail_indices(self.train_labels, self.num_classes, imbalance, subset)

    def splits(self, members: Tensor | None, about: dict[str, Any]) -> ImageSplits:
        """Return the images at ``members``, or all of them, and the test images as sources."""

        def source(pixels: Tensor, labels: Tensor, title: str) -> ImageSource:
            images = TensorImages(pixels, f"{self.dataset} {title} image")
            return ImageSource(images, labels.numpy(), self.class_names)

        balanced = source(self.train_images, self.train_labels, "training")
        train = balanced if members is None else balanced.select(members)
        return ImageSplits(
            train, test=source(self.test_images, self.test_labels, "test"), about=about
        )


class _Kind(NamedTuple):
    """Names of the files of one dataset."""

    name: str
    archives: tuple[str, ...]
    classes: tuple[str, ...]
    train: tuple[str, ...]
    test: str
    folders: dict[str, str]  # folder in the archive by extension of the files
    labels: str  # key of the labels in a python batch
    label_bytes: int  # of a binary record; the last byte is the label


KINDS = {
    "cifar10": _Kind(
        name="cifar10",
        archives=tuple(MD5)[:2],
        classes=tuple(CIFAR10_CLASSES.split()),
        train=tuple(f"data_batch_{i}" for i in range(1, 6)),
        test="test_batch",
        folders={"": "cifar-10-batches-py", ".bin": "cifar-10-batches-bin"},
        labels="labels",
        label_bytes=1,
    ),
    "cifar100": _Kind(
        name="cifar100",
        archives=tuple(MD5)[2:],
        classes=tuple(CIFAR100_CLASSES.split()),
        train=("train",),
        test="test",
        folders={"": "cifar-100-python", ".bin": "cifar-100-binary"},
        labels="fine_labels",
        label_bytes=2,
    ),
}


def load_cifar(name: str, root: str | os.PathLike[str], download: bool = False) -> Cifar:
    """Load ``cifar10`` or ``cifar100``; ``download`` fetches the archive with torchvision first.

    ``root`` is, or holds, extracted official batches, an official archive, NAME.npz (train_images,
    train_labels, test_images and test_labels, or x_train, y_train, x_test and y_test), or an image
    folder train/CLASS/*.png and test/CLASS/*.png. The first of these that exists is read.
    """
    if name not in KINDS:
        raise ValueError(f"expected name to be one of {', '.join(KINDS)}, got {name!r}")
    kind, root = KINDS[name], Path(root)
    if download:
        fetch = getattr(vision_module("torchvision.datasets"), name.upper())
        try:
            fetch(str(root), download=True)
        except RuntimeError as error:
            raise OSError(f"expected to download {name} to {root}, got: {error}") from error
    train, test = _read(kind, root)
    parts = [*_checked(kind, "train", train, root), *_checked(kind, "test", test, root)]
    return Cifar(*parts, class_names=kind.classes, dataset=name)


def _read(kind: _Kind, root: Path) -> Splits:
    """Read the first form that exists at ``root``."""
    for extension, inner in kind.folders.items():
        for folder in (root / inner, root):
            if (folder / (kind.train[0] + extension)).is_file():
                return _batches(kind, extension, {p.name: p for p in folder.iterdir()}, folder)
    inside = (root / name for name in (*kind.archives, f"{kind.name}.npz"))
    for file in (root, *inside):
        if file.is_file():
            if file.name.endswith((".tar.gz", ".tgz")):
                return _archive(kind, file)
            if file.suffix == ".npz":
                return _npz(file)
            raise ValueError(f"expected {root} to be a folder, a .tar.gz or an .npz")
    for folder in (root / kind.name, root):
        if (folder / "train").is_dir():
            return _folder(kind, folder / "train"), _folder(kind, folder / "test")
    forms = [*kind.folders.values(), *kind.archives, f"{kind.name}.npz", "train/CLASS/*.png"]
    got = "none of them" if root.is_dir() else "no such folder"
    raise ValueError(f"expected {kind.name} in {root} as one of {', '.join(forms)}; got {got}")


def _checked(kind: _Kind, split: str, data: Split, root: Path) -> tuple[Tensor, Tensor]:
    images, labels = data
    where = f"{split} images of {kind.name} in {root}"
    if images.shape[1:] == (32, 32, 3):
        images = images.transpose(0, 3, 1, 2)
    if images.dtype != np.uint8 or images.shape[1:] != (3, 32, 32) or not len(images):
        got = f"{images.dtype} {images.shape}"
        raise ValueError(f"expected {where} [N, 3, 32, 32] uint8, got {got}")
    if labels.shape != images.shape[:1] or not np.issubdtype(labels.dtype, np.integer):
        rule = f"expected integer labels [{len(images)}], one per image of the {where}"
        raise ValueError(f"{rule}, got {labels.dtype} {labels.shape}")
    y = torch.from_numpy(labels.astype(np.int64))
    require_labels(y, len(y), len(kind.classes), y.device, True, f"labels of the {where}")
    return torch.from_numpy(np.array(images, order="C")), y


def _batches(kind: _Kind, extension: str, files: Mapping[str, Any], where: Path) -> Splits:
    """Read the official batches from the contents or the paths of ``files`` by name."""

    def split(names: tuple[str, ...]) -> Split:
        parts = []
        for name in (n + extension for n in names):
            if name not in files:
                raise ValueError(f"expected {where} to hold {name}, got none")
            data = read_bytes(files[name]) if isinstance(files[name], Path) else files[name]
            parts.append((_record if extension else _python)(kind, data, f"{where}/{name}"))
        images, labels = zip(*parts, strict=True)
        return np.concatenate(images).reshape(-1, 3, 32, 32), np.concatenate(labels)

    return split(kind.train), split((kind.test,))


class _Unpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        if (module_name, global_name) not in PICKLED:
            raise ValueError(f"the name {module_name}.{global_name}")
        return PICKLED[module_name, global_name]


def _python(kind: _Kind, data: bytes, where: str) -> Split:
    try:
        # Keys are bytes in files of Python 2, str in files of Python 3.
        content = _Unpickler(io.BytesIO(data), encoding="bytes").load()
        pixels, labels = (content.get(k.encode(), content.get(k)) for k in ("data", kind.labels))
        if pixels.dtype != np.uint8 or pixels.shape[1:] != (3072,):
            raise ValueError(f"data {pixels.dtype} {list(pixels.shape)}")
        if not isinstance(labels, list) or not all(type(y) is int for y in labels):
            raise ValueError("other labels")
        if len(labels) != len(pixels):
            raise ValueError(f"{len(pixels)} images and {len(labels)} labels")
    except Exception as error:
        # A malformed program may run into any error.
        rule = f"expected {where} to be a CIFAR batch: data [N, 3072] uint8, a list {kind.labels}"
        raise ValueError(f"{rule}, got: {one_line(error)[:200]}") from None
    return pixels, np.array(labels, np.int64)


def _record(kind: _Kind, data: bytes, where: str) -> Split:
    size = kind.label_bytes + 3072
    if not data or len(data) % size:
        raise ValueError(f"expected {where} to hold records of {size} bytes, got {len(data)} bytes")
    records = np.frombuffer(data, np.uint8).reshape(-1, size)
    return records[:, kind.label_bytes :], records[:, kind.label_bytes - 1].astype(np.int64)


def _archive(kind: _Kind, path: Path) -> Splits:
    """Read the batches of an archive into memory: nothing is written to disk."""
    if path.name in MD5:
        md5 = hashlib.md5(read_bytes(path)).hexdigest()
        if md5 != MD5[path.name]:
            raise ValueError(f"expected {path} to have the MD5 {MD5[path.name]}, got {md5}")
    names, members = {n + e for n in (*kind.train, kind.test) for e in kind.folders}, {}
    with reading(path, "a whole .tar.gz"), tarfile.open(path, "r:gz") as tar:
        for member in tar:
            name = PurePosixPath(member.name).name
            if name in names and member.isreg():
                require_content(member.size, name)
                content = tar.extractfile(member)
                assert content is not None
                members[name] = content.read()
    extension = ".bin" if kind.train[0] + ".bin" in members else ""
    return _batches(kind, extension, members, path)


def _npz(path: Path) -> Splits:
    arrays = read_npz(path)
    names = ("train_images", "train_labels", "test_images", "test_labels")
    for keys in (names, ("x_train", "y_train", "x_test", "y_test")):
        rows = [array for k in keys if isinstance(array := arrays.get(k), Rows)]
        if len(rows) == len(keys):
            x_train, y_train, x_test, y_test = (array[:].numpy() for array in rows)
            return (x_train, y_train), (x_test, y_test)
    got = ", ".join(f"{name} ({array})" for name, array in arrays.items())
    raise ValueError(f"expected {path} to hold {', '.join(names)}, got {got}")


def _folder(kind: _Kind, folder: Path) -> Split:
    if not folder.is_dir():
        raise ValueError(f"expected the folder {folder} with one folder per class, got none")
    raw = read_folder(folder)
    numbers = tuple(map(str, range(len(kind.classes))))
    names = numbers if set(raw.classes) == set(numbers) else kind.classes
    if odd := sorted(set(raw.classes) ^ set(names))[:5]:
        rule = f"expected {folder} to hold a folder for each of the {len(names)} classes"
        raise ValueError(f"{rule} of {kind.name}, by name or number, got others: {odd}")

    def pixels(index: int) -> np.ndarray:
        name = raw.images.name(index)
        try:
            image = np.asarray(decode(raw.images[index], name))
        except ImageError as error:
            # Without its remedy: no image of CIFAR can be left out.
            raise ValueError(str(error)) from None
        if image.shape != (32, 32, 3):
            raise ValueError(f"expected {name} of 32 x 32 pixels, got {image.shape[:2]}")
        return image

    labels = np.array([names.index(label) for label in raw.labels])
    order = np.argsort(labels, kind="stable")
    return np.stack(list(in_threads(pixels, order.tolist()))), labels[order]
