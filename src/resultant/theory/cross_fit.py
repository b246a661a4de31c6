"""Cross-fitted temperatures (sec:cross-fitted-estimator): gains equalized on one sample are not
equal on another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from resultant._core import validation
from resultant._core.arrays import require_features, require_labels, shape_of
from resultant._core.validation import Check, Number
from resultant.classes.finite_sample import unbiased_square_resultant
from resultant.classes.statistics import (
    ClassState,
    ClassStatistics,
    capped_concentration,
    fit_direction,
)
from resultant.score.limits import require_temperature
from resultant.vmf.estimators import OF_LENGTH, require_estimator


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
        >>> z, y, fold = torch.eye(4), torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 1])
        >>> [s.count.tolist() for s in fold_statistics(z, y, fold, 2, 2)]
        [[1, 1], [1, 1]]
    """
    num_folds = validation.integer("num_folds", num_folds, 2)
    if not isinstance(z, Tensor) or z.dim() != 2:
        raise ValueError(f"expected z [N, p], got {shape_of(z)}")
    require_labels(fold, len(z), num_folds, z.device, validate_args, name="fold")
    require_features(z, z.shape[1], z.device, validate_args)
    require_labels(y, len(z), num_classes, z.device, validate_args)
    empty = ClassStatistics(num_classes, z.shape[1], device=z.device)
    rows = (fold == k for k in range(num_folds))
    return [empty.to(z.device).add(z[own], y[own]) for own in rows]


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
        A_ref: Reference mean length in (0, 1].
        r_min, r_max: Smallest and largest ratio of temperatures, > 0.
        estimator: Estimator of kappa from a length, ``mle``, ``proco`` or ``banerjee``.

    Returns:
        States, mean lengths [K, C] and temperatures [K, C].

    Example:
        >>> z, y = torch.eye(8)[[0, 0, 0, 1]], torch.zeros(4, dtype=torch.int64)
        >>> folds = fold_statistics(z, y, torch.tensor([0, 0, 1, 1]), 1, 2)
        >>> cross_fit_temperature(folds, 0.1, 0.5, r_min=0.5, r_max=2.0).temperature
        tensor([[0.0500],
                [0.2000]], dtype=torch.float64)
    """
    if len(folds) < 2:
        raise ValueError(f"expected two folds or more, got {len(folds)}")
    if not 0 < r_min <= r_max < math.inf:
        got = f"r_min = {r_min} and r_max = {r_max}"
        raise ValueError(f"expected 0 < r_min <= r_max, both finite, got {got}")
    require_estimator(estimator, OF_LENGTH)
    if not 0 < A_ref <= 1:
        raise ValueError(f"expected A_ref in (0, 1], got {A_ref}")
    whole = folds[0].to(folds[0].device)
    for other in folds[1:]:
        whole.merge(other)
    if not torch.equal(whole.weight, whole.count.double()):
        c = int((whole.weight != whole.count).nonzero()[0])
        got = f"weight {float(whole.weight[c]):g} for {int(whole.count[c])} samples in class {c}"
        raise ValueError(f"expected samples without weights, for which U is unbiased, got {got}")
    tau = require_temperature(tau, whole.num_classes, whole.device, True)
    states, resultants = [], []
    for part in folds:
        rest = whole.without(part)
        mu, R = fit_direction(rest.total, rest.weight)
        U = unbiased_square_resultant(R, rest.count.clamp_min(2))
        A = torch.where(rest.count < 2, float(A_ref), U.clamp_min(0).sqrt())
        kappa = capped_concentration(rest.dim, A, estimator).masked_fill(rest.count == 0, 0.0)
        states.append(ClassState(mu, kappa, rest.count, validate_args=False))
        resultants.append(A)
    A = torch.stack(resultants)
    return CrossFit(tuple(states), A, tau * (A / A_ref).clamp(r_min, r_max))
