r"""The angular gain of each class, gains to aim at, and the scores that realize them.

A class with :math:`A_c=A_p(\kappa_c)` answers to its cosine :math:`\rho_c` with the leading
coefficient :math:`g_c=A_c/\tau_0`. A target gain :math:`g_c^\star` is realized through the
temperature :math:`\tau_c^\star=A_c/g_c^\star`, with or without the intercept that comes with it,
or by the linear term alone (sec:realization-separation).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple

import torch
from torch import Tensor

from resultant._core import validation
from resultant._core.arrays import require_features, require_temperature
from resultant._core.validation import COMPUTE_DTYPE, Number
from resultant.classes.statistics import ClassState
from resultant.score.exact import vmf_score, vmf_score_slope
from resultant.vmf.distribution import mean_resultant

# The three edits of the gain, and all rules.
EDITED = ("temperature", "preserve", "angular")
REALIZATIONS = ("native", *EDITED, "cosine")
FAMILIES = ("linear", "power")

# Those that move the temperature, which is there for positive gains and targets alone.
TEMPERED = ("temperature", "preserve")

# Bytes of cosines at a time; a few times as much is at work.
CHUNK_BYTES = 1 << 26

# How many classes an error names.
NAMED = 5


def angular_gain(state: ClassState, tau: Number, *, validate_args: bool | None = None) -> Tensor:
    r"""The gains :math:`g_c = A_p(\kappa_c)/\tau` [C] of thm:centered-gain, for ``tau`` > 0, a
    number or [C]."""
    tau = require_temperature(tau, state.num_classes, state.mu.device, validate_args)
    return (state.resultant / tau).to(state.kappa.dtype)


def target_gain(
    g: Tensor, beta: float, family: str = "linear", *, validate_args: bool | None = None
) -> Tensor:
    r"""Target gains [C] of gains ``g`` [C] >= 0, whose mean :math:`\bar g` they keep.

    ``linear`` is :math:`g_c^\star=\bar g+\beta(g_c-\bar g)` (eq:target-gain), ``power`` is
    :math:`g_c^{pow}=\bar g\,g_c^\beta/(C^{-1}\sum_j g_j^\beta)`
    (sec:historical-power-temperature). Both give g at beta = 1 and :math:`\bar g` at beta = 0;
    linear targets may be negative beyond beta = 1, power targets never are.
    """
    beta = _require_target(beta, family)
    validation.tensors(g=g)
    if not isinstance(g, Tensor) or g.dim() != 1 or not len(g):
        got = f"shape {tuple(g.shape)}" if isinstance(g, Tensor) else type(g).__name__
        raise ValueError(f"expected g [C] of one class or more, got {got}")
    _require_gains(g, beta, family, validate_args)
    return mean_and_targets(g, beta, family)[1]


def mean_and_targets(g: Tensor, beta: float | Tensor, family: str) -> tuple[Tensor, Tensor]:
    """The mean [..., 1] of gains g [..., C] and their targets, for ``beta`` a number or [..., 1]
    of g's dtype; as `target_gain`, unchecked."""
    mean = g.mean(-1, keepdim=True)
    if family == "linear":
        # Exact at both ends.
        return mean, torch.lerp(mean.expand_as(g), g, beta)
    # Powers of g/mean, which neither overflow nor vanish where those of g would.
    power = (g / torch.where(mean > 0, mean, 1.0)) ** beta
    average = power.mean(-1, keepdim=True)
    return mean, mean * (power / torch.where(average > 0, average, 1.0))


def target_temperature(
    state: ClassState,
    tau: Number,
    beta: float = 0.0,
    *,
    family: str = "linear",
    dtype: torch.dtype | None = None,
    validate_args: bool | None = None,
) -> Tensor:
    r"""The temperatures :math:`\tau_c^\star=A_c/g_c^\star` [C] whose gains are the target gains.

    They exist for positive :math:`A_c` and :math:`g_c^\star`, and where scores in ``dtype`` (that
    of the state) can be compared, as `class_scores` says. Where values are not looked at (on a GPU,
    unless ``validate_args``) the other classes get NaN in place of an error.
    """
    _require_target(beta, family)
    A = state.resultant
    of = COMPUTE_DTYPE[A.dtype if dtype is None else dtype]
    where = state.num_classes, state.mu.device, validate_args
    tau = require_temperature(tau, *where, dtype=of).to(A.dtype)
    g = A / tau
    target = target_gain(g, beta, family, validate_args=validate_args)
    _require_temperatures(A, tau, target, f"{family}, beta = {beta:g}", of, validate_args)
    return class_temperature(tau, g, target, of)


