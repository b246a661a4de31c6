r"""What the gains do to decisions and to learning: margins, competitors and loss gradients.

Everything is a function of a `Realization`, here ``rule``: the exact scores of `realize`, their
linear means ``rule.linear()`` with :math:`g_c=A_c/\tau` and the intercept :math:`q_c(0)`, or the
`joint_leading` scores with :math:`g_c^0=r_0(\kappa_c/\nu)/\tau` and none. An exact quantity and its
leading counterpart are one function of two rules (sec:softmax-geometry, sec:risk-gradients).
Differences are of large scores: make rules in float64, as `realize` does by default.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from resultant._core import validation
from resultant._core.arrays import require_features, require_labels, shape_of
from resultant._core.validation import Number
from resultant.classes.gain import Realization, realize
from resultant.classes.statistics import ClassState
from resultant.score.expansion import joint_order, ratio_terms

# Bytes of scores at a time; a few times as much is at work.
CHUNK_BYTES = 1 << 26


@torch.no_grad()
def joint_leading(
    state: ClassState,
    tau: Number,
    realization: str = "native",
    beta: float = 0.0,
    *,
    family: str = "linear",
    offset: Tensor | None = None,
    validate_args: bool | None = None,
) -> Realization:
    r"""The leading logits :math:`\ell_c^0=b_c+g_c^0\rho_c`, :math:`g_c^0=r_0(\kappa_c/\nu)/\tau_c`,
    of sec:softmax-geometry in float64, for p >= 3; ``offset`` [C] is :math:`b_c`.

    Arguments as in `realize`. A controlled score is taken at its own temperatures
    :math:`\tau_c^\star=A_c/g_c^\star` or with its own added slope, both of the exact gains, so
    that exact and leading scores undergo the same intervention; the intercepts, of order
    :math:`1/\nu`, are left out.
    """
    nu = joint_order(state.dim)
    rule, bare = (
        realize(state, tau, r, beta, family=family, offset=offset, validate_args=validate_args)
        for r in (realization, "cosine")
    )
    if rule.tau is None:
        return rule
    g0 = ratio_terms(rule.kappa / nu, validate_args=False).r0 / rule.tau
    g0 = g0 if rule.slope is None else g0 + rule.slope
    return Realization(rule.mu, rule.kappa, None, g0, bare.shift)


def all_pairs(num_classes: int, device: torch.device | str | None = None) -> Tensor:
    """The C(C-1)/2 unordered pairs a < b of classes, [P, 2] int64, in order."""
    return torch.triu_indices(num_classes, num_classes, 1, device=device).T.contiguous()


def pairwise_margins(
    z: Tensor, rule: Realization, pairs: Tensor, *, validate_args: bool | None = None
) -> Tensor:
    r"""The log odds :math:`\log P_a/P_b=s_a(z)-s_b(z)` [N, P] of unit vectors ``z`` [N, p] for
    ``pairs`` [P, 2] of classes, offsets included.

    Exact with exact scores; eq:leading-pairwise-logodds with leading ones.
    """
    require_features(z, rule.mu.shape[1], rule.mu.device, validate_args)
    require_pairs(pairs, rule, validate_args)
    classes, place = pairs.unique(return_inverse=True)
    margins = z.new_empty(len(z), len(pairs), dtype=rule.mu.dtype)
    for rows in _rows(z, max(len(classes), len(pairs)), rule):
        s = rule.at(z[rows].to(rule.mu.dtype) @ rule.mu[classes].T, classes)
        margins[rows] = s[:, place[:, 0]] - s[:, place[:, 1]]
    return margins


class CentreMargins(NamedTuple):
    """The margins [P] of a pair at the prototype of a, in favour of a, and at that of b, of b."""

    a: Tensor
    b: Tensor


def centre_margins(
    rule: Realization, pairs: Tensor | None = None, *, validate_args: bool | None = None
) -> CentreMargins:
    r"""The class-centre margins of ``pairs`` [P, 2], or of `all_pairs`, with
    :math:`c=\mu_a^\top\mu_b` (sec:softmax-geometry):

    :math:`M_a=b_a-b_b+q_a(1)-q_b(c)` and :math:`M_b=b_b-b_a+q_b(1)-q_a(c)`; leading ones
    :math:`M_a^0=b_a-b_b+g_a^0-g_b^0c` with a leading rule.
    """
    if pairs is None:
        pairs = all_pairs(len(rule.mu), rule.mu.device)
    require_pairs(pairs, rule, validate_args)
    peak = rule.at(torch.ones_like(rule.kappa))
    a, b = pairs.T
    # The Gram matrix costs less than gathering the prototypes, once there are enough pairs.
    if len(pairs) * 2 > len(rule.mu):
        c = (rule.mu @ rule.mu.T)[a, b]
    else:
        c = (rule.mu[a] * rule.mu[b]).sum(-1)
    return CentreMargins(peak[a] - rule.at(c, b), peak[b] - rule.at(c, a))


def effective_competitors(scores: Tensor) -> Tensor:
    r""":math:`N_{\mathrm{eff}}=\sum_j\exp(s_j-s_\star)` [...] of ``scores`` [..., C], so that
    :math:`\log\sum_je^{s_j}=s_\star+\log N_{\mathrm{eff}}` (sec:softmax-geometry); in [1, C]."""
    if not isinstance(scores, Tensor) or scores.dim() == 0 or not scores.shape[-1]:
        raise ValueError(f"expected scores [..., C] of one class or more, got {shape_of(scores)}")
    return (scores - scores.amax(-1, keepdim=True)).exp().sum(-1)


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
    parts = [_coordinates(z[rows], y[rows], rule) for rows in _rows(z, len(rule.mu), rule)]
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
    for rows in _rows(z, len(rule.mu), rule):
        x = z[rows].to(G.dtype)
        rho = x @ rule.mu.T
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
    tau: Number,
    beta: float = 0.0,
    *,
    family: str = "linear",
    offset: Tensor | None = None,
    validate_args: bool | None = None,
) -> GradientDifference:
    r"""What the intercept does to the gradient (eq:intercept-gradient-difference):
    :math:`\nabla_{\mathbb S}L_y^{temp}-\nabla_{\mathbb S}L_y^{preserve}` and
    :math:`\Pi_z\sum_c(P_c^{temp}-P_c^{preserve})d_c\mu_c`, which are equal.

    The second does not know the labels.
    """
    temperature, preserve = (
        realize(state, tau, r, beta, family=family, offset=offset, validate_args=validate_args)
        for r in ("temperature", "preserve")
    )
    difference = loss_gradient(z, y, temperature, validate_args=validate_args) - loss_gradient(
        z, y, preserve, validate_args=False
    )
    predicted = torch.empty_like(difference)
    for rows in _rows(z, state.num_classes, temperature):
        x = z[rows].to(predicted.dtype)
        rho = x @ temperature.mu.T
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


def require_pairs(pairs: Tensor, rule: Realization, validate: bool | None) -> None:
    """Raise unless ``pairs`` is [P, 2] int64 on the device of the rule, of two of its classes."""
    if not isinstance(pairs, Tensor) or pairs.dim() != 2 or pairs.shape[1] != 2:
        raise ValueError(f"expected pairs [P, 2], got {shape_of(pairs)}")
    if pairs.dtype != torch.int64:
        raise ValueError(f"expected pairs of dtype torch.int64, got {pairs.dtype}")
    if pairs.device != rule.mu.device:
        raise ValueError(f"expected pairs on {rule.mu.device}, got them on {pairs.device}")
    if not validation.should_validate(validate, pairs):
        return
    number = len(rule.mu)
    bad = ((pairs < 0) | (pairs >= number)).any(-1) | (pairs[:, 0] == pairs[:, 1])
    if bad.any():
        i = int(bad.nonzero()[0])
        rule_text = f"two different classes in [0, {number})"
        raise ValueError(f"expected pairs of {rule_text}, got {pairs[i].tolist()} at index {i}")


def _require(z: Tensor, y: Tensor, rule: Realization, validate: bool | None) -> None:
    require_features(z, rule.mu.shape[1], rule.mu.device, validate)
    require_labels(y, len(z), len(rule.mu), rule.mu.device, validate)


def _rows(z: Tensor, width: int, rule: Realization) -> Iterator[slice]:
    """Rows of z of which ``width`` numbers each take CHUNK_BYTES."""
    height = max(1, CHUNK_BYTES // (max(1, width) * rule.mu.dtype.itemsize))
    return (slice(top, top + height) for top in range(0, len(z), height))


def _residual(scores: Tensor, y: Tensor) -> Tensor:
    """``P_c - 1[c = y]`` [N, C]; that of the label as minus the sum of the others, which keeps
    its digits where P_y is near one."""
    P = scores.softmax(-1)
    P.scatter_(-1, y.unsqueeze(-1), 0.0)
    return P.scatter_(-1, y.unsqueeze(-1), -P.sum(-1, keepdim=True))


def _coordinates(z: Tensor, y: Tensor, rule: Realization) -> tuple[Tensor, Tensor]:
    """sum_c C_c mu_c [N, p] and sum_c (t / kappa_c) C_c [N]."""
    rho = z.to(rule.mu.dtype) @ rule.mu.T
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
