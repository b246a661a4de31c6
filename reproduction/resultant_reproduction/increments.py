"""Gradient increments of the power family during training, exact and leading
(sec:historical-gradient)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from resultant.classes.realization import realize
from resultant.classes.rule import Rule
from resultant.classes.statistics import ClassState
from resultant.decisions.gradients import loss_gradient, mean_relative_error, stacked_relative_error
from resultant.training.stack import Stack

# Strengths of the interventions (sec:historical-power-temperature); native is 1.
POWERS = {"reduced": 0.5, "increased": 1.5}


def power_diagnostic(stack: Stack, z: Tensor, y: Tensor) -> list[dict[str, Any]]:
    """Return `gradient_increments` of every run of a stack, for z [runs, n, p] and y [n]."""
    tau, offsets = stack.config.temperature, stack.proco.log_prior.cpu().double()
    states = [stack.proco.state(i).to("cpu") for i in range(len(stack.runs))]
    own = zip(z, states, offsets.expand(len(states), -1), strict=True)
    return [gradient_increments(x, y, state, tau, offset) for x, state, offset in own]


def gradient_increments(
    z: Tensor, y: Tensor, state: ClassState, tau: float, offset: Tensor
) -> dict[str, Any]:
    r"""Measure the change of gradients from the native policy to each strength of `POWERS`
    (fig:training-gain); empty if a class has gain zero, without powers, or all gains are equal.

    An increment stacks the tangent gradients of all queries. ``increment_error`` is
    :math:`100\|\Delta G-\Delta G^0\|/\|\Delta G\|` by strength, ``mean_increment_error`` its mean
    over queries; both again ``_without_intercept``. ``increment_plane`` is the plane through zero
    nearest to the four increments: its ``share`` of squared lengths, and the points in its axes.
    """
    if not 0 < float(state.kappa.min()) < float(state.kappa.max()):
        return {}

    def gradients(*policy: Any) -> Tensor:
        rule = realize(state, Rule(tau, *policy, family="power", offset=offset))
        scores = (rule, rule.linear(), rule.linear(intercept=False))
        return torch.stack([loss_gradient(z, y, r) for r in scores])

    native = gradients("native")
    changes = {name: gradients("temperature", beta) - native for name, beta in POWERS.items()}
    stacked = torch.stack([change[:2].flatten(1) for change in changes.values()]).flatten(0, 1)
    # The products of the four vectors suffice; n p is large.
    size, axes = torch.linalg.eigh(stacked @ stacked.T)
    size, axes = size.flip(0).clamp_min(0), axes.flip(1)
    points = (axes * size.sqrt())[:, :2].unflatten(0, (len(POWERS), 2))
    names = list(POWERS)
    signs = [points[names.index("increased"), 0, 0], points[names.index("reduced"), 0, 1]]
    points = points * torch.where(torch.stack(signs) < 0, -1.0, 1.0)
    errors = {
        "increment_error": stacked_relative_error,
        "mean_increment_error": mean_relative_error,
    }
    result: dict[str, Any] = {
        f"{kind}{end}": {name: error(change[0], change[k]) for name, change in changes.items()}
        for k, end in ((1, ""), (2, "_without_intercept"))
        for kind, error in errors.items()
    }
    pairs = (dict(zip(("exact", "leading"), pair, strict=True)) for pair in points.tolist())
    share = float(size[:2].sum() / size.sum())
    return result | {"increment_plane": {"share": share, **dict(zip(changes, pairs, strict=True))}}
