"""The result of a check, and the fits that several checks share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec

import torch
from torch import Tensor

from resultant_reproduction.figures import Chart, draw_charts
from resultant_reproduction.spec import load

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Numbers = tuple[float, ...]
P = ParamSpec("P")

# Seed of `random_states`.
SEED = 7
WIDE = {"width": 4.4, "height": 3.2, "legend": 4}
# Functions by name of the check.
FUNCTIONS: dict[str, Callable[[], Check]] = {}


@dataclass(frozen=True)
class Check:
    """Computed values of a claim as text and, from ``checks.toml``, the claim and the printed ones.

    The verdict ``holds`` is None if the values do not decide. ``details`` has every number and grid
    in JSON types. ``panels`` makes the panels of the figure, for `draw_charts` with ``layout``.
    """

    ours: str
    holds: bool | None
    details: dict[str, Any] = field(default_factory=dict)
    panels: Callable[[], list[Chart]] | None = None
    layout: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    label: str = ""
    claim: str = ""
    paper: str = ""
    note: str = ""

    @property
    def draw(self) -> Callable[[], Figure] | None:
        """Function that draws the figure; None without a figure."""
        panels = self.panels
        return None if panels is None else lambda: draw_charts(panels(), **self.layout)

    @property
    def verdict(self) -> str:
        return "not settled" if self.holds is None else "holds" if self.holds else "does not hold"


def check(function: Callable[P, Check]) -> Callable[P, Check]:
    """Register a check under the name of its function, and add the texts of ``checks.toml``."""
    name = function.__name__.replace("_", "-")

    @wraps(function)
    def run(*args: P.args, **options: P.kwargs) -> Check:
        texts, own = dict(load("theory/checks")[name]), function(*args, **options)
        if "rule" in texts:
            own.details["rule"] = texts.pop("rule")
        return replace(own, name=name, **texts)

    FUNCTIONS[name] = run
    return run


def grid(*axes: Numbers) -> tuple[Tensor, ...]:
    """Return the points of a product of axes, each [M] float64."""
    mesh = torch.meshgrid(*(torch.tensor(a, dtype=torch.float64) for a in axes), indexing="ij")
    return tuple(a.flatten() for a in mesh)


def uniform(seed: int, number: int, ranges: Mapping[str, tuple[float, float]]) -> list[list[float]]:
    """Draw points uniformly within ranges by name."""
    generator = torch.Generator().manual_seed(seed)
    draws = torch.rand(number, len(ranges), generator=generator, dtype=torch.float64)
    low, high = torch.tensor([*ranges.values()], dtype=torch.float64).T
    return (low + (high - low) * draws).tolist()


def described(ranges: Mapping[str, tuple[float, float]]) -> dict[str, str]:
    """Describe the ranges of `uniform`."""
    return {name: f"uniform in [{low:g}, {high:g}]" for name, (low, high) in ranges.items()}


def random_states(states: int, classes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw cosines in [-0.9, 0.9], lambdas in [0.3, 4] and offsets in [-1, 1], each [states, C]."""
    generator = torch.Generator().manual_seed(SEED)

    def draw(low: float, high: float) -> Tensor:
        draws = torch.rand(states, classes, generator=generator, dtype=torch.float64)
        return low + (high - low) * draws

    return draw(-0.9, 0.9), draw(0.3, 4.0), draw(-1.0, 1.0)


def powers_of_two(start: int, stop: int, step: int = 1) -> tuple[int, ...]:
    """Return the dimensions p = 2^k + 2, for which nu is a power of two."""
    return tuple(2**k + 2 for k in range(start, stop, step))


def half_orders(p: tuple[int, ...]) -> Tensor:
    """Return nu = p/2 - 1 [P] of dimensions."""
    return torch.tensor(p, dtype=torch.float64) / 2 - 1


def rounding(error: float) -> str:
    """Return an error as text; the digits of one at the level of rounding differ by machine."""
    return "< 1e-14" if abs(error) < 1e-14 else f"{error:.0e}"


def listed(values: Iterable[float], separator: str = ", ") -> str:
    """Return numbers with three digits as text."""
    return separator.join(f"{value:.3f}" for value in values)


def near(values: Iterable[float], targets: Iterable[float], within: float) -> bool:
    """Test whether each value is at most ``within`` from its target."""
    return all(abs(a - b) <= within for a, b in zip(values, targets, strict=True))


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


def slopes_of(nu: Tensor, errors: Mapping[str, list[Tensor]]) -> dict[str, float]:
    """Fit the order of one error [P] each, by name."""
    return {name: float(power_fits(nu, torch.stack(e)[:, None])[0]) for name, e in errors.items()}


def lists(errors: Mapping[str, list[Tensor]]) -> dict[str, list[float]]:
    """Return tensors of one number as numbers, by name."""
    return {name: torch.stack(e).tolist() for name, e in errors.items()}


def quantiles(a: Tensor, levels: Numbers = (0.25, 0.5, 0.75)) -> list[float]:
    """Return quantiles of a tensor as numbers."""
    return torch.quantile(a.flatten(), torch.tensor(levels, dtype=a.dtype)).tolist()
