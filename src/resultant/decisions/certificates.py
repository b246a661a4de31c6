r"""Certificates that Pure Angular at beta = 0, :math:`\bar g\rho_c+\delta_c`, and the cosine rule
agree (prop:cosine-prediction-stability), bounds by the residual :math:`\delta_c=q_c(\rho_c;\tau_0)
-g_c\rho_c` where not (prop:cosine-gradient-stability), and signs of changes of margins."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from resultant._core import memory, validation
from resultant._core.arrays import normalized, require_features, require_labels
from resultant._core.limits import limits
from resultant._core.validation import COMPUTE_DTYPE, Check, Number
from resultant.classes.rule import Rule
from resultant.classes.scores import ClassScores, chunk_rows, cosines, realize
from resultant.classes.statistics import ClassState
from resultant.decisions.gradients import tangent
from resultant.decisions.margins import require_pairs
from resultant.score.limits import require_temperature

# Roundings of a score and its arguments, without those of the product behind rho: at most 45
# (float64) or 17 (float32) times max(|q|, |rho q'|), and 3 of a rounded kappa and tau.
ROUNDINGS = 64


@dataclass(frozen=True, eq=False)
class Certificate:
    """Agreement of Pure Angular at beta = 0 with the shared-scale cosine rule, per query."""

    margin: Tensor  # top-two gaps [N] of b_c + gbar rho_c, in float64
    residual_range: Tensor  # ranges D(z) [N] of the residual, in float64
    certified: Tensor  # mask [N], margin - D > slack
    prediction: Tensor  # classes [N] that the cosine rule predicts
    angular: Tensor  # classes [N] that Pure Angular predicts
    slack: Tensor  # allowance for rounding, a scalar

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
    """Extremes [C] of the residual over all queries: low, high and the largest absolute slope."""

    low: Tensor
    high: Tensor
    slope: Tensor

    @property
    def range(self) -> Tensor:
        r"""Upper bound of :math:`D(z)` for any query."""
        return self.high.max() - self.low.min()


@dataclass(frozen=True, eq=False)
class MarginChange:
    """Changes of margins s_a - s_b, one per pair and query [I], in float64."""

    exact: Tensor  # exact changes, linear + residual
    linear: Tensor  # changes of the linear scores: of the gains, or of gains and intercepts
    residual: Tensor
    certified: Tensor  # mask where linear outweighs residual and rounding
    correct: Tensor  # mask where linear and exact have the same sign
    row: Tensor  # indices of the queries
    pair: Tensor  # indices of the pairs

    @property
    def coverage(self) -> float:
        """Share of certified changes."""
        return float(self.certified.double().mean())

    @property
    def agreement(self) -> float:
        """Share of changes where linear and exact have the same sign."""
        return float(self.correct.double().mean())


@torch.no_grad()
def certificate(
    z: Tensor,
    state: ClassState,
    tau: Number,
    *,
    offset: Tensor | None = None,
    chunk: int | None = None,
    validate_args: Check = None,
) -> Certificate:
    r"""Certify that Pure Angular at beta = 0 and the cosine rule predict the same class
    (eq:cosine-margin-certificate).

    The certificate holds for the scores as `class_scores` computes them in the dtype of z: the
    slack covers the worst case of their rounding, near 6e-4 for float32 features at p = 128 and
    tau = 0.1, and near 4e-12 for float64. Products in less than the dtype (TF32) are not covered.

    Args:
        z, state, tau, offset, chunk: As in `class_scores`; offset -inf counts in the mean gain.

    Returns:
        Margins, residual ranges and certificates [N].

    Example:
        >>> certificate(z, state, tau=0.5).certified
        tensor([True, True, True])
    """
    rules, columns = _RulePair(state, tau, offset, validate_args), []
    for _, rho in rules.chunks(z, chunk):
        cosine, delta = rules.cosine.at(rho), rules.residual.at(rho)
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
    """Compute the share of queries on which the rules disagree, and its bound, the share without
    certificate (eq:prediction-disagreement-bound).

    Args:
        certificate: Certificates of N queries.

    Returns:
        Two scalars.

    Example:
        >>> disagreement_bound(certificate(z, state, tau=0.5)).bound
        tensor(0., dtype=torch.float64)
    """
    differ = certificate.prediction != certificate.angular
    return Bound(differ.double().mean(), (~certificate.certified).double().mean())


@torch.no_grad()
def residual_bound(state: ClassState, tau: Number, *, validate_args: Check = None) -> ResidualBound:
    r"""Compute the extremes of :math:`\delta_c(\rho)` and its slope over :math:`-1\le\rho\le1`,
    behind :math:`\sup_{c,z}|\delta_c(z)|=O(\nu^{-1})` (sec:cosine-prediction-equivalence).

    Args:
        state, tau: Classes and temperature.

    Returns:
        Extremes [C] in float64.

    Example:
        >>> residual_bound(state, tau=0.5).range
        tensor(0.5325, dtype=torch.float64)
    """
    tau = require_temperature(tau, state.num_classes, state.mu.device, validate_args)
    native = realize(state, Rule(tau), validate_args=False)
    g = native.gain()
    # q is concave in rho: delta is smallest at an end, and largest where the tilt leaves kappa.
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
    validate_args: Check = None,
) -> Bound:
    r"""Compute :math:`|L_y^{angular}-L_y^{cos}|` [N] and its bound :math:`2\epsilon`,
    :math:`\epsilon=\max_c|\delta_c|` (eq:cosine-loss-bound).

    Args:
        z, y, state, tau, offset, chunk: As in `certificate`, with labels.
        centered: Use half the range D(z) for epsilon, which is never larger: a residual common to
            all classes changes neither loss nor gradient.

    Returns:
        Differences and bounds [N].

    Example:
        >>> b = loss_bound(z, y, state, tau=0.5)
        >>> (b.difference <= b.bound).all()
        tensor(True)
    """
    rules, columns = _RulePair(state, tau, offset, validate_args), []
    y = rules.labels(y, len(z))
    for rows, rho in rules.chunks(z, chunk):
        delta = rules.residual.at(rho)
        own = delta.gather(1, y[rows, None])
        # log E exp(delta - delta_y) under the cosine rule: no large losses are subtracted.
        change = torch.logsumexp(rules.cosine.at(rho).log_softmax(1) + (delta - own), 1)
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
    validate_args: Check = None,
) -> Bound:
    r"""Compute the norms [N] of the difference of the tangent loss gradients, and their bounds
    :math:`2\bar g\epsilon+2\eta`, :math:`\eta=\max_c|\partial_{\rho_c}\delta_c|`
    (eq:cosine-gradient-bound).

    Args:
        z, y, state, tau, offset, centered, chunk: As in `loss_bound`.

    Returns:
        Norms and bounds [N].

    Example:
        >>> b = gradient_bound(z, y, state, tau=0.5)
        >>> (b.difference <= b.bound).all()
        tensor(True)
    """
    rules, columns = _RulePair(state, tau, offset, validate_args), []
    y = rules.labels(y, len(z))
    for rows, rho in rules.chunks(z, chunk):
        log_p, own = rules.cosine.at(rho).log_softmax(1), y[rows, None]
        delta, excess = rules.residual.terms.score_and_slope(rho, rules.residual.kappa, state.dim)
        angular = (log_p + (delta - delta.amax(1, keepdim=True))).softmax(1)
        weight = torch.addcmul(rules.gbar * (angular - log_p.exp()), angular, excess)
        weight.scatter_add_(1, own, -excess.gather(1, own))
        G = tangent(weight @ rules.cosine.mu, normalized(z[rows]))
        bound = 2 * rules.gbar * _size(delta, centered) + 2 * excess.abs().amax(1)
        columns.append((torch.linalg.vector_norm(G, dim=1), bound))
    return Bound(*map(torch.cat, zip(*columns, strict=True)))


def _size(delta: Tensor, centered: bool) -> Tensor:
    low, high = delta.aminmax(dim=1)
    return (high - low) / 2 if centered else torch.maximum(high, -low)


@torch.no_grad()
def margin_change(
    z: Tensor,
    y: Tensor,
    state: ClassState,
    rule: Rule,
    pairs: Tensor,
    *,
    intercept: bool = False,
    validate_args: Check = None,
) -> MarginChange:
    r"""Compute the change of margins from the native score to a rule (sec:margin-change-protocol).

    For pairs of classes (a, b) and the queries of both, the change of :math:`s_a-s_b` is
    :math:`\Delta m=\Delta m_{lin}+r`, where :math:`\Delta m_{lin}` is that of `ClassScores.linear`,
    :math:`(g_a^\star-g_a)\rho_a-(g_b^\star-g_b)\rho_b` without the intercept, as in the paper.
    The sign is certified by :math:`|\Delta m_{lin}|>|r|` and a slack as in `certificate`.

    Args:
        z, y, state, rule, pairs: Vectors, labels, classes, rule and pairs.
        intercept: Include the change of :math:`q_c(0)` in the linear change.

    Returns:
        Changes [I], one per pair and query of its two classes.

    Example:
        >>> margin_change(z, y, state, Rule(0.5, "angular"), torch.tensor([[0, 1]])).exact
        tensor([0.4413, 0.0073], dtype=torch.float64)
    """
    require_features(z, state.dim, state.mu.device, validate_args)
    require_labels(y, len(z), state.num_classes, state.mu.device, validate_args)
    rules = replace(rule, realization="native"), rule
    scores = native, _ = [realize(state, r, validate_args=validate_args) for r in rules]
    require_pairs(pairs, native, validate_args)
    validation.require_values("pairs", pairs)
    lines = [s.linear(intercept) for s in scores]
    errors = [score_error(s, z.dtype) + 2 * score_error(s, torch.float64) for s in scores]
    slack = errors[0] + errors[1]
    members = {c: (y == c).nonzero().squeeze(1) for c in pairs.unique().tolist()}
    rows = [torch.cat([members[a], members[b]]) for a, b in pairs.tolist()]
    row = torch.cat([y[:0], *rows])
    pair = torch.cat([y[:0], *(torch.full_like(r, i) for i, r in enumerate(rows))])
    columns, height = [], memory.rows_per_chunk(8 * z.shape[1], memory.FEATURE_BYTES)
    for at, index in zip(row.split(height), pair.split(height), strict=True):
        x, (a, b) = z[at].double(), pairs[index].T
        rho_a, rho_b = ((x * native.mu[c]).sum(1) for c in (a, b))
        before, after, *line = (s.at(rho_a, a) - s.at(rho_b, b) for s in (*scores, *lines))
        columns.append((after - before, line[1] - line[0], slack[a] + slack[b]))
    exact, linear, slack = map(torch.cat, zip(*columns, strict=True))
    residual = exact - linear
    certified = linear.abs() > residual.abs() + slack
    correct = linear.sign() == exact.sign()
    return MarginChange(exact, linear, residual, certified, correct, row, pair)


class _RulePair:
    """The cosine rule and the residual, of the classes that can win, in float64."""

    def __init__(self, state: ClassState, tau: Number, offset: Tensor | None, check: Check) -> None:
        validation.require_values("classes", state.mu)
        native = realize(state, Rule(tau, offset=offset), validate_args=check)
        assert native.tau is not None
        g, self.check = native.gain(), check
        b = torch.zeros_like(g) if native.shift is None else native.shift
        self.gbar, self.classes = g.mean(), len(g)
        self.live = live = (b > -math.inf).nonzero().squeeze(1)
        if not len(live):
            raise ValueError("expected a class with an offset above -inf, got none")
        mu, kappa, self.g = native.mu[live], native.kappa[live], g[live]
        self.cosine = ClassScores(mu, kappa, None, self.gbar, b[live])
        self.residual = ClassScores(mu, kappa, native.tau.expand_as(g)[live], -self.g, None)

    def chunks(self, z: Tensor, chunk: int | None) -> Iterator[tuple[slice, Tensor]]:
        """Yield rows and their cosines [n, live]."""
        mu = self.cosine.mu
        require_features(z, mu.shape[1], mu.device, self.check)
        height = chunk_rows(chunk, len(mu), mu.dtype)
        for top in range(0, max(1, len(z)), height):
            rows = slice(top, top + height)
            yield rows, cosines(z[rows], mu)

    def labels(self, y: Tensor, number: int) -> Tensor:
        """Return labels as indices of the classes that can win."""
        require_labels(y, number, self.classes, self.live.device, self.check)
        for i in (~torch.isin(y, self.live)).nonzero().flatten().tolist()[:1]:
            got = f"class {int(y[i])} of offset -inf at index {i}"
            raise ValueError(f"expected labels of classes with an offset above -inf, got {got}")
        return torch.searchsorted(self.live, y)

    def slack(self, dtype: torch.dtype) -> Tensor:
        """Compute twice the errors of the scores in a dtype, and of margin and residual here."""
        cosine, residual = self.cosine, self.residual
        angular = replace(residual, slope=self.gbar - self.g, shift=cosine.shift)
        scores = torch.maximum(score_error(cosine, dtype).max(), score_error(angular, dtype).max())
        own = (score_error(rule, torch.float64).max() for rule in (cosine, residual))
        return 2 * (scores + sum(own))


def score_error(scores: ClassScores, dtype: torch.dtype) -> Tensor:
    """Bound the rounding errors [C] of scores for features of a dtype."""
    end = -torch.ones_like(scores.kappa)
    # q is concave in rho: an error of rho counts most at -1; |q| is at most t.
    steep = replace(scores, slope=None).slope_at(end)
    size = torch.zeros_like(end) if scores.tau is None else 1 / scores.tau
    if scores.slope is not None:
        size, steep = size + scores.slope.abs(), steep + scores.slope.abs()
    if scores.shift is not None:
        size = size + scores.shift.abs()
    eps = torch.finfo(COMPUTE_DTYPE[dtype]).eps
    # Those of the product z mu count by the slope.
    roundings = scores.mu.shape[1] * steep + ROUNDINGS * (steep + size)
    error = eps * roundings + torch.finfo(dtype).eps * size
    # No bound for a score that is not finite.
    largest = limits(COMPUTE_DTYPE[dtype]).kappa
    finite = (2 * size < torch.finfo(dtype).max) & (scores.kappa <= largest)
    return torch.where(finite, error, math.inf)
