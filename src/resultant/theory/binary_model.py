r"""The matched binary model: two classes :math:`Z\mid Y=j\sim\mathrm{vMF}_p(\mu_j,\nu\lambda_j)`,
:math:`j\in\{h,t\}`, as nu = p/2 - 1 grows (sec:conditional-margin). The score difference that
decides for h where it is >= 0 is :math:`D_\nu=D_0+O(1/\nu)`, :math:`D_0(z)=b_h-b_t+w^\top z/\tau`,
:math:`w=r_h\mu_h-r_t\mu_t`, :math:`r_j=r_0(\lambda_j)`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Generic, Literal, NamedTuple, SupportsIndex, TypeVar, get_args

import torch
from torch import Tensor

from resultant._core import validation
from resultant._core.arrays import normalized
from resultant._core.validation import Number
from resultant.classes.statistics import ClassState
from resultant.score.exact import vmf_score, vmf_score_and_slope
from resultant.vmf.angle import sample_angle
from resultant.vmf.tails import log_plane_tail, log_projection_tail, tail_dimension

# Scores that decide: the leading terms or the exact scores.
Decision = Literal["leading", "exact"]

# Most Newton steps to a value of a score; after a step below CLOSE the error is its square.
STEPS, CLOSE = 60, 1e-9

T = TypeVar("T")


class Pair(NamedTuple, Generic[T]):
    """One number or estimate per class, h (head) and t (tail)."""

    h: T
    t: T


class Estimate(NamedTuple):
    """A Monte Carlo frequency and its number of samples."""

    value: float
    samples: int

    @property
    def standard_error(self) -> float:
        """Standard error, with half a count added: no count does not mean a probability of zero."""
        mean = (self.value * self.samples + 0.5) / (self.samples + 1)
        return math.sqrt(mean * (1 - mean) / self.samples)

    @property
    def displayed(self) -> float:
        """Frequency, or half a count if nothing was counted (fig:synthetic-transition)."""
        return self.value or 0.5 / self.samples


@dataclass(frozen=True)
class BinaryModel:
    r"""The matched binary model of two different classes (sec:conditional-margin).

    Methods with an argument ``p`` >= 3 hold at this dimension, the others in the limit. A ``rule``
    is ``"leading"`` for :math:`D_0` or ``"exact"`` for :math:`D_\nu`.

    Args:
        lambda_h, lambda_t: Concentrations of the classes over nu, > 0.
        cosine, tau: Cosine :math:`c=\mu_h^\top\mu_t` of the mean directions, and temperature > 0.
        b_h, b_t: Offsets of the logits, such as log priors.

    Example:
        >>> BinaryModel(lambda_h=2.0, lambda_t=1.0, cosine=0.5).limiting_errors
        Pair(h=0.0, t=0.0)
    """

    lambda_h: float
    lambda_t: float
    cosine: float
    tau: float = 1.0
    b_h: float = 0.0
    b_t: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = validation.finite_number(field.name, getattr(self, field.name))
            object.__setattr__(self, field.name, value)
            if field.name in ("lambda_h", "lambda_t", "tau") and value <= 0:
                raise ValueError(f"expected {field.name} > 0, got {value:g}")
        validation.require_in_range("cosine", self.cosine, -1.0, 1.0, rule="in [-1, 1]")
        if self.W == 0:
            got = f"lambda_h = lambda_t = {self.lambda_h:g} and cosine = 1"
            raise ValueError(f"expected w = r_h mu_h - r_t mu_t != 0, got {got}")

    @classmethod
    def of(
        cls,
        state: ClassState,
        a: SupportsIndex,
        b: SupportsIndex,
        tau: float = 1.0,
        *,
        b_h: float = 0.0,
        b_t: float = 0.0,
    ) -> BinaryModel:
        r"""Build the model of two different classes a (h) and b (t), kappa > 0 and p >= 3:
        :math:`\lambda_j=\kappa_j/\nu` at p = ``state.dim``, and :math:`c=\mu_a^\top\mu_b`."""
        if not isinstance(state, ClassState):
            raise ValueError(f"expected state to be a ClassState, got {type(state).__name__}")
        nu, last = tail_dimension(state.dim) / 2 - 1, state.num_classes - 1
        a, b = (validation.integer(n, c, 0, most=last) for n, c in (("a", a), ("b", b)))
        kappa = state.kappa[[a, b]].detach().double().cpu()
        mu = normalized(state.mu[[a, b]].detach()).cpu()
        # One half of the squared chord, which is exactly zero between equal directions.
        apart = float((mu[0] - mu[1]).square().sum()) / 2
        for c, value in zip((a, b), kappa.tolist(), strict=True):
            if not value > 0:
                raise ValueError(f"expected kappa > 0, got {value:g} at class {c}")
        lambda_h, lambda_t = (kappa / nu).tolist()
        return cls(lambda_h, lambda_t, max(-1.0, 1 - apart), tau, b_h, b_t)

    @property
    def delta(self) -> float:
        r"""Difference of the offsets, :math:`\delta=(b_h-b_t)/t`."""
        return (self.b_h - self.b_t) * self.tau

    @property
    def r(self) -> Pair[float]:
        r"""Limits :math:`r_j=r_0(\lambda_j)` of the mean resultant lengths."""
        return Pair(*(lam / (1 + math.hypot(1.0, lam)) for lam in (self.lambda_h, self.lambda_t)))

    @property
    def W(self) -> float:
        r"""Norm :math:`\|w\|`."""
        h, t = self.r
        return math.sqrt((h - t) ** 2 + 2 * h * t * (1 - self.cosine))

    @property
    def beta(self) -> Pair[float]:
        r"""Cosines :math:`\beta_j=\mu_j^\top n` with n = w/W."""
        h, t = self.r
        along = h - t * self.cosine, h * self.cosine - t
        return Pair(*(max(-1.0, min(1.0, x / self.W)) for x in along))

    @property
    def alpha(self) -> Pair[float]:
        r"""Sines :math:`\alpha_j=\sqrt{1-\beta_j^2}`, from the sine between the mean directions."""
        sine = math.sqrt((1 - self.cosine) * (1 + self.cosine)) / self.W
        return Pair(self.r.t * sine, self.r.h * sine)

    @property
    def xi_0(self) -> float:
        r"""Threshold :math:`\xi_0=-\delta/W`; the leading rule decides for h if n'z >= xi_0."""
        return -self.delta / self.W

    @property
    def typical_margins(self) -> Pair[float]:
        r"""Typical margins :math:`R_h=\delta+r_h(r_h-r_tc)` and :math:`R_t=r_t(r_t-r_hc)-\delta`:
        :math:`D_0(Z)` tends to :math:`tR_h` in class h and to :math:`-tR_t` in class t."""
        (h, t), c = self.r, self.cosine
        return Pair(self.delta + h * (h - t * c), t * (t - h * c) - self.delta)

    @property
    def limiting_errors(self) -> Pair[float]:
        """Limits 0, 1/2 or 1 of the errors by typical margin (thm:conditional-error-transition)."""
        return Pair(*(0.0 if R > 0 else 1.0 if R < 0 else 0.5 for R in self.typical_margins))

    @property
    def variances(self) -> Pair[float]:
        r"""Limits :math:`\sigma^2_{\lambda_j}(w)` of nu Var(w'Z) (eq:projection-clt)."""
        parts = zip((self.lambda_h, self.lambda_t), self.beta, self.alpha, strict=True)
        return Pair(*(float(projection_variance(x, self.W * b, self.W * a)) for x, b, a in parts))

    def gaussian_errors(self, p: int) -> Pair[float]:
        r"""Compute errors :math:`\Phi(-\sqrt\nu R_j/\sigma_{\lambda_j}(w))` near the transition,
        :math:`R_j=O(\nu^{-1/2})` (eq:projection-clt)."""
        nu = tail_dimension(p) / 2 - 1
        margins = zip(self.typical_margins, self.variances, strict=True)
        return Pair(*(0.5 * math.erfc(R * math.sqrt(nu / (2 * v))) for R, v in margins))

    def rates(self, xi: float) -> Pair[float]:
        r"""Compute :math:`I_h(\xi)` and :math:`I_t(\xi)` of eq:rate-function."""
        parts = zip((self.lambda_h, self.lambda_t), self.beta, strict=True)
        return Pair(*(float(rate_function(xi, x, b)) for x, b in parts))

    @property
    def exponents(self) -> Pair[float]:
        r"""Limits :math:`I_j(\xi_0)` of :math:`-\nu^{-1}\log\epsilon_j` (eq:error-exponent), zero
        for a class whose typical margin is not positive, since its error does not vanish."""
        rates = zip(self.rates(self.xi_0), self.typical_margins, strict=True)
        return Pair(*(rate if R > 0 else 0.0 for rate, R in rates))

    def reversed_prior(self) -> BinaryModel:
        """Exchange the offsets of the classes, which can reverse the order of the exponents."""
        return replace(self, b_h=self.b_t, b_t=self.b_h)

    def concentrations(self, p: int) -> Pair[float]:
        r"""Compute :math:`\kappa_j=\nu\lambda_j`."""
        nu = tail_dimension(p) / 2 - 1
        return Pair(nu * self.lambda_h, nu * self.lambda_t)

    def log_errors(self, p: int, rule: Decision = "leading") -> Pair[float]:
        r"""Compute :math:`\log\Pr_h(D<0)` and :math:`\log\Pr_t(D\ge0)` of a rule by quadrature."""
        _require_rule(rule)
        kappa, beta = self.concentrations(p), self.beta
        if rule == "leading":
            h = log_projection_tail(self.xi_0, beta.h, kappa.h, p, upper=False)
            t = log_projection_tail(self.xi_0, beta.t, kappa.t, p, upper=True)
            return Pair(float(h), float(t))
        b = self.b_h - self.b_t
        sides = (kappa.h, kappa.t, b), (kappa.t, kappa.h, -b)
        tails = (log_plane_tail(_bound(*s, self.tau, p), self.cosine, s[0], p) for s in sides)
        return Pair(*tails)

    def errors(self, p: int, rule: Decision = "leading") -> Pair[float]:
        """Compute the class errors of a rule by quadrature."""
        return Pair(*(math.exp(e) for e in self.log_errors(p, rule)))

    def sample_margins(
        self, p: int, samples: int, label: Literal["h", "t"]
    ) -> tuple[Tensor, Tensor]:
        r"""Draw Z of a class; return :math:`D_0(Z)` and :math:`D_\nu(Z)` [samples] in float64."""
        if label not in Pair._fields:
            raise ValueError(f"expected label 'h' or 't', got {label!r}")
        samples = validation.integer("samples", samples, 1)
        plane = self.concentrations(p), self.beta, self.alpha
        kappa, beta, alpha = (getattr(pair, label) for pair in plane)
        theta = sample_angle(p, torch.full((samples,), kappa, dtype=torch.float64))
        # Drawn is the projection of Z on the plane of the mean directions alone, exactly: along the
        # own one, and one coordinate of a uniform direction in p - 1 dimensions.
        first = torch.randn_like(theta)
        others = 2 * torch._standard_gamma(torch.full_like(theta, (p - 2) / 2))
        across = theta.sin() * first / (first * first + others).sqrt()
        along = theta.cos()
        # n'Z, and e'Z with e orthogonal to n in the plane of the mean directions.
        xi, u = beta * along - alpha * across, alpha * along + beta * across
        q_h, q_t = (
            vmf_score(b * xi + a * u, k, self.tau, p, validate_args=False)
            for k, b, a in zip(*plane, strict=True)
        )
        offset = self.b_h - self.b_t
        return offset + self.W / self.tau * xi, offset + (q_h - q_t)

    def monte_carlo(self, p: int, samples: int, rule: Decision = "exact") -> Pair[Estimate]:
        """Count the class errors of a rule over draws."""
        which = _require_rule(rule)
        h, t = (self.sample_margins(p, samples, label)[which] for label in ("h", "t"))
        return Pair(*(Estimate(float(wrong.double().mean()), samples) for wrong in (h < 0, t >= 0)))


