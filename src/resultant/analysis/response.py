"""Decisions over temperature, beta and prior: the numbers behind the sliders of a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from resultant.analysis.decisions import BETAS, decide_at, grid_policies
from resultant.analysis.grid import RealizationGrid, measure
from resultant.analysis.plain import Result
from resultant.analysis.sampling import rank_in_class
from resultant.analysis.space import FrozenSpace
from resultant.classes.rule import REALIZATIONS

# Temperatures of a response, as multiples of the temperature of the space.
STEPS = (0.25, 0.5, 1.0, 2.0, 4.0)

# Multiples of the log prior.
PRIORS = (-1.0, -0.5, 0.0, 0.5, 1.0)

# The most scores, rows times classes, of one temperature.
SCORES = 1_000_000

# Queries below which accuracies are rough, whatever the number of classes.
LEAST = 1_000


@dataclass(frozen=True, eq=False)
class Response(Result):
    """Realizations at every temperature, beta and gamma, on the same queries.

    Attributes:
        realizations: The realizations that were measured.
        taus: Temperatures, ascending.
        grids: One grid of beta and gamma per temperature.
        rows: Number of queries that were decided.
        held_out: Number of queries of the space.
    """

    realizations: tuple[str, ...]
    taus: tuple[float, ...]
    grids: tuple[RealizationGrid, ...]
    rows: int
    held_out: int


def response(
    space: FrozenSpace,
    *,
    realizations: Sequence[str] = REALIZATIONS,
    taus: Iterable[float] | None = None,
    betas: Iterable[float] = BETAS,
    gammas: Iterable[float] = PRIORS,
    scores: int | None = None,
) -> Response:
    """Measure realizations over temperatures, betas and gammas.

    Args:
        space: The classes and the queries.
        realizations: Realizations to measure; native and cosine are always measured.
        taus: Temperatures; by default `STEPS` times that of the space.
        betas: Strengths of the target gain.
        gammas: Multiples of the log prior.
        scores: The most scores per temperature, by default a million or a thousand queries; beyond,
            each class keeps an equal number of random queries.

    Returns:
        Accuracy and calibration of every policy at every temperature.

    Example:
        >>> z, y = torch.eye(4).repeat(3, 1) + 0.1, torch.arange(4).repeat(3)
        >>> found = response(FrozenSpace.fit(z, y, z, y), taus=(0.1, 0.2))
        >>> found.taus, found.grids[0].point("native").accuracy
        ((0.1, 0.2), 1.0)
    """
    if scores is None:
        scores = max(SCORES, LEAST * space.num_classes)
    rows = _rows(space.test_labels, max(1, scores // space.num_classes))
    betas, gammas = sorted(set(betas)), sorted(set(gammas))
    kept = tuple(r for r in REALIZATIONS if r in {"native", "cosine", *realizations})
    policies = [p for p in grid_policies(betas, gammas) if p.realization in kept]
    taus = sorted({space.tau * step for step in STEPS} if taus is None else set(taus))
    spaces = [replace(space, tau=tau) for tau in taus]
    decided = decide_at(spaces, policies, rows)
    grids = [
        measure(at, betas, gammas, policies, decisions)
        for at, decisions in zip(spaces, decided, strict=True)
    ]
    number = len(space.test_labels)
    used = number if rows is None else len(rows)
    return Response(kept, tuple(taus), tuple(grids), used, number)


def _rows(labels: Tensor, most: int) -> Tensor | None:
    """Random rows [n], as many of each class as possible; None for all."""
    if len(labels) <= most:
        return None
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    first = rank_in_class(labels[order]).argsort(stable=True)[:most]
    return order[first].sort().values
