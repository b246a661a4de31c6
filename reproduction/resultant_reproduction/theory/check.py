"""The frame of a check, and the draws and fits that several checks share.

A check is a function of its grid in ``checks.toml``, which has its texts, expected values and
tolerance too. Keyword arguments replace a quantity by a wrong one, or an entry of the grid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from resultant.classes.statistics import ClassState
from resultant_reproduction.cells.cells import load
from resultant_reproduction.cells.charts import Chart, draw_charts, labelled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Functions by name of the check.
FUNCTIONS: dict[str, Callable[..., Check]] = {}


@dataclass(frozen=True)
class Check:
    """A claim with its printed and our values as text; ``holds`` is None if the values do not
    decide, and ``details`` has every number and grid in JSON types."""

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


class Finding(NamedTuple):
    """Values for the texts, every number, a verdict beside that of expected values, and a function
    that makes the curves of each panel, or whole charts."""

    values: Sequence[Any]
    details: dict[str, Any]
    holds: bool | None = True
    panels: Callable[[], list[Any]] | None = None


def check(function: Callable[..., Finding]) -> Callable[..., Check]:
    """Register a check under the name of its function, and add what ``checks.toml`` says."""
    name = function.__name__.replace("_", "-")

    @wraps(function)
    def run(**options: Any) -> Check:
        about = load("theory/checks")[name]
        grid = {key: options.pop(key, value) for key, value in about.get("grid", {}).items()}
        values, details, holds, panels = function(SimpleNamespace(**grid), **options)
        expected = about.get("expected", ())
        if not near(values[: len(expected)], expected, about.get("within", 0.0)):
            holds = False
        filled = [key for key in ("paper", "note", "rule") if key in about]
        texts = {key: about[key].format(*values) for key in filled}
        details = {"grid": grid, **details, "rule": texts.pop("rule", "")}
        texts |= {key: about[key] for key in ("label", "claim", "layout") if key in about}
        charts = panels and (lambda: labelled(panels(), about.get("charts", ())))
        ours = about["ours"].format(*values)
        return Check(ours, holds, details, charts, name=name, **texts)

    FUNCTIONS[name] = run
    return run


def axis(numbers: Sequence[float] | Mapping[str, float]) -> Tensor:
    """Return the points [M] of an axis of a grid: a list, or ``number`` equally spaced ones."""
    if isinstance(numbers, Mapping):
        ends = numbers["from"], numbers["to"]
        return torch.linspace(*ends, int(numbers["number"]), dtype=torch.float64)
    return torch.tensor(numbers, dtype=torch.float64)


def grid(*axes: Any) -> tuple[Tensor, ...]:
    """Return the points of a product of axes, each [M] float64."""
    return tuple(a.flatten() for a in torch.meshgrid(*map(axis, axes), indexing="ij"))


def uniform(seed: int, number: int, ranges: Mapping[str, Sequence[float]]) -> list[list[float]]:
    """Draw points uniformly within ranges by name."""
    generator = torch.Generator().manual_seed(seed)
    draws = torch.rand(number, len(ranges), generator=generator, dtype=torch.float64)
    low, high = torch.tensor([*ranges.values()], dtype=torch.float64).T
    return (low + (high - low) * draws).tolist()


def random_states(states: int, classes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw cosines in [-0.9, 0.9], lambdas in [0.3, 4] and offsets in [-1, 1], each [states, C]."""
    generator = torch.Generator().manual_seed(7)
    draws = torch.rand(3, states, classes, generator=generator, dtype=torch.float64)
    return -0.9 + 1.8 * draws[0], 0.3 + 3.7 * draws[1], -1.0 + 2.0 * draws[2]


def random_state(seed: int, classes: int, p: int, lam: Sequence[float]) -> ClassState:
    """Draw random directions with kappa/nu uniform between the ends of ``lam``."""
    generator = torch.Generator().manual_seed(seed)
    mu = torch.randn(classes, p, generator=generator, dtype=torch.float64)
    share = torch.rand(classes, generator=generator, dtype=torch.float64)
    kappa = (p / 2 - 1) * (lam[0] + (lam[1] - lam[0]) * share)
    count = torch.ones(classes, dtype=torch.int64)
    return ClassState(mu / mu.norm(dim=-1, keepdim=True), kappa, count)


