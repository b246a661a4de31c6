r"""Leading scores of classes, the joint expansion propagated through softmax, and thresholds of
posterior probabilities. Classes of logits :math:`\ell_{0,c}+B_{1,c}/\nu+B_{2,c}/\nu^2` couple in
second order through the variance :math:`V_1` of :math:`B_1` (thm:multiclass-propagation)."""

import math
from numbers import Real

import torch
from torch import Tensor

from resultant._core import validation
from resultant._core.arrays import normalized
from resultant._core.validation import Check, Number
from resultant.classes.rule import Rule
from resultant.classes.scores import ClassScores, cosines, realize
from resultant.classes.statistics import ClassState
from resultant.decisions.boundaries import ArcRoots, arc_angles, solve
from resultant.decisions.margins import require_pairs
from resultant.theory.score_expansion import ratio_terms
from resultant.vmf.tails import tail_dimension

# Prototypes whose angle is this close to pi have no defined short arc.
OPPOSITE = 1e-6


@torch.no_grad()
def joint_leading(state: ClassState, rule: Rule, *, validate_args: Check = None) -> ClassScores:
    r"""Build the leading logits :math:`\ell_c^0=b_c+g_c^0\rho_c` of sec:softmax-geometry, with
    :math:`g_c^0=r_0(\kappa_c/\nu)/\tau_c` plus the slope that an edited score adds.

    Args:
        state, rule: Classes in p >= 3 dimensions, and the rule, whose offset is :math:`b_c`.

    Returns:
        Linear scores in float64.

    Example:
        >>> joint_leading(state, Rule(0.1)).gain()
        tensor([6.1803, 7.8078, 8.8278], dtype=torch.float64)
    """
    nu = tail_dimension(state.dim) / 2 - 1
    exact = realize(state, rule, validate_args=validate_args)
    if exact.tau is None:
        return exact
    g0 = ratio_terms(exact.kappa / nu).r0 / exact.tau
    g0 = g0 if exact.slope is None else g0 + exact.slope
    return ClassScores(exact.mu, exact.kappa, None, g0, exact.offset, exact.offset)


def propagate_probabilities(
    l0: Tensor, B1: Number, B2: Number, p: int, *, variance: bool = True
) -> Tensor:
    r"""Compute class probabilities to second order in 1/nu (eq:multiclass-prob-expansion).

    Args:
        l0, B1, B2: Leading logits [..., C], offset and leading score, and their corrections.
        p: Dimension >= 3.
        variance: Include :math:`(\Delta_1^2-V_1)/2`; without it the error is of second order.

    Returns:
        Probabilities [..., C], which sum to one in either case.

    Example:
        >>> propagate_probabilities(torch.tensor([1.0, 0.0]), torch.tensor([0.5, -0.5]), 0.0, 128)
        tensor([0.7342, 0.2658])
    """
    (log_p, d1, d2, V1), nu, dtype = _propagation(l0, B1, B2, p)
    if variance:
        d2 = d2 + (d1**2 - V1) / 2
    return (log_p.exp() * (1 + (d1 + d2 / nu) / nu)).to(dtype)


def propagate_loss(
    l0: Tensor,
    B1: Number,
    B2: Number,
    p: int,
    y: Tensor | int,
    *,
    variance: bool = True,
    validate_args: Check = None,
) -> Tensor:
    r"""Compute the cross-entropy to second order in 1/nu (eq:multiclass-loss-expansion).

    Args:
        l0, B1, B2, p: As in `propagate_probabilities`.
        y: Labels [...] of an integer dtype, in [0, C).
        variance: Include :math:`V_1/2`, the coupling of the classes.

    Returns:
        Losses [...].

    Example:
        >>> propagate_loss(torch.tensor([1.0, 0.0]), torch.tensor([0.5, -0.5]), 0.0, 128, 0)
        tensor(0.3090)
    """
    (log_p, d1, d2, V1), nu, dtype = _propagation(l0, B1, B2, p)
    y, C = torch.as_tensor(y, device=log_p.device), log_p.shape[-1]
    if y.dtype.is_floating_point or y.dtype.is_complex or y.dtype == torch.bool:
        raise ValueError(f"expected y of an integer dtype, got {y.dtype}")
    if variance:
        d2 = d2 - V1 / 2
    loss, label = -(log_p + (d1 + d2 / nu) / nu), y.long().unsqueeze(-1)
    try:
        loss, label = torch.broadcast_tensors(loss, label)
    except RuntimeError:
        rule = f"y to broadcast with the shape {tuple(log_p.shape[:-1])} of l0 without classes"
        raise ValueError(f"expected {rule}, got {tuple(y.shape)}") from None
    if validation.should_validate(validate_args, y) and y.numel():
        validation.require_in_range("y", y.double(), 0, C - 1, rule=f"in 0, ..., {C - 1}")
    return loss.gather(-1, label[..., :1]).squeeze(-1).to(dtype)


