"""Evaluations per second of processor time: p = 1024, 2,000 queries x 1,000 classes, tau = 0.1.

Processor time, not the clock on the wall: on one thread they agree on an idle machine, and on a
busy one the first still says what the work takes.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy import special
from torch import Tensor

from benchmarks import peers
from benchmarks.accuracy import SEED, progress
from reference import arb
from resultant import vmf_score_and_slope

P, TAU = 1024, 0.1
QUERIES, CLASSES = 2000, 1000
SECONDS_EACH = 2.5
REPEATS = 15

BOTH = "q and dq/drho"
Work = Callable[[], Any]


def inputs(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """rho [N, C] and kappa [C] around p."""
    generator = torch.Generator().manual_seed(SEED)
    rho = torch.rand(QUERIES, CLASSES, generator=generator) * 2 - 1
    kappa = P * torch.rand(CLASSES, generator=generator).sub(0.5).mul(2).exp()
    return rho.to(dtype), kappa.to(dtype)


def ours() -> dict[str, tuple[str, int, Work]]:
    """Map a name to what is computed, the number of evaluations, and the work itself."""
    work: dict[str, tuple[str, int, Work]] = {}
    for dtype in (torch.float64, torch.float32):
        rho, kappa = inputs(dtype)
        each = kappa.expand_as(rho).contiguous()
        tau = torch.full((), TAU, dtype=dtype)
        name = f"resultant, {str(dtype).removeprefix('torch.')}"
        for kind, k in (("kappa per class", kappa), ("kappa per element", each)):

            def eager(rho: Tensor = rho, k: Tensor = k, tau: Tensor = tau) -> Any:
                return vmf_score_and_slope(rho, k, tau, P)

            work[f"{name}, {kind}"] = BOTH, rho.numel(), eager
        compiled = compiled_score(rho, kappa, tau)
        if compiled is not None:
            work[f"{name}, torch.compile"] = BOTH, rho.numel(), compiled
    return work


def compiled_score(rho: Tensor, kappa: Tensor, tau: Tensor) -> Work | None:
    """Return the compiled score, or None without a compiler."""
    function = torch.compile(vmf_score_and_slope, fullgraph=True)
    try:
        function(rho, kappa, tau, P)
    except Exception as error:  # inductor has no one exception for a missing compiler
        progress(f"torch.compile left out: {str(error).splitlines()[0]}")
        return None
    return lambda: function(rho, kappa, tau, P)


def others() -> dict[str, tuple[str, int, Work]]:
    rho, kappa = inputs(torch.float64)
    kt = peers.tilted(rho.numpy(), kappa.numpy(), np.array(TAU))
    # The rate does not depend on the size; slow methods get a part.
    some, few = kt[:100].copy(), torch.from_numpy(kt[:20].copy())
    work: dict[str, tuple[str, int, Work]] = {
        "scipy.special.ive": ("I, one value", some.size, lambda: special.ive(P / 2 - 1, some)),
        "ProCo recurrence": (
            "log I, one value, and R",
            few.numel(),
            lambda: peers.miller(P // 2 - 1, few),
        ),
    }
    one = kt[0, :200].copy()
    name = f"mpmath.besseli, {peers.DIGITS} digits"
    work[name] = "R, two values", one.size, lambda: peers.mpmath_ratio(P, one)
    log_ive = peers.tensorflow_probability()
    if log_ive is not None:
        order = np.float64(P / 2 - 1)
        work["TFP on JAX, log_bessel_ive"] = (
            "log I, one value",
            some.size,
            lambda: log_ive(order, some).block_until_ready(),
        )
    return work


def sampled_error(work: Work, size: int = 200) -> float:
    """Return the largest error of the timed q, relative to max(|q|, |rho dq/drho|)."""
    q, _ = work()
    rho, kappa = inputs(q.dtype)
    tau = float(torch.tensor(TAU, dtype=q.dtype))
    rng = np.random.default_rng(SEED)
    worst = 0.0
    for i, j in rng.integers((QUERIES, CLASSES), size=(size, 2)):
        cosine = float(rho[i, j])
        true, slope, *_ = arb.score(cosine, float(kappa[j]), tau, P)
        worst = max(worst, abs(float(q[i, j]) - true) / max(abs(true), abs(cosine * slope)))
    return worst


def run() -> list[dict[str, Any]]:
    torch.set_num_threads(1)
    progress("speed: set-up and torch.compile")
    mine, theirs = ours(), others()
    work = {**mine, **theirs}
    times: dict[str, list[float]] = {name: [] for name in work}
    for _, _, run_once in work.values():
        run_once()
    # In turns, so that a busy moment of the machine affects all methods; ratios are taken per turn.
    for turn in range(REPEATS):
        progress(f"speed: turn {turn + 1} of {REPEATS}")
        for name, (_, _, run_once) in work.items():
            if sum(times[name]) < SECONDS_EACH or len(times[name]) < 3:
                start = time.process_time()
                run_once()
                times[name].append(time.process_time() - start)
    rates = {name: [work[name][1] / t / 1e6 for t in times[name]] for name in work}

    def beside_scipy(name: str) -> float:
        pairs = zip(rates[name], rates["scipy.special.ive"], strict=False)
        return statistics.median(a / b for a, b in pairs)

    return [
        {
            "method": name,
            "computes": computes,
            "million_per_second": statistics.median(rates[name]),
            "ratio_to_scipy": beside_scipy(name),
            "best_million_per_second": max(rates[name]),
            "repeats": len(times[name]),
            "error": sampled_error(run_once) if name in mine else None,
        }
        for name, (computes, _, run_once) in work.items()
    ]
