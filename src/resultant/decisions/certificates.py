r"""Where complete equalization and the cosine rule must agree, and by how much they can differ.

At beta = 0 the Pure Angular score is :math:`\bar g\rho_c+\delta_c(z)`, the shared-scale cosine
score and a residual :math:`\delta_c=q_c(\rho_c;\tau_0)-g_c\rho_c`
(eq:Pure Angular-cosine-decomposition). A cosine margin above the range of the residual settles the
prediction (prop:cosine-prediction-stability); the size of the residual and of its slope bounds
the losses and gradients (prop:cosine-gradient-stability). A change of gains is certified likewise,
pair by pair (sec:margin-change-protocol). All is worked out in float64, some rows at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from resultant._core import chunks
from resultant._core.arrays import (
    normalized,
    require_features,
    require_labels,
)
from resultant._core.validation import COMPUTE_DTYPE, Number
from resultant.classes.cosines import cosines
from resultant.classes.realization import Realization, realize
from resultant.classes.rule import Rule
from resultant.classes.statistics import ClassState
from resultant.decisions.margins import require_pairs
from resultant.score.exact import exact_score_and_slope
from resultant.score.limits import require_temperature

# Roundings of a score and its arguments, beside those of the product behind rho: the score itself
# is within 45 (float64) or 17 (float32) of max(|q|, |rho q'|), rounded kappa and tau give 3.
ROUNDINGS = 64


@dataclass(frozen=True, eq=False)
class Certificate:
    r"""Which queries Pure Angular at beta = 0 and the shared-scale cosine rule must agree on.

    ``margin`` [N] is the top-two gap of :math:`b_c+\bar g\rho_c`, ``residual_range`` [N] is
    :math:`D(z)`, both in float64. ``certified`` [N] is margin - D > ``slack`` (a scalar), and
    ``prediction`` and ``angular`` [N] are the winners under the cosine rule and Pure Angular.
    """

    margin: Tensor
    residual_range: Tensor
    certified: Tensor
    prediction: Tensor
    angular: Tensor
    slack: Tensor

    @property
    def coverage(self) -> float:
        """The share of certified queries."""
        return float(self.certified.double().mean())


@dataclass(frozen=True, eq=False)
class Bound:
    """A measured ``difference`` of the two rules and the ``bound`` that it obeys, in float64."""

    difference: Tensor
    bound: Tensor


@dataclass(frozen=True, eq=False)
class ResidualBound:
    r"""The reach of :math:`\delta_c` over all queries: ``low`` and ``high`` [C], and ``slope`` [C],
    the largest :math:`|\partial_\rho\delta_c|`."""

    low: Tensor
    high: Tensor
    slope: Tensor

    @property
    def range(self) -> Tensor:
        r"""No less than :math:`D(z)` of any query."""
        return self.high.max() - self.low.min()


@dataclass(frozen=True, eq=False)
class MarginChange:
    r"""Changes of margins :math:`s_a-s_b`, one a pair-query incidence [I], in float64.

    ``exact`` = ``linear`` + ``residual``; ``certified`` where linear outweighs residual and
    rounding, ``correct`` where linear and exact have one sign. ``row`` and ``pair`` say which
    query and which pair.
    """

    exact: Tensor
    linear: Tensor
    residual: Tensor
    certified: Tensor
    correct: Tensor
    row: Tensor
    pair: Tensor

    @property
    def coverage(self) -> float:
        """The share of certified incidences."""
        return float(self.certified.double().mean())

    @property
    def agreement(self) -> float:
        """The share of incidences where linear and exact have one sign."""
        return float(self.correct.double().mean())


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
    r"""The margin certificate of unit vectors ``z`` [N, p], eq:cosine-margin-certificate.

    It holds for the scores as `class_scores` computes them in the dtype of z, however it is
    chunked: if no score is further off than E there, an exact margin - D above 2 E settles the
    winner of both, and margin and D are known here to twice the float64 errors of their terms. The
    ``slack`` is all three. E is worst case, p roundings of the product z mu times the largest
    slope of the score, and `ROUNDINGS` more of slope and size; at p = 128 and tau = 0.1 the slack
    is near 6e-4 for float32 features and near 4e-12 for float64 ones. Products in less than the
    dtype (TF32) are not covered. Classes with an offset of -inf are left out, save for their part
    in the mean gain.
    """
    rules = _Rules(z, state, tau, offset, chunk, validate_args)
    columns = []
    for rows in rules.pieces(z):
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
    """The share of queries on which the rules disagree, and that of queries without certificate.

    eq:prediction-disagreement-bound of the empirical distribution, both scalars. The accuracies
    differ by no more than the first.
    """
    differ = certificate.prediction != certificate.angular
    return Bound(differ.double().mean(), (~certificate.certified).double().mean())


@torch.no_grad()
def residual_bound(
    state: ClassState, tau: Number, *, validate_args: bool | None = None
) -> ResidualBound:
    r"""The extremes of :math:`\delta_c(\rho)` and its slope over :math:`-1\le\rho\le1`.

    The exact constants behind :math:`\sup_{c,z}|\delta_c(z)|=O(\nu^{-1})`
    (sec:cosine-prediction-equivalence). q is concave in rho, so :math:`\delta` is least at an end
    and greatest where :math:`\tilde\kappa=\kappa`, that is :math:`\rho=-t/2\kappa` (or -1).
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
    r""":math:`|L_y^{angular}-L_y^{cos}|` [N] and :math:`2\epsilon` [N], eq:cosine-loss-bound.

    :math:`\epsilon=\max_c|\delta_c|`. A residual common to all classes changes neither loss nor
    gradient: ``centered`` puts half the range D(z) for epsilon, which is never more.
    """
    rules = _Rules(z, state, tau, offset, chunk, validate_args)
    y = rules.labels(y, len(z), validate_args)
    columns = []
    for rows in rules.pieces(z):
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
    r"""The norm of the difference of the tangent loss gradients [N], and its bound [N].

    :math:`2\bar g\epsilon+2\eta` with :math:`\epsilon=\max_c|\delta_c|` (as in `loss_bound`) and
    :math:`\eta=\max_c|\partial_{\rho_c}\delta_c|`, eq:cosine-gradient-bound.
    """
    rules = _Rules(z, state, tau, offset, chunk, validate_args)
    y = rules.labels(y, len(z), validate_args)
    columns = []
    for rows in rules.pieces(z):
        cosine, delta, excess = rules(z[rows])
        log_p = cosine.log_softmax(1)
        angular = (log_p + (delta - delta.amax(1, keepdim=True))).softmax(1)
        weight = rules.gbar * (angular - log_p.exp())
        weight.addcmul_(angular, excess)
        own = y[rows, None]
        weight.scatter_add_(1, own, -excess.gather(1, own))
        ambient, x = weight @ rules.native.mu, normalized(z[rows])
        tangent = ambient - (ambient * x).sum(1, keepdim=True) * x
        eta = excess.abs().amax(1)
        bound = 2 * rules.gbar * _size(delta, centered) + 2 * eta
        columns.append((torch.linalg.vector_norm(tangent, dim=1), bound))
    return Bound(*map(torch.cat, zip(*columns, strict=True)))


