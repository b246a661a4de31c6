r"""Certificates that complete equalization and the cosine rule agree, and bounds where not.

At beta = 0 the Pure Angular score is :math:`\bar g\rho_c+\delta_c(z)`, the shared-scale cosine
score and a residual :math:`\delta_c=q_c(\rho_c;\tau_0)-g_c\rho_c`
(eq:Pure Angular-cosine-decomposition). A cosine margin above the range of the residual decides the
prediction (prop:cosine-prediction-stability); the size of the residual and of its slope bounds
losses and gradients (prop:cosine-gradient-stability). Everything is computed in float64, in chunks
of rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from resultant._core.arrays import normalized
from resultant._core.validation import Number
from resultant.classes.realization import realize
from resultant.classes.rule import Rule
from resultant.classes.statistics import ClassState
from resultant.decisions._rule_pair import RulePair
from resultant.score.limits import require_temperature


@dataclass(frozen=True, eq=False)
class Certificate:
    r"""Agreement of Pure Angular at beta = 0 with the shared-scale cosine rule, per query.

    Attributes:
        margin: Top-two gaps [N] of :math:`b_c+\bar g\rho_c`, in float64.
        residual_range: Ranges :math:`D(z)` [N] of the residual, in float64.
        certified: Mask [N], margin - D > slack.
        prediction: Classes [N] that the cosine rule predicts.
        angular: Classes [N] that Pure Angular predicts.
        slack: Allowance for rounding, a scalar.
    """

    margin: Tensor
    residual_range: Tensor
    certified: Tensor
    prediction: Tensor
    angular: Tensor
    slack: Tensor

    @property
    def coverage(self) -> float:
        """Share of certified queries."""
        return float(self.certified.double().mean())


@dataclass(frozen=True, eq=False)
class Bound:
    """A measured ``difference`` of the two rules and its ``bound``, in float64."""

    difference: Tensor
    bound: Tensor


@dataclass(frozen=True, eq=False)
class ResidualBound:
    r"""Extremes of :math:`\delta_c` over all queries.

    Attributes:
        low: Smallest residuals [C].
        high: Largest residuals [C].
        slope: Largest :math:`|\partial_\rho\delta_c|` [C].
    """

    low: Tensor
    high: Tensor
    slope: Tensor

    @property
    def range(self) -> Tensor:
        r"""Upper bound of :math:`D(z)` for any query."""
        return self.high.max() - self.low.min()


@torch.no_grad()
def certificate(
    z: Tensor,
    state: ClassState,
    tau: Number,
    *,
    offset: Tensor | None = None,
    chunk: int | None = None,
    validate_args: bool | None = None,
) -> Certificate:
    r"""Certify that Pure Angular at beta = 0 and the cosine rule predict the same class.

    See eq:cosine-margin-certificate. The certificate holds for the scores as `class_scores`
    computes them in the dtype of z, for any chunks. If these scores have errors of at most E, an
    exact margin - D above 2 E decides the winner of both rules, and margin and D are computed here
    to twice the float64 errors of their terms; the slack is the sum of the three. E is the worst
    case: p roundings of the product z mu times the largest slope of the score, and 64 more of slope
    and size. At p = 128 and tau = 0.1 the slack is near 6e-4 for float32 features and near 4e-12
    for float64. Products in less than the dtype (TF32) are not covered.

    Args:
        z: Unit vectors [N, p].
        state: C classes.
        tau: Temperature > 0, a number or one per class [C].
        offset: Numbers [C] added to the scores. Classes with -inf cannot win; they count in the
            mean gain only.
        chunk: Rows at a time.

    Returns:
        Margins, residual ranges and certificates [N].

    Example:
        >>> state = ClassState(torch.eye(3), torch.tensor([1.0, 2.0, 4.0]), torch.ones(3))
        >>> certificate(torch.eye(3), state, tau=0.5).certified
        tensor([True, True, True])
    """
    rules, columns = RulePair(state, tau, offset, chunk, validate_args), []
    for rows in rules.chunks(z):
        cosine, delta, _ = rules(z[rows])
        top = cosine.topk(min(2, cosine.shape[1])).values
        second = top[:, 1] if top.shape[1] > 1 else torch.full_like(top[:, 0], -math.inf)
        low, high = delta.aminmax(dim=1)
        winners = (rules.live[s.argmax(1)] for s in (cosine, cosine + delta))
        columns.append((top[:, 0] - second, high - low, *winners))
    margin, residual_range, prediction, angular = map(torch.cat, zip(*columns, strict=True))
    slack = rules.slack(z.dtype)
    certified = margin - residual_range > slack
    return Certificate(margin, residual_range, certified, prediction, angular, slack)


def disagreement_bound(certificate: Certificate) -> Bound:
    """Compute the share of queries on which the rules disagree, and its bound.

    The bound is the share of queries without certificate (eq:prediction-disagreement-bound). The
    accuracies differ by at most the first share.

    Args:
        certificate: Certificates of N queries.

    Returns:
        Two scalars.

    Example:
        >>> state = ClassState(torch.eye(3), torch.tensor([1.0, 2.0, 4.0]), torch.ones(3))
        >>> disagreement_bound(certificate(torch.eye(3), state, tau=0.5)).bound
        tensor(0., dtype=torch.float64)
    """
    differ = certificate.prediction != certificate.angular
    return Bound(differ.double().mean(), (~certificate.certified).double().mean())


@torch.no_grad()
def residual_bound(
    state: ClassState, tau: Number, *, validate_args: bool | None = None
) -> ResidualBound:
    r"""Compute the extremes of :math:`\delta_c(\rho)` and its slope over :math:`-1\le\rho\le1`.

    They are the exact constants behind :math:`\sup_{c,z}|\delta_c(z)|=O(\nu^{-1})`
    (sec:cosine-prediction-equivalence). q is concave in rho, so :math:`\delta` is smallest at an
    end and largest where :math:`\tilde\kappa=\kappa`, that is :math:`\rho=-t/2\kappa` (or -1).

    Args:
        state: C classes.
        tau: Temperature > 0, a number or one per class [C].

    Returns:
        Extremes [C] in float64.

    Example:
        >>> state = ClassState(torch.eye(3), torch.tensor([1.0, 2.0, 4.0]), torch.ones(3))
        >>> residual_bound(state, tau=0.5).range
        tensor(0.5325, dtype=torch.float64)
    """
    tau = require_temperature(tau, state.num_classes, state.mu.device, validate_args)
    native = realize(state, Rule(tau), validate_args=False)
    g = native.gain()
    peak = (-0.5 / (tau * native.kappa)).clamp_min(-1)
    rho = torch.stack([-torch.ones_like(peak), peak, torch.ones_like(peak)])
    delta, excess = native.at(rho) - g * rho, native.slope_at(rho) - g
    return ResidualBound(delta.amin(0), delta[1], excess.abs().amax(0))


@torch.no_grad()
def loss_bound(
    z: Tensor,
    y: Tensor,
    state: ClassState,
    tau: Number,
    *,
    offset: Tensor | None = None,
    centered: bool = False,
    chunk: int | None = None,
    validate_args: bool | None = None,
) -> Bound:
    r"""Compute :math:`|L_y^{angular}-L_y^{cos}|` and its bound.

    The bound is :math:`2\epsilon`, :math:`\epsilon=\max_c|\delta_c|` (eq:cosine-loss-bound). A
    residual common to all classes changes neither loss nor gradient.

    Args:
        z, state, tau, offset, chunk: As in `certificate`.
        y: Labels [N] int64.
        centered: Use half the range D(z) for epsilon, which is never larger.

    Returns:
        Differences and bounds [N].

    Example:
        >>> state = ClassState(torch.eye(3), torch.tensor([1.0, 2.0, 4.0]), torch.ones(3))
        >>> b = loss_bound(torch.eye(3), torch.tensor([0, 1, 2]), state, tau=0.5)
        >>> (b.difference <= b.bound).all()
        tensor(True)
    """
    rules, columns = RulePair(state, tau, offset, chunk, validate_args), []
    y = rules.labels(y, len(z))
    for rows in rules.chunks(z):
        cosine, delta, _ = rules(z[rows])
        own = delta.gather(1, y[rows, None])
        # log E exp(delta - delta_y) under the cosine rule: no large losses are subtracted.
        change = torch.logsumexp(cosine.log_softmax(1) + (delta - own), 1)
        columns.append((change.abs(), 2 * _size(delta, centered)))
    return Bound(*map(torch.cat, zip(*columns, strict=True)))


@torch.no_grad()
def gradient_bound(
    z: Tensor,
    y: Tensor,
    state: ClassState,
    tau: Number,
    *,
    offset: Tensor | None = None,
    centered: bool = False,
    chunk: int | None = None,
    validate_args: bool | None = None,
) -> Bound:
    r"""Compute the norm of the difference of the tangent loss gradients, and its bound.

    The bound is :math:`2\bar g\epsilon+2\eta` with :math:`\epsilon=\max_c|\delta_c|` and
    :math:`\eta=\max_c|\partial_{\rho_c}\delta_c|` (eq:cosine-gradient-bound).

    Args:
        z, y, state, tau, offset, centered, chunk: As in `loss_bound`.

    Returns:
        Norms and bounds [N].

    Example:
        >>> state = ClassState(torch.eye(3), torch.tensor([1.0, 2.0, 4.0]), torch.ones(3))
        >>> b = gradient_bound(torch.eye(3), torch.tensor([0, 1, 2]), state, tau=0.5)
        >>> (b.difference <= b.bound).all()
        tensor(True)
    """
    rules, columns = RulePair(state, tau, offset, chunk, validate_args), []
    y = rules.labels(y, len(z))
    for rows in rules.chunks(z):
        cosine, delta, excess = rules(z[rows])
        log_p = cosine.log_softmax(1)
        angular = (log_p + (delta - delta.amax(1, keepdim=True))).softmax(1)
        weight = rules.gbar * (angular - log_p.exp())
        weight.addcmul_(angular, excess)
        own = y[rows, None]
        weight.scatter_add_(1, own, -excess.gather(1, own))
        ambient, x = weight @ rules.native.mu, normalized(z[rows])
        tangent = ambient - (ambient * x).sum(1, keepdim=True) * x
        bound = 2 * rules.gbar * _size(delta, centered) + 2 * excess.abs().amax(1)
        columns.append((torch.linalg.vector_norm(tangent, dim=1), bound))
    return Bound(*map(torch.cat, zip(*columns, strict=True)))


def _size(delta: Tensor, centered: bool) -> Tensor:
    low, high = delta.aminmax(dim=1)
    return (high - low) / 2 if centered else torch.maximum(high, -low)