def rate_function(xi: Number, lam: Number, beta: Number) -> Tensor:
    r"""Compute the rate of :math:`n^\top Z` for :math:`Z\sim\mathrm{vMF}_p(\mu,\nu\lambda)`
    (eq:rate-function), convex, zero at :math:`r_0(\lambda)\beta`, infinite for :math:`|\xi|\ge1`.

    .. math:: I(\xi) = J(\lambda) - J(\lambda\alpha\sqrt{1-\xi^2}) - \lambda\beta\xi
        - \log(1-\xi^2), \qquad J(s) = \sqrt{1+s^2} - \log(1+\sqrt{1+s^2})

    Args:
        xi, lam, beta: Projection, concentration over nu, and cosine :math:`\mu^\top n`.

    Returns:
        Rates.

    Example:
        >>> rate_function(0.0, 1.0, 1.0)
        tensor(0.2260, dtype=torch.float64)
    """
    (xi, lam, beta), dtype = validation.tensors(xi=xi, lam=lam, beta=beta)
    if validation.should_validate(None, xi, lam, beta):
        validation.require_in_range("xi", xi, -math.inf, rule="finite", open_low=True)
        validation.require_in_range("lam", lam, 0.0, rule=">= 0 and finite")
        validation.require_in_range("beta", beta, -1.0, 1.0, rule="in [-1, 1]")
    outside = xi.abs() >= 1
    xi = torch.where(outside, 0.0, xi)
    rest = (1 - xi) * (1 + xi)
    # J depends on s^2 only, so that no root has a derivative at zero.
    square = lam * lam * ((1 - beta) * (1 + beta)) * rest
    root, start = (1 + square).sqrt(), (1 + lam * lam).sqrt()
    rise = (lam * lam - square) / (start + root)  # start - root
    rate = rise - torch.log1p(rise / (1 + root)) - lam * beta * xi - rest.log()
    return torch.where(outside, math.inf, rate).to(dtype)


