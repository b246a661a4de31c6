"""Largest errors against Arb: random points, and the points where hill climbs from them ended.

All arguments are float32-representable, so that one reference serves both precisions. A point is a
column of coordinates: rho and the decimal logarithms of kappa and 1/tau, or that of kappa alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import flint
import numpy as np
import torch
from flint import arb as ball

from benchmarks import Row, Table, peers, progress
from benchmarks.peers import Array
from benchmarks.tables import by_column
from reference import arb
from resultant import vmf_score, vmf_score_and_slope

GPU = False
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

Box = list[tuple[float, float]]
Method = Callable[[Array, int], Array]
# The value, and the size that its error is relative to.
Reference = Callable[[Array, int], tuple[Array, Array]]


class Quantity(NamedTuple):
    """A function of a box of arguments, its methods, and its values by Arb and by our float64."""

    what: str
    box: Callable[[int], Box]
    methods: dict[str, Method]
    exact: Reference
    close: Reference | None = None
    dimensions: tuple[int, ...] = DIMENSIONS


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
    """Return random points, and the ends of climbs that maximize our errors in both precisions.

    Climbs are fewer where Arb is slow; float32 is compared with our float64 on the way.
    """
    rng, box = np.random.default_rng([SEED, p]), quantity.box(p)
    points = [draw(box, 300 if p < 10000 else 30, rng)]
    searches = [(quantity.exact, (120, 250) if p < 1000 else (40, 60) if p < 10000 else (6, 8))]
    if quantity.close is not None:
        searches.append((quantity.close, (300, 400) if p < 10000 else (30, 400)))
    for method, (reference, (starts, steps)) in zip(peers.OURS, searches, strict=False):

        def error(x: Array, method: str = method, reference: Reference = reference) -> Array:
            value, size = reference(x, p)
            return abs(quantity.methods[method](x, p) - value) / size

        ends = climb(error, box, points[0][:, :starts], steps, rng)
        points.append(ends[:, np.argsort(-error(ends))[:ENDS]])
    return np.concatenate(points, axis=1)


def errors(quantity: Quantity) -> Iterator[Row]:
    """Measure the largest error and the share of results that are not finite, per method and p."""
    for p in quantity.dimensions:
        progress(f"{quantity.what}, p = {p}")
        points = searched(quantity, p)
        truth, size = quantity.exact(points, p)
        for name, method in quantity.methods.items():
            value = method(points, p)
            finite = np.isfinite(value)
            error = abs(np.where(finite, value, 0.0) - truth) / size
            largest = float(error[finite].max()) if finite.any() else None
            yield {"method": name, "p": p, "error": largest, "lost": float(1 - finite.mean())}


def single(a: Array) -> Array:
    return a.astype(np.float32).astype(np.float64)


def arguments(points: Array) -> tuple[Array, Array, Array]:
    """Return rho, kappa and tau of points."""
    rho, kappa, t = points
    return single(rho), single(10**kappa), single(10**-t)


def any_input(p: int) -> Box:
    return [(-1, 1), (-6, 6), (-2, 3)]


def in_training(p: int) -> Box:
    return [(-1, 1), (np.log10(p) - 1, np.log10(p) + 1), (1, 1)]


def exact_score(points: Array, p: int) -> tuple[Array, Array]:
    """Return q by Arb, and max(|q|, |rho dq/drho|)."""
    x = arguments(points)
    q, slope = np.array([arb.score(*row, p)[:2] for row in zip(*x, strict=True)]).T
    return q, np.maximum(abs(q), abs(x[0] * slope))


def close_score(points: Array, p: int) -> tuple[Array, Array]:
    x = [torch.from_numpy(a) for a in arguments(points)]
    q, slope = vmf_score_and_slope(x[0], x[1], x[2], p)
    return q.numpy(), torch.maximum(q.abs(), (x[0] * slope).abs()).numpy()


def derivative(argument: int) -> dict[str, Method]:
    """Return the derivative of the score in kappa (1) or tau (2), in both precisions."""

    def method(points: Array, p: int, dtype: torch.dtype) -> Array:
        x = [torch.from_numpy(a).to(dtype).requires_grad_() for a in arguments(points)]
        (value,) = torch.autograd.grad(vmf_score(x[0], x[1], x[2], p).sum(), x[argument])
        return value.double().numpy()

    return {
        name: lambda points, p, dtype=dtype: method(points, p, dtype)
        for name, dtype in peers.OURS.items()
    }


def close_derivative(argument: int) -> Reference:
    """Return a derivative by our float64; an error is relative to its size and to its change under
    changes of rho, kappa and tau by their own sizes."""

    def reference(points: Array, p: int) -> tuple[Array, Array]:
        x = [torch.from_numpy(a).requires_grad_() for a in arguments(points)]
        total = vmf_score(x[0], x[1], x[2], p).sum()
        (value,) = torch.autograd.grad(total, x[argument], create_graph=True)
        second = torch.autograd.grad(value.sum(), x)
        change = torch.stack([(a * b).abs() for a, b in zip(x, second, strict=True)]).sum(0)
        return value.detach().numpy(), (value.abs() + change).detach().numpy()

    return reference


def exact_derivative(argument: int) -> Reference:
    def reference(points: Array, p: int) -> tuple[Array, Array]:
        rows = zip(*arguments(points), strict=True)
        value = np.array([arb.score(*x, p)[1 + argument] for x in rows])
        return value, close_derivative(argument)(points, p)[1]

    return reference


def exact_ratio(points: Array, p: int) -> tuple[Array, Array]:
    value = np.array([arb.bessel(p / 2 - 1, k)[1] for k in single(10 ** points[0])])
    return value, value


def close_ratio(points: Array, p: int) -> tuple[Array, Array]:
    value = peers.ours_ratio(torch.float64)(p, single(10 ** points[0]))
    return value, value


def lengths(points: Array, p: int) -> tuple[Array, Array]:
    """Return floats R near R_nu(kappa), and the kappa of those floats by Arb.

    One Newton step from kappa, which is off by the rounding of R only, is exact to twice the
    precision of a float.
    """
    return tuple(np.array([_length(p, float(k)) for k in 10 ** points[0]]).T)  # type: ignore[return-value]


def _length(p: int, kappa: float) -> tuple[float, float]:
    for bits in (256, 1024, 4096, 1 << 14, 1 << 16):
        flint.ctx.prec = bits
        nu, x = ball(p) / 2 - 1, ball(kappa)
        y = x * x / 4
        ratio = x * y.hypgeom_0f1(nu + 2) / (y.hypgeom_0f1(nu + 1) * (2 * nu + 2))
        slope = 1 - ratio * ratio - (2 * nu + 1) * ratio / x
        r = float(ratio.mid())
        inverse = x + (ball(r) - ratio) / slope
        if inverse.rel_accuracy_bits() > 90:
            return r, float(inverse.mid())
    raise ArithmeticError(f"Arb did not reach the accuracy asked for at p={p}, kappa={kappa}")


def exact_kappa(points: Array, p: int) -> tuple[Array, Array]:
    kappa = lengths(points, p)[1]
    return kappa, kappa


def quantities() -> list[Quantity]:
    scores = {name: lambda x, p, f=f: f(*arguments(x), p) for name, f in peers.scores().items()}
    ratios = {
        name: lambda x, p, f=f: f(p, single(10 ** x[0])) for name, f in peers.ratios().items()
    }
    inverses = {
        name: lambda x, p, f=f: f(p, lengths(x, p)[0]) for name, f in peers.inverses().items()
    }
    score = (scores, exact_score, close_score)
    return [
        Quantity("q, any input", any_input, *score),
        Quantity("q in training", in_training, *score, (128, 1024, 2048)),
        *(
            Quantity(name, any_input, derivative(i), exact_derivative(i), close_derivative(i))
            for i, name in ((1, "dq/dkappa"), (2, "dq/dtau"))
        ),
        Quantity("R", lambda p: [(-6, 6)], ratios, exact_ratio, close_ratio),
        Quantity("kappa from R", lambda p: [(-4, 6)], inverses, exact_kappa),
    ]


NOTES = {
    "q, any input": """\