class Gains(NamedTuple):
    """Gains ``g`` [..., C], their ``mean`` [..., 1] and ``target`` gains [..., C] in float64."""

    g: Tensor
    mean: Tensor
    target: Tensor


class Terms(NamedTuple):
    """Scores ``q(rho; kappa, tau) + slope * rho + shift`` of classes [..., C], without what is
    None: without q where tau is."""

    tau: Tensor | None
    slope: Tensor | None = None
    shift: Tensor | None = None

    def of(self, q: Tensor | None, rho: Tensor) -> Tensor:
        """The scores at cosines ``rho`` from ``q`` there, which they are where nothing is added."""
        if self.slope is not None:
            q = rho * self.slope if q is None else torch.addcmul(q, rho, self.slope)
        elif q is None:
            q = torch.zeros_like(rho)
        return q if self.shift is None else q + self.shift


def terms(
    realization: str, kappa: Tensor, tau: Tensor, gains: Gains | None, p: int, zero: Number = 0.0
) -> Terms:
    r"""How a realization scores classes of ``kappa`` [..., C], gains and targets; as `class_scores`
    says, unchecked. Native needs no gains.

    ``kappa`` and ``tau``, [] or [..., C], are in the dtype that scores compute in; slope and shift
    are in float64. The temperature of a class is NaN where it has none (`class_temperature`).
    ``zero`` may be a tensor where the classes are, which is then not made at every call.
    """
    if realization == "native":
        return Terms(tau)
    assert gains is not None
    if realization == "cosine":
        return Terms(None, gains.mean)
    if realization == "angular":
        return Terms(tau, gains.target - gains.g)
    star = class_temperature(tau, gains.g, gains.target, kappa.dtype).to(kappa.dtype)
    if realization == "temperature":
        return Terms(star)
    # Of the rounded arguments: the intercepts are large, and only their rest is seen.
    wide = kappa.double()
    h0, h1 = (vmf_score(zero, wide, t.double(), p, validate_args=False) for t in (tau, star))
    return Terms(star, None, h0 - h1)


def class_temperature(tau: Number, g: Tensor, target: Tensor, dtype: torch.dtype) -> Tensor:
    """tau g/target for gains >= 0, and tau itself where the two are the same; NaN unless both are
    positive and scores in ``dtype`` can be compared at that temperature."""
    star = tau * (g / target)
    return torch.where(comparable(star, dtype), star, math.nan)


def comparable(tau: Tensor, dtype: torch.dtype) -> Tensor:
    """Where scores in ``dtype`` at temperatures ``tau`` can be compared."""
    least, most = validation.temperatures(dtype)
    return (tau >= least) & (tau <= min(most, torch.finfo(tau.dtype).max))


