"""What a check hands back, and the fits that several of them share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Numbers = tuple[float, ...]


@dataclass(frozen=True)
class Check:
    """One claim of the paper beside what was computed here.

    ``label`` is the paper's, ``paper`` and ``ours`` are what the table shows, ``details`` holds
    every number and grid, of types that JSON has. ``holds`` is None where what is computed decides
    neither for the claim nor against it. ``draw`` makes the figure, if there is one. ``note`` says
    under the table what the row leaves out.
    """

    name: str
    label: str
    claim: str
    paper: str
    ours: str
    holds: bool | None
    details: dict[str, Any] = field(default_factory=dict)
    draw: Callable[[], Figure] | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        return "not settled" if self.holds is None else "holds" if self.holds else "does not hold"


def grid(*axes: Numbers) -> tuple[Tensor, ...]:
    """The points of a product of axes, each [M] float64."""
    mesh = torch.meshgrid(*(torch.tensor(a, dtype=torch.float64) for a in axes), indexing="ij")
    return tuple(a.flatten() for a in mesh)


def half_orders(p: tuple[int, ...]) -> Tensor:
    """nu = p/2 - 1 [P] of dimensions."""
    return torch.tensor(p, dtype=torch.float64) / 2 - 1


def power_fits(x: Tensor, errors: Tensor) -> Tensor:
    """The slopes of log errors [P, M] over log x [P], of those columns that fit a power.

    As in sec:numerical-expansion-validation a fit needs three points and a coefficient of
    determination of at least 0.9. Errors below 1e-13 are rounding and are left out.
    """
    slopes = []
    for column in errors.abs().T:
        seen = column > 1e-13
        if int(seen.sum()) < 3:
            continue
        a, b = x[seen].log(), column[seen].log()
        a, b = a - a.mean(), b - b.mean()
        slope = (a @ b) / (a @ a)
        if 1 - (b - slope * a).square().sum() / b.square().sum() >= 0.9:
            slopes.append(slope)
    return torch.stack(slopes) if slopes else x.new_full((1,), torch.nan)


def quantiles(a: Tensor, levels: Numbers = (0.25, 0.5, 0.75)) -> list[float]:
    """Quantiles of a tensor, as numbers."""
    return torch.quantile(a.flatten(), torch.tensor(levels, dtype=a.dtype)).tolist()