def _propagation(
    l0: Tensor, B1: Number, B2: Number, p: int
) -> tuple[tuple[Tensor, ...], float, torch.dtype]:
    """Return log P0, Delta_1, Delta_2 [..., C] and V_1 [..., 1]; nu; the dtype of the result."""
    nu = tail_dimension(p) / 2 - 1
    (l0, B1, B2), dtype = validation.tensors(l0=l0, B1=B1, B2=B2)
    l0, B1, B2 = torch.broadcast_tensors(l0, B1, B2)
    if l0.dim() == 0:
        raise ValueError("expected l0, B1 and B2 of shape [..., C], got shape ()")
    log_p = l0.log_softmax(-1)
    P = log_p.exp()
    d1, d2 = (B - (P * B).sum(-1, keepdim=True) for B in (B1, B2))
    return (log_p, d1, d2, (P * d1**2).sum(-1, keepdim=True)), nu, dtype


@torch.no_grad()
def posterior_thresholds(
    scores: ClassScores, pairs: Tensor, level: float = 0.5, *, validate_args: Check = None
) -> ArcRoots:
    r"""Find where :math:`P_a` crosses a level on the short arc from a to b, given all classes:
    :math:`s_a-\log\sum_{j\ne a}e^{s_j}=\log(level/(1-level))` (sec:softmax-geometry).

    Args:
        scores, pairs: Scores in float64, and pairs whose prototypes are not opposite.
        level: Probability in (0, 1).

    Returns:
        Angles, numbers of roots and roots [P].

    Example:
        >>> posterior_thresholds(realize(state, Rule(0.5)), torch.tensor([[0, 1]])).status
        ['none']
    """
    theta = arc_angles(scores, require_pairs(pairs, scores, validate_args))
    if isinstance(level, bool) or not isinstance(level, Real) or not 0 < level < 1:
        raise ValueError(f"expected level in (0, 1), got {level!r}")
    validation.require_values("classes", scores.mu)
    mu = normalized(scores.mu)
    for i in (theta > math.pi - OPPOSITE).nonzero().flatten().tolist()[:1]:
        rule = f"expected pairs at an angle below pi - {OPPOSITE:g}"
        raise ValueError(f"{rule}, got {float(theta[i]):.9g} at index {i}")
    bar = math.log(level) - math.log1p(-level)

    def margin(u: Tensor, which: Tensor) -> Tensor:
        a, b = pairs[which].T
        angle = theta[which]
        v, w = (x.sin().unsqueeze(-1) / angle.sin().unsqueeze(-1) for x in (angle - u, u))
        # Cosines [K, P, C] of every class with the location, exact for a and b.
        rho = v * cosines(mu[a], mu) + w * cosines(mu[b], mu)
        own, other = (i.expand(u.shape).unsqueeze(-1) for i in (a, b))
        rho.scatter_(-1, other, (angle - u).cos().unsqueeze(-1))
        rho.scatter_(-1, own, u.cos().unsqueeze(-1))
        q = scores.at(rho)
        mine = q.gather(-1, own).squeeze(-1)
        return mine - q.scatter_(-1, own, -math.inf).logsumexp(-1) - bar

    falling = torch.zeros_like(theta, dtype=torch.bool)
    return ArcRoots(theta, *solve(margin, theta, falling, width=len(mu)))
