"""Losses [R] of R runs trained together, of V views z [V, R, N, p] and labels y [N] or [R, N]. The
classes of all runs are the columns of one score: R runs launch as many kernels as one."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from resultant._core import validation
from resultant.classes.gain import Gains
from resultant.classes.rule import TEMPERED, Rule
from resultant.classes.scores import ScoreTerms, score_terms
from resultant.classes.statistics import ClassState, ClassStatistics
from resultant.losses.bank import ProCoBank, Snapshot, write_starts
from resultant.losses.contrastive import ContrastiveLoss
from resultant.losses.prior import LogitAdjustedCrossEntropy, log_prior_of
from resultant.score.exact import vmf_score

# Roles of realizations in a score; temperature and preserve share their temperature.
ROLES = {
    "tempered": TEMPERED,
    "preserve": ("preserve",),
    "angular": ("angular",),
    "cosine": ("cosine",),
}


class StackedProCoBank(ProCoBank):
    """Statistics of R runs: a bank of R C classes, in which run r has the classes from r C on."""

    first: Tensor

    def __init__(
        self, num_classes: int, dim: int, seeds: Sequence[int], estimator: str, leave_out: bool
    ) -> None:
        # Before the banks, which begin with starts of these seeds.
        self.seeds = tuple(validation.integer("seed", seed, 0) for seed in seeds)
        self.runs, self.per_run = len(seeds), validation.integer("num_classes", num_classes, 1)
        total = self.runs * self.per_run
        super().__init__(total, dim, estimator=estimator, leave_out=leave_out)
        first = torch.arange(0, total, self.per_run).unsqueeze(-1)
        self.register_buffer("first", first, persistent=False)

    def _start(self, bank: Tensor, epoch: int, which: int) -> None:
        for rows, seed in zip(self._by_run(bank, 0), self.seeds, strict=True):
            write_starts(rows, range(self.per_run), self.per_run, (seed, epoch, which))

    def add_runs(self, z: Tensor, y: Tensor) -> Snapshot:
        """Add views z [V, R, N, p] with labels y [N] or [R, N]; see `ProCoBank.add`."""
        labels = (y + self.first).flatten()
        return self._snapshot_by_run(self.add(self.ranks.gather(z.flatten(1, 2), labels)))

    def snapshot(self, dtype: torch.dtype = torch.float32) -> Snapshot:
        return self._snapshot_by_run(super().snapshot(dtype))

    def sums(self, *, bank: str = "old") -> Tensor:
        """Return sums and counts [R, C, p + 1] of bank ``old`` or ``new``, without a copy."""
        return self._by_run(self.named(bank), 0)

    def run_statistics(self, run: int, *, bank: str = "old") -> ClassStatistics:
        """Return a copy of the sums of one run."""
        return self.statistics(bank=self.sums(bank=bank)[run])

    def class_name(self, c: int) -> str:
        return "run {} class {}".format(*divmod(c, self.per_run))

    def _by_run(self, a: Tensor, axis: int) -> Tensor:
        return a.unflatten(axis, (self.runs, -1))

    def _snapshot_by_run(self, snapshot: Snapshot) -> Snapshot:
        mu, R, *rest = snapshot
        others = (None if a is None else self._by_run(a, 1) for a in rest)
        return Snapshot(self._by_run(mu, 1), self._by_run(R, 1), *others)


class StackedProCoLoss(ContrastiveLoss):
    """`ProCoLoss` of R runs that differ in realization, beta and seed."""

    bank: StackedProCoBank
    cosine: Tensor | None

    def __init__(
        self,
        num_classes: int,
        dim: int,
        rules: Sequence[Rule],
        class_counts: Tensor | Sequence[float] | None = None,
        prior: float = 1.0,
        *,
        seeds: Sequence[int],
        estimator: str = "proco",
        leave_out: bool = False,
    ) -> None:
        if not rules or len(rules) != len(seeds):
            expected = "expected a rule and a seed per run, of one run or more"
            raise ValueError(f"{expected}, got {len(rules)} rules and {len(seeds)} seeds")
        if len(shared := {(rule.tau, rule.family) for rule in rules}) > 1:
            raise ValueError(f"expected one temperature and family of all runs, got {shared}")
        bank = StackedProCoBank(num_classes, dim, seeds, estimator, leave_out)
        super().__init__(bank, rules[0], log_prior_of(class_counts, prior, num_classes))
        self.realizations = tuple(rule.realization for rule in rules)
        self.has_gains = any(name != "native" for name in self.realizations)
        self.has_temperatures = any(name in TEMPERED for name in self.realizations)
        del self.beta
        beta = torch.tensor([[rule.beta] for rule in rules], dtype=torch.float64)
        self.register_buffer("beta", beta, persistent=False)
        # A role of all runs or of none has no mask.
        self.in_all: dict[str, bool] = {}
        for role, names in ROLES.items():
            members = torch.tensor([name in names for name in self.realizations])
            self.in_all[role] = bool(members.all())
            mask = members.unsqueeze(-1) if members.any() and not members.all() else None
            self.register_buffer(role, mask, persistent=False)

    def forward(self, z: Tensor, y: Tensor) -> Tensor:
        """Return the losses [R] of unit vectors z [V, R, N, p] and labels y [N] or [R, N]."""
        self.bank.raise_known_errors()
        # Once here: products and banks would copy the views of a network again.
        z = z.contiguous()
        snapshot = self.bank.add_runs(z, y) if self.training else self.bank.snapshot(z.dtype)
        losses = self.entropies(z, _labels_by_view(y, z), snapshot).mean((0, 1))
        self.bank.errors.publish()
        return losses

    def state(self, run: int) -> ClassState:
        """Return the classes that one run is scored against, of the bank ``old``."""
        return self.bank.state(bank=self.bank.sums()[run])

    def score(self, rho: Tensor, kappa: Tensor, gains: Gains | None, classes: Any = None) -> Tensor:
        kappa, q = kappa.to(rho.dtype), None
        terms = self.terms(kappa, gains)
        if terms.tau is not None:
            q = vmf_score(rho, kappa, terms.tau, self.bank.dim, validate_args=False)
            # Runs of cosines have no score of their own.
            q = q if self.cosine is None else q.masked_fill(self.cosine, 0.0)
        return terms.of(q, rho)

    @torch.no_grad()
    def terms(self, kappa: Tensor, gains: Gains | None, classes: Any = None) -> ScoreTerms:
        tau = self.tau(kappa).to(kappa.dtype)

        def of(name: str) -> ScoreTerms:
            return score_terms(name, kappa, tau, gains, self.bank.dim)

        used, slope, shift = None if self.in_all["cosine"] else tau, None, None
        if self._has("tempered"):
            tempered = of("preserve" if self._has("preserve") else "temperature")
            used = None if tempered.tau is None else self._where("tempered", tempered.tau, tau)
            if tempered.shift is not None:
                shift = self._where("preserve", tempered.shift, 0.0).to(kappa.dtype)
        for name in ("angular", "cosine"):
            if self._has(name) and (added := of(name).slope) is not None:
                slope = self._where(name, added, 0.0 if slope is None else slope)
        return ScoreTerms(used, None if slope is None else slope.to(kappa.dtype), shift)

    def least(self, gains: Gains, dtype: torch.dtype, classes: Any) -> Tensor:
        least = super().least(gains, dtype, classes)
        return self._where("tempered", least, math.inf)

    def _has(self, role: str) -> bool:
        return self.in_all[role] or getattr(self, role) is not None

    def _where(self, role: str, a: Tensor, other: Tensor | float) -> Tensor:
        """Return ``a`` for the runs with a role, ``other`` for the rest."""
        mask = getattr(self, role)
        return a if mask is None else torch.where(mask, a, other)


class StackedLogitAdjustedCrossEntropy(LogitAdjustedCrossEntropy):
    """Logit-adjusted cross-entropies [R] of logits [V, R, N, C] and labels [N] or [R, N]."""

    def forward(self, logits: Tensor, y: Tensor) -> Tensor:
        return self.mean_entropy(logits, _labels_by_view(y, logits))


def _labels_by_view(y: Tensor, views: Tensor) -> Tensor:
    """Expand labels ``y`` [N] or [R, N] of views [V, R, N, k] to [N, V, R]."""
    return y.expand(views.shape[:-1]).movedim(-1, 0)
