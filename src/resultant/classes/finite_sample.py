"""Effects of a finite sample on class statistics, and their corrections (sec:self-inclusion,
sec:cross-fitted-estimator)."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from resultant._core import memory, validation
from resultant._core.arrays import Weights, normalized, require_features, require_labels, shape_of
from resultant._core.validation import Check, Number
from resultant.classes.statistics import ClassState, ClassStatistics
from resultant.score.exact import vmf_score
from resultant.score.limits import require_temperature
from resultant.vmf.estimators import (
    OF_LENGTH,
    fit_direction,
    fit_kappa,
    require_estimator,
    unbiased_square,
)


def expected_square_resultant(A: Number, n: Number, *, validate_args: Check = None) -> Tensor:
    r"""Compute :math:`\mathbb E[R_n^2] = A^2 + (1-A^2)/n` (eq:finite-resultant-identity).

    Args:
        A, n: Mean length in [0, 1] of the distribution, and number >= 1 of unit vectors.

    Returns:
        Expectations.

    Example:
        >>> expected_square_resultant(0.5, 4)
        tensor(0.4375, dtype=torch.float64)
    """
    (A, n), dtype = _sample(validate_args, 1, A=A, n=n)
    return (A * A + (1 - A) * (1 + A) / n).to(dtype)


def unbiased_square_resultant(R: Number, n: Number, *, validate_args: Check = None) -> Tensor:
    r"""Compute :math:`U = (nR^2-1)/(n-1)`, whose expectation is A^2 (eq:unbiased-resultant-square).

    Args:
        R, n: Length in [0, 1] of the mean of unit vectors, and their number n >= 2.

    Returns:
        Estimates, negative where R^2 < 1/n.

    Example:
        >>> unbiased_square_resultant(0.5, 3)
        tensor(-0.1250, dtype=torch.float64)
    """
    (R, n), dtype = _sample(validate_args, 2, R=R, n=n)
    return unbiased_square(R, n).to(dtype)


def self_inclusion(A: Number, tau: Number, n: Number, *, validate_args: Check = None) -> Tensor:
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
    (A, n, tau), dtype = _sample(validate_args, 1, A=A, n=n, tau=tau)
    if validation.should_validate(validate_args, tau):
        validation.require_in_range("tau", tau, 0.0, rule="> 0 and finite", open_low=True)
    return ((1 - A) * (1 + A) / (tau * n)).to(dtype)


def _sample(validate: Check, least: int, **arguments: Number) -> tuple[list[Tensor], torch.dtype]:
    """Return a mean length, a sample size n and other numbers as tensors, and their dtype."""
    name, length = next(iter(arguments.items()))
    n = arguments["n"]
    if isinstance(n, Tensor) and not n.dtype.is_floating_point:
        arguments["n"] = n.to(length.dtype if isinstance(length, Tensor) else torch.float64)
    values, dtype = validation.tensors(**arguments)
    if validation.should_validate(validate, *values):
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
    weights: Weights | None = None,
    validate_args: Check = None,
) -> LeaveOneOutScores:
    """Score queries against their own class, without and with the query in the class: the mean
    increase is `self_inclusion` to leading order (eq:self-inclusion).

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
    for rows in memory.feature_slices(z):
        x, own = normalized(z[rows]), y[rows]
        left_out = statistics.left_out(x, own, w[rows], estimator)
        own_tau = tau[own] if tau.dim() else tau
        included = state.mu[own], state.kappa[own]
        for q, (mu, kappa) in zip(scores, (left_out, included), strict=True):
            q[rows] = vmf_score((x * mu).sum(-1), kappa, own_tau, state.dim, validate_args=False)
    return LeaveOneOutScores(*scores)


