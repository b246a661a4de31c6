"""Predictions that are provably those of cosine prototypes, and scores at cosine zero."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from resultant.analysis.metrics import Result
from resultant.classes.rule import EDITED, Rule
from resultant.classes.scores import ClassScores, realize
from resultant.decisions.certificates import certificate
from resultant_reproduction.frozen.space import FrozenSpace


@dataclass(frozen=True, eq=False)
class InterceptDrift(Result):
    r"""The scores at cosine zero, and their drift :math:`|h_c-h_c^0|` by realization."""

    beta: float
    native: Tensor  #: intercepts :math:`h_c^0=q_c(0;\tau_0)` [C]
    temperature: Tensor  #: intercepts :math:`h_c^\star=q_c(0;\tau_c^\star)` [C]
    temperatures: Tensor  #: temperatures :math:`\tau_c^\star` [C]
    largest: dict[str, float]  #: largest drift
    mean: dict[str, float]  #: mean drift
    worst_class: int | None  #: class with the largest drift under temperature
    undefined: tuple[int, ...] = ()  #: classes without a temperature, whose entries are NaN


def defined_rules(space: FrozenSpace, beta: float) -> dict[str, ClassScores]:
    """Return the realizations that are defined at beta."""
    names = ("native", *EDITED) if not space.untempered(beta) else ("native", "angular")
    return {name: realize(space.state, Rule(space.tau, name, beta)) for name in names}


@torch.no_grad()
def intercept_drift(space: FrozenSpace, beta: float = 0.0) -> InterceptDrift:
    """Measure the change of the scores at cosine zero from the native scores.

    Args:
        beta: Strength of the target gain.
    """
    rules = defined_rules(space, beta)
    zero = torch.zeros_like(space.state.kappa)
    intercepts = {name: rule.at(zero) for name, rule in rules.items()}
    native = intercepts["native"]
    moved = {name: (h - native).abs() for name, h in intercepts.items()}
    missing = torch.full_like(native, torch.nan)
    rule = rules.get("temperature")
    return InterceptDrift(
        beta=float(beta),
        native=native,
        temperature=intercepts.get("temperature", missing),
        temperatures=missing if rule is None or rule.tau is None else rule.tau.expand_as(native),
        largest={name: float(m.max()) for name, m in moved.items()},
        mean={name: float(m.mean()) for name, m in moved.items()},
        worst_class=None if rule is None else int(moved["temperature"].argmax()),
        undefined=space.untempered(beta),
    )


@dataclass(frozen=True, eq=False)
class CosineAgreement(Result):
    r"""Pure Angular at beta = 0 against the cosine rule on every held-out query, in float64; one is
    certified if :math:`\bar gm_{\cos}>D` for its cosine gap (tab:cosine-diagnostics)."""

    queries: int
    agreement: float
    disagreements: int
    low_margin: int  #: disagreements in the first decile of the cosine gap
    certified: int  #: certified queries
    coverage: float  #: fraction of certified queries
    certified_disagreements: int  #: zero if the theory holds
    mean_gain: float
    margin_quantiles: Tensor  #: quantiles [101] of :math:`\bar gm_{\cos}`
    residual_quantiles: Tensor  #: quantiles [101] of :math:`D`


@torch.no_grad()
def cosine_agreement(space: FrozenSpace) -> CosineAgreement:
    """Compare the predictions of Pure Angular at beta = 0 and of cosine, at zero prior."""
    columns, state = [], space.state.to(space.device)
    for _, z, _ in space.queries():
        c = certificate(z, state, space.tau, validate_args=False)
        columns.append((c.margin, c.residual_range, c.certified, c.prediction != c.angular))
    margin, residual, certified, differ = (
        torch.cat(column).cpu() for column in zip(*columns, strict=True)
    )
    # By rank, so that ties leave the deciles even.
    first = margin.argsort(stable=True)[: -(-len(margin) // 10)]
    return CosineAgreement(
        queries=len(margin),
        agreement=float((~differ).double().mean()),
        disagreements=int(differ.sum()),
        low_margin=int(differ[first].sum()),
        certified=int(certified.sum()),
        coverage=float(certified.double().mean()),
        certified_disagreements=int((certified & differ).sum()),
        mean_gain=float(space.gain.mean()),
        margin_quantiles=_quantiles(margin),
        residual_quantiles=_quantiles(residual),
    )


def _quantiles(values: Tensor) -> Tensor:
    """Return evenly spaced quantiles [101] with both extremes, without interpolation."""
    index = torch.linspace(0, len(values) - 1, 101, dtype=torch.float64).round().long()
    return values.sort().values[index]
