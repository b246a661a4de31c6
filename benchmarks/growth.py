"""Processor time of the scores as the numbers of queries, classes and dimensions grow, on one
thread."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from scipy import special

from benchmarks import peers
from benchmarks.accuracy import SEED, progress
from resultant import ClassState, class_scores, vmf_score_and_slope

TAU = 0.1
# Queries, classes and dimension; one of them grows at a time.
START = {"queries": 1000, "classes": 1000, "dimension": 512}
SIZES = {
    "queries": (250, 1000, 4000, 16000),
    "classes": (250, 1000, 4000, 16000),
    "dimension": (128, 512, 2048, 8192),
}
# Dimensions of the time per value, and values per call.
DIMENSIONS = (16, 64, 256, 1024, 4096, 16384)
VALUES = 2000


def seconds(work: Callable[[], Any], least: float = 0.3) -> float:
    """Return the median processor time of a call, after a first one."""
    work()
    times: list[float] = []
    while len(times) < 3 or (sum(times) < least and len(times) < 50):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return statistics.median(times)


def whole() -> Iterator[dict[str, Any]]:
    """Measure `class_scores` of float32 queries, and the matrix product inside it."""
    for name, sizes in SIZES.items():
        for size in sizes:
            progress(f"growth: {size} {name}")
            n, c, p = (START | {name: size}).values()
            generator = torch.Generator().manual_seed(SEED)
            z, mu = (
                torch.nn.functional.normalize(torch.randn(k, p, generator=generator), dim=1)
                for k in (n, c)
            )
            state = ClassState(mu, p * torch.rand(c, generator=generator).add(0.5), torch.ones(c))
            for method, work in (
                ("class_scores", lambda: class_scores(z, state, TAU)),
                ("matrix product", lambda: z @ mu.T),
            ):
                yield {"grows": name, "size": size, "method": method, "seconds": seconds(work)}


def single() -> Iterator[dict[str, Any]]:
    """Measure one value over the dimension: our score with its slope, and the Bessel functions
    of others."""
    log_ive = peers.tensorflow_probability()
    for p in DIMENSIONS:
        progress(f"growth: one value, p = {p}")
        rng = np.random.default_rng(SEED)
        rho, kappa = rng.uniform(-1, 1, VALUES), p * rng.uniform(0.5, 2, VALUES)
        kt = peers.tilted(rho, kappa, np.array(TAU))
        r, k = torch.from_numpy(rho), torch.from_numpy(kappa)
        tau = torch.tensor(TAU, dtype=torch.float64)
        few, one = torch.from_numpy(kt[:500]), kt[:20]
        work: dict[str, tuple[int, Callable[[], Any]]] = {
            "resultant, float64": (VALUES, lambda: vmf_score_and_slope(r, k, tau, p)),
            "scipy.special.ive": (VALUES, lambda: special.ive(p / 2 - 1, kt)),
            "ProCo recurrence": (len(few), lambda: peers.miller(p // 2 - 1, few)),
        }
        # The series of mpmath does not converge in very high dimension.
        if np.isfinite(peers.mpmath_ratio(p, one)).all():
            name = f"mpmath, {peers.DIGITS} digits"
            work[name] = len(one), lambda: peers.mpmath_ratio(p, one)
        if log_ive is not None:
            order = np.float64(p / 2 - 1)
            work["TFP on JAX"] = VALUES, lambda: log_ive(order, kt).block_until_ready()
        for method, (values, call) in work.items():
            yield {"p": p, "method": method, "us": 1e6 * seconds(call) / values}


def run() -> dict[str, Any]:
    torch.set_num_threads(1)
    return {"growth": list(whole()), "growth_value": list(single())}
