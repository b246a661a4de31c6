r"""The angular gain of each class, target gains, and the temperatures that reach them.

A class with :math:`A_c=A_p(\kappa_c)` responds to its cosine :math:`\rho_c` with the leading
coefficient :math:`g_c=A_c/\tau_0` (thm:centered-gain). A target gain
:math:`g_c^\star` is reached at the temperature :math:`\tau_c^\star=A_c/g_c^\star`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from resultant._core import validation
from resultant._core.validation import COMPUTE_DTYPE, Number
from resultant.classes.rule import require_target
from resultant.classes.statistics import ClassState
from resultant.score.limits import require_temperature, temperature_range
from resultant.vmf.estimators import mean_resultant_at

# Number of classes that an error names.
NAMED = 5


def angular_gain(state: ClassState, tau: Number, *, validate_args: bool | None = None) -> Tensor:
    r"""Compute the gains :math:`g_c = A_p(\kappa_c)/\tau` (thm:centered-gain).

    Args:
        state: C classes.
        tau: Temperature > 0, a number or one per class [C].

    Returns:
        Gains [C] in the dtype of the state.

    Example:
        >>> state = ClassState(torch.eye(3), torch.tensor([1.0, 2.0, 4.0]), torch.ones(3))
        >>> angular_gain(state, 0.1)
        tensor([3.1304, 5.3731, 7.5067])
    """
    tau = require_temperature(tau, state.num_classes, state.mu.device, validate_args)
    return gain_at(state.dim, state.kappa, tau).to(state.kappa.dtype)


def target_gain(
    g: Tensor, beta: float, family: str = "linear", *, validate_args: bool | None = None
) -> Tensor:
    r"""Compute target gains, which have the mean :math:`\bar g` of the gains.

    ``linear`` is :math:`g_c^\star=\bar g+\beta(g_c-\bar g)` (eq:target-gain), ``power`` is
    :math:`g_c^{pow}=\bar g\,g_c^\beta/(C^{-1}\sum_j g_j^\beta)`
    (sec:historical-power-temperature). Both give g at beta = 1 and :math:`\bar g` at beta = 0.
    Linear targets may be negative beyond beta = 1, power targets never are.

    Args:
        g: Gains [C] >= 0; > 0 for a negative power.
        beta: Strength, a finite number.
        family: ``"linear"`` or ``"power"``.

    Returns:
        Target gains [C].

    Example:
        >>> target_gain(torch.tensor([2.0, 6.0]), 0.5)
        tensor([3., 5.])
    """
    beta = require_target(beta, family)
    validation.tensors(g=g)
    if not isinstance(g, Tensor) or g.dim() != 1 or not len(g):
        got = f"shape {tuple(g.shape)}" if isinstance(g, Tensor) else type(g).__name__
        raise ValueError(f"expected g [C] of one class or more, got {got}")
    if validation.should_validate(validate_args, g):
        require_gains(g, beta, family)
    return mean_and_targets(g, beta, family)[1]


def target_temperature(
    state: ClassState,
    tau: Number,
    beta: float = 0.0,
    *,
    family: str = "linear",
    dtype: torch.dtype | None = None,
    validate_args: bool | None = None,
) -> Tensor:
    r"""Compute the temperatures :math:`\tau_c^\star=A_c/g_c^\star` that reach the target gains.

    They exist for positive :math:`A_c` and :math:`g_c^\star`, and where scores in ``dtype`` can be
    compared (see `resultant.class_scores`).

    Args:
        state: C classes.
        tau: Temperature > 0, a number or one per class [C].
        beta: Strength of the target gain.
        family: Family of target gains, see `target_gain`.
        dtype: Dtype of the scores; by default that of the state.

    Returns:
        Temperatures [C]; NaN for a class without one where values are not checked.

    Raises:
        ValueError: If a class has no temperature.

    Example:
        >>> state = ClassState(torch.eye(3), torch.tensor([1.0, 2.0, 4.0]), torch.ones(3))
        >>> target_temperature(state, 0.1)
        tensor([0.0587, 0.1007, 0.1407])
    """
    beta = require_target(beta, family)
    dtype = COMPUTE_DTYPE[state.kappa.dtype if dtype is None else dtype]
    where = state.num_classes, state.mu.device, validate_args
    tau = require_temperature(tau, *where, dtype=dtype).to(state.kappa.dtype)
    gains = class_gains(gain_at(state.dim, state.kappa, tau), beta, family)
    if validation.should_validate(validate_args, gains.g):
        require_gains(gains.g, beta, family)
        require_class_temperatures(tau, gains, f"{family}, beta = {beta:g}", dtype)
    return class_temperature(tau, gains.g, gains.target, dtype)


class Gains(NamedTuple):
    """Gains ``g`` [..., C], their ``mean`` [..., 1] and the ``target`` gains [..., C]."""

    g: Tensor
    mean: Tensor
    target: Tensor


def gain_at(p: int, kappa: Tensor, tau: Number) -> Tensor:
    r"""Compute the gains :math:`A_p(\kappa)/\tau` of concentrations."""
    return mean_resultant_at(p, kappa) / tau


def class_gains(g: Tensor, beta: float, family: str) -> Gains:
    """Return gains g [..., C] with their mean and their targets."""
    return Gains(g, *mean_and_targets(g, beta, family))


def mean_and_targets(
    g: Tensor, beta: float | Tensor, family: str, mean: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Compute the mean [..., 1] and the targets of gains g [..., C]; beta is a number or [..., 1]
    in the dtype of g. A given ``mean`` is that of some of the classes."""
    mean = g.mean(-1, keepdim=True) if mean is None else mean
    if family == "linear":
        # Exact at both ends.
        return mean, torch.lerp(mean.expand_as(g), g, beta)
    # Powers of g/mean neither overflow nor vanish where powers of g would.
    power = (g / torch.where(mean > 0, mean, 1.0)) ** beta
    average = power.mean(-1, keepdim=True)
    return mean, mean * (power / torch.where(average > 0, average, 1.0))


