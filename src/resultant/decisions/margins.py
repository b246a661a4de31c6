"""Margins of decisions: pairs of classes, class centres, and the number of competitors.

Scores are exact (`realize`), linear means (``realization.linear()``) or leading (`joint_leading`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from resultant._core import chunks, validation
from resultant._core.arrays import require_features, shape_of
from resultant.classes.cosines import cosines
from resultant.classes.realization import Realization


def all_pairs(num_classes: int, device: torch.device | str | None = None) -> Tensor:
    """List the C(C-1)/2 unordered pairs a < b of classes, [P, 2] int64, in order."""
    return torch.triu_indices(num_classes, num_classes, 1, device=device).T.contiguous()


def pairwise_margins(
    z: Tensor, realization: Realization, pairs: Tensor, *, validate_args: bool | None = None
) -> Tensor:
    r"""Compute the log odds :math:`\log P_a/P_b=s_a(z)-s_b(z)` [N, P] of pairs of classes, with
    offsets; leading scores give eq:leading-pairwise-logodds.

    Args:
        z, realization, pairs: Vectors, scores and pairs.

    Example:
        >>> state = ClassState(torch.eye(3), torch.tensor([1.0, 2.0, 4.0]), torch.ones(3))
        >>> pairwise_margins(torch.eye(3)[:1], realize(state, Rule(0.5)), torch.tensor([[0, 1]]))
        tensor([[0.5475]], dtype=torch.float64)
    """
    require_features(z, realization.mu.shape[1], realization.mu.device, validate_args)
    require_pairs(pairs, realization, validate_args)
    classes, index = pairs.unique(return_inverse=True)
    margins = z.new_empty(len(z), len(pairs), dtype=realization.mu.dtype)
    for rows in score_rows(z, max(len(classes), len(pairs)), realization):
        s = realization.at(cosines(z[rows], realization.mu[classes]), classes)
        margins[rows] = s[:, index[:, 0]] - s[:, index[:, 1]]
    return margins


class CentreMargins(NamedTuple):
    """Margins [P] of a over b at the prototype of a, and of b over a at the prototype of b."""

    a: Tensor
    b: Tensor


def centre_margins(
    realization: Realization, pairs: Tensor | None = None, *, validate_args: bool | None = None
) -> CentreMargins:
    r"""Compute the margins of pairs of classes at their prototypes (sec:softmax-geometry).

    With :math:`c=\mu_a^\top\mu_b`, :math:`M_a=b_a-b_b+q_a(1)-q_b(c)` and
    :math:`M_b=b_b-b_a+q_b(1)-q_a(c)`; with leading scores :math:`M_a^0=b_a-b_b+g_a^0-g_b^0c`.

    Args:
        realization, pairs: Scores, and pairs; by default all pairs.

    Example:
        >>> state = ClassState(torch.eye(3), torch.tensor([1.0, 2.0, 4.0]), torch.ones(3))
        >>> centre_margins(realize(state, Rule(0.5))).a
        tensor([0.5475, 0.6836, 0.9642], dtype=torch.float64)
    """
    if pairs is None:
        pairs = all_pairs(len(realization.mu), realization.mu.device)
    require_pairs(pairs, realization, validate_args)
    peak = realization.at(torch.ones_like(realization.kappa))
    a, b = pairs.T
    # The Gram matrix costs less than gathering the prototypes of many pairs.
    if len(pairs) * 2 > len(realization.mu):
        c = cosines(realization.mu, realization.mu)[a, b]
    else:
        c = (realization.mu[a] * realization.mu[b]).sum(-1)
    return CentreMargins(peak[a] - realization.at(c, b), peak[b] - realization.at(c, a))


def effective_competitors(scores: Tensor) -> Tensor:
    r"""Compute :math:`N_{\mathrm{eff}}=\sum_j\exp(s_j-s_\star)` [...], the number of competitors
    from 1 to C: :math:`\log\sum_je^{s_j}=s_\star+\log N_{\mathrm{eff}}` (sec:softmax-geometry).

    Args:
        scores: Scores [..., C] of one class or more.

    Example:
        >>> effective_competitors(torch.tensor([[2.0, 2.0, -100.0]]))
        tensor([2.])
    """
    if not isinstance(scores, Tensor) or scores.dim() == 0 or not scores.shape[-1]:
        raise ValueError(f"expected scores [..., C] of one class or more, got {shape_of(scores)}")
    return (scores - scores.amax(-1, keepdim=True)).exp().sum(-1)


def require_pairs(pairs: Tensor, realization: Realization, validate: bool | None) -> None:
    """Raise unless ``pairs`` [P, 2] int64 holds two different classes per row."""
    number, device = len(realization.mu), realization.mu.device
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


def score_rows(z: Tensor, width: int, realization: Realization) -> Iterator[slice]:
    """Yield slices of the rows of z, ``width`` numbers per row, that fit the budget of scores."""
    return chunks.row_slices(len(z), width * realization.mu.dtype.itemsize, chunks.SCORE_BYTES)
