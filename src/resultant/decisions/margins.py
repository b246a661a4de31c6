"""Pairs of classes and their choice, their margins, and the number of competitors."""

from itertools import combinations, combinations_with_replacement, product
from typing import NamedTuple

import torch
from torch import Tensor

from resultant._core import memory, validation
from resultant._core.arrays import normalized, require_features, shape_of
from resultant._core.validation import Check
from resultant.classes.groups import HEAD, MEDIUM, TAIL
from resultant.classes.scores import ClassScores, cosines
from resultant.classes.statistics import ClassState

PAIR_TYPES = ("HH", "HM", "HT", "MM", "MT", "TT")

# Up to this number of classes all pairs are chosen.
FEW_CLASSES = 20

Pair = tuple[int, int]


def pairwise_margins(
    z: Tensor, scores: ClassScores, pairs: Tensor, *, validate_args: Check = None
) -> Tensor:
    r"""Compute the log odds :math:`\log P_a/P_b=s_a(z)-s_b(z)` of pairs of classes, with offsets
    (eq:leading-pairwise-logodds for leading scores).

    Args:
        z, scores, pairs: Unit vectors [N, p], scores of the classes, and pairs [P, 2].

    Returns:
        Margins [N, P] in the dtype of the scores.

    Example:
        >>> pairwise_margins(z[:1], realize(state, Rule(0.5)), torch.tensor([[0, 1]]))
        tensor([[0.5475]], dtype=torch.float64)
    """
    require_features(z, scores.mu.shape[1], scores.mu.device, validate_args)
    require_pairs(pairs, scores, validate_args)
    # Of few pairs the scores of their classes suffice.
    few = 2 * len(pairs) < len(scores.mu)
    classes = pairs.flatten() if few else torch.arange(len(scores.mu), device=pairs.device)
    a, b = torch.arange(2 * len(pairs), device=pairs.device).view(-1, 2).T if few else pairs.T
    size = max(len(classes), len(pairs)) * scores.mu.itemsize

    def margins(rows: slice) -> tuple[Tensor]:
        s = scores.at(cosines(z[rows], scores.mu[classes]), classes)
        return (s[:, a] - s[:, b],)

    return memory.in_chunks(margins, len(z), size, memory.SCORE_BYTES)[0]


class CentreMargins(NamedTuple):
    """Margins [P] of a over b at the prototype of a, and of b over a at the prototype of b."""

    a: Tensor
    b: Tensor


def centre_margins(
    scores: ClassScores, pairs: Tensor | None = None, *, validate_args: Check = None
) -> CentreMargins:
    r"""Compute the margins :math:`M_a=b_a-b_b+q_a(1)-q_b(\mu_a^\top\mu_b)` and :math:`M_b` of pairs
    of classes at their prototypes (sec:softmax-geometry).

    Args:
        scores, pairs: Scores, and pairs; by default all pairs.

    Returns:
        Margins ``a`` and ``b`` [P].

    Example:
        >>> centre_margins(realize(state, Rule(0.5))).a
        tensor([0.5475, 0.6836, 0.9642], dtype=torch.float64)
    """
    pairs = require_pairs(pairs, scores, validate_args)
    peak = scores.at(torch.ones_like(scores.kappa))
    a, b = pairs.T
    # The Gram matrix costs less than gathering the prototypes of many pairs.
    if len(pairs) * 2 > len(scores.mu):
        c = cosines(scores.mu, scores.mu)[a, b]
    else:
        c = (scores.mu[a] * scores.mu[b]).sum(-1)
    return CentreMargins(peak[a] - scores.at(c, b), peak[b] - scores.at(c, a))


def effective_competitors(scores: Tensor) -> Tensor:
    r"""Compute :math:`N_{\mathrm{eff}}=\sum_j\exp(s_j-s_\star)` [...], the number of competitors
    from 1 to C: :math:`\log\sum_je^{s_j}=s_\star+\log N_{\mathrm{eff}}` (sec:softmax-geometry).

    Args:
        scores: Scores [..., C] of one class or more.

    Returns:
        Numbers [...] in [1, C].

    Example:
        >>> effective_competitors(torch.tensor([[2.0, 2.0, -100.0]]))
        tensor([2.])
    """
    if not isinstance(scores, Tensor) or scores.dim() == 0 or not scores.shape[-1]:
        raise ValueError(f"expected scores [..., C] of one class or more, got {shape_of(scores)}")
    return (scores - scores.amax(-1, keepdim=True)).exp().sum(-1)


