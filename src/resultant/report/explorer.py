"""The numbers behind the sliders of a page.

The numbers are those of `resultant.analysis.response` at the points of a grid of temperature, beta
and prior; the page interpolates between these points. All are plain JSON, which the page holds
compressed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from resultant._core.text import counted
from resultant.analysis import Analysis, GridPoint, RealizationGrid
from resultant.analysis.arcs import Arcs
from resultant.analysis.response import Response
from resultant.classes.groups import GROUPS
from resultant.classes.rule import REALIZATIONS
from resultant.report.glossary import find_term
from resultant.report.words import NAMES, Settings, settings

# Measures of the sliders, as `GridPoint` and the page call them; those of groups lie between.
MEASURES = {
    "accuracy": "accuracy",
    "balanced": "balanced accuracy",
    "nll": "log-loss, not scaled",
    "ece": "calibration error, not scaled",
}


@dataclass(frozen=True, eq=False)
class Side:
    """One set of features on a page.

    Attributes:
        analysis: Its answers, with a grid.
        name: "" if the page has one side, else "A" or "B".
        response: Grids at several temperatures; by default the grid of the analysis.
        arcs: Scores between classes, if the page shows them.
    """

    analysis: Analysis
    name: str = ""
    response: Response | None = None
    arcs: Arcs | None = None

    @property
    def realizations(self) -> tuple[str, ...]:
        return REALIZATIONS if self.response is None else self.response.realizations

    @property
    def grids(self) -> tuple[RealizationGrid, ...]:
        if self.response is not None:
            return self.response.grids
        assert self.analysis.grid is not None
        return (self.analysis.grid,)

    @property
    def taus(self) -> tuple[float, ...]:
        return (self.analysis.space.tau,) if self.response is None else self.response.taus

    @property
    def grid(self) -> RealizationGrid:
        """The grid at the temperature of the analysis."""
        own = self.analysis.space.tau
        return min(zip(self.taus, self.grids, strict=True), key=lambda at: abs(at[0] - own))[1]

    def point(self, at: Settings) -> GridPoint:
        """The point of the grid at some settings; cosine and native take any beta."""
        return self.grid.point(at.realization, at.beta, at.prior)


def payload(sides: Sequence[Side], kept: Tensor) -> dict[str, Any]:
    """Return the numbers of the sliders as JSON types.

    Args:
        sides: One side, or the two of a comparison.
        kept: True for the classes [C] whose numbers the page holds.
    """
    at = start(sides)
    groups = [g for g in GROUPS if sides[0].analysis.space.groups.get(g)]
    first, second, *others = MEASURES
    measures = {n: MEASURES.get(n, n) for n in (first, second, *groups, *others)}
    return {
        "advised": not _without_sliders(sides[0].analysis),
        "measures": measures,
        "terms": {text: find_term(text) for text in (*measures.values(), *NAMES.values())},
        "rules": [NAMES[name] for name in REALIZATIONS],
        "offered": _offered(sides),
        "edited": [name not in ("native", "cosine") for name in REALIZATIONS],
        "start": {
            "rule": REALIZATIONS.index(at.realization),
            "tau": at.tau,
            "beta": at.beta,
            "gamma": at.prior,
        },
        "groups": groups,
        "sides": [_side(side, _offered(sides), kept) for side in sides],
    }


def _offered(sides: Sequence[Side]) -> list[int]:
    """Return the numbers of the realizations that every side has."""
    return [i for i, r in enumerate(REALIZATIONS) if all(r in s.realizations for s in sides)]


def start(sides: Sequence[Side]) -> Settings:
    """Return the settings that the sliders begin with: those that are advised for the first."""
    at = settings(sides[0].analysis)
    grid = sides[0].grid
    nearest = {
        "beta": min(grid.betas, key=lambda b: abs(b - at.beta)),
        "prior": min(grid.gammas, key=lambda g: abs(g - at.prior)),
    }
    return at._replace(**nearest)


def _side(side: Side, offered: Sequence[int], kept: Tensor) -> dict[str, Any]:
    grids, first = side.grids, side.grids[0]
    points = [
        grid.point(REALIZATIONS[rule], beta, gamma)
        for rule in offered
        for grid in grids
        for beta in first.betas
        for gamma in first.gammas
    ]
    queries = first.queries
    # By class: neighbouring points are nearly equal, and compress well.
    correct = torch.full((len(queries), len(points)), -1)
    for i, point in enumerate(points):
        if point.per_class is not None:
            correct[:, i] = (point.per_class * queries).nan_to_num().round().long()
    shown = kept.tolist()
    answer: dict[str, Any] = {
        "name": side.name,
        "taus": list(side.taus),
        "betas": list(first.betas),
        "gammas": list(first.gammas),
        "queries": [n if k else 0 for n, k in zip(queries.tolist(), shown, strict=True)],
        "correct": [c if k else [] for c, k in zip(correct.tolist(), shown, strict=True)],
    }
    for name in MEASURES:
        answer[name] = [_finite(getattr(point, name)) for point in points]
    for g in GROUPS:
        if side.analysis.space.groups.get(g):
            answer[g] = [_finite((point.groups or {}).get(g)) for point in points]
    if side.arcs is not None:
        answer["arcs"] = _arcs(side.arcs, kept)
    return answer


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value


def _arcs(arcs: Arcs, kept: Tensor) -> dict[str, Any]:
    own = kept[arcs.classes].nonzero()[:, 0]
    # Above the diagonal, row by row. Eight decimals hold an angle to 1e-5 degrees or better unless
    # two classes nearly coincide.
    above = torch.triu_indices(len(own), len(own), 1)
    cosine = arcs.cosine[own[above[0]], own[above[1]]]
    return {
        "classes": arcs.classes[own].tolist(),
        "cosine": cosine.round(decimals=8).tolist(),
        "kappa": arcs.kappa[own].tolist(),
        "resultant": arcs.resultant[own].tolist(),
        "mean": arcs.mean_resultant,
        "prior": arcs.log_prior[own].tolist(),
        "scale": arcs.scale,
        "step": arcs.step,
        "phi": arcs.phi.tolist(),
        "slope": arcs.slope.tolist(),
    }


def _without_sliders(a: Analysis) -> str:
    """Return the name of the advised rule if the sliders do not move it: a mixture."""
    return (
        "" if a.advice is None or a.advice.advised in NAMES else a.advice.row(a.advice.advised).name
    )


def choice_of(side: Side) -> str:
    """Return a sentence about the classes that can be compared in pairs; "" if all can."""
    number = 0 if side.arcs is None else len(side.arcs.classes)
    if number in (0, side.analysis.space.num_classes):
        return ""
    return f" The {number:,} classes with the most held-out rows can be chosen."


def rows_of(sides: Sequence[Side]) -> str:
    """Return a sentence about the held-out rows that the sliders count."""
    response, advised = sides[0].response, _without_sliders(sides[0].analysis)
    other = f" The advised {advised} has no sliders: those here have one distribution per class."
    if response is None or response.rows == response.held_out:
        number = sides[0].analysis.space.held_out
        text = f"Counted on all {counted(number, 'held-out row', 'held-out rows')}."
    else:
        text = (
            f"Counted on a random {response.rows:,} of {response.held_out:,} held-out rows, the "
            "same number from each class as far as possible; other numbers of the page are from "
            "all rows."
        )
    return text + (other if advised else "")
