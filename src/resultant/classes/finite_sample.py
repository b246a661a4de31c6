"""Effects of a finite sample on class statistics, and their corrections: the mean length of n unit
vectors is biased upwards, and a query that counts in its own class scores too high."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from resultant._core import chunks, validation
from resultant._core.arrays import normalized, require_features, require_labels
from resultant._core.validation import Check, Number
from resultant.classes.statistics import ClassState, ClassStatistics, capped_concentration
from resultant.score.exact import vmf_score
from resultant.score.limits import require_temperature
from resultant.vmf.estimators import unbiased_square


def expected_square_resultant(A: Number, n: Number) -> Tensor:
    r"""Compute :math:`\mathbb E[R_n^2] = A^2 + (1-A^2)/n` (eq:finite-resultant-identity).

    Args:
        A, n: Mean length in [0, 1] of the distribution, and number >= 1 of unit vectors.

    Returns:
        Expectations.

    Example:
        >>> expected_square_resultant(0.5, 4)
        tensor(0.4375, dtype=torch.float64)
    """
    (A, n), dtype = _sample(1, A=A, n=n)
    return (A * A + (1 - A) * (1 + A) / n).to(dtype)


def unbiased_square_resultant(R: Number, n: Number) -> Tensor:
    r"""Compute :math:`U = (nR^2-1)/(n-1)`, whose expectation is A^2 (eq:unbiased-resultant-square).

    Args:
        R, n: Length in [0, 1] of the mean of unit vectors, and their number n >= 2.

    Returns:
        Estimates, negative where R^2 < 1/n.

    Example:
        >>> unbiased_square_resultant(0.5, 3)
        tensor(-0.1250, dtype=torch.float64)
    """
    (R, n), dtype = _sample(2, R=R, n=n)
    return unbiased_square(R, n).to(dtype)


def self_inclusion(A: Number, tau: Number, n: Number) -> Tensor:
    r"""Compute :math:`(1-A^2)/(\tau n)`, the expected increase of the leading score of a query that
    is among the n samples of its class mean (eq:self-inclusion).

    Args:
        A, tau, n: Mean length in [0, 1], temperature > 0 and sample count >= 1 of the class.

    Returns:
        Biases.

    Example:
        >>> self_inclusion(0.6, 0.1, 10)
        tensor(0.6400, dtype=torch.float64)
    """
    (A, n, tau), dtype = _sample(1, A=A, n=n, tau=tau)
    validation.require_in_range("tau", tau, 0.0, rule="> 0 and finite", open_low=True)
    return ((1 - A) * (1 + A) / (tau * n)).to(dtype)


def _sample(least: int, **arguments: Number) -> tuple[list[Tensor], torch.dtype]:
    """Return a mean length, a sample size n and other numbers as tensors, and their dtype."""
    name, length = next(iter(arguments.items()))
    n = arguments["n"]
    if isinstance(n, Tensor) and not n.dtype.is_floating_point:
        arguments["n"] = n.to(length.dtype if isinstance(length, Tensor) else torch.float64)
    values, dtype = validation.tensors(**arguments)
    validation.require_in_range(name, values[0], 0.0, 1.0, rule="between 0 and 1")
    validation.require_in_range("n", values[1], least, rule=f">= {least} and finite")
    return values, dtype


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
    validate_args: Check = None,
) -> LeaveOneOutScores:
    r"""Score queries against their own class, without and with the query in the class.

    The mean of ``included - left_out`` is `self_inclusion` to leading order (eq:self-inclusion).

    Args:
        z, y, tau: Vectors that are among the samples, their labels, and the temperature.
        statistics, estimator: Sums over the samples, and estimator of kappa (see `concentration`).
        weights: Weights [N] that the samples were added with.

    Returns:
        Scores ``left_out`` and ``included`` [N] in float64.

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
        left_out = statistics.left_out(x, own, w[rows], estimator)
        included = state.mu[own], state.kappa[own]
        for q, (mu, kappa) in zip(scores, (left_out, included), strict=True):
            rho, own_tau = (x * mu).sum(-1), tau[own] if tau.dim() else tau
            q[rows] = vmf_score(rho, kappa, own_tau, state.dim, validate_args=False)
    return LeaveOneOutScores(*scores)


@torch.no_grad()
def held_out_state(
    statistics: ClassStatistics, z: Tensor, y: Tensor, *, validate_args: Check = None
) -> ClassState:
    r"""Fit directions to one sample and concentrations to another.

    The concentration of class c solves :math:`A_p(\kappa)=\max\{\bar\rho_c, 0\}` with the mean
    cosine :math:`\bar\rho_c` of held-out vectors and the direction of the class: the maximum of
    their likelihood.

    Args:
        statistics, z, y: Sums of the fitted sample; held-out vectors and labels.

    Returns:
        The state; a class without held-out vectors has its kappa of ``statistics.state("loo")``.

    Example:
        >>> z, y = torch.tensor([[1.0, 0.0], [0.8, 0.6]]), torch.tensor([0, 0])
        >>> statistics = ClassStatistics(1, 2).update(z[:1], y[:1])
        >>> held_out_state(statistics, z[1:], y[1:]).resultant  # the cosine of the two
        tensor([0.8000], dtype=torch.float64)
    """
    require_features(z, statistics.dim, statistics.device, validate_args)
    require_labels(y, len(z), statistics.num_classes, statistics.device, validate_args)
    state = statistics.state("loo")
    total, number = torch.zeros_like(state.kappa), y.bincount(minlength=state.num_classes)
    for rows in chunks.feature_slices(z):
        own = y[rows]
        total.index_add_(0, own, (normalized(z[rows]) * state.mu[own]).sum(-1))
    length = (total / number.clamp_min(1)).clamp(0, 1)
    fitted = capped_concentration(state.dim, length, "mle")
    kappa = torch.where(number > 0, fitted, state.kappa).masked_fill(state.count == 0, 0.0)
    return ClassState(state.mu, kappa, state.count, validate_args=False)
