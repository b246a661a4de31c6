"""The numbers behind the sliders of a page.

The numbers are those of `resultant.analysis.response` at the points of a grid of temperature, beta
and prior; the page interpolates between these points.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from resultant._core.text import counted
from resultant.analysis import Analysis, GridPoint, RealizationGrid
from resultant.analysis.arcs import Arcs
from resultant.analysis.response import Response
from resultant.classes.groups import GROUPS
from resultant.classes.rule import REALIZATIONS
from resultant.report.words import NAMES, Settings, settings

# Bytes of the accuracies of the classes on a page; of more classes it holds the first.
BYTES = 1_000_000


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
        return self.grids[int(np.argmin([abs(t - self.analysis.space.tau) for t in self.taus]))]

    def point(self, at: Settings) -> GridPoint:
        """The point of the grid at some settings; cosine and native take any beta."""
        return self.grid.point(at.realization, at.beta, at.prior)


def payload(sides: Sequence[Side], names: Sequence[str]) -> dict[str, Any]:
    """Return the numbers of the sliders as JSON types.

    Args:
        sides: One side, or the two of a comparison.
        names: Names of the classes [C].
    """
    first = sides[0].analysis
    at = start(sides)
    return {
        "rules": [NAMES[name] for name in REALIZATIONS],
        "offered": _offered(sides),
        "edited": [name not in ("native", "cosine") for name in REALIZATIONS],
        "start": {
            "rule": REALIZATIONS.index(at.realization),
            "tau": at.tau,
            "beta": at.beta,
            "gamma": at.prior,
        },
        "names": list(names),
        "count": _counts(first),
        "group": _groups(first),
        "groups": [g for g in GROUPS if first.space.groups.get(g)],
        "sides": [_side(side, _offered(sides), BYTES // len(sides)) for side in sides],
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


def _side(side: Side, offered: Sequence[int], most: int) -> dict[str, Any]:
    grids, first = side.grids, side.grids[0]
    points = [
        grid.point(REALIZATIONS[rule], beta, gamma)
        for rule in offered
        for grid in grids
        for beta in first.betas
        for gamma in first.gammas
    ]
    queries = first.queries
    # The largest number stands for an accuracy that does not exist.
    kind = np.dtype("u1" if int(queries.max()) < 255 else "<u2")
    unknown = np.iinfo(kind).max
    kept = min(len(queries), most // (len(points) * kind.itemsize))
    correct = torch.full((len(points), kept), unknown, dtype=torch.int64)
    for i, point in enumerate(points):
        if point.per_class is not None:
            hits = (point.per_class * queries).nan_to_num().round().long()
            correct[i] = hits[:kept]
    present = [g for g in GROUPS if side.analysis.space.groups.get(g)]
    answer: dict[str, Any] = {
        "name": side.name,
        "taus": list(side.taus),
        "betas": list(first.betas),
        "gammas": list(first.gammas),
        "queries": queries[:kept].tolist(),
        "correct": _encoded(correct.numpy().astype(kind)),
        "bytes": kind.itemsize,
        "gain": _gain(side.analysis),
    }
    for name in ("accuracy", "balanced", "nll", "ece"):
        answer[name] = _floats([getattr(point, name) for point in points])
    for g in present:
        answer[g] = _floats([(point.groups or {}).get(g) for point in points])
    if side.arcs is not None:
        answer["arcs"] = _arcs(side.arcs)
    return answer


def _arcs(arcs: Arcs) -> dict[str, Any]:
    # Above the diagonal, row by row. float32 holds an angle to 1e-5 degrees or better unless two
    # classes nearly coincide.
    above = torch.triu_indices(len(arcs.cosine), len(arcs.cosine), 1)
    return {
        "classes": arcs.classes.tolist(),
        "cosine": _encoded(arcs.cosine[above[0], above[1]].numpy().astype("<f4")),
        "kappa": arcs.kappa.tolist(),
        "resultant": arcs.resultant.tolist(),
        "mean": arcs.mean_resultant,
        "prior": arcs.log_prior.tolist(),
        "scale": arcs.scale,
        "step": arcs.step,
        "phi": _floats(arcs.phi.tolist()),
        "slope": _floats(arcs.slope.tolist()),
    }


def _gain(a: Analysis) -> list[float]:
    return [] if a.gains is None else a.gains.gain.tolist()


def _counts(a: Analysis) -> list[int]:
    return [] if a.gains is None else a.gains.count.tolist()


def _groups(a: Analysis) -> list[str]:
    if a.gains is None or a.gains.group is None:
        return []
    return [GROUPS[g] for g in a.gains.group.tolist()]


def _floats(values: Sequence[float | None]) -> str:
    return _encoded(np.array([np.nan if v is None else v for v in values], dtype="<f8"))


def _encoded(values: np.ndarray[Any, Any]) -> str:
    """Return the bytes of numbers in base64."""
    return base64.b64encode(values.tobytes()).decode()


def rows_of(sides: Sequence[Side]) -> str:
    """Return a sentence about the held-out rows that the sliders count."""
    response = sides[0].response
    if response is None or response.rows == response.held_out:
        number = sides[0].analysis.space.held_out
        return f"Counted on all {counted(number, 'held-out row', 'held-out rows')}."
    return (
        f"Counted on a random {response.rows:,} of {response.held_out:,} held-out rows, the same "
        "number from each class as far as possible; other numbers of the page are from all rows."
    )
