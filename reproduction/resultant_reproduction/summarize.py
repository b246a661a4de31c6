"""Summaries of a frozen analysis, kept in records so that features are not needed again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from resultant.analysis import (
    Analysis,
    BoundaryDisplacement,
    FrozenSpace,
    SameState,
    analyze_space,
    intercept_drift,
    same_state,
)
from resultant.analysis.plain import plain
from resultant.classes.rule import REALIZATIONS
from resultant.training.evaluation import FROZEN_FITS, FROZEN_TEMPERATURE

# Strengths of the grid; direct temperature is undefined for some of them.
BETAS = (-0.5, 0.0, 0.5, 1.0, 1.5, 2.0)
SPACES = ("encoder", "projection")

# Questions that tables and claims read.
QUESTIONS = ("gains", "grid", "cosine", "gradients", "boundaries", "margins", "intercepts")
QUESTIONS += ("same_state",)


def summarize(a: Analysis) -> dict[str, Any]:
    """Summarize an analysis for the frozen tables and claims, in JSON types: accuracies as
    fractions, gradient errors in percent, angles in degrees."""
    summary: dict[str, Any] = {"tau": a.space.tau, "estimator": a.space.estimator}
    if a.grid is not None:
        points = {rule: a.grid.point(rule) for rule in REALIZATIONS}
        summary["accuracy"] = {rule: point.accuracy for rule, point in points.items()}
        summary["nll"] = {rule: point.nll for rule, point in points.items()}
        summary["grid"] = {
            f"{p.realization} {p.beta:g} {p.gamma:g}": p.accuracy
            for p in a.grid.points
            if p.realization in ("native", "temperature", "angular") and p.accuracy is not None
        }
    if a.cosine is not None:
        names = "queries agreement disagreements low_margin certified certified_disagreements"
        summary["cosine"] = _taken(a.cosine, names)
    if a.gradients is not None:
        names = "loss_mean gradient_error median_cosine bounds_held linear_error joint_error"
        summary["gradients"] = _taken(a.gradients, names)
    if a.boundaries is not None:
        summary["boundaries"] = {
            "pairs": len(a.boundaries.pairs),
            "tally": a.boundaries.tally,
            "displacements": _displacements(a.boundaries),
            **{
                name: {
                    "comparable": p.comparable,
                    "mae": p.mean_absolute_degrees,
                    "largest": p.largest_degrees,
                    "same_direction": p.same_direction,
                }
                for name, p in a.boundaries.predicted.items()
            },
        }
    if a.margins is not None:
        summary["margins"] = _taken(a.margins, "incidences agreement coverage certified_wrong")
    if a.gains is not None:
        summary["gains"] = _taken(a.gains, "mean standard_deviation minimum maximum")
    if a.intercepts is not None:
        summary["intercepts"] = a.intercepts.largest
    if a.same_state is not None:
        summary["same_state"] = _rules(a.same_state)
    return plain(summary)


def _taken(a: object, names: str) -> dict[str, Any]:
    return {name: getattr(a, name) for name in names.split()}


def _displacements(b: BoundaryDisplacement) -> dict[str, list[float]]:
    """Displacements of the pairs with one boundary before and after, exact and by the leading
    score, in degrees to five digits."""
    shifts = {"exact": b.shift_degrees, "leading": b.predicted["joint_leading"].shift_degrees}
    both = ~(shifts["exact"].isnan() | shifts["leading"].isnan())
    return {name: [float(f"{v:.5g}") for v in x[both].tolist()] for name, x in shifts.items()}


def _rules(state: SameState) -> dict[str, dict[str, float]]:
    names = "cross_entropy accuracy distinct"
    return {row.realization: _taken(row, names) for row in state.rows}


def summarize_state(space: FrozenSpace, gamma: float) -> dict[str, Any]:
    """Summarize sec:same-state-diagnostic in JSON types: rules on the first held-out queries, and
    the class with the largest intercept drift."""
    state = same_state(space, gamma=gamma)
    drift = intercept_drift(space).largest
    return plain({"same_state": _rules(state), "intercepts": drift, "focus": state.focus})


def summaries(
    train: Mapping[str, Tensor], labels: Tensor, test: Mapping[str, Tensor], test_labels: Tensor
) -> dict[str, dict[str, dict[str, Any]]]:
    """Summarize each space and estimator, for features [N, p] by name of the space."""
    summary: dict[str, dict[str, dict[str, Any]]] = {}
    for name in train:
        for estimator in FROZEN_FITS:
            space = fit_space(train[name], labels, test[name], test_labels, name, estimator)
            answers = analyze_space(space, QUESTIONS, betas=BETAS)
            summary.setdefault(name, {})[estimator] = summarize(answers)
    return summary


def fit_space(
    train: Tensor,
    labels: Tensor,
    test: Tensor,
    test_labels: Tensor,
    name: str,
    estimator: str = FROZEN_FITS[0],
) -> FrozenSpace:
    """Fit the classes of one space as in the frozen tables, on the CPU."""
    rows = (a.cpu() for a in (train, labels, test, test_labels))
    settings = {"name": name, "tau": FROZEN_TEMPERATURE, "estimator": estimator}
    return FrozenSpace.fit(*rows, num_classes=int(labels.max()) + 1, **settings)