@torch.no_grad()
def margin_change(
    z: Tensor,
    y: Tensor,
    state: ClassState,
    rule: Rule,
    pairs: Tensor,
    *,
    validate_args: bool | None = None,
) -> MarginChange:
    r"""How margins change from the native score to a realization, sec:margin-change-protocol.

    For ``pairs`` [P, 2] of classes (a, b) and the queries of both, the change of
    :math:`s_a-s_b` is :math:`\Delta m=\Delta m_{lin}+r` with
    :math:`\Delta m_{lin}=(g_a^\star-g_a)\rho_a-(g_b^\star-g_b)\rho_b`. Its sign is certified by
    :math:`|\Delta m_{lin}|>|r|` and a slack for rounding, the error of the four scores in the
    dtype of z and twice that in float64 (see `certificate`). A class offset is common to both
    scores and cancels.
    """
    device = state.mu.device
    require_features(z, state.dim, device, validate_args)
    require_labels(y, len(z), state.num_classes, device, validate_args)
    rules = [
        realize(state, replace(rule, realization=name), validate_args=validate_args)
        for name in ("native", rule.realization)
    ]
    require_pairs(pairs, rules[0], validate_args)
    raised = rules[1].gain() - rules[0].gain()
    errors = [_error(rule, z.dtype) + 2 * _error(rule, torch.float64) for rule in rules]
    slack = errors[0] + errors[1]
    row, pair = _incidences(y, pairs)
    columns, height = [], chunks.rows_per_chunk(8 * z.shape[1], chunks.FEATURE_BYTES)
    for some, of in zip(row.split(height), pair.split(height), strict=True):
        x, (a, b) = z[some].double(), pairs[of].T
        rho_a, rho_b = ((x * rules[0].mu[c]).sum(1) for c in (a, b))
        before, after = (rule.at(rho_a, a) - rule.at(rho_b, b) for rule in rules)
        linear = raised[a] * rho_a - raised[b] * rho_b
        columns.append((after - before, linear, slack[a] + slack[b]))
    exact, linear, slack = map(torch.cat, zip(*columns, strict=True))
    residual = exact - linear
    certified = linear.abs() > residual.abs() + slack
    return MarginChange(
        exact, linear, residual, certified, linear.sign() == exact.sign(), row, pair
    )