@torch.no_grad()
def held_out_state(
    statistics: ClassStatistics, z: Tensor, y: Tensor, *, validate_args: Check = None
) -> ClassState:
    r"""Fit directions to one sample and concentrations to another, by the maximum of its
    likelihood: :math:`A_p(\kappa_c)=\max\{\bar\rho_c, 0\}` with the mean cosine
    :math:`\bar\rho_c` of held-out vectors and the direction of the class.

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
    state = statistics.state("loo")
    held_out = ClassStatistics(state.num_classes, state.dim, device=statistics.device)
    held_out.update(z, y, validate_args=validate_args)
    cosine = (held_out.total * state.mu).sum(-1) / held_out.count.clamp_min(1)
    fitted = fit_kappa(state.dim, cosine.clamp(0, 1), "mle")
    kappa = torch.where(held_out.count > 0, fitted, state.kappa).masked_fill(state.count == 0, 0.0)
    return ClassState(state.mu, kappa, state.count, validate_args=False)


def fold_statistics(
    z: Tensor,
    y: Tensor,
    fold: Tensor,
    num_classes: int,
    num_folds: int,
    *,
    validate_args: Check = None,
) -> list[ClassStatistics]:
    """Compute the `ClassStatistics` of each fold of a sample.

    Args:
        z, y, fold: Vectors, labels, and indices [N] int64 of folds.
        num_classes, num_folds: Number of classes, and of folds >= 2.

    Returns:
        One `ClassStatistics` per fold.

    Example:
        >>> [s.count.tolist() for s in fold_statistics(z, y, torch.tensor([0, 1, 0]), 3, 2)]
        [[1, 0, 1], [0, 1, 0]]
    """
    num_folds = validation.integer("num_folds", num_folds, 2)
    if not isinstance(z, Tensor) or z.dim() != 2:
        raise ValueError(f"expected z [N, p], got {shape_of(z)}")
    require_labels(fold, len(z), num_folds, z.device, validate_args, name="fold")
    require_features(z, z.shape[1], z.device, validate_args)
    require_labels(y, len(z), num_classes, z.device, validate_args)
    folds = [ClassStatistics(num_classes, z.shape[1], device=z.device) for _ in range(num_folds)]
    return [empty.add(z[fold == k], y[fold == k]) for k, empty in enumerate(folds)]


class CrossFit(NamedTuple):
    """Fits to the other folds for each of K folds: states, A [K, C] and tau [K, C]."""

    states: tuple[ClassState, ...]
    resultant: Tensor
    temperature: Tensor


def cross_fit_temperature(
    folds: Sequence[ClassStatistics],
    tau: Number,
    A_ref: float,
    *,
    r_min: float,
    r_max: float,
    estimator: str = "mle",
) -> CrossFit:
    r"""Compute cross-fitted temperatures that equalize the leading gain at A_ref/tau.

    Without fold k, :math:`\widehat A_c=\sqrt{\max\{U_c,0\}}` with U of `unbiased_square_resultant`,
    A_ref for a class of fewer than two samples, and :math:`\tau_c=\tau\,\mathrm{clip}(\widehat
    A_c/A_{ref}, r_{min}, r_{max})` (eq:cross-fit-temperature). The state has the kappa fitted to
    :math:`\widehat A`: ``class_scores(z_k, states[k], temperature[k], "native")`` scores fold k.

    Args:
        folds, tau: Statistics of K >= 2 folds, without weights, and the temperature.
        A_ref, r_min, r_max: Reference mean length in (0, 1], and range of tau_c/tau, > 0.
        estimator: Estimator of kappa from a length, ``mle``, ``proco`` or ``banerjee``.

    Returns:
        States, mean lengths [K, C] and temperatures [K, C].

    Example:
        >>> z, y = torch.eye(8)[[0, 0, 0, 1]], torch.zeros(4, dtype=torch.int64)
        >>> folds = fold_statistics(z, y, torch.tensor([0, 0, 1, 1]), 1, 2)
        >>> cross_fit_temperature(folds, 0.1, 0.5, r_min=0.5, r_max=2.0).temperature.T
        tensor([[0.0500, 0.2000]], dtype=torch.float64)
    """
    if len(folds) < 2:
        raise ValueError(f"expected two folds or more, got {len(folds)}")
    if not 0 < r_min <= r_max < math.inf:
        got = f"r_min = {r_min} and r_max = {r_max}"
        raise ValueError(f"expected 0 < r_min <= r_max, both finite, got {got}")
    require_estimator(estimator, OF_LENGTH)
    validation.require_in_range("A_ref", A_ref, 0.0, 1.0, rule="in (0, 1]", open_low=True)
    whole = folds[0].to(folds[0].device)
    for other in folds[1:]:
        whole.merge(other)
    for c in (whole.weight != whole.count).nonzero().flatten().tolist()[:1]:
        got = f"weight {float(whole.weight[c]):g} for {int(whole.count[c])} samples in class {c}"
        raise ValueError(f"expected samples without weights, for which U is unbiased, got {got}")
    tau = require_temperature(tau, whole.num_classes, whole.device, True)
    states, resultants = [], []
    for part in folds:
        rest = whole.without(part)
        mu, R = fit_direction(rest.total, rest.weight)
        U = unbiased_square(R, rest.count.clamp_min(2))
        A = torch.where(rest.count < 2, float(A_ref), U.clamp_min(0).sqrt())
        kappa = fit_kappa(rest.dim, A, estimator).masked_fill(rest.count == 0, 0.0)
        states.append(ClassState(mu, kappa, rest.count, validate_args=False))
        resultants.append(A)
    A = torch.stack(resultants)
    return CrossFit(tuple(states), A, tau * (A / A_ref).clamp(r_min, r_max))
