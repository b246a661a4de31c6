"""The ProCo loss as the paper writes it: the cross-entropy of queries against running von
Mises-Fisher classes. `proco` chooses faster ways, and the trainer gives it further axes."""

import math

import torch
from torch import Tensor

from resultant._core import validation
from resultant._core.validation import COMPUTE_DTYPE
from resultant.classes.gain import Gains, class_gains, comparable, gain_at, require_of_classes
from resultant.classes.realization import Terms, terms
from resultant.classes.rule import TEMPERED, Rule
from resultant.losses._batch import compute_dtype, cross_entropy
from resultant.losses.bank import ProCoBank, Snapshot, WideModule
from resultant.score.limits import require_comparable


class ContrastiveLoss(WideModule):
    """Contrastive loss against the classes of a bank, scored by a rule; see `ProCoLoss`."""

    beta: Tensor
    log_prior: Tensor
    least_target: Tensor

    def __init__(self, bank: ProCoBank, rule: Rule, log_prior: Tensor) -> None:
        super().__init__()
        self.bank, self._rule = bank, rule
        self.temperature = validation.finite_number("temperature", rule.tau)
        self.has_gains = rule.realization != "native"
        self.has_temperatures = rule.realization in TEMPERED
        beta = torch.tensor([rule.beta], dtype=torch.float64, device="cpu")
        self.register_buffer("log_prior", log_prior, persistent=False)
        self.register_buffer("beta", beta, persistent=False)
        least = torch.full_like(log_prior, math.inf)
        self.register_buffer("least_target", least, persistent=False)

    @property
    def temperature(self) -> float:
        """Temperature tau, which may be changed between steps."""
        return self._temperature

    @temperature.setter
    def temperature(self, value: float) -> None:
        tau = validation.finite_number("temperature", value)
        require_comparable("temperature", tau, torch.float32)
        self._temperature = tau

    @property
    def realization(self) -> str:
        """Name of the realization."""
        return self._rule.realization

    @property
    def family(self) -> str:
        """Family of the target gains."""
        return self._rule.family

    def start_epoch(self, epoch: int | None = None) -> None:
        """Begin an epoch of the bank; see `ProCoBank.start_epoch`."""
        self.bank.start_epoch(epoch)

    def snapshot(self, z: Tensor, y: Tensor, sizes: list[int] | None = None) -> Snapshot:
        """Return the classes that a batch is scored against, which it enters in training mode."""
        if self.training:
            return self.bank.add(z, y, sizes)
        return self.bank.snapshot(COMPUTE_DTYPE[z.dtype])

    def entropies(self, z: Tensor, labels: Tensor, snapshot: Snapshot) -> Tensor:
        """Return the cross-entropies [N, V, ...] of z [V, ..., N, p] at labels [N, V, ...]."""
        with torch.autocast(z.device.type, enabled=False):
            return cross_entropy(self.realized(z, snapshot, labels), self.log_prior, labels)

    def check(self) -> None:
        """Raise if a training step since the last call met a class without a temperature, or z of
        another length than one. Waits for the device."""
        least = self.least_target.clone()
        self.least_target.fill_(math.inf)
        self.require_temperatures(least)
        self.bank.require_lengths()

    def realized(self, z: Tensor, snapshot: Snapshot, labels: Tensor | None = None) -> Tensor:
        """Return the realized scores [N, V, ..., C] of z [V, ..., N, p] against the classes that
        each view sees; with ``labels``, the own classes are those of the snapshot, if any."""
        z = compute_dtype(z)
        rho = (z @ snapshot.mu.mT).movedim(-2, 0)
        kappa = self.bank.kappa(snapshot.R)
        gains = self.noted_gains(kappa, z.dtype)
        scores = self._score(rho, kappa, gains)
        if labels is None or snapshot.own_mu is None or snapshot.own_R is None:
            return scores
        # The query's own class, without the query in it, keeps the target gain of the whole.
        at = labels.unsqueeze(-1)
        rho = (z * snapshot.own_mu).sum(-1, keepdim=True).movedim(-2, 0)
        kappa = self.bank.kappa(snapshot.own_R).unsqueeze(-1).movedim(-2, 0)
        rest = None
        if gains is not None:
            target = gains.target.expand(len(at), *gains.target.shape).gather(-1, at)
            rest = Gains(self.gain(kappa), gains.mean, target)
        self.note(z.dtype, rest, labels)
        return scores.scatter(-1, at, self._score(rho, kappa, rest))

    def _score(self, rho: Tensor, kappa: Tensor, gains: Gains | None) -> Tensor:
        """Return the realized scores at cosines ``rho`` of classes [..., C]."""
        kappa = kappa.to(rho.dtype)
        return self.terms(kappa, gains).score(rho, kappa, self.bank.dim)

    def gain(self, kappa: Tensor) -> Tensor:
        """Return the gains of concentrations."""
        return gain_at(self.bank.dim, kappa, self.temperature)

    def terms(self, kappa: Tensor, gains: Gains | None) -> Terms:
        """Return the terms of the scores of classes [..., C], in the dtype of ``kappa``."""
        tau = torch.full((), self.temperature, dtype=kappa.dtype, device=kappa.device)
        star, *added = terms(self.realization, kappa, tau, gains, self.bank.dim)
        return Terms(star, *(a if a is None else a.to(kappa.dtype) for a in added))

    def noted_gains(self, kappa: Tensor, dtype: torch.dtype) -> Gains | None:
        """Return gains and targets of kappa [V, ..., C], if the realization uses them."""
        if not self.has_gains:
            return None
        # Targets depend on the classes of all shards.
        gains = class_gains(self.gain(self.bank.of_all_shards(kappa)), self.beta, self.family)
        self.note(dtype, gains)
        if len(self.bank.shares) == 1:
            return gains
        here = slice(self.bank.classes.start, self.bank.classes.stop)
        return Gains(gains.g[..., here], gains.mean, gains.target[..., here])

    def note(self, dtype: torch.dtype, gains: Gains | None, labels: Tensor | None = None) -> None:
        """Keep the least gain or target per class in training mode, for `check`; on the CPU, raise
        unless positive. ``labels`` [N, V, ...] are of ``gains`` [N, V, ..., 1] of own classes."""
        checks = validation.should_validate(None, self.least_target)
        if gains is None or not self.has_temperatures or not (checks or self.training):
            return
        least = torch.minimum(gains.g, gains.target)
        # Minus infinity stands for a temperature at which scores in this dtype cannot be compared.
        in_reach = comparable(self.temperature * (gains.g / gains.target), dtype)
        least = torch.where(in_reach | ~(least > 0), least, -math.inf)
        if labels is None:
            least = least.amin(0)
        else:
            own, at = (a.movedim(0, -1) for a in (least.squeeze(-1).amin(1), labels[:, 0]))
            least = torch.full_like(self.least_target, math.inf).scatter_reduce(-1, at, own, "amin")
        if checks:
            self.require_temperatures(least)
        if self.training:
            torch.fmin(self.least_target, least, out=self.least_target)

    def require_temperatures(self, least: Tensor) -> None:
        """Raise unless the least gains of all classes with temperatures are > 0."""
        least = least.flatten()
        rule = "target gains > 0 and gains > 0 for class temperatures in reach"

        def named(c: int) -> str:
            got = f"{least[c]:.4g}" if least[c].isfinite() else "no temperature in reach"
            return f"{self.bank.class_name(c)} ({got})"

        require_of_classes(f"{rule} ({self.family})", least > 0, named)
