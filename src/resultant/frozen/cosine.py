r"""How near complete equalization is to cosine prototypes (app:cosine-equivalence)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from resultant.frozen.result import Result


@dataclass(frozen=True, eq=False)
class CosineAgreement(Result):
    r"""Pure Angular at beta = 0 against the cosine rule on every held-out query, in float64
    (tab:cosine-diagnostics).

    ``decile_disagreements`` [10] counts disagreements by decile of the cosine gap
    :math:`m_{\cos}`, smallest first, between ``decile_edges`` [11]; ``low_margin`` is the first.
    ``certified`` queries have :math:`\bar gm_{\cos}>D`; ``certified_disagreements`` is zero if the
    theory holds. ``margin_quantiles`` and ``residual_quantiles`` [101] are those of
    :math:`\bar gm_{\cos}` and :math:`D`.
    """

    queries: int
    agreement: float
    disagreements: int
    cosine_accuracy: float
    angular_accuracy: float
    decile_disagreements: Tensor
    decile_edges: Tensor
    low_margin: int
    certified: int
    coverage: float
    certified_disagreements: int
    mean_gain: float
    margin_quantiles: Tensor
    residual_quantiles: Tensor


@dataclass(frozen=True, eq=False)
class GradientComparison(Result):
    r"""Losses and tangent gradients of Pure Angular and cosine on the same queries
    (tab:cosine-gradients, sec:gradient-protocol), both at beta = 0.

    ``source`` is ``held-out`` or ``calibration``, ``rows`` [n] which of its rows. ``loss_mean`` and
    ``loss_largest`` are of :math:`|\Delta L|`, ``loss_bound_mean`` that of :math:`2\epsilon`.
    ``gradient_error`` is :math:`100\|G_{angular}-G_{cos}\|_F/\|G_{angular}\|_F` in percent,
    ``cosines`` [n] the gradients' cosines (NaN where one vanishes), ``gradient_bound_mean`` the mean
    of :math:`2\bar g\epsilon+2\eta`, ``bounds_held`` whether every query keeps both bounds.
    ``linear_error`` and ``joint_error`` compare, in percent, the native gradient with those of its
    linear mean and of the joint leading score; ``joint_error`` is None for p = 2.
    """

    queries: int
    source: str
    rows: Tensor
    loss_mean: float
    loss_largest: float
    loss_bound_mean: float
    gradient_error: float
    median_cosine: float
    smallest_cosine: float
    cosines: Tensor
    gradient_bound_mean: float
    bounds_held: bool
    linear_error: float
    joint_error: float | None
