"""The result of a check, and the fits that several checks share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from resultant_reproduction.figures import Chart, draw_charts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Numbers = tuple[float, ...]

# Seed of `random_states`.
SEED = 7


@dataclass(frozen=True)
class Check:
    """One claim of the paper, with the printed and the computed values.

    Attributes:
        name: Name of the check.
        label: Label of the claim in the paper.
        claim: The claim in a few words.
        paper: Printed values, as text.
        ours: Computed values, as text.
        holds: The verdict; None if the computed values do not decide.
        details: Every number and grid, of JSON types.
        panels: Function that makes the panels of the figure; None without a figure.
        layout: Options of `draw_charts`.
        note: Remark below the table.
    """

    name: str
    label: str
    claim: str
    paper: str
    ours: str
    holds: bool | None
    details: dict[str, Any] = field(default_factory=dict)
    panels: Callable[[], list[Chart]] | None = None
    layout: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""

    @property
    def draw(self) -> Callable[[], Figure] | None:
        """Function that draws the figure; None without a figure."""
        panels = self.panels
        return None if panels is None else lambda: draw_charts(panels(), **self.layout)

    @property
    def verdict(self) -> str:
        return "not settled" if self.holds is None else "holds" if self.holds else "does not hold"


def grid(*axes: Numbers) -> tuple[Tensor, ...]:
    """Return the points of a product of axes, each [M] float64."""
    mesh = torch.meshgrid(*(torch.tensor(a, dtype=torch.float64) for a in axes), indexing="ij")
    return tuple(a.flatten() for a in mesh)


def random_states(states: int, classes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw cosines in [-0.9, 0.9], lambdas in [0.3, 4] and offsets in [-1, 1], each [states, C]."""
    generator = torch.Generator().manual_seed(SEED)

    def uniform(low: float, high: float) -> Tensor:
        draws = torch.rand(states, classes, generator=generator, dtype=torch.float64)
        return low + (high - low) * draws

    return uniform(-0.9, 0.9), uniform(0.3, 4.0), uniform(-1.0, 1.0)


def rounding(error: float) -> str:
    """Return an error as text; the digits of one at the level of rounding differ by machine."""
    return "< 1e-14" if abs(error) < 1e-14 else f"{error:.0e}"


def half_orders(p: tuple[int, ...]) -> Tensor:
    """Return nu = p/2 - 1 [P] of dimensions."""
    return torch.tensor(p, dtype=torch.float64) / 2 - 1


def power_fits(x: Tensor, errors: Tensor) -> Tensor:
    """Fit the slopes of log errors [P, M] over log x [P], for the columns that follow a power.

    A fit needs three points and a coefficient of determination of at least 0.9, as in
    sec:numerical-expansion-validation. Errors below 1e-13 are rounding and are ignored.
    """
    slopes = []
    for column in errors.abs().T:
        large = column > 1e-13
        if int(large.sum()) < 3:
            continue
        a, b = x[large].log(), column[large].log()
        a, b = a - a.mean(), b - b.mean()
        slope = (a @ b) / (a @ a)
        if 1 - (b - slope * a).square().sum() / b.square().sum() >= 0.9:
            slopes.append(slope)
    return torch.stack(slopes) if slopes else x.new_full((1,), torch.nan)


def quantiles(a: Tensor, levels: Numbers = (0.25, 0.5, 0.75)) -> list[float]:
    """Return quantiles of a tensor as numbers."""
    return torch.quantile(a.flatten(), torch.tensor(levels, dtype=a.dtype)).tolist()
