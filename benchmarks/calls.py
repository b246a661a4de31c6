"""Time of small calls and per element of large ones, float64, on one pinned core.

Processor time, the least of many turns: on a busy machine the others only add to it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy import special, stats

from benchmarks import peers
from benchmarks.accuracy import SEED, progress
from resultant import (
    VonMisesFisher,
    bessel_ratio,
    bessel_ratio_inverse,
    log_bessel_i,
    vmf_score_and_slope,
)

TAU, TURNS = 0.1, 9
LARGE = 10**6
Row = dict[str, Any]
Work = Callable[[], Any]


def least(work: Work, seconds: float = 0.02) -> float:
    """Return the least processor time of a call in us, over turns of many calls."""
    work()  # the first call makes tables
    start = time.process_time()
    work()
    repeats = max(1, int(seconds / max(time.process_time() - start, 1e-6)))
    times = []
    for _ in range(TURNS if repeats > 1 else 3):
        start = time.process_time()
        for _ in range(repeats):
            work()
        times.append((time.process_time() - start) / repeats)
    return 1e6 * min(times)


def row(what: str, bar: float, ours: Work, scipy: Work | None, tfp: Work | None = None) -> Row:
    """Measure a call in us by us and, where there is one, of a Bessel function by others."""
    progress(f"calls: {what}")
    others = {name: work and least(work) for name, work in (("scipy", scipy), ("tfp", tfp))}
    return {"what": what, "ours": least(ours), "bar": bar, **others}


def scores(log_ive: Any) -> list[Row]:
    """Measure q with its slope of few elements, p = 3."""
    rows = []
    for n, bar in ((1, 150.0), (100, 150.0)):
        rng = np.random.default_rng(SEED)
        rho, kappa = torch.from_numpy(rng.uniform(-1, 1, n)), torch.from_numpy(rng.uniform(0, 9, n))
        kt = peers.tilted(rho.numpy(), kappa.numpy(), np.array(TAU))
        tfp = log_ive and (lambda kt=kt: log_ive(np.float64(0.5), kt).block_until_ready())
        rows.append(
            row(
                f"q and slope, {n} element{'s' if n > 1 else ''}",
                bar,
                lambda rho=rho, kappa=kappa: vmf_score_and_slope(rho, kappa, TAU, 3),
                lambda kt=kt: special.ive(0.5, kt),
                tfp,
            )
        )
    return rows


def functions() -> list[Row]:
    """Measure the Bessel functions of 100 elements, and one distribution."""
    rng = np.random.default_rng(SEED)
    x, r = rng.uniform(0, 50, 100), rng.uniform(0, 1, 100)
    x_torch, r_torch = torch.from_numpy(x), torch.from_numpy(r)
    mu, at = np.array([1.0, 0, 0]), np.array([0.6, 0.8, 0])
    law, peer = VonMisesFisher(torch.from_numpy(mu), 2.0), stats.vonmises_fisher(mu, 2)
    at_torch = torch.from_numpy(at)
    return [
        row("R, 100 elements", 150.0, lambda: bessel_ratio(0.5, x_torch), None),
        row(
            "log I, 100 elements",
            150.0,
            lambda: log_bessel_i(0.5, x_torch),
            lambda: np.log(special.ive(0.5, x)) + x,
        ),
        row("kappa from R, 100 elements", 150.0, lambda: bessel_ratio_inverse(0.5, r_torch), None),
        row(
            "log_prob of one distribution",
            150.0,
            lambda: law.log_prob(at_torch),
            lambda: peer.logpdf(at),
        ),
        row("entropy of one distribution", 150.0, law.entropy, peer.entropy),
    ]


def elements(dtype: torch.dtype) -> list[Row]:
    """Measure q with its slope per element of a large call with kappa per element."""
    rows = []
    for p, bar in ((3, 0.12), (17, 0.12), (64, 0.06), (1024, 0.06)):
        rng = np.random.default_rng(SEED)
        rho, kappa = rng.uniform(-1, 1, LARGE), rng.uniform(0, 2 * p, LARGE)
        kt = peers.tilted(rho[:20000], kappa[:20000], np.array(TAU))
        inputs = [torch.from_numpy(a).to(dtype) for a in (rho, kappa, np.array(TAU))]
        name = str(dtype).removeprefix("torch.")
        measured = row(
            f"p = {p}, {name}, each of a million",
            bar,
            lambda a=inputs, p=p: vmf_score_and_slope(a[0], a[1], a[2], p),
            lambda kt=kt, p=p: special.ive(p / 2 - 1, kt),
        )
        measured["ours"] /= LARGE
        measured["scipy"] /= kt.size
        rows.append(measured if dtype == torch.float64 else measured | {"bar": None})
    return rows


def compilation() -> Row:
    """Measure the first call under torch.compile at p = 3, by the clock, without a cache."""
    progress("calls: torch.compile")
    rho, kappa = torch.rand(100).double(), torch.rand(100).double() * 9
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        function = torch.compile(lambda r, k: vmf_score_and_slope(r, k, TAU, 3), fullgraph=True)
        start = time.perf_counter()
        function(rho, kappa)
        took = 1e6 * (time.perf_counter() - start)
        del os.environ["TORCHINDUCTOR_CACHE_DIR"]
    what = "first call under torch.compile, p = 3"
    return {"what": what, "ours": took, "bar": 20e6, "scipy": None, "tfp": None}


def run() -> list[Row]:
    torch.set_num_threads(1)
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    try:
        if cores:
            os.sched_setaffinity(0, {max(cores)})
        rows = [*scores(peers.tensorflow_probability()), *functions()]
        rows += [*elements(torch.float64), *elements(torch.float32)]
        return [*rows, compilation()]
    finally:
        if cores:
            os.sched_setaffinity(0, cores)
