"""Queries and class states on which certificates are tried, and their scores by loops."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import normalize

from resultant.classes.statistics import ClassState
from resultant.score.exact import vmf_score
from resultant.vmf.distribution import VonMisesFisher
from resultant.vmf.estimators import mean_resultant

F64, F32 = torch.float64, torch.float32
DIMENSIONS = [2, 3, 5, 16, 128, 1024, 4096]


@dataclass
class Case:
    z: Tensor
    y: Tensor
    state: ClassState
    tau: float
    offset: Tensor | None


@st.composite
def cases(draw: st.DrawFn, least_kappa: float | None = None, n: int = 24) -> Case:
    """States and queries anywhere, many of the queries close to ties."""
    torch.manual_seed(draw(st.integers(0, 2**31)))
    p, C = draw(st.sampled_from(DIMENSIONS)), draw(st.integers(2, 50))
    tau = math.exp(draw(st.floats(math.log(0.005), math.log(10))))
    low = math.log10(least_kappa or 1e-3)
    centre, width = draw(st.floats(low, 6)), draw(st.sampled_from([0.0, 0.1, 1.0, 4.0]))
    log_kappa = (centre + width * torch.randn(C, dtype=F64)).clamp(low, 6)
    kappa = 10**log_kappa
    if least_kappa is None and draw(st.booleans()):
        kappa[torch.rand(C) < 0.3] = 0
    spread = draw(st.sampled_from([1e-6, 1e-3, 0.1, 1.0, 10.0]))
    mu = normalize(torch.eye(1, p, dtype=F64) + spread * torch.randn(C, p, dtype=F64), dim=1)
    a, b = torch.randint(C, (2, n))
    noise = torch.randn(n, p, dtype=F64) * draw(st.sampled_from([0.0, 1e-7, 1e-3, 0.3])) * spread
    share = torch.rand(n, 1).round(decimals=1)
    z = normalize(share * mu[a] + (1 - share) * mu[b] + noise + 1e-12, dim=1)
    z = z * (1 - 2 * (torch.rand(n, 1) < 0.1).double())
    kinds = ["none", "prior", "large", "impossible"]
    kind = draw(st.sampled_from(kinds))
    offset = None
    if kind != "none":
        size = 10 ** draw(st.floats(2, 8)) if kind == "large" else 3.0
        offset = size * torch.randn(C, dtype=F64)
        if kind == "impossible":
            offset[torch.rand(C) < 0.5] = -math.inf
            offset[a[0]] = 0
    possible = torch.arange(C) if offset is None else offset.isfinite().nonzero().squeeze(1)
    y = possible[torch.randint(len(possible), (n,))]
    state = ClassState(mu, kappa, torch.ones(C))
    if draw(st.booleans()):
        state = state.to(dtype=F32)
    dtype = draw(st.sampled_from([F64, F64, F32, F32, torch.bfloat16]))
    return Case(z.to(dtype), y, state, tau, offset)


def overlapping(C: int, seed: int = 0, n: int = 2000) -> tuple[Tensor, Tensor, ClassState]:
    """Classes of p = 128 with kappa 100 to 300 that share a direction, and samples of them."""
    torch.manual_seed(seed)
    shared = 3 * math.sqrt(128) * torch.eye(1, 128)
    mu = normalize(torch.randn(C, 128, dtype=F64) + shared, dim=1)
    kappa = torch.linspace(100, 300, C, dtype=F64)
    y = torch.arange(n) % C
    z = normalize(VonMisesFisher(mu[y], kappa[y]).sample(), dim=1)
    return z, y, ClassState(mu, kappa, torch.ones(C))


def naive(
    z: Tensor, state: ClassState, tau: float | Tensor, offset: Tensor
) -> tuple[Tensor, Tensor]:
    """Cosine logits and residuals [N, C], number by number."""
    kappas, taus = (
        state.kappa.tolist(),
        torch.as_tensor(tau, dtype=F64).expand(len(state.mu)).tolist(),
    )
    g = [float(mean_resultant(state.dim, k)) / t for k, t in zip(kappas, taus, strict=True)]
    gbar = math.fsum(g) / len(g)
    logits, deltas = [], []
    for x in z.double():
        rho = [math.fsum((x * m).tolist()) for m in state.mu.double()]
        logits.append([float(b) + gbar * r for b, r in zip(offset, rho, strict=True)])
        terms = zip(rho, kappas, taus, g, strict=True)
        deltas.append([float(vmf_score(r, k, t, state.dim)) - h * r for r, k, t, h in terms])
    return torch.tensor(logits, dtype=F64), torch.tensor(deltas, dtype=F64)


def some_pairs(C: int) -> Tensor:
    return torch.combinations(torch.arange(C))[:40]


def close(a: Tensor, b: Tensor, rtol: float = 1e-10, atol: float = 1e-12) -> None:
    torch.testing.assert_close(a, b, rtol=rtol, atol=atol)
