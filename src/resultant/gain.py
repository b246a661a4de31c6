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

import torch
from torch import Tensor

from resultant import _checks as checks
from resultant._checks import COMPUTE_DTYPE, Number
from resultant._features import require_features, require_temperature
from resultant.classes import ClassState
from resultant.score import vmf_score

REALIZATIONS = ("native", "temperature", "preserve", "angular", "cosine")
FAMILIES = ("linear", "power")

# Bytes of cosines at a time; a few times as much is at work.
CHUNK_BYTES = 1 << 26

# How many classes an error names.
NAMED = 5


def angular_gain(state: ClassState, tau: Number, *, validate_args: bool | None = None) -> Tensor:
    r"""The gains :math:`g_c = A_p(\kappa_c)/\tau` [C], for ``tau`` > 0, a number or [C]."""
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
    checks.tensors(g=g)
    if not isinstance(g, Tensor) or g.dim() != 1 or not len(g):
        got = f"shape {tuple(g.shape)}" if isinstance(g, Tensor) else type(g).__name__
        raise ValueError(f"expected g [C] of one class or more, got {got}")
    if checks.wanted(validate_args, g):
        positive = family == "power" and beta < 0
        rule = "> 0 and finite (a negative power)" if positive else ">= 0 and finite"
        checks.within("g", g, 0.0, rule=rule, open_low=positive)
    mean = g.mean()
    if family == "linear":
        # Exact at both ends.
        return torch.lerp(mean.expand_as(g), g, beta)
    # Powers of g/mean, which neither overflow nor vanish where those of g would.
    power = (g / torch.where(mean > 0, mean, 1.0)) ** beta
    average = power.mean()
    return mean * (power / torch.where(average > 0, average, 1.0))


def target_temperature(
    state: ClassState,
    tau: Number,
    beta: float = 0.0,
    *,
    family: str = "linear",
    validate_args: bool | None = None,
) -> Tensor:
    r"""The temperatures :math:`\tau_c^\star=A_c/g_c^\star` [C] whose gains are the target gains.

    They exist for positive :math:`A_c` and :math:`g_c^\star`. Where values are not looked at (on a
    GPU, unless ``validate_args``) the other classes get NaN in place of an error.
    """
    _require_target(beta, family)
    tau = require_temperature(tau, state.num_classes, state.mu.device, validate_args)
    A = state.resultant
    g = A / tau.to(A.dtype)
    target = target_gain(g, beta, family, validate_args=validate_args)
    if checks.wanted(validate_args, A):
        what = f"for a class temperature ({family}, beta = {beta:g})"
        _require_positive(f"target gains > 0 {what}", target)
        _require_positive(f"resultants A > 0 {what}", A)
    return torch.where((A > 0) & (target > 0), A / target, math.nan)


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
    float32.
    """
    if realization not in REALIZATIONS:
        raise ValueError(f"expected realization to be one of {REALIZATIONS}, got {realization!r}")
    if chunk is not None and (isinstance(chunk, bool) or not isinstance(chunk, int) or chunk < 1):
        raise ValueError(f"expected chunk to be an integer >= 1 or None, got {chunk!r}")
    require_features(z, state.dim, state.mu.device, validate_args)
    offset = _require_offset(offset, state, validate_args)
    dtype = COMPUTE_DTYPE[z.dtype]
    rule = _realize(state, tau, realization, beta, family, offset, dtype, validate_args)
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
class _Rule:
    r"""``q(rho; tau) + slope * rho + shift`` of each class, without q where tau is None."""

    mu: Tensor
    kappa: Tensor
    tau: Tensor | None
    slope: Tensor | None
    shift: Tensor | None

    def __call__(self, z: Tensor) -> Tensor:
        with torch.autocast(z.device.type, enabled=False):
            rho = z.to(self.mu.dtype) @ self.mu.T
        if self.tau is None:
            q = torch.zeros((), dtype=rho.dtype, device=rho.device)
        else:
            # z and mu are unit vectors up to rounding, beyond which the score clamps rho.
            q = vmf_score(rho, self.kappa, self.tau, self.mu.shape[1], validate_args=False)
        if self.slope is not None:
            q = torch.addcmul(q, rho, self.slope)
        return q if self.shift is None else q + self.shift


@torch.no_grad()
def _realize(
    state: ClassState,
    tau: Number,
    realization: str,
    beta: float,
    family: str,
    offset: Tensor | None,
    dtype: torch.dtype,
    validate: bool | None,
) -> _Rule:
    """What depends on the classes alone, worked out in float64."""
    beta = _require_target(beta, family)
    wide = ClassState(state.mu.detach(), state.kappa.detach(), state.count, validate_args=False).to(
        dtype=torch.float64
    )
    tau = require_temperature(tau, state.num_classes, state.mu.device, validate)
    slope, shift, base = None, offset, tau.to(dtype)
    kappa, used = wide.kappa.to(dtype), base
    if realization in ("temperature", "preserve"):
        used = target_temperature(wide, tau, beta, family=family, validate_args=validate).to(dtype)
    if realization == "preserve":
        # Of the rounded arguments: the intercepts are large, and only their rest is seen.
        h0, h1 = (
            vmf_score(0.0, kappa.double(), t.double(), state.dim, validate_args=False)
            for t in (base, used)
        )
        shift = h0 - h1 if offset is None else h0 - h1 + offset
    elif realization == "angular":
        g = angular_gain(wide, tau, validate_args=False)
        slope = target_gain(g, beta, family, validate_args=validate) - g
    elif realization == "cosine":
        slope = angular_gain(wide, tau, validate_args=False).mean()
    slope, shift = (None if a is None else a.to(dtype) for a in (slope, shift))
    return _Rule(wide.mu.to(dtype), kappa, None if realization == "cosine" else used, slope, shift)


def _require_target(beta: float, family: str) -> float:
    if family not in FAMILIES:
        raise ValueError(f"expected family to be one of {FAMILIES}, got {family!r}")
    if isinstance(beta, bool) or not isinstance(beta, Real) or not math.isfinite(beta):
        raise ValueError(f"expected beta to be a finite number, got {beta!r}")
    return float(beta)


def _require_positive(rule: str, a: Tensor) -> None:
    bad = (~(a > 0)).nonzero().squeeze(-1).tolist()
    if bad:
        named = ", ".join(f"class {c} ({float(a[c]):.4g})" for c in bad[:NAMED])
        rest = ", ..." if len(bad) > NAMED else ""
        raise ValueError(f"expected {rule}, got {len(bad)} of {len(a)} not: {named}{rest}")


def _require_offset(
    offset: Tensor | None, state: ClassState, validate: bool | None
) -> Tensor | None:
    if offset is None:
        return None
    if not isinstance(offset, Tensor) or offset.shape != (state.num_classes,):
        got = tuple(offset.shape) if isinstance(offset, Tensor) else type(offset).__name__
        raise ValueError(f"expected offset [{state.num_classes}], one a class, got {got}")
    offset = checks.tensors(offset=offset)[0][0].detach()
    if offset.device != state.mu.device:
        raise ValueError(f"expected offset on {state.mu.device}, got it on {offset.device}")
    if checks.wanted(validate, offset):
        # A class of prior zero is never chosen; no other infinity is meant.
        least = torch.finfo(offset.dtype).min
        checks.within("offset", offset.clamp_min(least), least, rule="below infinity")
    return offset.double()
