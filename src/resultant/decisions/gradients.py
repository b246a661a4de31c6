r"""Gradients of the cross-entropy in the query, and how two of them differ.

Everything is a function of a `Realization`: exact scores, their linear means or their leading
terms, as in `resultant.decisions.margins` (sec:risk-gradients).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from resultant._core.arrays import require_features, require_labels, shape_of
from resultant.classes.cosines import cosines
from resultant.classes.realization import Realization, realize
from resultant.classes.rule import Rule
from resultant.classes.statistics import ClassState
from resultant.decisions.margins import score_rows


class GradientCoordinates(NamedTuple):
    r"""``ambient = prototype + radial * z`` and its projection ``tangent`` on the sphere."""

    prototype: Tensor  # sum_c C_c mu_c [N, p]
    radial: Tensor  # sum_c (t / kappa_c) C_c [N]
    ambient: Tensor  # [N, p]
    tangent: Tensor  # [N, p]


@torch.no_grad()
def gradient_coordinates(
    z: Tensor, y: Tensor, rule: Realization, *, validate_args: bool | None = None
) -> GradientCoordinates:
    r"""The gradient of the cross-entropy :math:`L_y` in the prototype coordinates of
    eq:gradient-coordinate-decomposition, for unit vectors ``z`` [N, p] and labels ``y`` [N].

    :math:`\nabla_zL_y=\sum_cC_c\mu_c+z\sum_c(t/\kappa_c)C_c` with
    :math:`C_c=(P_c-1[c=y])\,\partial_{\rho_c}q_c`. The radial part comes from the exact score
    alone, not from a linear term; it has a limit at kappa = 0.
    """
    _require(z, y, rule, validate_args)
    parts = [_coordinates(z[rows], y[rows], rule) for rows in score_rows(z, len(rule.mu), rule)]
    if not parts:
        parts = [_coordinates(z, y, rule)]
    prototype, radial = (torch.cat(a) for a in zip(*parts, strict=True))
    x = z.to(prototype.dtype)
    ambient = prototype + radial.unsqueeze(-1) * x
    return GradientCoordinates(prototype, radial, ambient, _tangent(prototype, x))


@torch.no_grad()
def loss_gradient(
    z: Tensor, y: Tensor, rule: Realization, *, validate_args: bool | None = None
) -> Tensor:
    r"""The gradient on the sphere, :math:`\Pi_z\nabla_zL_y` [N, p], of the cross-entropy of unit
    vectors ``z`` [N, p] and labels ``y`` [N], in the dtype of the rule.

    With exact scores eq:exact-loss-gradient after projection, for any realization and offsets;
    with ``rule.linear()`` eq:leading-sphere-gradient.
    """
    _require(z, y, rule, validate_args)
    G = z.new_empty(z.shape, dtype=rule.mu.dtype)
    for rows in score_rows(z, len(rule.mu), rule):
        x = z[rows].to(G.dtype)
        rho = cosines(x, rule.mu)
        C = _residual(rule.at(rho), y[rows]) * rule.slope_at(rho)
        G[rows] = _tangent(C @ rule.mu, x)
    return G


class GradientDifference(NamedTuple):
    """Both sides [N, p] of eq:intercept-gradient-difference."""

    difference: Tensor
    predicted: Tensor


@torch.no_grad()
def intercept_gradient_difference(
    z: Tensor,
    y: Tensor,
    state: ClassState,
    rule: Rule,
    *,
    validate_args: bool | None = None,
) -> GradientDifference:
    r"""What the intercept does to the gradient (eq:intercept-gradient-difference):
    :math:`\nabla_{\mathbb S}L_y^{temp}-\nabla_{\mathbb S}L_y^{preserve}` and
    :math:`\Pi_z\sum_c(P_c^{temp}-P_c^{preserve})d_c\mu_c`, which are equal.

    The second does not know the labels.
    """
    temperature, preserve = (
        realize(state, replace(rule, realization=name), validate_args=validate_args)
        for name in ("temperature", "preserve")
    )
    difference = loss_gradient(z, y, temperature, validate_args=validate_args) - loss_gradient(
        z, y, preserve, validate_args=False
    )
    predicted = torch.empty_like(difference)
    for rows in score_rows(z, state.num_classes, temperature):
        x = z[rows].to(predicted.dtype)
        rho = cosines(x, temperature.mu)
        change = temperature.at(rho).softmax(-1) - preserve.at(rho).softmax(-1)
        predicted[rows] = _tangent((change * temperature.slope_at(rho)) @ temperature.mu, x)
    return GradientDifference(difference, predicted)


def stacked_relative_error(G: Tensor, other: Tensor) -> float:
    r""":math:`100\,\|G-G'\|_F/\|G\|_F` in percent, of gradients [N, p] (sec:gradient-protocol)."""
    G, other = _alike(G, other)
    size = float(torch.linalg.vector_norm(G))
    if not size > 0:
        raise ValueError(f"expected G of positive norm, got {size:g}")
    return 100 * float(torch.linalg.vector_norm(G - other)) / size


def mean_relative_error(G: Tensor, other: Tensor) -> float:
    r"""The mean over rows of :math:`100\,\|G_i-G'_i\|/\|G_i\|` in percent, of gradients [N, p];
    rows of G that are zero are left out."""
    G, other = _alike(G, other)
    size = torch.linalg.vector_norm(G, dim=-1)
    some = size > 0
    if not some.any():
        raise ValueError("expected a row of G of positive norm, got none")
    errors = torch.linalg.vector_norm(G - other, dim=-1)
    return 100 * float((errors[some] / size[some]).mean())


def gradient_cosines(G: Tensor, other: Tensor) -> Tensor:
    """The cosines [N] between the rows of two stacks [N, p] in float64, NaN where one is zero
    (sec:gradient-protocol)."""
    G, other = _alike(G, other)
    # A row is scaled by its largest entry, lest the squares of a small gradient vanish.
    G, other = (a / a.abs().amax(-1, keepdim=True) for a in (G, other))
    product = torch.linalg.vector_norm(G, dim=-1) * torch.linalg.vector_norm(other, dim=-1)
    return ((G * other).sum(-1) / product).clamp(-1, 1)


def _require(z: Tensor, y: Tensor, rule: Realization, validate: bool | None) -> None:
    require_features(z, rule.mu.shape[1], rule.mu.device, validate)
    require_labels(y, len(z), len(rule.mu), rule.mu.device, validate)


def _residual(scores: Tensor, y: Tensor) -> Tensor:
    """``P_c - 1[c = y]`` [N, C]; that of the label as minus the sum of the others, which keeps
    its digits where P_y is near one."""
    P = scores.softmax(-1)
    P.scatter_(-1, y.unsqueeze(-1), 0.0)
    return P.scatter_(-1, y.unsqueeze(-1), -P.sum(-1, keepdim=True))


def _coordinates(z: Tensor, y: Tensor, rule: Realization) -> tuple[Tensor, Tensor]:
    """sum_c C_c mu_c [N, p] and sum_c (t / kappa_c) C_c [N]."""
    rho = cosines(z, rule.mu)
    weight = _residual(rule.at(rho), y)
    prototype = (weight * rule.slope_at(rho)) @ rule.mu
    if rule.tau is None:
        return prototype, torch.zeros_like(prototype[:, 0])
    # The slope over kappa has a limit at zero, reached long before this.
    kappa = rule.kappa.clamp_min(math.sqrt(torch.finfo(rho.dtype).tiny))
    exact = Realization(rule.mu, kappa, rule.tau, None, None)
    return prototype, (weight * exact.slope_at(rho) / (kappa * rule.tau)).sum(-1)


def _tangent(G: Tensor, z: Tensor) -> Tensor:
    return G - (G * z).sum(-1, keepdim=True) * z


def _alike(G: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    if not isinstance(G, Tensor) or G.dim() != 2 or not isinstance(other, Tensor):
        raise ValueError(f"expected gradients [N, p], got {shape_of(G)} and {shape_of(other)}")
    if G.shape != other.shape:
        shapes = f"{tuple(G.shape)} and {tuple(other.shape)}"
        raise ValueError(f"expected gradients of one shape, got {shapes}")
    return G.double(), other.double()
