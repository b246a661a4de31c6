"""Time of the score on one thread of a CPU: many values, small calls, and growing sizes.

Processor time, the least of several turns: on a busy machine other programs only add to it.
"""

import time
from collections.abc import Callable
from timeit import Timer
from typing import Any

import numpy as np
import torch
from scipy import special, stats
from torch.nn.functional import normalize

from benchmarks import Row, Tables, peers
from resultant import ClassState, VonMisesFisher, class_scores, log_bessel_i, vmf_score_and_slope

P, TAU, SEED = 1024, 0.1, 20
QUERIES, CLASSES = 2000, 1000
# Queries, classes and dimension; one of them changes at a time.
SIZES = (
    *((n, 1000, 512) for n in (1000, 250, 4000, 16000)),
    *((1000, c, 512) for c in (250, 4000, 16000)),
    *((1000, 1000, p) for p in (128, 2048)),
)
DIMENSIONS = (16, 64, 256, 1024, 4096, 16384)
VALUES, FEW = 2000, 500

Work = Callable[[], Any]


def seconds(work: Work) -> float:
    """Return the least processor time of a call over turns of many calls."""
    work()  # the first call makes tables
    timer = Timer(work, timer=time.process_time)
    calls, _ = timer.autorange()
    return min(timer.repeat(5 if calls > 1 else 3, calls)) / calls