Largest errors of q relative to max(|q|, |rho dq/drho|) over kappa = 1e-6 to 1e6, 1/tau = .01 to
1000, rho in [-1, 1] with both ends. An adversarial search: random points (300, or 30 at p =
65536, where Arb is slow), and the ends of hill climbs from them that maximize our error in
float64 (120 starts of 250 trials, fewer from p = 1024 on) and in float32 (300 of 400). The
reference is Arb, and all methods have the same points. Scores of others subtract two values of
log I. The ProCo recurrence is our implementation of it.""",
    "q in training": "The same for kappa = p/10 to 10 p and tau = 0.1.",
    "dq/dkappa": """\
Derivatives of any input, by the same search. Errors are relative to the derivative and to its
change under changes of rho, kappa and tau by their own sizes: what rounding the inputs costs.""",
    "dq/dtau": "The same for tau.",
    "R": "The Bessel ratio, relative errors over kappa = 1e-6 to 1e6.",
    "kappa from R": """\
kappa = 1e-4 to 1e6; R is the nearest float64, and the reference is the kappa of that float64.""",
}


def tables(what: str, rows: list[Row]) -> Iterator[Table]:
    """Yield the table of errors, and that of results that are not finite, where there are any."""
    title = f"**Largest error: {what}.** "
    yield {"rows": by_column(rows, "method", "p", "error"), "note": title + NOTES[what]}
    lost = {row["method"] for row in rows if row["lost"]}
    if lost:
        shares = [row for row in rows if row["method"] in lost]
        note = f"**Share of results that are not finite: {what}.**"
        yield {"rows": by_column(shares, "method", "p", "lost"), "note": note}


def run(data: Path | None) -> list[Table]:
    return [table for q in quantities() for table in tables(q.what, list(errors(q)))]
