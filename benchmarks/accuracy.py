"""Largest errors against Arb: random points, and the points where hill climbs from them ended.

All arguments are float32-representable, so that one reference serves both precisions. A point is a
column of coordinates: rho and the decimal logarithms of kappa and 1/tau, or that of kappa alone.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benchmarks import Row, Tables, peers
from benchmarks.peers import Array, Method
from reference import arb
from resultant import vmf_score

DIMENSIONS = (3, 17, 128, 1024, 2048, 65536)
SEED = 20
# The decimal logarithm of the smallest move, as a share of the box: a rounding of float32.
FINEST = -8.0
# Shares of the trials that keep one coordinate, and that go to an edge of the box.
KEPT, AT_AN_EDGE = 0.4, 0.05
# Share of the random points at each end, rho = -1 and rho = 1.
AT_AN_END = 0.125
# Ends of the climbs that are compared with Arb, those with the largest errors.
ENDS = 20

Box = Sequence[tuple[float, float]]
DOUBLE, SINGLE = peers.OURS


class Quantity(NamedTuple):
    """A function over a box of points, its methods, its value at a point by Arb, and the size that
    errors are relative to, if it is not that of the value."""

    what: str
    note: str
    box: Callable[[int], Box]
    methods: dict[str, Method]
    exact: Callable[..., float]
    size: Callable[..., Array] | None = None
    dimensions: tuple[int, ...] = DIMENSIONS

    def errors(self, points: Array, p: int, names: Iterable[str], exact: bool) -> dict[str, Array]:
        """Return the errors of methods, compared with Arb or with our float64."""
        x = arguments(points)
        truth = (np.vectorize(self.exact, [float]) if exact else self.methods[DOUBLE])(*x, p)
        size = abs(truth) if self.size is None else self.size(*x, p)
        with np.errstate(all="ignore"):
            return {name: abs(self.methods[name](*x, p) - truth) / size for name in names}


def arguments(points: Array) -> list[Array]:
    """Return rho, kappa and tau of points, or kappa alone."""
    values = (
        [10 ** points[0]] if len(points) == 1 else [points[0], 10 ** points[1], 10 ** -points[2]]
    )
    return [a.astype(np.float32).astype(np.float64) for a in values]


def climb(
    error: Callable[[Array], Array], box: Box, starts: Array, steps: int, rng: np.random.Generator
) -> Array:
    """Climb from each start, a column of [coordinates, n], to a larger error.

    A trial moves some coordinates by a random share of the box, of random size; it is kept if its
    error is larger. Errors of rounding are rough, so that no gradient helps.
    """
    low, high = (np.array(ends)[:, None] for ends in zip(*box, strict=True))
    points, largest = starts.copy(), error(starts)
    for _ in range(steps):
        size = 10 ** rng.uniform(FINEST, 0, points.shape[1])
        move = rng.normal(size=points.shape) * size * (high - low)
        move[rng.uniform(size=points.shape) < KEPT] = 0
        trial = np.clip(points + move, low, high)
        edge = rng.uniform(size=points.shape)
        trial = np.where(edge < AT_AN_EDGE / 2, low, trial)
        trial = np.where(edge > 1 - AT_AN_EDGE / 2, high, trial)
        errors = error(trial)
        # Not ">": an error that is not a number is the largest of all.
        better = ~(errors <= largest)
        points[:, better], largest[better] = trial[:, better], errors[better]
    return points


def draw(box: Box, n: int, rng: np.random.Generator) -> Array:
    """Draw points [coordinates, n] of the box; the first coordinate of three is a cosine."""
    low, high = np.array(box).T
    points = rng.uniform(low, high, (n, len(box))).T
    if len(box) == 3:
        where = rng.uniform(size=n)
        points[0, where < AT_AN_END], points[0, where > 1 - AT_AN_END] = -1, 1
    return points


def searched(quantity: Quantity, p: int) -> Array:
    """Return random points, and the ends of climbs that maximize our errors in both precisions and
    that of scipy's private ratio.

    Climbs are fewer where Arb is slow; float32 is compared with our float64 on the way.
    """
    rng, box = np.random.default_rng([SEED, p]), quantity.box(p)
    points = [draw(box, 300 if p < 10000 else 30, rng)]
    searches = {DOUBLE: (120, 250) if p < 1000 else (40, 60) if p < 10000 else (6, 8)}
    searches |= {SINGLE: (300, 400) if p < 10000 else (30, 400), peers.PRIVATE: searches[DOUBLE]}
    for name, (starts, steps) in searches.items():
        if name in quantity.methods:

            def error(x: Array) -> Array:
                return quantity.errors(x, p, [name], exact=name != SINGLE)[name]

            ends = climb(error, box, points[0][:, :starts], steps, rng)
            points.append(ends[:, np.argsort(-error(ends))[:ENDS]])
    return np.concatenate(points, axis=1)


def tables(quantity: Quantity) -> Tables:
    """Measure the largest errors of each method, and the shares of results that are not finite,
    where there are any."""
    largest, lost = ({name: Row(method=name) for name in quantity.methods} for _ in range(2))
    for p in quantity.dimensions:
        errors = quantity.errors(searched(quantity, p), p, quantity.methods, exact=True)
        for name, error in errors.items():
            finite = np.isfinite(error)
            largest[name][f"p = {p:,}"] = float(error[finite].max()) if finite.any() else None
            lost[name][f"p = {p:,}"] = float(1 - finite.mean())
    yield f"**Largest error: {quantity.what}.** {quantity.note}", list(largest.values())
    if shares := [row for row in lost.values() if any(list(row.values())[1:])]:
        yield f"**Share of results that are not finite: {quantity.what}.**", shares


def score_part(column: int, *arguments: Any) -> Tensor:
    """Evaluate q (0), or its derivative in kappa (2) or tau (3)."""
    *x, p = arguments
    rho, kappa, tau = (a.requires_grad_() for a in x)
    q = vmf_score(rho, kappa, tau, p)
    return torch.autograd.grad(q.sum(), x[column - 1], create_graph=True)[0] if column else q


def of_score(
    what: str, note: str, column: int = 0, box: Callable[[int], Box] | None = None, *dimensions: int
) -> Quantity:
    """Return q, or one of its derivatives, as a quantity, by default of any input.

    Errors of q are relative to max(|q|, |rho dq/drho|), those of a derivative to its size and its
    change under changes of rho, kappa and tau by their own sizes.
    """

    def size(*given: Any) -> Array:
        x = [torch.from_numpy(a) for a in given[:-1]]
        value = score_part(column, *x, given[-1])
        parts = torch.autograd.grad(value.sum(), x)
        changes = torch.stack([(a * b).abs() for a, b in zip(x, parts, strict=True)])
        sizes = value.abs() + changes.sum(0) if column else torch.maximum(value.abs(), changes[0])
        return sizes.detach().numpy()

    box = box or (lambda p: [(-1, 1), (-6, 6), (-2, 3)])
    methods = peers.ours(partial(score_part, column)) if column else peers.scores()
    dimensions = dimensions or DIMENSIONS
    return Quantity(what, note, box, methods, lambda *x: arb.score(*x)[column], size, dimensions)


def quantities() -> Iterator[Quantity]:
    note = """\
