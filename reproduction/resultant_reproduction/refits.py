"""Frozen features with other statistics: training rows left out of their own class, and
temperatures by cross-fitting (eq:cross-fit-temperature)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from resultant.analysis import FrozenSpace, Policy, decide
from resultant.analysis.metrics import identity_ranks, sample_rows
from resultant.classes.finite_sample import leave_one_out_scores, unbiased_square_resultant
from resultant.classes.realization import class_scores, target_temperature
from resultant.classes.statistics import ClassState, ClassStatistics
from resultant.classifiers.inputs import Sample
from resultant.classifiers.leave_one_out import left_out_fold
from resultant.theory.cross_fit import CrossFit, cross_fit_temperature
from resultant_reproduction.plan import BOTH
from resultant_reproduction.stats import over_queries, resampled
from resultant_reproduction.value import Value
from resultant_reproduction.verdicts import Estimate

# Cross-fitting. The paper gives no numbers; a clip at a factor of two leaves most classes alone.
FOLDS = 5
CLIP = (0.5, 2.0)

# Largest number of training rows that are scored.
MOST_ROWS = 20_000
# Rows that are scored at a time, each against classes of its own.
CHUNK = 2048


class LeftOut(NamedTuple):
    """Effect of removing training rows from the statistics of their own class."""

    rows: int
    # Own score with the row less that without it, over rows.
    increment: Value
    # Right decisions with and without the row (%), and their difference (points), by rule.
    included: dict[str, float]
    left_out: dict[str, float]
    change: dict[str, Estimate]
    # Pure Angular less native with and without the row (points), and the difference of both.
    added_included: Estimate
    added_left_out: Estimate
    added_change: Estimate


@torch.no_grad()
def leave_out(space: FrozenSpace, most: int = MOST_ROWS, seed: int = 0) -> LeftOut:
    """Decide training rows of classes of two or more, with and without themselves in the
    statistics, by native and by Pure Angular at beta = 0. Without a row its class has another
    direction, kappa and gain, and the mean gain changes too."""
    rows = scored_rows(space, most, seed)
    x, y = space.units("train", rows), space.labels[rows].to(space.device)
    scores = leave_one_out_scores(x, y, space.statistics, space.tau, space.estimator)
    moved = scores.included - scores.left_out
    before = decide(_of_training(space, rows), [Policy(rule) for rule in BOTH])
    included = {rule: before.right(Policy(rule)) for rule in BOTH}
    left = _right_left_out(space, Sample(x, y, torch.ones_like(moved), space.num_classes))
    more, usual = (hit["angular"].double() - hit["native"].double() for hit in (left, included))
    return LeftOut(
        rows=len(rows),
        increment=Value(float(moved.mean()), float(moved.std()), len(rows)),
        included={rule: percent_right(hit) for rule, hit in included.items()},
        left_out={rule: percent_right(hit) for rule, hit in left.items()},
        change={rule: over_queries(left[rule], included[rule], 100.0) for rule in BOTH},
        added_included=over_queries(included["angular"], included["native"], 100.0),
        added_left_out=over_queries(left["angular"], left["native"], 100.0),
        added_change=over_queries(more, usual, 100.0),
    )


def _right_left_out(space: FrozenSpace, sample: Sample) -> dict[str, Tensor]:
    """Right decisions [N] by rule on rows, each against the classes without this row."""
    right: dict[str, list[Tensor]] = {rule: [] for rule in BOTH}
    for rows in torch.arange(len(sample.y)).split(CHUNK):
        fold = left_out_fold(sample.at(rows), space.statistics, space.estimator)
        for rule, hits in right.items():
            hits.append(fold.scores(rule, space.tau, 0.0, 0.0).argmax(-1) == fold.y)
    return {rule: torch.cat(hits) for rule, hits in right.items()}


class CrossFitted(NamedTuple):
    """Equalization by class temperatures, less native in points of accuracy."""

    rows: int
    folds: int
    # Number of clipped temperatures, of ``folds`` times the number of classes.
    clipped: int
    # On training rows: fitted on the same rows, out of fold, and so by eq:cross-fit-temperature.
    in_sample: Estimate
    plain: Estimate
    crossed: Estimate
    # On held-out queries: plain, by eq:cross-fit-temperature, and the difference of both.
    held_out: Estimate
    corrected: Estimate
    correction: Estimate
    # Standard deviation over mean of the gains of held-out queries, at the temperatures of native,
    # plain and corrected.
    spread: dict[str, Estimate]


@torch.no_grad()
def cross_fitted(space: FrozenSpace, folds: int = FOLDS, seed: int = 0) -> CrossFitted:
    """Equalize where the classes were not fitted. Every class needs two fitting rows, so that some
    rows are outside each fold."""
    few = (space.state.count < 2).nonzero().squeeze(1)
    if len(few):
        got = f"{int(space.state.count[few[0]])} in class {int(few[0])}"
        raise ValueError(f"expected two fitting rows or more of each class, got {got}")
    C, tau, A_ref = space.num_classes, space.tau, float(space.state.resultant.mean())
    fold = stratified(space, folds, seed)
    parts = []
    for k in range(folds):
        rows = (fold == k).nonzero().squeeze(1)
        part = ClassStatistics(C, space.dim).add(space.train[rows], space.labels[rows])
        parts.append(part.to(space.device))
    fit = _crossed(parts, tau, A_ref, space.estimator)
    whole = space.statistics
    nothing = ClassStatistics(C, space.dim, device=space.device)
    corrected = _crossed([nothing, whole], tau, A_ref, space.estimator)
    rows = scored_rows(space, MOST_ROWS, seed)
    own = decide(_of_training(space, rows), [Policy("native"), Policy("temperature")])
    out = {name: torch.zeros(len(rows), dtype=torch.bool) for name in ("native", "plain", "fit")}
    for k, part in enumerate(parts):
        at = (fold[rows] == k).nonzero().squeeze(1)
        x, y = space.units("train", rows[at]), space.labels[rows[at]]
        rest = whole.without(part).state(space.estimator)
        out["native"][at] = _right(x, y, rest, tau, "native")
        out["plain"][at] = _right(x, y, rest, tau, "temperature")
        out["fit"][at] = _right(x, y, fit.states[k], fit.temperature[k], "native")
    held = decide(space, [Policy("native"), Policy("temperature")])
    native, warmed = (held.right(Policy(rule)) for rule in ("native", "temperature"))
    state, warm = corrected.states[0], corrected.temperature[0]
    fresh = torch.cat([_right(z, y.cpu(), state, warm, "native") for _, z, y in space.queries()])
    used = {
        "native": torch.full_like(warm, tau),
        "plain": target_temperature(space.state, tau, 0.0),
        "corrected": warm,
    }
    return CrossFitted(
        rows=len(rows),
        folds=folds,
        clipped=int(((fit.temperature - tau * fit.resultant / A_ref).abs() > 1e-12 * tau).sum()),
        in_sample=over_queries(own.right(Policy("temperature")), own.right(Policy("native")), 100),
        plain=over_queries(out["plain"], out["native"], 100.0),
        crossed=over_queries(out["fit"], out["native"], 100.0),
        held_out=over_queries(warmed, native, 100.0),
        corrected=over_queries(fresh, native, 100.0),
        correction=over_queries(fresh, warmed, 100.0),
        spread={name: gain_spread(space, t) for name, t in used.items()},
    )


def gain_spread(space: FrozenSpace, tau: Tensor) -> Estimate:
    r"""Spread over classes of :math:`\hat A_c/\tau_c`, with the unbiased lengths of the held-out
    queries; the interval resamples classes."""
    held = ClassStatistics(space.num_classes, space.dim, device=space.device)
    for _, z, y in space.queries(dtype=torch.float64):
        held.update(z, y)
    able = held.count >= 2
    U = unbiased_square_resultant(held.mean_length[able], held.count[able])
    g = (U.clamp_min(0).sqrt() / tau[able]).cpu()
    return resampled(len(g), lambda at: float(g[at].std(correction=0) / g[at].mean()))


def scored_rows(space: FrozenSpace, most: int, seed: int) -> Tensor:
    """Draw up to ``most`` fitting rows of classes of two or more, in order."""
    able = (space.state.count >= 2).cpu()[space.labels]
    if space.fitting is not None:
        able &= space.fitting
    rows = able.nonzero().squeeze(1)
    return rows[sample_rows(len(rows), most, seed)]


def stratified(space: FrozenSpace, folds: int, seed: int) -> Tensor:
    """Assign fitting rows to folds [N], evenly within each class, and -1 to other rows; rows of one
    identity share a fold."""
    rank, _, number = identity_ranks(space.labels, space.identities, seed)
    fold = (rank % folds)[number]
    return fold if space.fitting is None else fold.masked_fill(~space.fitting, -1)


def _crossed(parts: list[ClassStatistics], tau: float, A_ref: float, estimator: str) -> CrossFit:
    low, high = CLIP
    return cross_fit_temperature(parts, tau, A_ref, r_min=low, r_max=high, estimator=estimator)


def _right(x: Tensor, y: Tensor, state: ClassState, tau: Tensor | float, rule: str) -> Tensor:
    scores = class_scores(x.to(state.mu.dtype), state, tau, rule)
    return scores.argmax(1).cpu() == y


def _of_training(space: FrozenSpace, rows: Tensor) -> FrozenSpace:
    """The same classes with training rows as queries."""
    return FrozenSpace(
        *(space.name, space.train, space.labels, space.train[rows], space.labels[rows]),
        *(space.fitting, space.identities, space.statistics),
        *(space.tau, space.estimator, space.dtype),
    )


def percent_right(hits: Tensor) -> float:
    """Share of hits [N] in percent."""
    return 100 * float(hits.double().mean())