def others(p: int, kt: np.ndarray, few: int) -> dict[str, tuple[int, Work]]:
    """Return by method the number of values, and the work of the others."""
    some = torch.from_numpy(kt.ravel()[:few].copy())
    work: dict[str, tuple[int, Work]] = {
        "scipy ive": (kt.size, lambda: special.ive(p / 2 - 1, kt)),
        "ProCo recurrence": (few, lambda: peers.miller(p // 2 - 1, some)),
    }
    for name, log_ive in peers.tensorflow_probability().items():
        work[name] = kt.size, lambda: log_ive(p / 2 - 1, kt)
    return work


def many() -> list[Row]:
    """Measure values per second at p = 1024."""
    generator = torch.Generator().manual_seed(SEED)
    rho = torch.rand(QUERIES, CLASSES, generator=generator) * 2 - 1
    kappa = P * torch.rand(CLASSES, generator=generator).sub(0.5).mul(2).exp()
    compiled = torch.compile(vmf_score_and_slope, fullgraph=True)
    rows: list[Row] = []
    for name, dtype in peers.OURS.items():
        r, k, tau = rho.to(dtype), kappa.to(dtype), torch.tensor(TAU, dtype=dtype)
        full = k.expand_as(r).contiguous()
        for kind, function, own in (
            ("kappa per class", vmf_score_and_slope, k),
            ("kappa per element", vmf_score_and_slope, full),
            ("torch.compile", compiled, k),
        ):
            rate = r.numel() / seconds(lambda: function(r, own, tau, P)) / 1e6
            rows.append({"method": f"{name}, {kind}", "million per second": rate})
    # The rate does not depend on the size; slow methods get a part.
    kt = peers.tilted(rho[:100].double().numpy(), kappa.double().numpy(), np.array(TAU))
    for method, (size, work) in others(P, kt, 20 * CLASSES).items():
        rows.append({"method": method, "million per second": size / seconds(work) / 1e6})
    return rows


def calls() -> list[Row]:
    """Measure calls of few elements, p = 3, in us, and their peers in scipy."""
    rng = np.random.default_rng(SEED)
    rho, kappa, x = (rng.uniform(0, high, 100) for high in (1, 9, 50))
    rho_t, kappa_t, x_t = (torch.from_numpy(a) for a in (rho, kappa, x))
    mu, at = np.array([1.0, 0, 0]), np.array([0.6, 0.8, 0])
    mu_t, at_t = torch.from_numpy(mu), torch.from_numpy(at)
    law, peer = VonMisesFisher(mu_t, 2.0), stats.vonmises_fisher(mu, 2)
    work: dict[str, tuple[Work, Work]] = {
        f"q and slope, {n} element{'s' if n > 1 else ''}": (
            lambda n=n: vmf_score_and_slope(rho_t[:n], kappa_t[:n], TAU, 3),
            lambda n=n: special.ive(0.5, kappa[:n]),
        )
        for n in (1, 100)
    }
    work |= {
        "log I, 100 elements": (
            lambda: log_bessel_i(0.5, x_t),
            lambda: np.log(special.ive(0.5, x)) + x,
        ),
        "log_prob of one distribution": (lambda: law.log_prob(at_t), lambda: peer.logpdf(at)),
        "the same with its construction": (
            lambda: VonMisesFisher(mu_t, 2.0).log_prob(at_t),
            lambda: stats.vonmises_fisher(mu, 2).logpdf(at),
        ),
        "entropy of one distribution": (law.entropy, peer.entropy),
    }
    return [
        {"us per call": what, "resultant": 1e6 * seconds(ours), "scipy": 1e6 * seconds(scipy)}
        for what, (ours, scipy) in work.items()
    ]


def values() -> list[Row]:
    """Measure one value over the dimension: our score with its slope, functions of others."""
    rows: dict[str, Row] = {}
    for p in DIMENSIONS:
        rng = np.random.default_rng(SEED)
        rho, kappa = rng.uniform(-1, 1, VALUES), p * rng.uniform(0.5, 2, VALUES)
        r, k = torch.from_numpy(rho), torch.from_numpy(kappa)
        ours = VALUES, lambda: vmf_score_and_slope(r, k, TAU, p)
        peer = others(p, peers.tilted(rho, kappa, np.array(TAU)), FEW)
        for method, (size, work) in {"resultant, float64": ours, **peer}.items():
            row = rows.setdefault(method, {"us per value": method})
            row[f"p = {p:,}"] = 1e6 * seconds(work) / size
    return list(rows.values())


def ratios() -> list[Row]:
    """Measure one value of the ratio R over the dimension."""
    rows: dict[str, Row] = {}
    for p in DIMENSIONS:
        kappa = p * np.logspace(-2, 2, VALUES)
        for method, ratio in peers.ratios().items():
            row = rows.setdefault(method, {"us per value of R": method})
            row[f"p = {p:,}"] = 1e6 * seconds(lambda: ratio(kappa, p)) / VALUES
    return list(rows.values())


def growth() -> list[Row]:
    """Measure `class_scores` of float32 queries in ms, and the matrix product inside it."""
    rows = []
    for n, c, p in SIZES:
        generator = torch.Generator().manual_seed(SEED)
        z, mu = (normalize(torch.randn(k, p, generator=generator), dim=1) for k in (n, c))
        state = ClassState(mu, p * torch.rand(c, generator=generator).add(0.5), torch.ones(c))
        row: Row = {"queries x classes": f"{n:,} x {c:,}, p = {p:,}"}
        row["class_scores, ms"] = 1e3 * seconds(lambda: class_scores(z, state, TAU))
        rows.append(row | {"matrix product, ms": 1e3 * seconds(lambda: z @ mu.T)})
    return rows


def run() -> Tables:
    torch.set_num_threads(1)
    note = f"""\
p = {P}, {QUERIES:,} queries x {CLASSES:,} classes, kappa around p, tau = {TAU}, one thread, by
processor time. Ours computes the score and its slope; the others compute one Bessel value, and a
score needs two. The recurrence of ProCo also gives the ratio R."""
    yield note, many()
    note = """\
Calls of p = 3 in float64. scipy computes one Bessel value (a score needs two), the log density or
the entropy."""
    yield note, calls()
    note = f"""\
Calls of {VALUES:,} values in float64 ({FEW} for the recurrence of ProCo), kappa around p. Ours is a
score with its slope; the others are one value of a Bessel function, and a score needs two."""
    yield note, values()
    note = f"""\
Calls of {VALUES:,} values of the Bessel ratio R, kappa from p / 100 to 100 p."""
    yield note, ratios()
    note = (
        "`class_scores` of float32 queries, and the product of queries and class directions alone."
    )
    yield note, growth()
