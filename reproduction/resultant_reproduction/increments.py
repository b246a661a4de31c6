"""How gradients change with the strength of the power family, exactly and by leading scores
(sec:historical-gradient), while networks are trained."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from resultant.classes.realization import realize
from resultant.classes.rule import Rule
from resultant.classes.statistics import ClassState
from resultant.decisions.gradients import loss_gradient, mean_relative_error, stacked_relative_error
from resultant.training.stack import Stack

# sec:historical-power-temperature: the strengths beside native.
POWERS = {"reduced": 0.5, "increased": 1.5}


def power_diagnostic(stack: Stack, z: Tensor, y: Tensor) -> list[dict[str, Any]]:
    """`gradient_increments` of every run of a stack, for its projections ``z`` [runs, n, p] of
    images with labels ``y`` [n], both on the CPU."""
    offsets = stack.proco.log_prior.cpu().double().expand(len(stack.runs), -1)
    return [
        gradient_increments(
            z[i], y, stack.proco.state(i).to("cpu"), stack.config.temperature, offsets[i]
        )
        for i in range(len(stack.runs))
    ]


def gradient_increments(
    z: Tensor, y: Tensor, state: ClassState, tau: float, offset: Tensor
) -> dict[str, Any]:
    r"""What fig:training-gain shows of one state: how the gradients of queries ``z`` [n, p] change
    from the native policy to each strength of `POWERS`, exactly and by leading scores.

    An increment is that of all tangent gradients stacked, a vector of n p numbers.
    ``increment_error`` is :math:`100\|\Delta G-\Delta G^0\|/\|\Delta G\|` by strength, and
    ``mean_increment_error`` the mean over queries of the same for one query, which is how the
    paper's "mean relative error" is read. It does not say on which plane it projects increments:
    ``increment_plane`` is the one through zero that is nearest to all four in least squares. It has
    the ``share`` of their squared lengths that is in it, and by strength the points ``exact`` and
    ``leading`` in its principal axes, so turned that the exact one has x >= 0 for the increased
    strength, and y >= 0 for the reduced one.
    Empty where a class has gain zero, of which there is no power, or all have the same.
    """
    if not 0 < float(state.kappa.min()) < float(state.kappa.max()):
        return {}

    def gradients(*policy: Any) -> Tensor:
        rule = realize(state, Rule(tau, *policy, family="power", offset=offset))
        return torch.stack([loss_gradient(z, y, r) for r in (rule, rule.linear())])

    native = gradients("native")
    changes = {name: gradients("temperature", beta) - native for name, beta in POWERS.items()}
    stacked = torch.stack([change.flatten(1) for change in changes.values()]).flatten(0, 1)
    # Of the four vectors their products are enough: n p is large.
    size, axes = torch.linalg.eigh(stacked @ stacked.T)
    size, axes = size.flip(0).clamp_min(0), axes.flip(1)
    points = (axes * size.sqrt())[:, :2].unflatten(0, (len(POWERS), 2))
    at = list(POWERS)
    fixed = torch.stack([points[at.index("increased"), 0, 0], points[at.index("reduced"), 0, 1]])
    points = points * torch.where(fixed < 0, -1.0, 1.0)
    return {
        "increment_error": {n: stacked_relative_error(*change) for n, change in changes.items()},
        "mean_increment_error": {n: mean_relative_error(*change) for n, change in changes.items()},
        "increment_plane": {
            "share": float(size[:2].sum() / size.sum()),
            **{
                name: dict(zip(("exact", "leading"), pair, strict=True))
                for name, pair in zip(changes, points.tolist(), strict=True)
            },
        },
    }