def class_scores(
    z: Tensor,
    state: ClassState,
    tau: Number,
    realization: str = "native",
    beta: float = 0.0,
    *,
    family: str = "linear",
    offset: Tensor | None = None,
    chunk: int | None = None,
    validate_args: bool | None = None,
) -> Tensor:
    r"""The scores [N, C] of unit vectors ``z`` [N, p] against the classes of a state.

    With :math:`q_c(\rho;\tau)` the exact score, :math:`g_c=A_c/\tau_0`, the target gains
    :math:`g_c^\star` of `target_gain` and :math:`\tau_c^\star=A_c/g_c^\star`:

    - ``native``: :math:`q_c(\rho;\tau_0)`, whatever beta;
    - ``temperature``: :math:`q_c(\rho;\tau_c^\star)` (eq:temperature-control);
    - ``preserve``: :math:`q_c(\rho;\tau_c^\star)-q_c(0;\tau_c^\star)+q_c(0;\tau_0)`
      (eq:intercept-control);
    - ``angular``: :math:`q_c(\rho;\tau_0)+(g_c^\star-g_c)\rho` (eq:Pure Angular-control);
    - ``cosine``: :math:`\bar g\rho`, the shared-scale prototype rule, whatever beta.

    ``tau`` is a number or [C]; ``offset`` [C] (a log prior) is added. Differentiable in z; state,
    targets and offset are not. Without gradient the rows go ``chunk`` at a time (by default 64 MiB
    of cosines). The scores have the dtype and device of z; the product is never in less than
    float32. An error of up to :math:`3\epsilon/\tau` is in the difference of two scores: tau and
    :math:`\tau_c^\star` are at least 2^-17 = 7.6e-6 where they compute in float32, 2^-46 = 1.4e-14
    in float64. A class without samples (kappa = 0 and mu = e_1, see `ClassStatistics`) takes part
    in the mean gain and may be the best one: leave such classes out of the state.
    """
    if chunk is not None:
        chunk = validation.integer("chunk", chunk, 1, " or None")
    require_features(z, state.dim, state.mu.device, validate_args)
    dtype = COMPUTE_DTYPE[z.dtype]
    rule = realize(
        state,
        tau,
        realization,
        beta,
        family=family,
        offset=offset,
        dtype=dtype,
        validate_args=validate_args,
    )
    if torch.compiler.is_compiling() or (z.requires_grad and torch.is_grad_enabled()):
        return rule(z).to(z.dtype)
    width = max(1, state.num_classes) * dtype.itemsize
    height = chunk or max(1, CHUNK_BYTES // width)
    if len(z) <= height:
        return rule(z).to(z.dtype)
    scores = z.new_empty(len(z), state.num_classes)
    for top in range(0, len(z), height):
        rows = slice(top, top + height)
        scores[rows] = rule(z[rows])
    return scores


@dataclass(frozen=True)
class Realization:
    r"""The scores of C classes as functions of their cosines alone:
    ``q(rho; kappa, tau) + slope * rho + shift``, without q where tau is None.

    ``mu`` [C, p], ``kappa`` [C], ``tau`` and ``slope`` [C] or [], ``shift`` [C]. Made by `realize`.
    """

    mu: Tensor
    kappa: Tensor
    tau: Tensor | None
    slope: Tensor | None
    shift: Tensor | None

    def to(self, device: torch.device | str) -> Realization:
        """The scores on another device."""
        mu, kappa = self.mu.to(device), self.kappa.to(device)
        return Realization(mu, kappa, *(None if a is None else a.to(device) for a in self.terms))

    @property
    def terms(self) -> Terms:
        return Terms(self.tau, self.slope, self.shift)

    def __call__(self, z: Tensor) -> Tensor:
        """The scores [N, C] of unit vectors z [N, p]."""
        with torch.autocast(z.device.type, enabled=False):
            rho = z.to(self.mu.dtype) @ self.mu.T
        return self.at(rho)

    def at(self, rho: Tensor, classes: Tensor | None = None) -> Tensor:
        """The scores at cosines ``rho`` [..., C], or [..., K] of the chosen ``classes`` [K]."""
        rule = Terms(*(_chosen(a, classes) for a in self.terms))
        if rule.tau is None:
            return rule.of(None, rho)
        # z and mu are unit vectors up to rounding, beyond which the score clamps rho.
        kappa = self.kappa if classes is None else self.kappa[classes]
        return rule.of(vmf_score(rho, kappa, rule.tau, self.mu.shape[1], validate_args=False), rho)

    def slope_at(self, rho: Tensor, classes: Tensor | None = None) -> Tensor:
        """The derivatives of the scores in the cosine, arguments as in `at`."""
        tau, slope = (_chosen(a, classes) for a in (self.tau, self.slope))
        kappa = self.kappa if classes is None else self.kappa[classes]
        if tau is None:
            total = torch.zeros_like(rho * kappa)
        else:
            total = vmf_score_slope(rho, kappa, tau, self.mu.shape[1], validate_args=False)
        return total if slope is None else total + slope

    def gain(self) -> Tensor:
        r"""The linear-mean coefficients [C]: :math:`A_c/\tau_c`, and the slope added to it."""
        gain = torch.zeros_like(self.kappa)
        if self.tau is not None:
            gain = mean_resultant(self.mu.shape[1], self.kappa, validate_args=False) / self.tau
        return gain if self.slope is None else gain + self.slope

    def linear(self) -> Realization:
        r"""The linear-mean scores :math:`\ell_c=a_c+g_c\rho_c` (sec:softmax-geometry), with the
        intercept :math:`a_c` of these scores at rho = 0 and their gain :math:`g_c`."""
        intercept = self.at(torch.zeros_like(self.kappa))
        return Realization(self.mu, self.kappa, None, self.gain(), intercept)


@torch.no_grad()
def realize(
    state: ClassState,
    tau: Number,
    realization: str = "native",
    beta: float = 0.0,
    *,
    family: str = "linear",
    offset: Tensor | None = None,
    dtype: torch.dtype = torch.float64,
    validate_args: bool | None = None,
) -> Realization:
    """The scores of `class_scores` for any cosines, its arguments and all; they compute in
    ``dtype``. What depends on the classes alone is worked out in float64."""
    if realization not in REALIZATIONS:
        raise ValueError(f"expected realization to be one of {REALIZATIONS}, got {realization!r}")
    beta = _require_target(beta, family)
    offset = _require_offset(offset, state, validate_args)
    wide = ClassState(state.mu.detach(), state.kappa.detach(), state.count, validate_args=False).to(
        dtype=torch.float64
    )
    where = state.num_classes, state.mu.device, validate_args
    tau = require_temperature(tau, *where, dtype=dtype)
    gains = None
    if realization != "native":
        A = wide.resultant
        g = A / tau
        if realization != "cosine":
            _require_gains(g, beta, family, validate_args)
        gains = Gains(g, *mean_and_targets(g, beta, family))
        if realization in TEMPERED:
            what = f"{family}, beta = {beta:g}"
            _require_temperatures(A, tau, gains.target, what, dtype, validate_args)
    kappa = wide.kappa.to(dtype)
    rule = terms(realization, kappa, tau.to(dtype), gains, state.dim)
    shift = offset
    if rule.shift is not None:
        shift = rule.shift if offset is None else rule.shift + offset
    slope, shift = (
        None if a is None else a.to(dtype).expand_as(kappa) for a in (rule.slope, shift)
    )
    return Realization(wide.mu.to(dtype), kappa, rule.tau, slope, shift)


def _chosen(a: Tensor | None, classes: Tensor | None) -> Tensor | None:
    return a if a is None or classes is None or a.dim() == 0 else a[classes]


def _require_target(beta: float, family: str) -> float:
    if family not in FAMILIES:
        raise ValueError(f"expected family to be one of {FAMILIES}, got {family!r}")
    if isinstance(beta, bool) or not isinstance(beta, Real) or not math.isfinite(beta):
        raise ValueError(f"expected beta to be a finite number, got {beta!r}")
    return float(beta)


def _require_gains(g: Tensor, beta: float, family: str, validate: bool | None) -> None:
    if validation.should_validate(validate, g):
        positive = family == "power" and beta < 0
        rule = "> 0 and finite (a negative power)" if positive else ">= 0 and finite"
        validation.require_in_range("g", g, 0.0, rule=rule, open_low=positive)


def _require_temperatures(
    A: Tensor, tau: Tensor, target: Tensor, what: str, dtype: torch.dtype, validate: bool | None
) -> None:
    if validation.should_validate(validate, A):
        _require_classes(f"target gains > 0 for a class temperature ({what})", target, target > 0)
        _require_classes(f"resultants A > 0 for a class temperature ({what})", A, A > 0)
        least, most = validation.temperatures(dtype)
        known = class_temperature(tau, A / tau, target, dtype).isfinite()
        rule = f"class temperatures in [{least:g}, {most:g}] in {dtype} ({what})"
        _require_classes(rule, A / target, known)


def _require_classes(rule: str, a: Tensor, good: Tensor) -> None:
    bad = (~good).nonzero().squeeze(-1).tolist()
    if bad:
        named = ", ".join(f"class {c} ({float(a[c]):.4g})" for c in bad[:NAMED])
        rest = ", ..." if len(bad) > NAMED else ""
        raise validation.DivergedError(
            f"expected {rule}, got {len(bad)} of {len(a)} not: {named}{rest}"
        )


def _require_offset(
    offset: Tensor | None, state: ClassState, validate: bool | None
) -> Tensor | None:
    if offset is None:
        return None
    if not isinstance(offset, Tensor) or offset.shape != (state.num_classes,):
        got = tuple(offset.shape) if isinstance(offset, Tensor) else type(offset).__name__
        raise ValueError(f"expected offset [{state.num_classes}], one a class, got {got}")
    offset = validation.tensors(offset=offset)[0][0].detach()
    if offset.device != state.mu.device:
        raise ValueError(f"expected offset on {state.mu.device}, got it on {offset.device}")
    if validation.should_validate(validate, offset):
        # A class of prior zero is never chosen; no other infinity is meant.
        least = torch.finfo(offset.dtype).min
        validation.require_in_range("offset", offset.clamp_min(least), least, rule="below infinity")
    return offset.double()
