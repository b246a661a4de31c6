"""A frozen analysis in few numbers, to be kept with a record: nothing needs the features again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from resultant.analysis import (
    Analysis,
    FrozenSpace,
    SameState,
    analyze_space,
    intercept_drift,
    same_state,
)
from resultant.analysis.result import plain
from resultant.classes.rule import REALIZATIONS
from resultant.training.evaluation import FROZEN_FITS, FROZEN_TEMPERATURE

# Strengths of the grid; direct temperature is undefined at some of them.
BETAS = (-0.5, 0.0, 0.5, 1.0, 1.5, 2.0)
SPACES = ("encoder", "projection")

# What the tables and claims read.
QUESTIONS = (
    "gains",
    "grid",
    "cosine",
    "gradients",
    "boundaries",
    "margins",
    "intercepts",
    "same_state",
)


def summarize(a: Analysis) -> dict[str, Any]:
    """The numbers of the paper's frozen tables and claims, as JSON types. Accuracies are fractions,
    gradient errors percent, angles degrees."""
    found: dict[str, Any] = {"tau": a.space.tau, "estimator": a.space.estimator}
    if a.grid is not None:
        points = {rule: a.grid.point(rule) for rule in REALIZATIONS}
        found["accuracy"] = {rule: point.accuracy for rule, point in points.items()}
        found["nll"] = {rule: point.nll for rule, point in points.items()}
        found["grid"] = {
            f"{p.realization} {p.beta:g} {p.gamma:g}": p.accuracy
            for p in a.grid.points
            if p.realization in ("native", "temperature", "angular") and p.accuracy is not None
        }
    if a.cosine is not None:
        names = "queries agreement disagreements low_margin certified certified_disagreements"
        found["cosine"] = {name: getattr(a.cosine, name) for name in names.split()}
    if a.gradients is not None:
        names = "loss_mean gradient_error median_cosine bounds_held linear_error joint_error"
        found["gradients"] = {name: getattr(a.gradients, name) for name in names.split()}
    if a.boundaries is not None:
        found["boundaries"] = {
            "pairs": len(a.boundaries.pairs),
            "tally": a.boundaries.tally,
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
        names = "incidences agreement coverage certified_wrong"
        found["margins"] = {name: getattr(a.margins, name) for name in names.split()}
    if a.gains is not None:
        names = "mean standard_deviation minimum maximum"
        found["gains"] = {name: getattr(a.gains, name) for name in names.split()}
    if a.intercepts is not None:
        found["intercepts"] = a.intercepts.largest
    if a.same_state is not None:
        found["same_state"] = _rules(a.same_state)
    return plain(found)


def _rules(found: SameState) -> dict[str, dict[str, float]]:
    names = ("cross_entropy", "accuracy", "distinct")
    return {row.realization: {n: getattr(row, n) for n in names} for row in found.rows}


def summarize_state(space: FrozenSpace, gamma: float) -> dict[str, Any]:
    """The numbers of sec:same-state-diagnostic, as JSON types: the rules on the first held-out
    queries, and the class whose intercept drifts most."""
    found = same_state(space, gamma=gamma)
    drift = intercept_drift(space).largest
    return plain({"same_state": _rules(found), "intercepts": drift, "focus": found.focus})


def summaries(
    train: Mapping[str, Tensor], labels: Tensor, test: Mapping[str, Tensor], test_labels: Tensor
) -> dict[str, dict[str, dict[str, Any]]]:
    """The summary of each space and estimator, for features [N, p] by name of the space."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for name in train:
        for estimator in FROZEN_FITS:
            space = FrozenSpace.fit(
                train[name].cpu(),
                labels.cpu(),
                test[name].cpu(),
                test_labels.cpu(),
                num_classes=int(labels.max()) + 1,
                name=name,
                tau=FROZEN_TEMPERATURE,
                estimator=estimator,
            )
            answers = analyze_space(space, QUESTIONS, betas=BETAS)
            found.setdefault(name, {})[estimator] = summarize(answers)
    return found
