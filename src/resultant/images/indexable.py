"""Images of any indexable dataset of (image, label), such as those of torchvision."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from resultant._core.text import one_line
from resultant.images.decode import ImageError
from resultant.images.source import Images, ImageSource, LabelledImages, coded


@dataclass(frozen=True, eq=False)
class IndexableImages(Images):
    """Images of a dataset of pairs (image, label), or of mappings with both under ``keys``."""

    dataset: Any
    keys: tuple[str, str] = ("image", "label")

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        try:
            return _parts(self.dataset[index], self.keys)[0]
        except Exception as error:
            # The dataset decodes in its own way, with errors of its own.
            why = f"{type(error).__name__}: {one_line(error)}"
            raise ImageError(f"expected an image at {self.name(index)}, got {why}") from None

    def name(self, index: int) -> str:
        return f"{type(self.dataset).__name__}[{index}]"


def open_indexable(
    dataset: Any,
    labels: Sequence[int] | Sequence[str] | np.ndarray | None = None,
    class_names: Sequence[str] | None = None,
    *,
    keys: tuple[str, str] = ("image", "label"),
) -> ImageSource:
    """Open a dataset of (image, label) as a source.

    Args:
        dataset: Sequence of pairs (image, label) or mappings, as of torchvision or Hugging Face. An
            image is a PIL image, encoded bytes, or uint8 [H, W, 3] or [H, W].
        labels: Labels [N], numbers or names; by default those of the dataset.
        class_names: Names of the classes; by default those of the dataset, or else the labels.
        keys: Keys of image and label in a mapping.

    Raises:
        ValueError: If labels do not fit the class names, or two classes have one name.

    Example:
        >>> import numpy as np
        >>> from resultant.images.indexable import open_indexable
        >>> pair = [(np.zeros((2, 2, 3), np.uint8), 0), (np.ones((2, 2, 3), np.uint8), 1)]
        >>> open_indexable(pair, class_names=["cat", "dog"]).class_names
        ('cat', 'dog')
    """
    y = np.asarray(_labels_of(dataset, keys) if labels is None else labels)
    named = y.ndim == 1 and all(isinstance(label, str) for label in y.tolist())
    if y.ndim != 1 or len(y) != len(dataset) or not len(y) or not (named or y.dtype.kind in "iu"):
        rule = f"expected integers or strings as labels, one per image [{len(dataset)}]"
        raise ValueError(f"{rule}, got {y.dtype} {list(y.shape)}")
    names = class_names
    if names is None and not named:
        names = _names_of(dataset, keys)
        names = range(int(y.max()) + 1) if names is None else names
    images = LabelledImages(IndexableImages(dataset, keys), y.astype(object if named else np.int64))
    sources, _ = coded({"train": images}, None if names is None else list(map(str, names)))
    return sources["train"]


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
