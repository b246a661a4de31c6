"""The scores of queries against the classes of a bank, by a realization at a temperature, and what
a loss of such scores keeps."""

import math
from typing import Any

import torch
from torch import Tensor

from resultant._core import validation
from resultant._core.modes import no_autocast
from resultant._core.validation import COMPUTE_DTYPE
from resultant.classes.gain import Gains, class_gains, comparable, gain_at
from resultant.classes.rule import TEMPERED, Rule
from resultant.classes.scores import ScoreTerms, score_terms
from resultant.losses.bank import ProCoBank, Snapshot
from resultant.losses.batch import compute_dtype
from resultant.losses.late_errors import require_gains
from resultant.losses.module import WideModule
from resultant.losses.prior import cross_entropy
from resultant.score.limits import require_comparable

# Classes of some tensor: some of them, or all.
Classes = Tensor | slice
ALL = slice(None)


class ContrastiveLoss(WideModule):
    """Contrastive loss against the classes of a bank, scored by a rule; see `ProCoLoss`."""

    temperature: float | Tensor
    beta: float | Tensor
    log_prior: Tensor

    def __init__(self, bank: ProCoBank, rule: Rule, log_prior: Tensor) -> None:
        super().__init__()
        self.realization, self.family, self.beta = rule.realization, rule.family, rule.beta
        self.has_gains = rule.realization != "native"
        self.has_temperatures = rule.realization in TEMPERED
        self.register_buffer("log_prior", log_prior, persistent=False)
        self.bank = bank
        self.temperature = rule.tau

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "temperature":
            value = require_temperature(value, self.bank.num_classes)
            # A number may follow a parameter.
            self._parameters.pop(name, None)
        super().__setattr__(name, value)

    def start_epoch(self, epoch: int | None = None) -> None:
        """Begin an epoch of the bank; see `ProCoBank.start_epoch`."""
        self.bank.start_epoch(epoch)

    def check(self) -> None:
        """Raise if a training step since the last call met a class without a temperature, or z of
        another length than one. Waits for the device."""
        self.bank.check()

    def entropies(self, z: Tensor, labels: Tensor, snapshot: Snapshot) -> Tensor:
        """Return the cross-entropies [N, V, ...] of z [V, ..., N, p] at labels [N, V, ...]."""
        with no_autocast(z):
            return cross_entropy(self.class_scores(z, snapshot, labels), self.log_prior, labels)

    def class_scores(self, z: Tensor, snapshot: Snapshot, labels: Tensor | None = None) -> Tensor:
        """Return the scores [N, V, ..., C] of z [V, ..., N, p] against the classes that each view
        sees; with ``labels``, the own classes are those of the snapshot, if any."""
        z = compute_dtype(z)
        rho = (z @ snapshot.mu.mT).movedim(-2, 0)
        kappa = self.bank.kappa(snapshot.R)
        gains = self.gains(kappa, z.dtype)
        scores = self.score(rho, kappa, gains)
        if labels is None or snapshot.own_mu is None or snapshot.own_R is None:
            return scores
        # The query's own class, without the query in it, keeps the target gain of the whole.
        own = labels.unsqueeze(-1)
        rho = (z * snapshot.own_mu).sum(-1, keepdim=True).movedim(-2, 0)
        kappa = self.bank.kappa(snapshot.own_R).unsqueeze(-1).movedim(-2, 0)
        rest = None
        if gains is not None:
            target = gains.target.expand(len(own), *gains.target.shape).gather(-1, own)
            rest = Gains(self.gain(kappa, own), gains.mean, target)
            self.note(rest, z.dtype, own)
        return scores.scatter(-1, own, self.score(rho, kappa, rest, own))

    def score(
        self, rho: Tensor, kappa: Tensor, gains: Gains | None, classes: Classes | None = None
    ) -> Tensor:
        """Return the scores at cosines ``rho`` of ``classes`` [..., C], by default those of this
        process."""
        kappa = kappa.to(rho.dtype)
        return self.terms(kappa, gains, classes).score(rho, kappa, self.bank.dim)

    def terms(
        self, kappa: Tensor, gains: Gains | None, classes: Classes | None = None
    ) -> ScoreTerms:
        """Return the terms of the scores of classes [..., C], in the dtype of ``kappa``."""
        tau = self.tau(kappa, classes).to(kappa.dtype)
        star, *added = score_terms(self.realization, kappa, tau, gains, self.bank.dim)
        return ScoreTerms(star, *(a if a is None else a.to(kappa.dtype) for a in added))

    def tau(self, kappa: Tensor, classes: Classes | None = None) -> Tensor:
        """Return the temperature of classes in float64, on the device of ``kappa``; NaN where
        scores cannot be compared at it."""
        tau = self.temperature
        if not isinstance(tau, Tensor):
            return torch.full((), tau, dtype=torch.float64, device=kappa.device)
        tau = tau.to(kappa.device, torch.float64)
        tau = torch.where(comparable(tau, torch.float32), tau, math.nan)
        return tau[self.bank.here if classes is None else classes] if tau.dim() else tau

    def gain(self, kappa: Tensor, classes: Classes | None = None) -> Tensor:
        """Return the gains of concentrations of classes."""
        return gain_at(self.bank.dim, kappa, self.tau(kappa, classes))

    def gains(self, kappa: Tensor, dtype: torch.dtype) -> Gains | None:
        """Return gains and targets of kappa [V, ..., C], if the realization uses them."""
        if not self.has_gains:
            return None
        # Targets depend on the classes of all shards.
        gains = class_gains(self.gain(self.bank.of_all_shards(kappa), ALL), self.beta, self.family)
        self.note(gains, dtype)
        here = self.bank.here
        return Gains(gains.g[..., here], gains.mean, gains.target[..., here])

    @torch.no_grad()
    def note(self, gains: Gains, dtype: torch.dtype, own: Tensor | None = None) -> None:
        """Note the least gain or target per class, for a later error; in one process on a CPU,
        raise unless positive. ``own`` [N, V, ..., 1] are the classes of ``gains`` of this shape."""
        errors = self.bank.errors
        now = validation.should_validate(None, errors.least) and self.bank.ranks.size == 1
        if not self.has_temperatures or not (now or self.training):
            return
        least = self.least(gains, dtype, ALL if own is None else own)
        if own is None:
            least = least.amin(0).flatten()
        else:
            # The views of a query have one class.
            least, at = (a.squeeze(-1).movedim(0, -1) for a in (least.amin(1), own[:, 0]))
            every = torch.full_like(errors.least, math.inf).view(*least.shape[:-1], -1)
            least = every.scatter_reduce(-1, at, least, "amin").flatten()
        if now:
            require_gains(least, self.bank.class_name)
        if self.training:
            errors.note_least(least)

    def least(self, gains: Gains, dtype: torch.dtype, classes: Classes) -> Tensor:
        """Return the lesser of gain and target; minus infinity stands for a temperature at which
        scores in ``dtype`` cannot be compared."""
        least = torch.minimum(gains.g, gains.target)
        star = self.tau(least, classes) * (gains.g / gains.target)
        return torch.where(comparable(star, dtype) | ~(least > 0), least, -math.inf)


def require_temperature(value: Any, num_classes: int) -> float | Tensor:
    """Return a temperature: a number > 0, or a tensor [] or [C], which may have a gradient."""
    is_kept = isinstance(value, Tensor) and (value.requires_grad or value.dim() > 0)
    if not is_kept:
        tau = validation.finite_number("temperature", value)
        require_comparable("temperature", tau, torch.float32)
        return tau
    if value.dtype not in COMPUTE_DTYPE or value.shape not in ((), (num_classes,)):
        got = f"{value.dtype} {tuple(value.shape)}"
        rule = f"expected temperature to be a number, or a floating tensor [] or [{num_classes}]"
        raise ValueError(f"{rule}, got {got}")
    require_learned(value)
    return value


def require_learned(temperature: float | Tensor) -> None:
    """Raise unless the values of a tensor, which an optimizer may change, are temperatures."""
    if isinstance(temperature, Tensor) and validation.should_validate(None, temperature):
        require_comparable("temperature", temperature.detach(), torch.float32)
