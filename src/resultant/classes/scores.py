"""Scores of fitted classes by a rule, functions of their cosines (sec:realization-separation)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from resultant._core import memory, validation
from resultant._core.arrays import require_features, shape_of
from resultant._core.modes import is_constant, no_autocast
from resultant._core.validation import COMPUTE_DTYPE, Check, Number, as_dtype
from resultant.classes.gain import Gains, class_gains, class_temperature, gain_at, require_targets
from resultant.classes.rule import EDITED, Rule
from resultant.classes.statistics import ClassState
from resultant.score.exact import vmf_score, vmf_score_and_slope, vmf_score_slope
from resultant.score.limits import require_temperature


class ScoreTerms(NamedTuple):
    """Terms of the scores of classes [..., C]; see `ClassScores`."""

    tau: Tensor | None
    slope: Tensor | None = None
    shift: Tensor | None = None

    def at(self, classes: slice | Tensor) -> ScoreTerms:
        """Return the terms of some classes."""

        def chosen(a: Tensor | None) -> Tensor | None:
            return a if a is None or a.dim() == 0 or a.shape[-1] == 1 else a[..., classes]

        return ScoreTerms(*map(chosen, self))

    def score(self, rho: Tensor, kappa: Tensor, p: int) -> Tensor:
        """Return the scores at cosines ``rho`` [..., C], which may exceed one by rounding."""
        if self.tau is None:
            return self.of(None, rho)
        return self.of(vmf_score(rho, kappa, self.tau, p, validate_args=False), rho)

    def score_and_slope(self, rho: Tensor, kappa: Tensor, p: int) -> tuple[Tensor, Tensor]:
        """Return the scores and their slopes, which broadcast, sooner than one after the other."""
        if self.tau is None:
            assert self.slope is not None
            return self.of(None, rho), self.slope
        q, slope = vmf_score_and_slope(rho, kappa, self.tau, p, validate_args=False)
        return self.of(q, rho), slope if self.slope is None else slope + self.slope

    def of(self, q: Tensor | None, rho: Tensor) -> Tensor:
        """Add the terms at cosines ``rho`` to ``q``; q itself where nothing is added."""
        if self.slope is not None:
            q = rho * self.slope if q is None else torch.addcmul(q, rho, self.slope)
        elif q is None:
            q = torch.zeros_like(rho)
        return q if self.shift is None else q + self.shift


def score_terms(
    realization: str, kappa: Tensor, tau: Tensor, gains: Gains | None, p: int
) -> ScoreTerms:
    """Compute the terms of kappa [..., C] and tau [] or [..., C]; slope and shift are float64."""
    if realization == "native":
        return ScoreTerms(tau)
    assert gains is not None
    if realization == "cosine":
        return ScoreTerms(None, gains.mean)
    if realization == "angular":
        return ScoreTerms(tau, gains.target - gains.g)
    star = class_temperature(tau, gains.g, gains.target, kappa.dtype)
    star = as_dtype(star, kappa.dtype)
    if realization == "temperature":
        return ScoreTerms(star)
    # From the rounded arguments: the intercepts are large, and only their difference remains.
    both = as_dtype(torch.stack([tau.expand_as(star), star]), torch.float64)
    h0, h1 = vmf_score(0.0, as_dtype(kappa, torch.float64), both, p, validate_args=False)
    return ScoreTerms(star, None, h0 - h1)


def cosines(z: Tensor, mu: Tensor) -> Tensor:
    """Multiply vectors z [N, p] and directions mu [C, p] in the dtype of mu, clamped to [-1, 1]."""
    with no_autocast(z):
        rho = as_dtype(z, mu.dtype) @ mu.T
    if is_constant(rho):
        return rho.clamp_(-1, 1)
    return rho + (rho.detach().clamp(-1, 1) - rho.detach())


@dataclass(frozen=True, eq=False)
class ClassScores:
    r"""Scores ``q(rho; kappa, tau) + slope * rho + shift`` of C classes as functions of their
    cosines, made by `realize`; terms that are None are left out, and q without tau.

    Args:
        mu, kappa: Directions [C, p] and concentrations [C].
        tau, slope: Temperatures and linear coefficients, [C] or [], or None.
        shift, offset: Intercepts [C] or None, and the part of them that is the offset of the rule.

    Example:
        >>> realize(state, Rule(0.1, "cosine")).gain()
        tensor([5.3367, 5.3367, 5.3367], dtype=torch.float64)
    """

    mu: Tensor
    kappa: Tensor
    tau: Tensor | None
    slope: Tensor | None
    shift: Tensor | None
    offset: Tensor | None = None

    def to(self, device: torch.device | str) -> ClassScores:
        """Copy the scores to another device."""
        return replace(self, **{n: a.to(device) for n, a in vars(self).items() if a is not None})

    @property
    def terms(self) -> ScoreTerms:
        """Terms of the scores, without the classes."""
        return ScoreTerms(self.tau, self.slope, self.shift)

    def __call__(self, z: Tensor) -> Tensor:
        """Score unit vectors z [N, p]; returns [N, C]."""
        return self.at(cosines(z, self.mu))

    def at(self, rho: Tensor, classes: Tensor | None = None) -> Tensor:
        """Score cosines ``rho`` [..., C], or [..., K] of chosen ``classes`` [K]."""
        kappa, terms = self._chosen(classes)
        return terms.score(rho, kappa, self.mu.shape[1])

    def slope_at(self, rho: Tensor, classes: Tensor | None = None) -> Tensor:
        """Differentiate the scores in the cosine; arguments as in `at`."""
        kappa, (tau, slope, _) = self._chosen(classes)
        if tau is None:
            total = torch.zeros_like(rho * kappa)
        else:
            total = vmf_score_slope(rho, kappa, tau, self.mu.shape[1], validate_args=False)
        return total if slope is None else total + slope

    def _chosen(self, classes: Tensor | None) -> tuple[Tensor, ScoreTerms]:
        if classes is None:
            return self.kappa, self.terms
        return self.kappa[classes], self.terms.at(classes)

    def gain(self) -> Tensor:
        r"""Compute the linear-mean coefficients [C]: :math:`A_c/\tau_c` plus the added slope."""
        gain = torch.zeros_like(self.kappa)
        if self.tau is not None:
            gain = gain_at(self.mu.shape[1], self.kappa, self.tau)
        return gain if self.slope is None else gain + self.slope

    def linear(self, intercept: bool = True) -> ClassScores:
        r"""Build the linear scores :math:`a_c+g_c\rho_c` with the gains :math:`g_c`, and
        :math:`a_c=b_c+q_c(0)`, as the text of the paper has it (sec:softmax-geometry), or without
        the intercept :math:`a_c=b_c`, which the printed boundaries and margins match."""
        shift = self.at(torch.zeros_like(self.kappa)) if intercept else self.offset
        return ClassScores(self.mu, self.kappa, None, self.gain(), shift, self.offset)


def realize(
    state: ClassState,
    rule: Rule,
    *,
    dtype: torch.dtype = torch.float64,
    validate_args: Check = None,
) -> ClassScores:
    """Apply a rule to fitted classes.

    Args:
        state, rule, dtype: Classes, rule, and float32 or float64 for the scores.

    Returns:
        The scores as functions of the cosines.

    Raises:
        ValueError: If a class has no temperature that reaches its target gain.

    Example:
        >>> realize(state, Rule(0.1, "angular")).slope
        tensor([ 2.2064, -0.0364, -2.1700], dtype=torch.float64)
    """
    _require_dtype(dtype)
    offset = _offset(rule.offset, state, validate_args)
    tau, gains = _temperature_and_gains(state, rule, dtype, validate_args)
    kappa, tau = as_dtype(state.kappa, dtype), as_dtype(tau, dtype)
    tau, slope, shift = score_terms(rule.realization, kappa, tau, gains, state.dim)
    if offset is not None:
        shift = offset if shift is None else shift + offset
    slope, shift, offset = (
        None if a is None else as_dtype(a, dtype).expand_as(kappa) for a in (slope, shift, offset)
    )
    return ClassScores(as_dtype(state.mu, dtype), kappa, tau, slope, shift, offset)


def target_temperature(
    state: ClassState,
    tau: Number,
    beta: float = 0.0,
    *,
    family: str = "linear",
    dtype: torch.dtype | None = None,
    validate_args: Check = None,
) -> Tensor:
    r"""Compute the temperatures :math:`\tau_c^\star=A_c/g_c^\star` that reach the target gains, for
    positive :math:`A_c` and :math:`g_c^\star`, where scores can be compared (see `class_scores`).

    Args:
        state, tau, beta, family, dtype: As in `class_scores`, and float32 or float64 of the scores.

    Returns:
        Temperatures [C]; NaN for a class without one where values are not checked.

    Raises:
        ValueError: If a class has no temperature.

    Example:
        >>> target_temperature(state, 0.1)
        tensor([0.0587, 0.1007, 0.1407])
    """
    rule = Rule(tau, "temperature", beta, family)
    if dtype is None:
        dtype = COMPUTE_DTYPE[state.kappa.dtype]
    _require_dtype(dtype)
    tau, gains = _temperature_and_gains(state, rule, dtype, validate_args)
    assert gains is not None
    return class_temperature(tau, gains.g, gains.target, dtype).to(state.kappa.dtype)


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
    validate_args: Check = None,
) -> Tensor:
    r"""Score unit vectors against fitted classes.

    With :math:`q_c(\rho;\tau)` the exact score, :math:`g_c=A_c/\tau_0`, the target gains
    :math:`g_c^\star` of `target_gain` and :math:`\tau_c^\star=A_c/g_c^\star`:

    - ``native``: :math:`q_c(\rho;\tau_0)`, for any beta;
    - ``temperature``: :math:`q_c(\rho;\tau_c^\star)` (eq:temperature-control);
    - ``preserve``: :math:`q_c(\rho;\tau_c^\star)-q_c(0;\tau_c^\star)+q_c(0;\tau_0)`
      (eq:intercept-control);
    - ``angular``: :math:`q_c(\rho;\tau_0)+(g_c^\star-g_c)\rho` (eq:Pure Angular-control);
    - ``cosine``: :math:`\bar g\rho`, the shared-scale prototype rule, for any beta.

    Gradients reach z, tau, offset and the tensors of the state. The difference of two scores has an
    error of up to :math:`12\epsilon/\tau`, so tau and :math:`\tau_c^\star` must be at least 7.6e-6
    in float32 and 1.4e-14 in float64. Leave classes without samples (kappa = 0), which count in the
    mean gain and may win, out of the state.

    Args:
        z, state, tau, offset: Vectors, classes, temperature :math:`\tau_0` and added numbers.
        realization, beta, family: One of the five above, and as in `target_gain`.
        chunk: Rows at a time without gradient; by default 64 MiB of cosines.

    Returns:
        Scores [N, C] in the dtype and on the device of z.

    Raises:
        ValueError: If a class has no temperature that reaches its target gain.

    Example:
        >>> class_scores(z, state, tau=0.5, realization="angular").argmax(1)
        tensor([0, 1, 2])
    """
    require_features(z, state.dim, state.mu.device, validate_args)
    dtype = COMPUTE_DTYPE[z.dtype]
    rule = Rule(tau, realization, beta, family, offset)
    scores_of = realize(state, rule, dtype=dtype, validate_args=validate_args)
    height = chunk_rows(chunk, state.num_classes, dtype)
    parts = (z, scores_of.mu, scores_of.kappa, *scores_of.terms)
    learns = torch.is_grad_enabled() and any(a is not None and a.requires_grad for a in parts)
    if torch.compiler.is_compiling() or len(z) <= height or learns:
        return as_dtype(scores_of(z), z.dtype)
    scores = z.new_empty(len(z), state.num_classes)
    for part, rows in zip(scores.split(height), z.split(height), strict=True):
        part.copy_(scores_of(rows))
    return scores


def _require_dtype(dtype: torch.dtype) -> None:
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"expected dtype to be torch.float32 or torch.float64, got {dtype}")


def chunk_rows(chunk: int | None, number: int, dtype: torch.dtype) -> int:
    """Return the rows of a chunk >= 1, by default those whose ``number`` of scores fit a budget."""
    if chunk is None:
        return memory.rows_per_chunk(number * dtype.itemsize, memory.SCORE_BYTES)
    return validation.integer("chunk", chunk, 1, " or None")


def _temperature_and_gains(
    state: ClassState, rule: Rule, dtype: torch.dtype, validate: Check
) -> tuple[Tensor, Gains | None]:
    """Return temperature and gains in float64; raise unless each class has a score in ``dtype``."""
    tau = require_temperature(rule.tau, state.num_classes, state.mu.device, validate, dtype=dtype)
    if rule.realization == "native":
        return tau, None
    g = gain_at(state.dim, as_dtype(state.kappa, torch.float64), tau)
    gains = class_gains(g, rule.beta, rule.family)
    if rule.realization in EDITED and validation.should_validate(validate, g):
        require_targets(tau, gains, rule, dtype)
    return tau, gains


def _offset(offset: Tensor | None, state: ClassState, validate: Check) -> Tensor | None:
    """Return the offset in float64; raise unless it has a number below infinity per class."""
    if offset is None:
        return None
    C = state.num_classes
    if not isinstance(offset, Tensor) or offset.shape != (C,):
        raise ValueError(f"expected offset [{C}], one per class, got {shape_of(offset)}")
    validation.tensors(offset=offset, kappa=state.kappa)
    if validation.should_validate(validate, offset):
        # A class of prior zero is never chosen; no other infinity has a meaning.
        validation.require_in_range("offset", offset, -torch.inf, rule="below infinity")
    return offset.double()
