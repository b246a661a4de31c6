"""Folds of labelled rows: rows of equal values, and rows of one group, share a fold.

A fold of `fold_splits` depends on the values of the rows alone. It is the same for any order of the
rows, and for any names of the groups. Those of `stratified_splits`, and drawn rows, depend on the
order.
"""

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

# Indices of training rows and of validation rows.
Split = tuple[Tensor, Tensor]

# Folds of a search by default.
FOLDS = 5
# Rows times classes that are scored about, and at most, and the least number of rows.
CELLS = 1 << 18
MOST_CELLS = 1 << 23
LEAST_ROWS = 1024

# Multipliers of a hash of 64 bits (splitmix64).
_MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_STEP = 0x9E3779B97F4A7C15


def row_keys(digests: np.ndarray, *groups: Tensor | np.ndarray | None) -> np.ndarray:
    """Return keys [N] that rows share if they have equal values, or are of one group.

    Args:
        digests: Hashes [N] of the values of the rows, int64.
        *groups: Numbers or words [N] of groups of rows, or None. Groups that share a row, or equal
            rows, are one.
    """
    keys = digests
    for group in (g for g in groups if g is not None):
        one, other = (np.unique(np.asarray(a), return_inverse=True)[1] for a in (keys, group))
        size = int(one.max(initial=0)) + 1, int(other.max(initial=0)) + 1
        at = one, size[0] + other
        graph = csr_array((np.ones(len(one)), at), (sum(size), sum(size)))
        owner = connected_components(graph, directed=False)[1][one]
        # The smallest digest of its rows names a group.
        least = np.full(int(owner.max(initial=0)) + 1, np.iinfo(np.int64).max)
        np.minimum.at(least, owner, digests)
        keys = least[owner]
    return keys


def mixed(keys: np.ndarray, seed: int) -> np.ndarray:
    """Hash keys [N] with a seed, to uint64 in an order that looks random."""
    x = keys.astype(np.uint64) + np.uint64((_STEP * (seed + 1)) % (1 << 64))
    for shift, factor in zip((30, 27), _MIX, strict=True):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return x ^ (x >> np.uint64(31))


def positions(y: Tensor, keys: np.ndarray, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return the class [N] of the key of each row, and the share [N] of the rows of this class that
    come before the middle of the rows of the key, in an order that looks random."""
    _, own = np.unique(keys, return_inverse=True)
    size = np.bincount(own)
    # A key of several classes counts as the first of them.
    label = np.full(len(size), np.iinfo(np.int64).max)
    np.minimum.at(label, own, y.cpu().numpy())
    order = np.lexsort((mixed(np.unique(keys), seed), label))
    ends = size[order].cumsum()
    first = np.searchsorted(label[order], label[order])
    start = np.concatenate([[0], ends])[first]
    total = np.bincount(label, size)[label[order]]
    share = np.empty(len(size))
    share[order] = (ends - size[order] / 2 - start) / total
    return torch.from_numpy(label[own]), torch.from_numpy(share[own])


def fold_numbers(y: Tensor, keys: np.ndarray, folds: int, seed: int = 0) -> Tensor:
    """Return the fold [N] of each row; classes are spread over the folds."""
    label, share = positions(y, keys, seed)
    # Small classes start in different folds, so that the folds have about one size.
    return ((share * folds).long() + label) % folds


def fold_splits(y: Tensor, keys: np.ndarray, folds: int, seed: int = 0) -> list[Split]:
    """Return the training rows and the other rows of each fold that has rows."""
    fold = fold_numbers(y, keys, folds, seed).to(y.device)
    sides = ((fold != k, fold == k) for k in fold.unique().tolist())
    return [(train.nonzero().squeeze(-1), rows.nonzero().squeeze(-1)) for train, rows in sides]


def held_out(y: Tensor, keys: np.ndarray, share: float, seed: int = 0, least: int = 2) -> Tensor:
    """Return a mask [N] of about a share of each class, which leaves ``least`` rows or more."""
    label, place = positions(y, keys, seed)
    count = torch.bincount(y, minlength=int(label.max()) + 1)
    # By whole rows, so that classes of few rows are divided as those of many.
    number = torch.minimum((share * count).round(), (count - least).clamp_min(0).double())
    chosen = place < (number / count)[label]
    for c in (torch.bincount(y[~chosen], minlength=len(count)) < count.clamp_max(least)).nonzero():
        chosen &= label != c
    return chosen


def draw_rows(y: Tensor, C: int, cells: int | None = None) -> tuple[Tensor, Tensor]:
    """Draw about ``cells`` / C rows of classes y [N]; return them, and the number per class."""
    number, counts = max(LEAST_ROWS, (cells or CELLS) // C), torch.bincount(y, minlength=C).double()
    kept = (min(1.0, number / len(y)) * counts).ceil()
    rows = (shuffled_ranks(y) < kept[y]).nonzero().squeeze(-1)
    most = min(2 * number, max(number, MOST_CELLS // C))
    if len(rows) > most:
        drawn = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))[:most]
        rows = rows[drawn.sort().values.to(rows.device)]
    return rows, kept


def shuffled_ranks(y: Tensor, seed: int = 0) -> Tensor:
    """Number the rows [N] of each class in a random order."""
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))
    return ranks(y, order.to(y.device))


def ranks(y: Tensor, order: Tensor) -> Tensor:
    """Number the rows [N] of each class in an order of all rows [N]."""
    order = order[y[order].argsort(stable=True)]
    counts, rank = torch.bincount(y), torch.empty_like(y)
    rank[order] = torch.arange(len(y), device=y.device) - (counts.cumsum(0) - counts)[y[order]]
    return rank


def stratified_splits(
    y: Tensor, folds: int = FOLDS, groups: np.ndarray | None = None
) -> list[Split]:
    """Split rows into stratified folds; rows of one of the ``groups`` [N] share a fold."""
    own, number = y, torch.arange(len(y), device=y.device)
    if groups is not None:
        number = torch.from_numpy(np.unique(groups, return_inverse=True)[1]).to(y.device)
        # A group counts as the class of one of its rows.
        own = y.new_zeros(int(number.max()) + 1).scatter_(0, number, y)
    # Small classes start in different folds, so that the folds have about one size.
    fold = ((shuffled_ranks(own) + own) % folds)[number]
    sides = ((fold != k, fold == k) for k in fold.unique().tolist())
    return [(train.nonzero().squeeze(-1), rows.nonzero().squeeze(-1)) for train, rows in sides]
