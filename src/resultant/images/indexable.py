"""Images of any indexable dataset of (image, label), such as those of torchvision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from resultant._core.text import one_line
from resultant.images.decode import ImageError, as_picture
from resultant.images.labelling import require_different
from resultant.images.source import ImageSource, in_threads


@dataclass(frozen=True, eq=False)
class IndexableImages:
    """Images of a dataset of pairs (image, label), or of mappings with both under ``keys``."""

    dataset: Any
    keys: tuple[str, str] = ("image", "label")

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        try:
            return _parts(self.dataset[index], self.keys)[0]
        except ImageError:
            raise
        except Exception as error:
            # The dataset decodes in its own way, with errors of its own.
            why = f"{type(error).__name__}: {one_line(error)}"
            raise ImageError(f"expected an image at {self.name(index)}, got {why}") from None

    def name(self, index: int) -> str:
        return f"{type(self.dataset).__name__}[{index}]"

    def facts(self) -> Iterator[bytes]:
        """Yield sizes and pixels of all images: nothing else says that a dataset has changed."""

        def pixels(index: int) -> bytes:
            image = as_picture(self[index], self.name(index))
            return f"{image.size}".encode() + image.tobytes()

        return in_threads(pixels, range(len(self)))


def open_indexable(
    dataset: Any,
    labels: Sequence[int] | Sequence[str] | np.ndarray | None = None,
    class_names: Sequence[str] | None = None,
    *,
    keys: tuple[str, str] = ("image", "label"),
) -> ImageSource:
    """Open a dataset of (image, label) as a source.

    Args:
        dataset: Object with a length, whose items are pairs (image, label) or mappings, such as
            those of torchvision and of Hugging Face. An image is a PIL image, encoded bytes, or
            uint8 [H, W, 3] or [H, W].
        labels: Labels [N], numbers or names; by default ``dataset.targets``, the column of a
            Hugging Face dataset, or else read from every item.
        class_names: Names of the classes; by default ``dataset.classes``, those of a Hugging Face
            dataset, or else the labels themselves.
        keys: Keys of image and label in a mapping.

    Returns:
        The images.

    Raises:
        ValueError: If labels are neither integers in range nor class names, or two classes have
            one name.

    Example:
        >>> import numpy as np
        >>> from resultant.images.indexable import open_indexable
        >>> pair = [(np.zeros((2, 2, 3), np.uint8), 0), (np.ones((2, 2, 3), np.uint8), 1)]
        >>> open_indexable(pair, class_names=["cat", "dog"]).class_names
        ('cat', 'dog')
    """
    y = np.asarray(_labels_of(dataset, keys) if labels is None else labels)
    names = _names_of(dataset, keys) if class_names is None else class_names
    if y.ndim == 1 and all(isinstance(label, str) for label in y.tolist()):
        names = sorted(set(y.tolist())) if class_names is None else class_names
        numbers = {str(name): c for c, name in enumerate(names)}
        for i, label in enumerate(y.tolist()):
            if label not in numbers:
                rule = "expected labels among the class names"
                raise ValueError(f"{rule}, got {label!r} at index {i}")
        y = np.array([numbers[label] for label in y.tolist()], dtype=np.int64)
    if y.ndim != 1 or len(y) != len(dataset) or y.dtype.kind not in "iu" or not len(y):
        rule = f"expected integers or strings as labels, one per image [{len(dataset)}]"
        raise ValueError(f"{rule}, got {y.dtype} {list(y.shape)}")
    names = tuple(map(str, range(int(y.max()) + 1) if names is None else names))
    require_different(names)
    bad = np.flatnonzero((y < 0) | (y >= len(names)))
    if len(bad):
        raise ValueError(f"expected labels in [0, {len(names)}), got {y[bad[0]]} at index {bad[0]}")
    return ImageSource(IndexableImages(dataset, keys), y.astype(np.int64), names)


def _labels_of(dataset: Any, keys: tuple[str, str]) -> Any:
    if hasattr(dataset, "targets"):
        return dataset.targets
    if keys[1] in getattr(dataset, "column_names", ()):
        return dataset[keys[1]][:]
    return [_parts(dataset[i], keys)[1] for i in range(len(dataset))]


def _names_of(dataset: Any, keys: tuple[str, str]) -> Sequence[str] | None:
    if hasattr(dataset, "classes"):
        return dataset.classes
    features = getattr(dataset, "features", None)
    return getattr(features[keys[1]], "names", None) if features else None


def _parts(item: Any, keys: tuple[str, str]) -> tuple[Any, Any]:
    if isinstance(item, dict):
        return item[keys[0]], item[keys[1]]
    image, label, *_ = item
    return image, label