def class_temperature(tau: Number, g: Tensor, target: Tensor, dtype: torch.dtype) -> Tensor:
    """Compute tau g/target for gains >= 0, which is tau where gain and target are equal; NaN unless
    both are positive and scores in ``dtype`` can be compared at this temperature."""
    star = tau * (g / target)
    return torch.where(comparable(star, dtype), star, math.nan)


def comparable(tau: Tensor, dtype: torch.dtype) -> Tensor:
    """Mark the temperatures at which scores in ``dtype`` can be compared."""
    least, most = temperature_range(dtype)
    return (tau >= least) & (tau <= min(most, torch.finfo(tau.dtype).max))


def require_gains(g: Tensor, beta: float, family: str) -> None:
    """Raise unless the gains have targets."""
    positive = family == "power" and beta < 0
    rule = "> 0 and finite (a negative power)" if positive else ">= 0 and finite"
    validation.require_in_range("g", g, 0.0, rule=rule, open_low=positive)


def require_class_temperatures(tau: Tensor, gains: Gains, label: str, dtype: torch.dtype) -> None:
    """Raise unless every class has a temperature that reaches its target gain."""
    g, _, target = gains
    _require_classes(f"target gains > 0 for a class temperature ({label})", target, target > 0)
    _require_classes(f"resultants A > 0 for a class temperature ({label})", g * tau, g > 0)
    least, most = temperature_range(dtype)
    star = tau * (g / target)
    rule = f"class temperatures in [{least:g}, {most:g}] in {dtype} ({label})"
    _require_classes(rule, star, comparable(star, dtype))


def _require_classes(rule: str, a: Tensor, good: Tensor) -> None:
    bad = (~good).nonzero().squeeze(-1).tolist()
    if bad:
        named = ", ".join(f"class {c} ({float(a[c]):.4g})" for c in bad[:NAMED])
        rest = ", ..." if len(bad) > NAMED else ""
        raise validation.DivergedError(
            f"expected {rule}, got {len(bad)} of {len(a)} not: {named}{rest}"
        )
