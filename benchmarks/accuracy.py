"""Largest errors against Arb: random points, and the points where hill climbs from them ended.

All arguments are float32-representable, so that one reference serves both precisions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import flint
import numpy as np
import torch
from flint import arb as ball

from benchmarks import peers
from benchmarks.peers import Array
from benchmarks.search import climb
from reference import arb
from resultant import vmf_score

DIMENSIONS = (3, 17, 128, 1024, 2048, 65536)
SEED = 20

# Share of the points at each end, rho = -1 and rho = 1.
AT_AN_END = 0.125

Box = list[tuple[float, float]]


def points(p: int) -> int:
    """Return the number of random points: fewer at the largest dimension, where Arb is slow."""
    return 300 if p < 10000 else 30


def climbs(p: int, exact: bool) -> tuple[int, int]:
    """Return the number of starts and of trials from each; fewer where Arb is the judge."""
    if not exact:
        return (300, 400) if p < 10000 else (30, 400)
    return (120, 250) if p < 1000 else (40, 60) if p < 10000 else (6, 8)


def single(a: Array) -> Array:
    return a.astype(np.float32).astype(np.float64)


def cosines(p: int, rng: np.random.Generator) -> Array:
    rho = rng.uniform(-1, 1, points(p))
    where = rng.uniform(size=points(p))
    return single(np.where(where < AT_AN_END, -1, np.where(where > 1 - AT_AN_END, 1, rho)))


def wide_box(p: int) -> Box:
    """Arguments over wide ranges: rho in [-1, 1], kappa from 1e-6 to 1e6, 1/tau from .01 to
    1000."""
    return [(-1, 1), (-6, 6), (-2, 3)]


def training_box(p: int) -> Box:
    """Arguments as in training: kappa from p/10 to 10 p, tau = 0.1."""
    return [(-1, 1), (np.log10(p) - 1, np.log10(p) + 1), (1, 1)]


BOXES = {"wide": (wide_box, DIMENSIONS), "training": (training_box, (128, 1024, 2048))}


def arguments(coordinates: Array) -> tuple[Array, Array, Array]:
    """Turn rho and the decimal logarithms of kappa and 1/tau into rho, kappa and tau."""
    rho, kappa, t = coordinates
    return single(rho), single(10**kappa), single(10**-t)


def draw(box: Box, p: int, rng: np.random.Generator) -> Array:
    """Draw points [coordinates, n] of the box; the first coordinate of three is a cosine."""
    low, high = np.array(box).T
    coordinates = rng.uniform(low, high, (points(p), len(box))).T
    return np.stack([cosines(p, rng), *coordinates[1:]]) if len(box) == 3 else coordinates


def true_scores(coordinates: Array, p: int) -> tuple[Array, Array]:
    """Return q, and the size that its error is relative to, max(|q|, |rho dq/drho|), by Arb."""
    inputs = arguments(coordinates)
    q, slope = np.array([arb.score(*x, p)[:2] for x in zip(*inputs, strict=True)]).T
    return q, np.maximum(abs(q), abs(inputs[0] * slope))


def close_scores(coordinates: Array, p: int) -> tuple[Array, Array]:
    """Return `true_scores` by our float64, which is exact to float32."""
    inputs = arguments(coordinates)
    q, slope = peers.ours_both(*inputs, p)
    return q, np.maximum(abs(q), abs(inputs[0] * slope))


# The argument of each derivative.
DERIVATIVES = {"dq/dkappa": 1, "dq/dtau": 2}


def close_derivative(coordinates: Array, p: int, name: str) -> tuple[Array, Array]:
    """Return the derivative by our float64, which is exact to float32, and the size that its error
    is relative to: its own, and that of its change under a change of rho, kappa and tau by their
    own sizes."""
    x = [torch.from_numpy(a).requires_grad_() for a in arguments(coordinates)]
    total = vmf_score(x[0], x[1], x[2], p).sum()
    (value,) = torch.autograd.grad(total, x[DERIVATIVES[name]], create_graph=True)
    second = torch.autograd.grad(value.sum(), x)
    with torch.no_grad():
        change = torch.stack([(a * b).abs() for a, b in zip(x, second, strict=True)]).sum(0)
        return value.numpy(), (value.abs() + change).numpy()


def true_derivative(coordinates: Array, p: int, name: str) -> tuple[Array, Array]:
    """Return the derivative by Arb, and the size of `close_derivative`."""
    points = zip(*arguments(coordinates), strict=True)
    value = np.array([arb.score(*x, p)[1 + DERIVATIVES[name]] for x in points])
    return value, close_derivative(coordinates, p, name)[1]


def our_derivative(coordinates: Array, p: int, name: str, dtype: torch.dtype) -> Array:
    x = [torch.from_numpy(a).to(dtype).requires_grad_() for a in arguments(coordinates)]
    total = vmf_score(x[0], x[1], x[2], p).sum()
    (value,) = torch.autograd.grad(total, x[DERIVATIVES[name]])
    return value.double().numpy()


def derivative_errors() -> Iterator[dict[str, Any]]:
    """Measure the largest errors of our derivatives in kappa and tau over the wide range."""
    for p in DIMENSIONS:
        for name in DERIVATIVES:
            progress(f"{name}, p = {p}")
            double, fast = (
                lambda c, p=p, name=name, dtype=dtype: our_derivative(c, p, name, dtype)
                for dtype in peers.OURS.values()
            )
            searches = [
                (double, lambda c, p=p, name=name: true_derivative(c, p, name), True),
                (fast, lambda c, p=p, name=name: close_derivative(c, p, name), False),
            ]
            found = searched(wide_box(p), p, np.random.default_rng([SEED, p]), searches)
            truth, size = true_derivative(found, p, name)
            for method, values in zip(peers.OURS, (double(found), fast(found)), strict=True):
                error = abs(values - truth) / size
                row = {"what": name, "method": method, "p": p}
                yield row | summary(error, np.isfinite(values))


def summary(error: Array, finite: Array) -> dict[str, float | None]:
    """Return the largest error of the finite values, and the share of values that are not
    finite."""
    largest = float(error[finite].max()) if finite.any() else None
    return {"error": largest, "non_finite": float(1 - finite.mean())}


Judge = Callable[[Array], tuple[Array, Array]]


def searched(
    box: Box,
    p: int,
    rng: np.random.Generator,
    searches: Sequence[tuple[Callable[[Array], Array], Judge, bool]],
) -> Array:
    """Return random points of the box, and the ends of hill climbs from them.

    A search is a method, the judge of its errors (the value, and the size that an error is relative
    to), and whether the judge is Arb.
    """
    found = [draw(box, p, rng)]
    for method, judge, exact in searches:

        def error(
            coordinates: Array, method: Callable[[Array], Array] = method, judge: Judge = judge
        ) -> Array:
            value, scale = judge(coordinates)
            return abs(method(coordinates) - value) / scale

        starts, steps = climbs(p, exact)
        ends = climb(error, box, found[0][:, :starts], steps, rng)
        # The ends with the largest errors; the others are judged for nothing.
        found.append(ends[:, np.argsort(-error(ends))[:20]])
    return np.concatenate(found, axis=1)


def score_errors(box: str) -> Iterator[dict[str, Any]]:
    """Measure the largest error of q relative to max(|q|, |rho dq/drho|), per method and
    dimension."""
    methods = peers.scores()
    double, fast = (methods[name] for name in peers.OURS)
    ranges, dimensions = BOXES[box]
    for p in dimensions:
        progress(f"score, {box} range, p = {p}")
        searches = [
            (lambda c, p=p: double(*arguments(c), p), lambda c, p=p: true_scores(c, p), True),
            (lambda c, p=p: fast(*arguments(c), p), lambda c, p=p: close_scores(c, p), False),
        ]
        found = searched(ranges(p), p, np.random.default_rng([SEED, p]), searches)
        truth, scale = true_scores(found, p)
        for name, score in methods.items():
            q = score(*arguments(found), p)
            finite = np.isfinite(q)
            error = abs(np.where(finite, q, 0.0) - truth) / scale
            yield {"what": f"score, {box}", "method": name, "p": p, **summary(error, finite)}


def ratio_errors() -> Iterator[dict[str, Any]]:
    """Measure the largest relative error of the ratio R over kappa from 1e-6 to 1e6."""
    methods = peers.ratios()
    double, fast = (methods[name] for name in peers.OURS)
    for p in DIMENSIONS:
        progress(f"ratio, p = {p}")

        def kappas(coordinates: Array) -> Array:
            return single(10 ** coordinates[0])

        def truths(c: Array, p: int = p) -> tuple[Array, Array]:
            value = np.array([arb.bessel(p / 2 - 1, k)[1] for k in kappas(c)])
            return value, value

        def close(c: Array, p: int = p) -> tuple[Array, Array]:
            value = double(p, kappas(c))
            return value, value

        searches = [
            (lambda c, p=p: double(p, kappas(c)), truths, True),
            (lambda c, p=p: fast(p, kappas(c)), close, False),
        ]
        found = searched([(-6, 6)], p, np.random.default_rng([SEED, p]), searches)
        truth, _ = truths(found)
        for name, ratio in methods.items():
            value = ratio(p, kappas(found))
            finite = np.isfinite(value)
            error = abs(np.where(finite, value, 0.0) - truth) / truth
            yield {"what": "ratio", "method": name, "p": p, **summary(error, finite)}


def inverse_errors() -> Iterator[dict[str, Any]]:
    """Measure the largest relative error of kappa from R over kappa from 1e-4 to 1e6."""
    methods = peers.inverses()
    ours = methods["resultant, float64"]
    for p in DIMENSIONS:
        progress(f"kappa from R, p = {p}")

        def pairs(c: Array, p: int = p) -> tuple[Array, Array]:
            r, truth = np.array([exact_inverse(p, float(k)) for k in 10 ** c[0]]).T
            return r, truth

        def error(c: Array, p: int = p) -> Array:
            r, truth = pairs(c)
            # A length that rounds to one has no finite kappa.
            return np.where(r < 1, abs(ours(p, r) - truth) / truth, 0.0)

        rng = np.random.default_rng([SEED, p])
        random = draw([(-4, 6)], p, rng)[:, : points(p) // 3]
        starts, steps = climbs(p, True)
        ends = climb(error, [(-4, 6)], random[:, : starts // 2], steps // 2, rng)
        r, truth = pairs(np.concatenate([random, ends], axis=1))
        r, truth = r[r < 1], truth[r < 1]
        for name, inverse in methods.items():
            value = inverse(p, r.copy())
            finite = np.isfinite(value)
            error_of = abs(np.where(finite, value, 0.0) - truth) / truth
            yield {"what": "kappa", "method": name, "p": p, **summary(error_of, finite)}


def exact_inverse(p: int, kappa: float) -> tuple[float, float]:
    """Return a float R near R_nu(kappa), and the kappa of that float.

    One Newton step from kappa, which is off by the rounding of R only, is exact to twice the
    precision of a float.
    """
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


def progress(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def run() -> list[dict[str, Any]]:
    rows = [row for box in BOXES for row in score_errors(box)]
    return [*rows, *derivative_errors(), *ratio_errors(), *inverse_errors()]
