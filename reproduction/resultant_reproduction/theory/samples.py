"""Finite samples: mean lengths, self-inclusion and cross-fitted temperatures."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
from torch import Tensor

from resultant.classes.cosines import cosines
from resultant.classes.finite_sample import (
    expected_square_resultant,
    self_inclusion,
    unbiased_square_resultant,
)
from resultant.classes.realization import class_scores
from resultant.report import style
from resultant.theory.cross_fit import cross_fit_temperature, fold_statistics
from resultant.vmf.distribution import VonMisesFisher
from resultant_reproduction.figures import LOG, Chart, Curve
from resultant_reproduction.theory.check import Check, check, rounding
from resultant_reproduction.theory.realizations import random_state

ROUNDING = 1e-13
TAU = 0.1


@check
def finite_sample(
    square: Callable[..., Tensor] = expected_square_resultant,
    inclusion: Callable[..., Tensor] = self_inclusion,
) -> Check:
    """Check the identities of finite samples (eq:finite-resultant-identity,
    eq:unbiased-resultant-square, eq:self-inclusion).

    The identities need no vMF distribution. All samples of a population of four vectors with
    unequal weights are enumerated, so that expectations are sums and not estimates.
    """
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(4, 3, generator=generator, dtype=torch.float64)
    x = x / x.norm(dim=-1, keepdim=True)
    weight = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)
    A = float((weight @ x).norm())
    sizes = (2, 3, 4, 5, 6)
    worst = {"square": 0.0, "unbiased": 0.0, "self-inclusion": 0.0}
    for n in sizes:
        indices = torch.tensor(list(itertools.product(range(4), repeat=n)))
        chance = weight[indices].prod(-1)
        sample = x[indices]  # [4^n, n, 3]
        mean = sample.mean(1)
        R = mean.norm(dim=-1)
        own = sample[:, 0]
        rest = sample[:, 1:].mean(1)
        gain = (own * (mean - rest)).sum(-1) / TAU
        gaps = {
            "square": (chance @ R**2) - square(A, n),
            "unbiased": (chance @ unbiased_square_resultant(R.clamp(max=1), n)) - A**2,
            "self-inclusion": (chance @ gain) - inclusion(A, TAU, n),
        }
        for name, gap in gaps.items():
            worst[name] = max(worst[name], abs(float(gap)))

    def panels() -> list[Chart]:
        torch.manual_seed(6)
        p, repeats, counts = 64, 400, (2, 5, 10, 20, 50, 100)
        many = torch.logspace(0.2, 2.1, 60, dtype=torch.float64)
        lengths, gains = [], []
        for lam, colour in ((0.5, style.BLUE), (1.0, style.ORANGE), (3.0, style.GREEN)):
            law = VonMisesFisher(torch.eye(p, dtype=torch.float64)[0], lam * (p / 2 - 1))
            A = float(law.mean.norm())
            squares, gained = [], []
            for n in counts:
                sample = law.sample((repeats, n))
                mean = sample.mean(1, keepdim=True)
                squares.append(float(mean.square().sum(-1).mean()))
                rest = (n * mean - sample) / (n - 1)
                gained.append(float((sample * (mean - rest)).sum(-1).mean() / TAU))
            name = f"$A={A:.2f}$"
            lengths += [
                Curve(many, square(A, many), "-", f"{name}, identity", colour),
                Curve(counts, squares, "o", f"{name}, vMF draws", colour),
                Curve(many[[0, -1]], (A * A, A * A), ":", color=colour, more={"lw": 1}),
            ]
            gains += [
                Curve(many, inclusion(A, TAU, many), color=colour),
                Curve(counts, gained, "o", color=colour),
            ]
        xlabel = "sample size $n$"
        length = xlabel, r"$E\,R_n^2$ (dotted: $A^2$)", "mean length"
        gain = xlabel, "score gained", rf"self-inclusion at $\tau={TAU:g}$"
        return [Chart(lengths, *length, {"xscale": "log"}), Chart(gains, *gain, LOG)]

    return Check(
        ours=", ".join(rounding(a) for a in worst.values()),
        holds=max(worst.values()) < ROUNDING,
        details={
            "population": {"vectors": x.tolist(), "weights": weight.tolist(), "A": A},
            "n": sizes,
            "tau": TAU,
            "largest_difference": worst,
        },
        panels=panels,
    )


@check
def cross_fitting(samples: int = 2000, r_max: float = 10.0) -> Check:
    """Check that held-out gains are equal, and that the gap between the score and the shared linear
    score falls with the dimension (prop:cross-fit-equalization)."""
    dimensions, classes, tau, A_ref = (18, 66, 258), 4, 0.5, 0.5
    gains, gaps = [], []
    for p in dimensions:
        torch.manual_seed(8)
        state = random_state(9, classes, p, 0.7, 3.0)
        z = VonMisesFisher(state.mu, state.kappa).sample((samples,)).flatten(0, 1)
        y = torch.arange(classes).repeat(samples)
        fold = torch.randint(2, (len(z),))
        parts = fold_statistics(z, y, fold, classes, 2)
        fit = cross_fit_temperature(parts, tau, A_ref, r_min=0.1, r_max=r_max)
        gain = torch.stack([s.resultant for s in fit.states]) / fit.temperature
        gains.append(float((gain * tau / A_ref - 1).abs().max()))
        gap = 0.0
        for k, held in enumerate(fit.states):
            rows = z[fold == k]
            q = class_scores(rows, held, fit.temperature[k])
            gap = max(gap, float((q - A_ref / tau * cosines(rows, state.mu)).abs().max()))
        gaps.append(gap)
    falls = all(b < a / 2 for a, b in itertools.pairwise(gaps))
    return Check(
        ours=f"{rounding(max(gains))}; " + ", ".join(f"{g:.3f}" for g in gaps),
        holds=max(gains) < 1e-9 and falls,
        details={
            "p": dimensions,
            "classes": classes,
            "samples": samples,
            "lambda": "uniform in [0.7, 3]",
            "tau": tau,
            "A_ref": A_ref,
            "gain_difference": gains,
            "score_gap": gaps,
        },
    )
