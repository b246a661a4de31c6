r"""Long-tailed subsets of a balanced dataset.

Class i of C keeps :math:`n_i=\lfloor n_{\max}\,\mathrm{IF}^{-i/(C-1)}\rfloor` images, class 0 the
most, for the imbalance factor IF = :math:`n_0/n_{C-1}`; n_max is the size of the smallest class of
the dataset. The seed alone chooses the images of an order.
"""

import math
from collections.abc import Sequence
from numbers import Real

import numpy as np
import torch
from torch import Tensor

from resultant._core import validation
from resultant._core.arrays import require_labels


def long_tail_counts(n_max: int, num_classes: int, imbalance: float) -> Tensor:
    """Compute the class sizes [C] of a long-tailed subset, from n_max to n_max / imbalance."""
    n_max = validation.integer("n_max", n_max, 1)
    num_classes = validation.integer("num_classes", num_classes, 1)
    counts = torch.zeros(1)
    if isinstance(imbalance, Real) and 1 <= imbalance < math.inf:
        # The order of the roundings decides some of the sizes: this order is in common use.
        last, factor = max(num_classes - 1, 1), 1 / float(imbalance)
        counts = torch.tensor([int(n_max * factor ** (i / last)) for i in range(num_classes)])
    if not counts[-1]:
        rule = f"expected imbalance in [1, {n_max}], which leaves an image per class"
        raise ValueError(f"{rule}, got {imbalance!r}")
    return counts


def long_tail_indices(
    labels: Tensor | np.ndarray | Sequence[int], num_classes: int, imbalance: float, seed: int = 0
) -> Tensor:
    """Return the indices int64 of a long-tailed subset of images with ``labels`` [N], by class, of
    a legacy shuffle of each class in turn. Subsets of one seed are nested: imbalance 100 in 50 in
    10."""
    y = np.asarray(labels)
    if y.ndim != 1 or not y.size or not np.issubdtype(y.dtype, np.integer):
        raise ValueError(f"expected labels [N] of integers, got {y.dtype} {y.shape}")
    numbers = torch.from_numpy(y.astype(np.int64))
    require_labels(numbers, len(y), num_classes, numbers.device, True, "labels")
    available = np.bincount(y, minlength=num_classes)
    if not available.all():
        raise ValueError(f"expected images of every class, got none of {available.argmin()}")
    counts = long_tail_counts(int(available.min()), num_classes, imbalance)
    generator = np.random.RandomState(seed)
    kept = []
    for c, n in enumerate(counts.tolist()):
        members = np.flatnonzero(y == c)
        generator.shuffle(members)
        kept.append(members[:n])
    return torch.from_numpy(np.concatenate(kept).astype(np.int64))
