"""Refused arguments of the distribution, of its fit and of the estimators."""

# pyright: reportArgumentType=false
# Bad input is passed on purpose.

import math
from collections.abc import Callable

import pytest
import torch
from torch.distributions import kl_divergence

from resultant.vmf.distribution import HypersphericalUniform, VonMisesFisher
from resultant.vmf.estimators import concentration
from vmf.directions import direction, double

torch.manual_seed(0)
LOC, X, ONE = direction(4, 3), direction(4, 6), direction(4)
LONG_LOC = LOC * double(1, 2, 1)[:, None]
LONG, NAN = X.clone(), X.clone()
LONG[3], NAN[3] = 2 * LONG[3], math.nan
WHOLE = torch.eye(3, dtype=torch.int64)
LAW, FIT = VonMisesFisher(LOC, 1.0), VonMisesFisher.fit
KAPPA = r"concentration in \[0, 1e\+140\], got"
EQUAL = r"the mean resultant length < 1 \(equal vectors have an unbounded maximum-likelihood"

REFUSALS: list[tuple[Callable[[], object], str]] = [
    (lambda: VonMisesFisher(LONG_LOC, 1.0), r"loc of length 1 within 1\.2e-06, got 2 at index 1"),
    (lambda: VonMisesFisher(torch.full((4,), math.nan), 1.0), r"loc of length 1 .*, got nan"),
    (lambda: VonMisesFisher(LOC, double(0.0, 1.0, -1.0)), f"{KAPPA} -1 at index 2"),
    (lambda: VonMisesFisher(LOC, double(0.0, 1e155, 1.0)), f"{KAPPA} 1e\\+155 at index 1"),
    (lambda: VonMisesFisher(LOC, math.inf), f"{KAPPA} inf"),
    (lambda: VonMisesFisher(LOC, math.nan), f"{KAPPA} nan"),
    (lambda: VonMisesFisher(LOC[:, :1], 1.0), r".*p >= 2, got shape \(3, 1\)"),
    (lambda: VonMisesFisher(double(1.0), 1.0), r".*p >= 2, got shape \(\)"),
    (lambda: VonMisesFisher([1.0, 0.0], 1.0), ".*p >= 2, got list"),
    (lambda: VonMisesFisher(LOC, double(1.0, 1.0)), r".*that broadcast, got \(3,\) and \(2,\)"),
    (lambda: VonMisesFisher(WHOLE, 1.0), "loc of a floating dtype, got torch.int64"),
    (lambda: VonMisesFisher(LOC, "1"), "concentration to be a tensor or number, got str"),
    (
        lambda: LAW.log_prob(LONG_LOC.expand(2, 3, 4)),
        r"value of length 1 within .*, got 2 at index \(0, 1\)",
    ),
    (lambda: LAW.log_prob(LOC[:, :1]), r"value \[\.\.\., 4\], got shape \(3, 1\)"),
    (lambda: LAW.log_prob(direction(4, 5)), r".*value \(5, 4\), loc \(3, 4\)"),
    (lambda: FIT(ONE.expand(1000, 4)), EQUAL),
    (lambda: FIT(ONE.float().expand(1000, 4)), EQUAL),
    (lambda: FIT(ONE.bfloat16().expand(1000, 4)), EQUAL),
    (lambda: FIT(direction(65536).float().expand(7, 65536)), EQUAL),
    (lambda: FIT(X[:1]), EQUAL),
    (lambda: FIT(X, torch.zeros(6)), "the total weight > 0 and finite, got 0"),
    (lambda: FIT(LONG), r"x of length 1 within .*, got 2 at index 3"),
    (lambda: FIT(NAN), r"x of length 1 within .*, got nan at index 3"),
    (lambda: FIT(X[0]), r"x \[\.\.\., n, p\], n >= 1 and p >= 2, got \(4,\)"),
    (lambda: FIT(X[:0]), r"x \[\.\.\., n, p\], n >= 1 and p >= 2, got \(0, 4\)"),
    (lambda: FIT(WHOLE), "x of a floating dtype, got torch.int64"),
    (
        lambda: kl_divergence(LAW, HypersphericalUniform(7)),
        "distributions on one sphere, got p = 4 and 7",
    ),
    (lambda: concentration(5, 0.5, "em"), r".*one of \('mle', .*'loo'\), got 'em'"),
    (lambda: concentration(5, double(0.5, 1.5)), r"R between 0 and 1, got 1\.5 at index 1"),
    (lambda: concentration(1, 0.5), "p to be an integer >= 2, got 1"),
    (lambda: concentration(5, 0.5, "loo"), "n, the number of vectors, for 'loo'"),
    (lambda: concentration(5, 0.5, "corrected", n=0.5), r"n >= 1 and finite, got 0\.5"),
]


@pytest.mark.parametrize(("call", "message"), REFUSALS)
def test_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=f"expected {message}"):
        call()