Largest errors of q relative to max(|q|, |rho dq/drho|) over kappa = 1e-6 to 1e6, 1/tau = .01 to
1000, rho in [-1, 1] with both ends. An adversarial search: random points (300, or 30 at p =
65536, where Arb is slow), and the ends of hill climbs from them that maximize our error in
float64 (120 starts of 250 trials, fewer from p = 1024 on) and in float32 (300 of 400). The
reference is Arb, and all methods have the same points. Scores of others subtract two values of
log I. The ProCo recurrence is our implementation of it."""
    yield of_score("q, any input", note)
    note = "The same for kappa = p/10 to 10 p and tau = 0.1."

    def in_training(p: int) -> Box:
        return [(-1, 1), (np.log10(p) - 1, np.log10(p) + 1), (1, 1)]

    yield of_score("q in training", note, 0, in_training, 128, 1024, 2048)
    note = """\
Derivatives of any input, by the same search. Errors are relative to the derivative and to its
change under changes of rho, kappa and tau by their own sizes: what rounding the inputs costs."""
    yield of_score("dq/dkappa", note, 2)
    yield of_score("dq/dtau", "The same for tau.", 3)
    note = """\
The Bessel ratio, relative errors over kappa = 1e-6 to 1e6. As many climbs maximize the error of
scipy's private function as ours in float64. The reference is rounded to float64: 0 says that all
results are the nearest float."""
    box, ratios = (lambda p: [(-6, 6)]), peers.ratios()
    yield Quantity("R", note, box, ratios, lambda kappa, p: arb.bessel(p / 2 - 1, kappa)[1])
    note = """\
kappa = 1e-4 to 1e6; R is the nearest float64, and the reference is the kappa of that float64."""

    def of_kappa(method: Method) -> Method:
        """Return a method of R as one of the kappa whose R is the nearest float."""
        return lambda kappa, p: method(np.array([arb.inverse(p / 2 - 1, k)[0] for k in kappa]), p)

    yield Quantity(
        *("kappa from R", note, lambda p: [(-4, 6)]),
        {name: of_kappa(method) for name, method in peers.inverses().items()},
        lambda kappa, p: arb.inverse(p / 2 - 1, kappa)[1],
    )


def run() -> Tables:
    for quantity in quantities():
        yield from tables(quantity)
