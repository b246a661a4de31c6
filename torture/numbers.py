"""Random and adversarial numbers for the Bessel functions, the score and the certificates.

Properties: values are finite, in their range and monotone where the function is; a certified query
has the same winner under both rules, also where an adversary has moved it towards a boundary.
"""

import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import normalize

from resultant import (
    bessel_ratio,
    bessel_ratio_inverse,
    certificate,
    class_scores,
    decompose,
    log_bessel_i,
    vmf_score,
    vmf_score_slope,
)
from resultant.classes.statistics import ClassState

SIZE, ROWS, STEPS = 1 << 17, 1 << 12, 16
EPS = torch.finfo(torch.float64).eps
# The error of one value against Arb, relative to the value, of the score to |q| + |dq/drho|. Two
# neighbours fall by at most the sum of their errors, and every bound below is such a sum.
ERROR = 24 * EPS
SPECIAL = (0.0, 5e-324, 1e-308, 1e-160, 1e-16, 0.5, 1.0, 12.0, 1e8, 1e16, 1e100, 1e154, 1e300)


def magnitudes(seed: int, number: int, low: float, high: float) -> Tensor:
    """Numbers of all magnitudes between 10^low and 10^high, with special ones and their neighbours,
    sorted."""
    generator = torch.Generator().manual_seed(seed)
    x = 10.0 ** (low + (high - low) * torch.rand(number, generator=generator, dtype=torch.float64))
    special = torch.tensor([s for s in SPECIAL if s <= 10.0**high], dtype=torch.float64)
    near = torch.nextafter(special, torch.full_like(special, math.inf))
    x[: len(special)], x[-len(near) :] = special, near
    return x.clamp(max=10.0**high).sort().values


def falls(values: Tensor, slack: Tensor | float) -> str:
    """Return where values that should rise fall by more than the slack."""
    fall = values[:-1] - values[1:] > slack
    return f"falls at index {int(fall.nonzero()[0])}" if fall.any() else ""


def outside(values: Tensor, low: float = -math.inf, high: float = math.inf) -> str:
    wrong = ~(values.isfinite() & (values >= low) & (values <= high))
    rule = f"expected finite values in [{low:g}, {high:g}]"
    return f"{rule}, got {values[wrong][0]}" if wrong.any() else ""


def ratio(seed: int) -> str:
    rng = random.Random(seed)
    nu = rng.choice((0.0, 0.5, 1.0, 31.0, 63.0, 1023.0, 10 ** rng.uniform(-3, 6)))
    x = magnitudes(seed, SIZE, -300, 300)
    r = bessel_ratio(nu, x)
    problem = outside(r, 0, 1) or falls(r, ERROR * (r[:-1] + r[1:]))
    if not problem:
        inner = (r > 1e-300) & (r < 1 - 1e-12)
        back = bessel_ratio(nu, bessel_ratio_inverse(nu, r[inner]))
        error = (back / r[inner] - 1).abs().max().item() if inner.any() else 0.0
        # R(x) moves by at most its own share when x does: x R' <= R. Two ratios, one inverse.
        problem = f"the inverse is off by {error}" if error > 3 * ERROR else ""
    return f"bessel_ratio at nu = {nu}: {problem}" if problem else ""


def logarithm(seed: int) -> str:
    nu = 10 ** random.Random(seed).uniform(-3, 6)
    x = magnitudes(seed, SIZE, -300, 300)
    x = x[x > 0]
    value = log_bessel_i(nu, x)
    error = ERROR * value.abs().clamp(min=1)
    problem = outside(value) or falls(value, error[:-1] + error[1:])
    return f"log_bessel_i at nu = {nu}: {problem}" if problem else ""


def score(seed: int) -> str:
    rng = random.Random(seed)
    p = rng.choice((2, 3, 8, 64, 128, 2048, 10**5))
    kappa, tau = 10 ** rng.uniform(-6, 8), 10 ** rng.uniform(-4, 3)
    generator = torch.Generator().manual_seed(seed)
    rho = 2 * torch.rand(SIZE, generator=generator, dtype=torch.float64) - 1
    rho[:2] = torch.tensor([-1.0, 1.0])
    # Clusters of neighbours: the difference of two is smaller than any rounding.
    rho[2:1002] = torch.nextafter(rho[1002:2002], torch.ones(1000, dtype=torch.float64))
    rho = rho.sort().values
    value, slope = vmf_score(rho, kappa, tau, p), vmf_score_slope(rho, kappa, tau, p)
    error = ERROR * (value.abs() + slope)
    intercept, gain, remainder = decompose(rho, kappa, tau, p)
    whole = (intercept + gain * rho + remainder - value).abs()
    parts = ERROR * (intercept.abs() + gain.abs() + remainder.abs())
    problem = (
        outside(value)
        or outside(slope, 0)
        or falls(value, error[:-1] + error[1:])
        or ("the parts do not add up" if (whole > error + parts).any() else "")
    )
    return f"vmf_score at kappa = {kappa}, tau = {tau}, p = {p}: {problem}" if problem else ""


def attack(seed: int) -> str:
    """Move certified queries towards the boundary of another class by bisection."""
    rng = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    classes, p = rng.randint(2, 8), rng.choice((2, 3, 8, 32, 128))
    dtype = rng.choice((torch.float32, torch.float64))
    mu = torch.randn(classes, p, generator=generator, dtype=torch.float64)
    if rng.random() < 0.3:
        # Classes that nearly coincide.
        mu = mu[:1] + 10 ** rng.uniform(-6, 0) * mu
    kappa = 10 ** (rng.uniform(-2, 4) + 2 * torch.rand(classes, generator=generator))
    state = ClassState(
        normalize(mu, dim=1).to(dtype), kappa.to(dtype), torch.full((classes,), 50.0, dtype=dtype)
    )
    tau = 10 ** rng.uniform(-2, 1)
    inside, target = (
        normalize(torch.randn(ROWS, p, generator=generator, dtype=torch.float64), dim=1)
        for _ in range(2)
    )
    inside, other = inside.to(dtype), normalize(-inside + 0.3 * target, dim=1).to(dtype)
    for _ in range(STEPS):
        middle = normalize(inside + other, dim=1)
        found = certificate(middle, state, tau)
        angular = class_scores(middle, state, tau, "angular", 0.0)
        cosine = class_scores(middle, state, tau, "cosine")
        wrong = found.certified & (angular.argmax(1) != cosine.argmax(1))
        if wrong.any():
            i = int(wrong.nonzero()[0])
            gap = float(found.margin[i] - found.residual_range[i])
            return f"a certificate is broken: seed {seed}, row {i}, margin - D = {gap}"
        keep = found.certified[:, None]
        inside, other = torch.where(keep, middle, inside), torch.where(keep, other, middle)
    return ""


Check = Callable[[int], str]
CHECKS: tuple[Check, ...] = (ratio, logarithm, score, attack)


def trials(folder: Path, rng: random.Random) -> Iterator[tuple[str, str]]:
    """Check the functions in turn; nothing is written to the folder."""
    while True:
        for check in CHECKS:
            seed = rng.getrandbits(32)
            yield f"{check.__name__} {seed}", check(seed)
