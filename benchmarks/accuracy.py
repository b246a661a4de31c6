"""Errors against Arb on random points; float32-representable, so that one reference serves both."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import flint
import numpy as np
from flint import arb as ball

from benchmarks import peers
from benchmarks.peers import Array
from reference import arb

DIMENSIONS = (3, 17, 128, 1024, 2048, 65536)
SEED = 20

# Share of the points at each end, rho = -1 and rho = 1.
AT_AN_END = 0.125


def points(p: int) -> int:
    """Return the number of points: fewer at the largest dimension, where Arb is slow."""
    return 300 if p < 10000 else 30


def single(a: Array) -> Array:
    return a.astype(np.float32).astype(np.float64)


def cosines(p: int, rng: np.random.Generator) -> Array:
    rho = rng.uniform(-1, 1, points(p))
    where = rng.uniform(size=points(p))
    return single(np.where(where < AT_AN_END, -1, np.where(where > 1 - AT_AN_END, 1, rho)))


def wide_grid(p: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Arguments over wide ranges: rho in [-1, 1], kappa from 1e-6 to 1e6, 1/tau from .01 to
    1000."""
    kappa = single(10 ** rng.uniform(-6, 6, points(p)))
    tau = single(10 ** -rng.uniform(-2, 3, points(p)))
    return cosines(p, rng), kappa, tau


def training_grid(p: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Arguments as in training: kappa from p/10 to 10 p, tau = 0.1."""
    kappa = single(p * 10 ** rng.uniform(-1, 1, points(p)))
    return cosines(p, rng), kappa, single(np.full(points(p), 0.1))


GRIDS = {"wide": (wide_grid, DIMENSIONS), "training": (training_grid, (128, 1024, 2048))}


def summary(error: Array, finite: Array) -> dict[str, float | None]:
    """Return the largest error of the finite values, and the share of values that are not
    finite."""
    largest = float(error[finite].max()) if finite.any() else None
    return {"error": largest, "non_finite": float(1 - finite.mean())}


def score_errors(grid: str) -> Iterator[dict[str, Any]]:
    """Measure the largest error of q relative to max(|q|, |rho dq/drho|), per method and
    dimension."""
    methods = peers.scores()
    draw, dimensions = GRIDS[grid]
    for p in dimensions:
        progress(f"score, {grid} grid, p = {p}")
        rho, kappa, tau = draw(p, np.random.default_rng([SEED, p]))
        truth = np.array([arb.score(*x, p)[:2] for x in zip(rho, kappa, tau, strict=True)])
        scale = np.maximum(abs(truth[:, 0]), abs(rho * truth[:, 1]))
        for name, score in methods.items():
            q = score(rho, kappa, tau, p)
            finite = np.isfinite(q)
            error = abs(np.where(finite, q, 0.0) - truth[:, 0]) / scale
            yield {"what": f"score, {grid}", "method": name, "p": p, **summary(error, finite)}


def ratio_errors() -> Iterator[dict[str, Any]]:
    """Measure the largest relative error of the ratio R over kappa from 1e-6 to 1e6."""
    methods = peers.ratios()
    for p in DIMENSIONS:
        progress(f"ratio, p = {p}")
        _, kappa, _ = wide_grid(p, np.random.default_rng([SEED, p]))
        truth = np.array([arb.bessel(p / 2 - 1, k)[1] for k in kappa])
        for name, ratio in methods.items():
            value = ratio(p, kappa)
            finite = np.isfinite(value)
            error = abs(np.where(finite, value, 0.0) - truth) / truth
            yield {"what": "ratio", "method": name, "p": p, **summary(error, finite)}


def inverse_errors() -> Iterator[dict[str, Any]]:
    """Measure the largest relative error of kappa from R over kappa from 1e-4 to 1e6."""
    methods = peers.inverses()
    for p in DIMENSIONS:
        progress(f"kappa from R, p = {p}")
        near = 10 ** np.random.default_rng([SEED, p]).uniform(-4, 6, points(p) // 3)
        pairs = np.array([exact_inverse(p, float(k)) for k in near])
        # A length that rounds to one has no finite kappa.
        r, truth = pairs[pairs[:, 0] < 1].T
        for name, inverse in methods.items():
            value = inverse(p, r.copy())
            finite = np.isfinite(value)
            error = abs(np.where(finite, value, 0.0) - truth) / truth
            yield {"what": "kappa", "method": name, "p": p, **summary(error, finite)}


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
    rows = [row for grid in GRIDS for row in score_errors(grid)]
    return [*rows, *ratio_errors(), *inverse_errors()]
