r"""Gradients of the cross-entropy in the query, and how two of them differ (sec:risk-gradients)."""

import math
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from resultant._core import memory
from resultant._core.arrays import require_features, require_labels, shape_of
from resultant._core.validation import Check
from resultant.classes.rule import TEMPERED, Rule
from resultant.classes.scores import ClassScores, cosines, realize
from resultant.classes.statistics import ClassState


class GradientCoordinates(NamedTuple):
    """Parts of a gradient, ``ambient = prototype + radial * z``, and its ``tangent`` part."""

    prototype: Tensor  # sum_c C_c mu_c [N, p]
    radial: Tensor  # sum_c (t / kappa_c) C_c [N]
    ambient: Tensor  # [N, p]
    tangent: Tensor  # [N, p]


@torch.no_grad()
def gradient_coordinates(
    z: Tensor, y: Tensor, scores: ClassScores, *, validate_args: Check = None
) -> GradientCoordinates:
    r"""Split the gradient of the cross-entropy :math:`L_y` into prototype and radial parts.

    :math:`\nabla_zL_y=\sum_cC_c\mu_c+z\sum_c(t/\kappa_c)C_c` with
    :math:`C_c=(P_c-1[c=y])\,\partial_{\rho_c}q_c` (eq:gradient-coordinate-decomposition).

    Args:
        z, y, scores: Unit vectors [N, p], labels [N] and scores of the classes, also for kappa = 0.

    Returns:
        Parts of the gradient in the dtype of the scores.

    Example:
        >>> gradient_coordinates(z, y, realize(state, Rule(0.5))).radial
        tensor([-0.0407,  0.0592,  0.1730], dtype=torch.float64)
    """
    require_features(z, scores.mu.shape[1], scores.mu.device, validate_args)
    require_labels(y, len(z), len(scores.mu), scores.mu.device, validate_args)
    # The slope over kappa has a limit at zero, which this kappa reaches.
    kappa = scores.kappa.clamp_min(math.sqrt(torch.finfo(scores.mu.dtype).tiny))
    exact = replace(scores, kappa=kappa, slope=None)
    added = torch.zeros_like(kappa) if scores.slope is None else scores.slope
    scale = 0.0 if scores.tau is None else 1 / (kappa * scores.tau)

    def parts(rows: slice) -> tuple[Tensor, Tensor]:
        rho, own = cosines(z[rows], scores.mu), y[rows].unsqueeze(-1)
        # P_c - 1[c = y]: that of the label as a sum, also where P_y is near one.
        weight = scores.at(rho).softmax(-1).scatter_(-1, own, 0.0)
        weight.scatter_(-1, own, -weight.sum(-1, keepdim=True))
        slope = exact.slope_at(rho)
        return (weight * (slope + added)) @ scores.mu, (weight * slope * scale).sum(-1)

    size = len(kappa) * kappa.itemsize
    prototype, radial = memory.in_chunks(parts, len(z), size, memory.SCORE_BYTES)
    x = z.to(prototype.dtype)
    ambient = prototype + radial.unsqueeze(-1) * x
    return GradientCoordinates(prototype, radial, ambient, tangent(prototype, x))


def loss_gradient(
    z: Tensor, y: Tensor, scores: ClassScores, *, validate_args: Check = None
) -> Tensor:
    r"""Compute the gradients of the cross-entropy on the sphere, :math:`\Pi_z\nabla_zL_y`:
    eq:exact-loss-gradient of exact scores, projected, eq:leading-sphere-gradient of
    ``scores.linear()``, of which ``intercept=False`` matches the printed errors better.

    Args:
        z, y, scores: Unit vectors [N, p], labels [N] and scores of the classes.

    Returns:
        Gradients [N, p] in the dtype of the scores.

    Example:
        >>> loss_gradient(z[:1], y[:1], realize(state, Rule(0.5)))
        tensor([[0.0000, 0.2566, 0.3367]], dtype=torch.float64)
    """
    return gradient_coordinates(z, y, scores, validate_args=validate_args).tangent


class GradientDifference(NamedTuple):
    """Both sides [N, p] of eq:intercept-gradient-difference."""

    difference: Tensor
    predicted: Tensor