def require_pairs(pairs: Tensor | None, scores: ClassScores, validate: Check) -> Tensor:
    """Return ``pairs`` [P, 2], by default all; raise unless each is of two different classes."""
    number, device = len(scores.mu), scores.mu.device
    if pairs is None:
        return torch.triu_indices(number, number, 1, device=device).T.contiguous()
    if not isinstance(pairs, Tensor) or pairs.dim() != 2 or pairs.shape[1] != 2:
        raise ValueError(f"expected pairs [P, 2], got {shape_of(pairs)}")
    if pairs.dtype != torch.int64 or pairs.device != device:
        got = f"{pairs.dtype} on {pairs.device}"
        raise ValueError(f"expected pairs of dtype torch.int64 on {device}, got {got}")
    if validation.should_validate(validate, pairs):
        bad = ((pairs < 0) | (pairs >= number)).any(-1) | (pairs[:, 0] == pairs[:, 1])
        for i in bad.nonzero().flatten().tolist()[:1]:
            rule = f"two different classes in [0, {number})"
            raise ValueError(f"expected pairs of {rule}, got {pairs[i].tolist()} at index {i}")
    return pairs


class SelectedPairs(NamedTuple):
    """Chosen pairs."""

    pairs: Tensor  # [P, 2]
    kind: Tensor  # types [P] as indices of `PAIR_TYPES`
    closest: Tensor  # mask [P] of the closest pairs


@torch.no_grad()
def select_pairs(
    state: ClassState, groups: Tensor, per_type: int = 5, seed: int = 0
) -> SelectedPairs:
    """Choose the closest pairs and random pairs of each type, a pair of shot groups
    (sec:boundary-selection): all pairs of a type with fewer, and all where C <= 20.

    Args:
        state, groups: Classes and their `resultant.classes.groups.shot_groups` [C].
        per_type, seed: Number >= 1 of closest and of random pairs per type, and seed of the draws.

    Returns:
        Pairs with their types.

    Example:
        >>> select_pairs(state, torch.tensor([0, 1, 2])).pairs.tolist()
        [[0, 1], [0, 2], [1, 2]]
    """
    C = state.num_classes
    if not isinstance(groups, Tensor) or groups.shape != (C,):
        raise ValueError(f"expected groups [{C}], one per class, got {shape_of(groups)}")
    per_type = validation.integer("per_type", per_type, 1)
    seed = validation.integer("seed", seed, -(2**63), most=2**64 - 1)
    groups = groups.cpu()
    validation.require_in_range("groups", groups.double(), HEAD, TAIL, rule="in {0, 1, 2}")
    mu = normalized(state.mu)
    members = [(groups == g).nonzero().squeeze(-1).tolist() for g in (HEAD, MEDIUM, TAIL)]
    generator = torch.Generator("cpu").manual_seed(seed)
    chosen: list[tuple[int, int, int, bool]] = []
    for kind, (x, y) in enumerate(combinations_with_replacement((HEAD, MEDIUM, TAIL), 2)):
        near = _closest(mu, members[x], members[y], per_type)
        number = C * C if C <= FEW_CLASSES else per_type
        rest = _others(members[x], members[y], near, number, generator)
        chosen += [(*pair, kind, True) for pair in near]
        chosen += [(*pair, kind, False) for pair in rest]
    table = torch.tensor(chosen, dtype=torch.int64, device=mu.device).reshape(-1, 4)
    return SelectedPairs(table[:, :2].contiguous(), table[:, 2], table[:, 3].bool())


def _closest(mu: Tensor, first: list[int], second: list[int], number: int) -> list[Pair]:
    """Find the pairs of largest cosine between two groups, or within one."""
    candidates: list[tuple[float, int, int]] = []
    for part in memory.row_slices(len(first), 8 * len(second), memory.MATRIX_BYTES):
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
    first: list[int], second: list[int], near: list[Pair], number: int, generator: torch.Generator
) -> list[Pair]:
    """Draw a number of random pairs other than the near ones, or all where there are no more."""
    m, n, same = len(first), len(second), first is second
    if (m * (m - 1) // 2 if same else m * n) <= len(near) + number:
        whole = combinations(first, 2) if same else product(first, second)
        return [pair for pair in whole if pair not in near]
    drawn: list[Pair] = []
    while len(drawn) < number:
        i, j = (
            int(torch.randint(size, (1,), generator=generator, device="cpu")) for size in (m, n)
        )
        if same:
            i, j = min(i, j), max(i, j)
        pair = first[i], second[j]
        if pair[0] != pair[1] and pair not in (*near, *drawn):
            drawn.append(pair)
    return drawn
