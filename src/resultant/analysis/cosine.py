r"""The distance of complete equalization from cosine prototypes (app:cosine-equivalence)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from resultant.analysis.metrics import sample_rows
from resultant.analysis.plain import Result, UnansweredError
from resultant.analysis.space import FrozenSpace
from resultant.classes.realization import Realization, realize
from resultant.classes.rule import Rule
from resultant.decisions.certificates import certificate, gradient_bound, loss_bound
from resultant.decisions.gradients import gradient_cosines, loss_gradient, stacked_relative_error
from resultant.theory.softmax import joint_leading

# Relative rounding that a bound allows for.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class CosineAgreement(Result):
    r"""Pure Angular at beta = 0 against the cosine rule on every held-out query, in float64
    (tab:cosine-diagnostics).

    A query is certified if :math:`\bar gm_{\cos}>D`, with the cosine gap :math:`m_{\cos}`.
    """

    queries: int
    agreement: float
    disagreements: int
    low_margin: int  #: disagreements in the first decile of the cosine gap
    certified: int  #: certified queries
    coverage: float  #: fraction of certified queries
    certified_disagreements: int  #: zero if the theory holds
    mean_gain: float
    margin_quantiles: Tensor  #: quantiles [101] of :math:`\bar gm_{\cos}`
    residual_quantiles: Tensor  #: quantiles [101] of :math:`D`


@dataclass(frozen=True, eq=False)
class GradientComparison(Result):
    r"""Losses and tangent gradients of Pure Angular and cosine on the same queries
    (tab:cosine-gradients, sec:gradient-protocol), both at beta = 0.

    ``gradient_error`` is :math:`100\|G_{angular}-G_{cos}\|_F/\|G_{angular}\|_F` in percent, and so
    are the errors of the gradients of the leading native scores. ``bounds_held`` is true if every
    query keeps the bound :math:`2\epsilon` of the loss and :math:`2\bar g\epsilon+2\eta` of the
    gradient.
    """

    queries: int
    source: str  #: ``held-out`` or ``calibration``
    rows: Tensor  #: indices [n] of the queries in the source
    loss_mean: float  #: mean of :math:`|\Delta L|`
    gradient_error: float
    median_cosine: float
    cosines: Tensor  #: cosines [n] of the gradients, NaN if one of them vanishes
    bounds_held: bool
    linear_error: float  #: error of the linear mean
    joint_error: float | None  #: error of the joint leading score; None for p = 2


@torch.no_grad()
def cosine_agreement(space: FrozenSpace) -> CosineAgreement:
    """Compare the predictions of Pure Angular at beta = 0 and of cosine, at zero prior.

    Example:
        >>> z, y = torch.eye(4).repeat(9, 1) + 0.1 * torch.rand(36, 4), torch.arange(4).repeat(9)
        >>> cosine_agreement(FrozenSpace.fit(z, y, z, y)).certified_disagreements
        0
    """
    columns, state = [], space.state.to(space.device)
    for _, z, _ in space.queries():
        c = certificate(z, state, space.tau, validate_args=False)
        columns.append((c.margin, c.residual_range, c.certified, c.prediction != c.angular))
    margin, residual, certified, differ = (
        torch.cat(column).cpu() for column in zip(*columns, strict=True)
    )
    # By rank, so that ties leave the deciles even.
    first = margin.argsort(stable=True)[: -(-len(margin) // 10)]
    return CosineAgreement(
        queries=len(margin),
        agreement=float((~differ).double().mean()),
        disagreements=int(differ.sum()),
        low_margin=int(differ[first].sum()),
        certified=int(certified.sum()),
        coverage=float(certified.double().mean()),
        certified_disagreements=int((certified & differ).sum()),
        mean_gain=float(space.gain.mean()),
        margin_quantiles=_quantiles(margin),
        residual_quantiles=_quantiles(residual),
    )


def _quantiles(values: Tensor) -> Tensor:
    """Return evenly spaced quantiles [101] with both extremes, without interpolation."""
    index = torch.linspace(0, len(values) - 1, 101, dtype=torch.float64).round().long()
    return values.sort().values[index]


@torch.no_grad()
def compare_gradients(
    space: FrozenSpace, queries: int = 1024, *, gamma: float = 0.0, seed: int = 0
) -> GradientComparison:
    """Compare losses and gradients of Pure Angular and cosine on random queries, in float64.

    Args:
        queries: The number of queries, of the calibration rows if any, or else held-out.
        gamma: Multiple of the log prior that both rules add.
        seed: Seed of the draw.

    Raises:
        UnansweredError: All gradients vanish.

    Example:
        >>> z, y = torch.eye(4).repeat(9, 1) + 0.1 * torch.rand(36, 4), torch.arange(4).repeat(9)
        >>> compare_gradients(FrozenSpace.fit(z, y, z, y)).bounds_held
        True
    """
    pool, tau = space.calibration, space.tau
    state, offset = space.state.to(space.device), space.offset(gamma)
    if pool is None or not len(pool):
        source, rows = "held-out", sample_rows(len(space.test), queries, seed)
        z, y = space.units("test", rows), space.test_labels[rows].to(space.device)
    else:
        source, rows = "calibration", pool[sample_rows(len(pool), queries, seed)]
        z, y = space.units("train", rows), space.labels[rows].to(space.device)
    there = None if offset is None else offset.to(space.device)

    def gradient(scores: Realization) -> Tensor:
        return loss_gradient(z, y, scores.to(space.device), validate_args=False)

    loss, step = (
        bound(z, y, state, tau, offset=there, validate_args=False)
        for bound in (loss_bound, gradient_bound)
    )
    angular, cosine, native = (
        gradient(realize(state, Rule(tau, name, offset=there)))
        for name in ("angular", "cosine", "native")
    )
    if not native.any():
        raise UnansweredError("expected gradients that are not all zero, got zeros")
    cosines, rule = gradient_cosines(angular, cosine), Rule(tau, offset=offset)
    linear, joint = gradient(realize(space.state, rule).linear()), None
    if space.dim >= 3:
        leading = gradient(joint_leading(space.state, rule))
        joint = stacked_relative_error(native, leading)
    held = (b.difference <= b.bound * (1 + ROUNDING) + ROUNDING for b in (loss, step))
    return GradientComparison(
        queries=len(rows),
        source=source,
        rows=rows,
        loss_mean=float(loss.difference.mean()),
        gradient_error=stacked_relative_error(angular, cosine),
        median_cosine=float(cosines.nanmedian()),
        cosines=cosines,
        bounds_held=all(bool(h.all()) for h in held),
        linear_error=stacked_relative_error(native, linear),
        joint_error=joint,
    )
