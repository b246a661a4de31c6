r"""Effects of a finite sample on class statistics, and their corrections.

The mean length of n unit vectors is biased upwards (eq:finite-resultant-identity), a query that
counts in its own class scores too high (eq:self-inclusion). The statistics are sums, so a query is
removed by subtraction.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from resultant._core import chunks, validation
from resultant._core.arrays import (
    normalized,
    require_features,
    require_labels,
)
from resultant._core.validation import Number
from resultant.classes.statistics import (
    ClassState,
    ClassStatistics,
    capped_concentration,
)
from resultant.score.exact import vmf_score
from resultant.score.limits import require_temperature
from resultant.vmf.estimators import unbiased_square


def expected_square_resultant(A: Number, n: Number) -> Tensor:
    r"""Compute :math:`\mathbb E[R_n^2] = A^2 + (1-A^2)/n` (eq:finite-resultant-identity).

    Args:
        A: Mean length in [0, 1] of the distribution.
        n: Number >= 1 of independent unit vectors.

    Returns:
        Expectations in the broadcast shape of A and n.

    Example:
        >>> expected_square_resultant(0.5, 4)
        tensor(0.4375, dtype=torch.float64)
    """
    A, n, dtype = _sample("A", A, n, 1)
    return (A * A + (1 - A) * (1 + A) / n).to(dtype)


def unbiased_square_resultant(R: Number, n: Number) -> Tensor:
    r"""Compute :math:`U = (nR^2-1)/(n-1)`, whose expectation is A^2 (eq:unbiased-resultant-square).

    Args:
        R: Length in [0, 1] of the mean of n unit vectors.
        n: Number >= 2 of unit vectors.

    Returns:
        Estimates in the broadcast shape of R and n, negative where R^2 < 1/n.

    Example:
        >>> unbiased_square_resultant(0.5, 3)
        tensor(-0.1250, dtype=torch.float64)
    """
    R, n, dtype = _sample("R", R, n, 2)
    return unbiased_square(R, n).to(dtype)


def self_inclusion(A: Number, tau: Number, n: Number) -> Tensor:
    r"""Compute :math:`(1-A^2)/(\tau n)`, the bias of a query in its own class (eq:self-inclusion).

    The bias is the expected increase of the leading score of a query that is among the n samples
    of its class mean.

    Args:
        A: Mean length in [0, 1] of the class.
        tau: Temperature > 0.
        n: Sample count >= 1 of the class.

    Returns:
        Biases in the broadcast shape of A, tau and n.

    Example:
        >>> self_inclusion(0.6, 0.1, 10)
        tensor(0.6400, dtype=torch.float64)
    """
    A, n, dtype = _sample("A", A, n, 1)
    tau = torch.as_tensor(tau, dtype=A.dtype, device=A.device)
    validation.require_in_range("tau", tau, 0.0, rule="> 0 and finite", open_low=True)
    return ((1 - A) * (1 + A) / (tau * n)).to(dtype)


def _sample(name: str, a: Number, n: Number, least: int) -> tuple[Tensor, Tensor, torch.dtype]:
    """Return a mean length and a sample size as tensors, and the dtype of the result."""
    if isinstance(n, Tensor) and not n.dtype.is_floating_point:
        n = n.to(a.dtype if isinstance(a, Tensor) else torch.float64)
    (a, n), dtype = validation.tensors(**{name: a, "n": n})
    validation.require_in_range(name, a, 0.0, 1.0, rule="between 0 and 1")
    validation.require_in_range("n", n, least, rule=f">= {least} and finite")
    return a, n, dtype


class LeaveOneOutScores(NamedTuple):
    """Own-class scores [N] without the query in its class, and with it."""

    left_out: Tensor
    included: Tensor


@torch.no_grad()
def leave_one_out_scores(
    z: Tensor,
    y: Tensor,
    statistics: ClassStatistics,
    tau: Number,
    estimator: str = "mle",
    *,
    weights: Tensor | None = None,
    validate_args: bool | None = None,
) -> LeaveOneOutScores:
    r"""Score queries against their own class, without and with the query in the class.

    The mean of ``included - left_out`` is `self_inclusion` to leading order (eq:self-inclusion).

    Args:
        z: Unit vectors [N, p] that are among the samples of ``statistics``.
        y: Their labels [N] int64.
        statistics: Sums over the samples.
        tau: Temperature > 0, a number or one per class [C].
        estimator: Estimator of kappa, see `concentration`.
        weights: Weights [N] that the samples were added with.

    Returns:
        Scores ``left_out`` and ``included`` [N] in float64.

    Raises:
        ValueError: If a query has a class without samples.

    Example:
        >>> z, y = torch.tensor([[1.0, 0.0], [0.8, 0.6]]), torch.tensor([0, 0])
        >>> leave_one_out_scores(z, y, ClassStatistics(1, 2).update(z, y), 0.5).left_out
        tensor([1.6000, 1.6000], dtype=torch.float64)
    """
    tau = require_temperature(tau, statistics.num_classes, statistics.device, validate_args)
    w = statistics.require_queries(z, y, weights, validate_args)
    state = statistics.state(estimator)
    scores = [z.new_empty(len(z), dtype=torch.float64) for _ in range(2)]
    for rows in chunks.feature_slices(z):
        x, own = normalized(z[rows]), y[rows]
        own_tau = tau[own] if tau.dim() else tau
        left_out = statistics.left_out(x, own, w[rows], estimator)
        included = state.mu[own], state.kappa[own]
        for q, (mu, kappa) in zip(scores, (left_out, included), strict=True):
            q[rows] = vmf_score((x * mu).sum(-1), kappa, own_tau, state.dim, validate_args=False)
    return LeaveOneOutScores(*scores)


@torch.no_grad()
def held_out_state(
    statistics: ClassStatistics, z: Tensor, y: Tensor, *, validate_args: bool | None = None
) -> ClassState:
    r"""Fit directions to one sample and concentrations to another.

    The concentration of class c solves :math:`A_p(\kappa)=\max\{\bar\rho_c, 0\}` with the mean
    cosine :math:`\bar\rho_c` of held-out vectors and the direction of the class: the maximum of
    their likelihood. Rows that a network was trained on are closer to each other than new rows,
    and no correction of the training rows alone can know that.

    Args:
        statistics: Sums of the fitted sample.
        z: Held-out unit vectors [N, p].
        y: Their labels [N] int64.

    Returns:
        The state, with the concentration of ``statistics.state("loo")`` for a class without
        held-out vectors.

    Example:
        >>> z, y = torch.tensor([[1.0, 0.0], [0.8, 0.6]]), torch.tensor([0, 0])
        >>> statistics = ClassStatistics(1, 2).update(z[:1], y[:1])
        >>> held_out_state(statistics, z[1:], y[1:]).resultant  # the cosine of the two
        tensor([0.8000], dtype=torch.float64)
    """
    require_features(z, statistics.dim, statistics.device, validate_args)
    require_labels(y, len(z), statistics.num_classes, statistics.device, validate_args)
    state = statistics.state("loo")
    total, number = torch.zeros_like(state.kappa), torch.zeros_like(state.kappa)
    for rows in chunks.feature_slices(z):
        own = y[rows]
        total.index_add_(0, own, (normalized(z[rows]) * state.mu[own]).sum(-1))
        number.index_add_(0, own, torch.ones_like(total[own]))
    length = (total / number.clamp_min(1)).clamp(0, 1)
    kappa = torch.where(
        number > 0, capped_concentration(state.dim, length, "mle"), state.kappa
    ).masked_fill(state.count == 0, 0.0)
    return ClassState(state.mu, kappa, state.count, validate_args=False)
