r"""Scores along the arc between any two classes, from one function of one variable.

The exact score is :math:`q(\rho;\kappa,\tau)=\phi(\tilde\kappa)-\phi(\kappa)` with
:math:`\tilde\kappa^2=\kappa^2+2\kappa\rho/\tau+\tau^{-2}` (eq:main-exact). One table of
:math:`\phi` therefore gives every score of every class at every temperature, such as in a browser.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from resultant.analysis.plain import Result
from resultant.analysis.space import FrozenSpace
from resultant.classes.cosines import cosines
from resultant.classes.gain import mean_and_targets
from resultant.special.bessel import bessel_ratio
from resultant.special.differences import phi_step

# Nodes of the table of phi. The error of a cubic between them is below 1e-6 of a score.
NODES = 1024

# The most classes to choose pairs from.
CLASSES = 500


@dataclass(frozen=True, eq=False)
class Arcs(Result):
    r"""Classes and the table of their scores.

    Attributes:
        classes: Classes [K] to choose from: all, or those with the most held-out rows.
        cosine: Cosines [K, K] between their directions.
        kappa: Concentrations [K].
        resultant: Mean resultants [K].
        mean_resultant: Mean resultant of all classes of the space.
        log_prior: :math:`\log\pi_c` [K].
        scale: Nodes are at x = scale * sinh(step * k), k = 0, 1, ...
        step: See ``scale``.
        phi: :math:`\phi(x)-\phi(0)` at the nodes.
        slope: :math:`\phi'(x)`, the Bessel ratio, at the nodes.
    """

    classes: Tensor
    cosine: Tensor
    kappa: Tensor
    resultant: Tensor
    mean_resultant: float
    log_prior: Tensor
    scale: float
    step: float
    phi: Tensor
    slope: Tensor


def arcs(
    space: FrozenSpace, taus: Sequence[float], betas: Sequence[float], *, classes: int = CLASSES
) -> Arcs:
    """Return the classes of a space with the table of their scores.

    Args:
        space: The classes.
        taus: Temperatures of the space that the table covers.
        betas: Strengths of target gains that the table covers.
        classes: The most classes.

    Example:
        >>> z, y = torch.eye(4).repeat(3, 1) + 0.1, torch.arange(4).repeat(3)
        >>> arcs(FrozenSpace.fit(z, y, z, y), [0.1], [0.0]).cosine.shape
        torch.Size([4, 4])
    """
    state, C = space.state, space.num_classes
    chosen = torch.arange(C)
    if classes < C:
        queries = torch.bincount(space.test_labels, minlength=C)
        chosen = queries.argsort(descending=True, stable=True)[:classes].sort().values
    mu, kappa = state.mu[chosen].double(), state.kappa[chosen].double()
    nu = space.dim / 2 - 1
    A = state.resultant[chosen]
    mean = state.resultant.mean()
    # The temperature of a class is below that of the space where its gain is to rise.
    targets = [mean_and_targets(state.resultant, beta, "linear")[1][chosen] for beta in betas]
    falls = [_least((A / g)[(A > 0) & (g > 0)]) for g in targets]
    scale, most = max(1.0, nu), float(kappa.max()) + 1 / (min(taus) * min(1.0, *falls))
    step = math.asinh(most / scale) / (NODES - 2)
    x = scale * (step * torch.arange(NODES, dtype=torch.float64)).sinh()
    return Arcs(
        classes=chosen,
        cosine=cosines(mu, mu),
        kappa=kappa,
        resultant=A,
        mean_resultant=float(mean),
        log_prior=space.log_prior[chosen],
        scale=scale,
        step=step,
        phi=phi_step(nu, torch.zeros_like(x), x),
        slope=bessel_ratio(nu, x),
    )


def _least(values: Tensor) -> float:
    return float(values.min()) if len(values) else 1.0
