r"""How near complete equalization is to cosine prototypes (app:cosine-equivalence)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from resultant._core import chunks
from resultant.analysis.result import Result, UnansweredError
from resultant.analysis.sampling import sample_rows
from resultant.analysis.space import FrozenSpace, Progress
from resultant.classes.realization import realize
from resultant.classes.rule import Rule
from resultant.decisions.certificates import certificate, gradient_bound, loss_bound
from resultant.decisions.gradients import gradient_cosines, loss_gradient, stacked_relative_error
from resultant.decisions.margins import joint_leading

# Rounding that a bound may be exceeded by, in proportion.
ROUNDING = 1e-9


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
    ``cosines`` [n] the gradients' cosines (NaN where one vanishes), ``gradient_bound_mean`` that
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


@torch.no_grad()
def cosine_agreement(
    space: FrozenSpace, *, chunk: int | None = None, progress: Progress | None = None
) -> CosineAgreement:
    """Where Pure Angular at beta = 0 and the cosine rule disagree, and where they cannot, at zero
    prior."""
    columns = []
    for at, z, _ in space.queries(chunk=chunk):
        columns.append(compared(space, z))
        if progress is not None:
            progress("cosine", at.stop / len(space.test))
    return agreement(space, *(torch.cat(column).cpu() for column in zip(*columns, strict=True)))


@torch.no_grad()
def compared(space: FrozenSpace, z: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    r"""Of unit queries ``z`` [n, p]: :math:`\bar gm_{\cos}`, :math:`D`, whether certified, and the
    predictions of cosine and Pure Angular, [n] each."""
    height = chunks.rows_per_chunk(8 * space.num_classes, chunks.ROW_BYTES, space.device)
    found = certificate(z, space.state, space.tau, chunk=height, validate_args=False)
    return found.margin, found.residual_range, found.certified, found.prediction, found.angular


def agreement(
    space: FrozenSpace,
    margin: Tensor,
    residual: Tensor,
    certified: Tensor,
    cosine: Tensor,
    angular: Tensor,
) -> CosineAgreement:
    """What `compared` says of all held-out queries, [N] each on the CPU, together."""
    differ, N, gbar = cosine != angular, len(margin), float(space.gain.mean())
    gap = margin / gbar
    # By rank, so that the deciles are even whatever the ties.
    decile = torch.empty(N, dtype=torch.int64)
    decile[gap.argsort(stable=True)] = torch.arange(N) * 10 // N
    by_decile = torch.bincount(decile[differ], minlength=10)
    return CosineAgreement(
        queries=N,
        agreement=float((~differ).double().mean()),
        disagreements=int(differ.sum()),
        cosine_accuracy=float((cosine == space.test_labels).double().mean()),
        angular_accuracy=float((angular == space.test_labels).double().mean()),
        decile_disagreements=by_decile,
        decile_edges=_quantiles(gap, 11),
        low_margin=int(by_decile[0]),
        certified=int(certified.sum()),
        coverage=float(certified.double().mean()),
        certified_disagreements=int((certified & differ).sum()),
        mean_gain=gbar,
        margin_quantiles=_quantiles(margin, 101),
        residual_quantiles=_quantiles(residual, 101),
    )


def _quantiles(values: Tensor, number: int) -> Tensor:
    """Evenly spaced quantiles [number], the extremes among them; nearest values, not means."""
    places = torch.linspace(0, len(values) - 1, number, dtype=torch.float64).round().long()
    return values.sort().values[places]


@torch.no_grad()
def compare_gradients(
    space: FrozenSpace, queries: int = 1024, *, gamma: float = 0.0, seed: int = 0
) -> GradientComparison:
    """Losses and gradients of Pure Angular and cosine on random calibration queries, or held-out
    ones where there is no split; all in float64. Both rules get the offset of ``gamma``."""
    pool, state, tau, offset = space.calibration, space.state, space.tau, space.offset(gamma)
    if pool is None or not len(pool):
        source, rows = "held-out", sample_rows(len(space.test), queries, seed)
        z, y = space.units("test", rows), space.test_labels[rows]
    else:
        source, rows = "calibration", pool[sample_rows(len(pool), queries, seed)]
        z, y = space.units("train", rows), space.labels[rows]
    y = y.to(z.device)

    def gradient(realization: str) -> Tensor:
        rule = realize(state, Rule(tau, realization, 0.0, offset=offset))
        return loss_gradient(z, y, rule, validate_args=False)

    loss, step = (
        bound(z, y, state, tau, offset=offset, validate_args=False)
        for bound in (loss_bound, gradient_bound)
    )
    angular, cosine, native = (gradient(name) for name in ("angular", "cosine", "native"))
    if not native.any():
        raise UnansweredError("expected gradients that are not all zero, got zeros")
    cosines = gradient_cosines(angular, cosine)
    host, offset = space.host.state, space.host.offset(gamma)
    leading = [realize(host, Rule(tau, offset=offset)).linear()]
    if space.dim >= 3:
        leading.append(joint_leading(host, Rule(tau, offset=offset)))
    errors = [
        stacked_relative_error(
            native, loss_gradient(z, y, rule.to(space.device), validate_args=False)
        )
        for rule in leading
    ]
    held = (b.difference <= b.bound * (1 + ROUNDING) + ROUNDING for b in (loss, step))
    return GradientComparison(
        queries=len(rows),
        source=source,
        rows=rows,
        loss_mean=float(loss.difference.mean()),
        loss_largest=float(loss.difference.max()),
        loss_bound_mean=float(loss.bound.mean()),
        gradient_error=stacked_relative_error(angular, cosine),
        median_cosine=float(cosines.nanmedian()),
        smallest_cosine=float(cosines.nan_to_num(nan=1.0).min()),
        cosines=cosines,
        gradient_bound_mean=float(step.bound.mean()),
        bounds_held=all(bool(h.all()) for h in held),
        linear_error=errors[0],
        joint_error=errors[1] if len(errors) > 1 else None,
    )