def projection_variance(lam: Number, along: Number, across: Number) -> Tensor:
    r"""Compute the limit of nu times the variance of :math:`v^\top Z` (eq:projection-clt),
    :math:`\sigma^2_\lambda(v)=r_0'(\lambda)\,along^2 + \tfrac12(1-r_0(\lambda)^2)\,across^2`.

    Args:
        lam, along, across: Concentration over nu, :math:`v^\top\mu`, and length of the rest of v.

    Returns:
        Variances.

    Example:
        >>> projection_variance(0.0, 1.0, 0.0)
        tensor(0.5000, dtype=torch.float64)
    """
    (lam, along, across), dtype = validation.tensors(lam=lam, along=along, across=across)
    if validation.should_validate(None, lam, along, across):
        validation.require_in_range("lam", lam, 0.0, rule=">= 0 and finite")
    # 1 - r^2 = 2/(1+S) and r' = 1/(S(1+S)), with S = sqrt(1+lam^2).
    S = (1 + lam * lam).sqrt()
    return ((along * along / S + across * across) / (1 + S)).to(dtype)


def _bound(own: float, other: float, b: float, tau: float, p: int) -> Callable[[Tensor], Tensor]:
    """Return, by the cosine to the own class of offset b, that at which the other is ahead."""

    def bound(rho: Tensor) -> Tensor:
        value = b + vmf_score(rho, own, tau, p, validate_args=False)
        ends = rho.new_tensor([-1.0, 1.0])
        low, high = vmf_score(ends, other, tau, p, validate_args=False)
        # The score is concave in the cosine: from the second step on no iterate overshoots.
        at = torch.zeros_like(rho)
        for _ in range(STEPS):
            q, slope = vmf_score_and_slope(at, other, tau, p, validate_args=False)
            before, at = at, (at + (value - q) / slope).clamp(-1, 1)
            if ((at - before).abs() <= CLOSE).all():
                break
        return torch.where(value <= low, -math.inf, torch.where(value > high, math.inf, at))

    return bound


def _require_rule(rule: str) -> int:
    """Return the index of a rule in `Decision`."""
    if rule not in (known := get_args(Decision)):
        raise ValueError(f"expected rule to be one of {known}, got {rule!r}")
    return known.index(rule)
