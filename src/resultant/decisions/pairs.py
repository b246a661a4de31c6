"""Choice of pairs of classes: the closest pairs and random pairs between shot groups."""

from __future__ import annotations

from itertools import combinations, combinations_with_replacement, product
from typing import NamedTuple

import torch
from torch import Tensor

from resultant._core import chunks, validation
from resultant._core.arrays import normalized, shape_of
from resultant.classes.cosines import cosines
from resultant.classes.groups import HEAD, MEDIUM, TAIL
from resultant.classes.statistics import ClassState

PAIR_TYPES = ("HH", "HM", "HT", "MM", "MT", "TT")

# Up to this number of classes all pairs are chosen.
FEW_CLASSES = 20

Pair = tuple[int, int]


class SelectedPairs(NamedTuple):
    """Chosen pairs."""

    pairs: Tensor  # [P, 2]
    kind: Tensor  # types [P] as indices of `PAIR_TYPES`
    closest: Tensor  # mask [P] of the closest pairs


@torch.no_grad()
def select_pairs(
    state: ClassState, groups: Tensor, per_type: int = 5, seed: int = 0
) -> SelectedPairs:
    """Choose the pairs of sec:boundary-selection, the closest and random ones of each type.

    A type is a pair of shot groups. Each of the six types gives the ``per_type`` pairs that are
    closest in prototype cosine and as many random other pairs: all pairs of a type with fewer, and
    all pairs where C <= 20. A pair names the more frequent group first.

    Args:
        state, groups: Classes and their `resultant.classes.groups.shot_groups` [C].
        per_type, seed: Number >= 1 of closest and of random pairs per type, and seed of the draws.

    Example:
        >>> state = ClassState(torch.eye(3), torch.ones(3), torch.tensor([500, 50, 5]))
        >>> select_pairs(state, torch.tensor([0, 1, 2])).pairs.tolist()
        [[0, 1], [0, 2], [1, 2]]
    """
    C = state.num_classes
    if not isinstance(groups, Tensor) or groups.shape != (C,):
        raise ValueError(f"expected groups [{C}], one per class, got {shape_of(groups)}")
    per_type = validation.integer("per_type", per_type, 1)
    groups = groups.cpu()
    validation.require_in_range("groups", groups.double(), HEAD, TAIL, rule="in {0, 1, 2}")
    mu = normalized(state.mu)
    members = [(groups == g).nonzero().squeeze(-1).tolist() for g in (HEAD, MEDIUM, TAIL)]
    generator = torch.Generator().manual_seed(seed)
    chosen: list[tuple[int, int, int, bool]] = []
    for kind, (x, y) in enumerate(combinations_with_replacement((HEAD, MEDIUM, TAIL), 2)):
        near = _closest(mu, members[x], members[y], per_type)
        number = None if C <= FEW_CLASSES else per_type
        rest = _others(members[x], members[y], near, number, generator)
        chosen += [(*pair, kind, True) for pair in near]
        chosen += [(*pair, kind, False) for pair in rest]
    table = torch.tensor(chosen, dtype=torch.int64, device=mu.device).reshape(-1, 4)
    return SelectedPairs(table[:, :2].contiguous(), table[:, 2], table[:, 3].bool())


def _closest(mu: Tensor, first: list[int], second: list[int], number: int) -> list[Pair]:
    """Find the pairs of largest cosine between two groups, or within one, in falling order."""
    candidates: list[tuple[float, int, int]] = []
    for part in chunks.row_slices(len(first), 8 * len(second), chunks.MATRIX_BYTES):
        rho = cosines(mu[first[part]], mu[second])
        if first is second:
            rho = rho.triu(part.start + 1) + rho.new_full(rho.shape, -3).tril(part.start)
        values, indices = rho.flatten().topk(min(number, rho.numel()))
        for value, index in zip(values.tolist(), indices.tolist(), strict=True):
            i, j = divmod(index, len(second))
            if value > -2:
                candidates.append((-value, first[part][i], second[j]))
    return [(a, b) for _, a, b in sorted(candidates)[:number]]


def _others(
    first: list[int],
    second: list[int],
    near: list[Pair],
    number: int | None,
    generator: torch.Generator,
) -> list[Pair]:
    """Draw a number of random pairs other than the near ones; all of them without a number, and if
    there are no more."""
    m, n, same = len(first), len(second), first is second
    if number is None or (m * (m - 1) // 2 if same else m * n) <= len(near) + number:
        whole = combinations(first, 2) if same else product(first, second)
        return [pair for pair in whole if pair not in near]
    drawn: list[Pair] = []
    while len(drawn) < number:
        i, j = (int(torch.randint(size, (1,), generator=generator)) for size in (m, n))
        if same:
            i, j = min(i, j), max(i, j)
        pair = first[i], second[j]
        if pair[0] != pair[1] and pair not in (*near, *drawn):
            drawn.append(pair)
    return drawn