def random_queries(seed: int, number: int, state: ClassState) -> tuple[Tensor, Tensor]:
    """Draw unit vectors [N, p] at all distances from a class, and the class [N] of each."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(state.num_classes, (number,), generator=generator)
    noise = torch.randn(number, state.dim, generator=generator, dtype=torch.float64)
    pull = 3 * torch.rand(number, 1, generator=generator, dtype=torch.float64)
    z = noise / noise.norm(dim=-1, keepdim=True) + pull * state.mu[y]
    return z / z.norm(dim=-1, keepdim=True), y


def rounding(error: float) -> str:
    """Return an error as text; the digits of one at the level of rounding differ by machine."""
    return "< 1e-14" if abs(error) < 1e-14 else f"{error:.0e}"


def largest(gaps: Iterable[Mapping[str, Tensor]]) -> dict[str, float]:
    """Return the largest absolute value over all parts, by name."""
    parts = [{name: float(gap.abs().max()) for name, gap in part.items()} for part in gaps]
    return {name: max(part[name] for part in parts) for name in parts[0]}


def near(values: Iterable[float], targets: Iterable[float], within: float) -> bool:
    """Test whether each value is at most ``within`` from its target."""
    return all(abs(a - b) <= within for a, b in zip(values, targets, strict=True))


def power_fits(x: Tensor, errors: Tensor) -> Tensor:
    """Fit the slopes of log errors [P, M] over log x [P], for the columns that follow a power."""
    slopes = []
    # As in sec:numerical-expansion-validation: three points above rounding, and R^2 of 0.9.
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


class Orders(NamedTuple):
    """Errors [P, M] over P abscissas and fitted orders of their columns, by name."""

    x: Tensor
    errors: dict[str, Tensor]
    fits: dict[str, Tensor]

    @property
    def medians(self) -> list[float]:
        return [float(fit.median()) for fit in self.fits.values()]

    @property
    def largest(self) -> Orders:
        """The orders of the largest errors over columns."""
        sizes = {name: e.abs().amax(1, keepdim=True) for name, e in self.errors.items()}
        return Orders(self.x, sizes, {name: power_fits(self.x, e) for name, e in sizes.items()})

    @property
    def details(self) -> dict[str, Any]:
        """Quartiles and number of the fits; the errors themselves where there is one of each."""
        if all(e.shape[1] == 1 for e in self.errors.values()):
            return {"largest": {name: e[:, 0].tolist() for name, e in self.errors.items()}}
        quartiles = {name: quantiles(fit) for name, fit in self.fits.items()}
        return {"quartiles": quartiles, "fits": {n: len(fit) for n, fit in self.fits.items()}}

    @property
    def finding(self) -> Finding:
        """The medians and the details."""
        return Finding(self.medians, self.details)


def orders(x: Tensor, errors: Callable[[float], Mapping[str, Tensor]]) -> Orders:
    """Fit the orders in x of errors by name, each a number or [M]."""
    rows = [errors(a) for a in x.tolist()]
    stacked = {name: torch.stack([row[name].flatten() for row in rows]) for name in rows[0]}
    return Orders(x, stacked, {name: power_fits(x, e) for name, e in stacked.items()})


def over_dimensions(
    dims: Sequence[int], errors: Callable[[float, int], Mapping[str, Tensor]]
) -> Orders:
    """Fit the orders in nu = p/2 - 1 of errors(nu, p) by name."""
    nu = torch.tensor(dims, dtype=torch.float64) / 2 - 1
    return orders(nu, lambda nu: errors(nu, round(2 * nu + 2)))


def quantiles(a: Tensor, levels: Sequence[float] = (0.25, 0.5, 0.75)) -> list[float]:
    """Return quantiles of a tensor as numbers."""
    return torch.quantile(a.flatten(), torch.tensor(levels, dtype=a.dtype)).tolist()
