r"""The angular gain :math:`g_c=A_c/\tau_0` of each class, by which its score responds to its cosine
(thm:centered-gain), target gains, and the temperatures that reach them."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from resultant._core import validation
from resultant._core.arrays import shape_of
from resultant._core.validation import Check, Number
from resultant.classes.rule import TEMPERED, Rule, require_target
from resultant.classes.statistics import ClassState
from resultant.score.limits import require_temperature, temperature_range
from resultant.vmf.estimators import mean_resultant


def angular_gain(state: ClassState, tau: Number, *, validate_args: Check = None) -> Tensor:
    r"""Compute the gains :math:`g_c = A_p(\kappa_c)/\tau` (thm:centered-gain).

    Args:
        state, tau: Classes and temperature.

    Returns:
        Gains [C] in the dtype of the state.

    Example:
        >>> angular_gain(state, 0.1)
        tensor([3.1304, 5.3731, 7.5067])
    """
    tau = require_temperature(tau, state.num_classes, state.mu.device, validate_args)
    return gain_at(state.dim, state.kappa, tau).to(state.kappa.dtype)


def target_gain(
    g: Tensor, beta: float, family: str = "linear", *, validate_args: Check = None
) -> Tensor:
    r"""Compute target gains: :math:`g_c^\star=\bar g+\beta(g_c-\bar g)` (``linear``,
    eq:target-gain), or :math:`\bar g\,g_c^\beta/(C^{-1}\sum_j g_j^\beta)` (``power``,
    sec:historical-power-temperature).

    Args:
        g, beta, family: Gains [C] >= 0, > 0 for a negative power, strength and family.

    Returns:
        Target gains [C] of mean :math:`\bar g`, g at beta = 1, negative for some beta > 1.

    Example:
        >>> target_gain(torch.tensor([2.0, 6.0]), 0.5)
        tensor([3., 5.])
    """
    beta = require_target(beta, family)
    if not isinstance(g, Tensor) or g.dim() != 1 or not len(g):
        raise ValueError(f"expected g [C] of one class or more, got {shape_of(g)}")
    validation.tensors(g=g)
    if validation.should_validate(validate_args, g):
        require_gains(g, beta, family)
    return class_gains(g, beta, family).target


class Gains(NamedTuple):
    """Gains ``g`` [..., C], their ``mean`` [..., 1] and the ``target`` gains [..., C]."""

    g: Tensor
    mean: Tensor
    target: Tensor


def gain_at(p: int, kappa: Tensor, tau: Number) -> Tensor:
    r"""Compute the gains :math:`A_p(\kappa)/\tau` of concentrations."""
    return mean_resultant(p, kappa, validate_args=False) / tau


def class_gains(g: Tensor, beta: float | Tensor, family: str, mean: Tensor | None = None) -> Gains:
    """Return gains g [..., C] with their mean or a given one, and targets; beta may be [..., 1]."""
    mean = g.mean(-1, keepdim=True) if mean is None else mean
    if family == "linear":
        return Gains(g, mean, torch.lerp(mean, g, beta))  # exact at both ends
    # Powers of g/mean neither overflow nor vanish where powers of g would.
    power = (g / torch.where(mean > 0, mean, 1.0)) ** beta
    average = power.mean(-1, keepdim=True)
    return Gains(g, mean, mean * (power / torch.where(average > 0, average, 1.0)))


def class_temperature(tau: Number, g: Tensor, target: Tensor, dtype: torch.dtype) -> Tensor:
    """Compute tau g/target; NaN where scores in ``dtype`` cannot be compared at it."""
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


def require_targets(tau: Tensor, gains: Gains, rule: Rule, dtype: torch.dtype) -> None:
    """Raise unless every class has a target gain and, if the rule needs it, a temperature."""
    g, _, target = gains
    star = tau * (g / target) if rule.realization in TEMPERED else None
    # Such temperatures are positive, as are then the gains.
    if star is not None and bool(validation.values_of(comparable(star, dtype)).all()):
        return
    require_gains(g, rule.beta, rule.family)
    if star is None:
        return
    least, most = temperature_range(dtype)
    of = f"{rule.family}, beta = {rule.beta:g}"
    for need, values, good in (
        ("target gains > 0 for a class temperature", target, target > 0),
        ("resultants A > 0 for a class temperature", g * tau, g > 0),
        (f"class temperatures in [{least:g}, {most:g}] in {dtype}", star, comparable(star, dtype)),
    ):
        good, values = (_worst(a, good) for a in (good, values))
        require_of_classes(f"{need} ({of})", good, lambda c, a=values: f"class {c} ({a[c]:.4g})")


def _worst(a: Tensor, good: Tensor) -> Tensor:
    """Return values [C] where ``good`` [C] fails first, of those that torch.func.vmap batches."""
    a, good = validation.values_of(a), validation.values_of(good)
    if a.dim() < 2 or good.dim() < 2:
        return a
    return a.flatten(0, -2)[good.flatten(0, -2).all(-1).int().argmin()]


def require_of_classes(rule: str, good: Tensor, named: Callable[[int], str]) -> None:
    """Raise unless ``good`` [C]; the error counts the other classes and names the first."""
    if bad := (~good).nonzero().squeeze(-1).tolist():
        names = ", ".join(map(named, bad[:5])) + (", ..." if len(bad) > 5 else "")
        got = f"{len(bad)} of {len(good)} not: {names}"
        raise validation.DivergedError(f"expected {rule}, got {got}")
