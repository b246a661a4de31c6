"""Copies of rows, and rows that are nearly equal, within and across splits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from resultant._core import memory
from resultant._core.arrays import directions
from resultant.analysis.metrics import sample_rows
from resultant.analysis.split import FeatureSet

# Rows are near-duplicates within this share of the median angle between a row and its neighbour.
ANGLE = 0.25

# Rows whose neighbours give the median, rows up to which all pairs are compared (beyond, those that
# are nearest to the same class direction), and bytes of rows up to which any are.
NEIGHBOURS = 2_000
COMPARED = 20_000
BYTES = 2 << 30


class Groups(NamedTuple):
    """Groups of rows of all splits, in the order of the splits."""

    group: np.ndarray  # group [N] from 0 in the order of first rows, -1 for rows that are alone
    first: np.ndarray  # the first row [N] of the group of each row
    cosine: np.ndarray  # cosine [N] of each row with the first row of its group


def exact(data: FeatureSet) -> np.ndarray:
    """Return the first row [N] of the same values as each row."""
    hashes = np.concatenate([split.digests for split in data.splits])
    _, first, own = np.unique(hashes, return_index=True, return_inverse=True)
    return first[own]


def conflicts(data: FeatureSet) -> np.ndarray:
    """Return the rows [N] bool that have a copy with another label, in any split."""
    first, labels = exact(data), data.labels.numpy()
    differs = labels != labels[first]
    return np.isin(first, first[differs])


def near(data: FeatureSet) -> Groups:
    """Find groups of rows of nearly the same direction."""
    first = exact(data)
    distinct = torch.from_numpy(np.unique(first))
    edges = [np.stack([np.arange(len(first)), first])]
    z = None
    if len(distinct) * data.dim * 4 <= BYTES:
        every = (split.read(torch.arange(len(split))) for split in data.splits)
        z = torch.cat([directions(x)[0] for x in every])
        for a, b in pairs(z[distinct], data, data.labels[distinct]):
            edges.append(np.stack([distinct[a].numpy(), distinct[b].numpy()]))
    at = np.concatenate(edges, 1)
    graph = csr_array((np.ones(at.shape[1]), tuple(at)), (len(first), len(first)))
    owner = connected_components(graph, directed=False)[1]
    _, begin, own, size = np.unique(
        owner, return_index=True, return_inverse=True, return_counts=True
    )
    leader = begin[own]
    several = size[own] > 1
    group = np.full(len(first), -1)
    group[several] = np.unique(leader[several], return_inverse=True)[1]
    cosine = np.ones(len(first))
    apart = (leader != first).nonzero()[0]
    if z is not None and len(apart):
        cosine[apart] = (z[apart].double() * z[leader[apart]].double()).sum(1).clamp(-1, 1).numpy()
    return Groups(group, leader, cosine)


def pairs(z: Tensor, data: FeatureSet, y: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield pairs of unit rows [n, p] that are nearly equal."""
    blocks = [torch.arange(len(z))]
    if len(z) > COMPARED:
        # Nearly equal rows have nearly always the same nearest class.
        mean = z.new_zeros(data.num_classes, z.shape[1]).index_add_(0, y, z)
        mean = directions(mean)[0].to(z)
        parts = memory.row_slices(len(z), 4 * data.num_classes, memory.MATRIX_BYTES)
        nearest = torch.cat([(z[at] @ mean.T).argmax(1) for at in parts])
        order = nearest.argsort(stable=True)
        blocks = list(order.split(torch.bincount(nearest).tolist()))
    least = threshold(z, blocks)
    for block in (b for b in blocks if len(b) > 1):
        own = z[block]
        for at in memory.row_slices(len(own), 4 * len(own), memory.MATRIX_BYTES):
            a, b = (own[at] @ own.T >= least).nonzero(as_tuple=True)
            later = a + at.start < b
            yield block[a[later] + at.start], block[b[later]]


def threshold(z: Tensor, blocks: list[Tensor]) -> float:
    """Return the cosine from which rows are near-duplicates; above 1 if none can be."""
    nearest = []
    for block in (b for b in blocks if len(b) > 1):
        some = sample_rows(len(block), math.ceil(NEIGHBOURS * len(block) / len(z)), 0)
        cosine = z[block[some]] @ z[block].T
        nearest.append(cosine.scatter(1, some[:, None], -1.0).amax(1))
    angle = torch.cat(nearest).double().clamp(-1, 1).acos() if nearest else torch.zeros(1)
    median = float(angle.median())
    # Of float32, angles below a thousandth are noise.
    return math.cos(ANGLE * median) if ANGLE * median > 1e-3 else 2.0