class _Rules:
    """Both rules for the classes that can win, in float64."""

    def __init__(
        self,
        z: Tensor,
        state: ClassState,
        tau: Number,
        offset: Tensor | None,
        chunk: int | None,
        validate: bool | None,
    ) -> None:
        if chunk is not None and (type(chunk) is not int or chunk < 1):
            raise ValueError(f"expected chunk to be an integer >= 1 or None, got {chunk!r}")
        require_features(z, state.dim, state.mu.device, validate)
        tau = require_temperature(tau, state.num_classes, state.mu.device, validate)
        native = realize(state, Rule(tau, offset=offset), validate_args=validate)
        g, b = native.gain(), native.shift
        b = torch.zeros_like(g) if b is None else b
        self.gbar, self.classes = g.mean(), state.num_classes
        self.live = (b > -math.inf).nonzero().squeeze(1)
        if not len(self.live):
            raise ValueError("expected a class with an offset above -inf, got none")
        self.chunk = chunk or chunks.rows_per_chunk(8 * len(self.live), chunks.SCORE_BYTES)
        self.g, self.b = g[self.live], b[self.live]
        self.tau = tau.expand_as(g)[self.live]
        mu, kappa = native.mu[self.live], native.kappa[self.live]
        self.native = Realization(mu, kappa, self.tau, None, None)

    def __call__(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Cosine logits, residuals and the residuals' slopes of z, all [N, live]."""
        rho = cosines(z, self.native.mu)
        p, (kappa, tau) = z.shape[1], (self.native.kappa, self.tau)
        # With the slope the score costs little more, and far less than the slope by itself.
        q, slope = exact_score_and_slope(rho, kappa, tau, p)
        delta = torch.addcmul(q, self.g, rho, value=-1)
        return torch.addcmul(self.b, self.gbar, rho), delta, slope - self.g

    def pieces(self, z: Tensor) -> Iterator[slice]:
        """Rows of z, one piece at the least."""
        return (slice(top, top + self.chunk) for top in range(0, max(1, len(z)), self.chunk))

    def labels(self, y: Tensor, length: int, validate: bool | None) -> Tensor:
        """``y`` counted among the classes that can win."""
        require_labels(y, length, self.classes, self.live.device, validate)
        place = torch.full((self.classes,), -1, device=self.live.device)
        place[self.live] = torch.arange(len(self.live), device=self.live.device)
        lost = (place[y] < 0).nonzero()
        if len(lost):
            i = int(lost[0])
            got = f"class {int(y[i])} of offset -inf at index {i}"
            raise ValueError(f"expected labels of classes with an offset above -inf, got {got}")
        return place[y]

    def slack(self, dtype: torch.dtype) -> Tensor:
        """Twice the errors of the scores in this dtype, and of margin and residual here."""
        cosine = replace(self.native, tau=None, slope=self.gbar, shift=self.b)
        angular = replace(self.native, slope=self.gbar - self.g, shift=self.b)
        residual = replace(self.native, slope=-self.g)
        scores = torch.maximum(_error(cosine, dtype).max(), _error(angular, dtype).max())
        own = (_error(rule, torch.float64).max() for rule in (cosine, residual))
        return 2 * (scores + sum(own))


def _error(rule: Realization, dtype: torch.dtype) -> Tensor:
    """What no score [C] of a rule computed for features of this dtype is further off than."""
    end = -torch.ones_like(rule.kappa)
    # q is concave in rho, so that an error of rho counts most at -1, and |q| is at most t.
    steep = replace(rule, slope=None).slope_at(end)
    size = torch.zeros_like(end) if rule.tau is None else 1 / rule.tau
    if rule.slope is not None:
        size, steep = size + rule.slope.abs(), steep + rule.slope.abs()
    if rule.shift is not None:
        size = size + rule.shift.abs()
    eps = torch.finfo(COMPUTE_DTYPE[dtype]).eps
    roundings = rule.mu.shape[1] * steep + ROUNDINGS * (steep + size)
    error = eps * roundings + torch.finfo(dtype).eps * size
    return torch.where(2 * size < torch.finfo(dtype).max, error, math.inf)


def _size(delta: Tensor, centered: bool) -> Tensor:
    low, high = delta.aminmax(dim=1)
    return (high - low) / 2 if centered else torch.maximum(high, -low)


def _incidences(y: Tensor, pairs: Tensor) -> tuple[Tensor, Tensor]:
    """Rows and pairs [I] of the queries from both classes of every pair."""
    members = {c: (y == c).nonzero().squeeze(1) for c in pairs.unique().tolist()}
    rows = [torch.cat([members[a], members[b]]) for a, b in pairs.tolist()]
    sizes = torch.tensor([len(r) for r in rows], dtype=torch.int64, device=y.device)
    pair = torch.arange(len(rows), device=y.device).repeat_interleave(sizes)
    return torch.cat([y[:0], *rows]), pair