@torch.no_grad()
def intercept_gradient_difference(
    z: Tensor, y: Tensor, state: ClassState, rule: Rule, *, validate_args: Check = None
) -> GradientDifference:
    r"""Compute the effect of the intercept on the gradient in two ways, which agree
    (eq:intercept-gradient-difference): :math:`\nabla_{\mathbb S}L_y^{temp}-\nabla_{\mathbb
    S}L_y^{preserve}`, and :math:`\Pi_z\sum_c(P_c^{temp}-P_c^{preserve})d_c\mu_c` without labels.

    Args:
        z, y, state, rule: Vectors, labels, classes, and the rule without its realization.

    Returns:
        Differences and predictions [N, p] in float64.

    Example:
        >>> sides = intercept_gradient_difference(z, y, state, Rule(0.5))
        >>> torch.allclose(sides.difference, sides.predicted)
        True
    """
    rules = (replace(rule, realization=name) for name in TEMPERED)
    temperature, preserve = (realize(state, r, validate_args=validate_args) for r in rules)
    difference = loss_gradient(z, y, temperature, validate_args=validate_args)
    difference = difference - loss_gradient(z, y, preserve, validate_args=False)

    def predicted(rows: slice) -> tuple[Tensor]:
        x = z[rows].to(difference.dtype)
        rho = cosines(x, temperature.mu)
        change = temperature.at(rho).softmax(-1) - preserve.at(rho).softmax(-1)
        return (tangent((change * temperature.slope_at(rho)) @ temperature.mu, x),)

    size = 8 * state.num_classes
    return GradientDifference(
        difference, *memory.in_chunks(predicted, len(z), size, memory.SCORE_BYTES)
    )


def stacked_relative_error(G: Tensor, other: Tensor) -> float:
    r"""Compute :math:`100\,\|G-G'\|_F/\|G\|_F`, in percent (sec:gradient-protocol).

    Args:
        G, other: Gradients [N, p], of which G is not zero.

    Returns:
        The error in percent.

    Example:
        >>> stacked_relative_error(torch.eye(2), 0.5 * torch.eye(2))
        50.0
    """
    G, other = _pair(G, other)
    return mean_relative_error(G.reshape(1, -1), other.reshape(1, -1))


def mean_relative_error(G: Tensor, other: Tensor) -> float:
    r"""Compute the mean over rows of :math:`100\,\|G_i-G'_i\|/\|G_i\|`, in percent.

    Args:
        G, other: Gradients [N, p]; zero rows of G are left out, and G is not zero.

    Returns:
        The mean error in percent.

    Example:
        >>> mean_relative_error(torch.eye(2), torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
        50.0
    """
    G, other = _pair(G, other)
    size = torch.linalg.vector_norm(G, dim=-1)
    nonzero = size > 0
    if not nonzero.any():
        raise ValueError("expected a row of G of positive norm, got none")
    errors = torch.linalg.vector_norm(G - other, dim=-1)
    return 100 * float((errors[nonzero] / size[nonzero]).mean())


def gradient_cosines(G: Tensor, other: Tensor) -> Tensor:
    """Compute the cosines between the rows of two stacks of gradients (sec:gradient-protocol).

    Args:
        G, other: Gradients [N, p].

    Returns:
        Cosines [N] in float64, NaN where a row is zero.

    Example:
        >>> gradient_cosines(torch.eye(2), torch.ones(2, 2))
        tensor([0.7071, 0.7071], dtype=torch.float64)
    """
    # Scaled by the largest entry of a row: the squares of a small gradient would vanish.
    G, other = (a / a.abs().amax(-1, keepdim=True) for a in _pair(G, other))
    product = torch.linalg.vector_norm(G, dim=-1) * torch.linalg.vector_norm(other, dim=-1)
    return ((G * other).sum(-1) / product).clamp(-1, 1)


def tangent(G: Tensor, z: Tensor) -> Tensor:
    """Project gradients [N, p] on the tangent spaces at unit vectors z [N, p]."""
    return G - (G * z).sum(-1, keepdim=True) * z


def _pair(*gradients: Tensor) -> list[Tensor]:
    """Return gradients of one shape [N, p] in float64."""
    G = gradients[0]
    if not all(isinstance(a, Tensor) and a.dim() == 2 and a.shape == G.shape for a in gradients):
        got = " and ".join(map(shape_of, gradients))
        raise ValueError(f"expected gradients [N, p] of one shape, got {got}")
    return [a.double() for a in gradients]
