"""Losses of several runs trained together: one axis of runs, one sequence of kernels.

The loss of R runs takes z [R, N, p] or, for V views, [V, R, N, p] and labels y [N] or [R, N], and
returns the losses [R]. The classes of all runs are the columns of one score, so that a step of R
runs launches as many kernels as a step of one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from resultant.classes.gain import Gains
from resultant.classes.realization import Terms, terms
from resultant.classes.rule import TEMPERED, Rule
from resultant.classes.statistics import ClassState, ClassStatistics
from resultant.losses.bank import Banks
from resultant.losses.contrastive import ContrastiveLoss
from resultant.losses.logit_adjusted import LogitAdjustedCrossEntropy

# Roles of realizations in a score; temperature and preserve share their temperature.
ROLES = {
    "tempered": TEMPERED,
    "preserve": ("preserve",),
    "angular": ("angular",),
    "cosine": ("cosine",),
}


class StackedProCoBank(Banks):
    """Banks ``old`` and ``new`` [R, C, p + 1] of R runs, with one seed per run."""

    offset: Tensor

    def __init__(
        self,
        num_classes: int,
        dim: int,
        seeds: Sequence[int],
        *,
        estimator: str = "proco",
        leave_out: bool = False,
    ) -> None:
        super().__init__(num_classes, dim, estimator, leave_out, (len(seeds),), tuple(seeds))
        offset = torch.arange(len(seeds)).unsqueeze(-1) * self.num_classes
        self.register_buffer("offset", offset, persistent=False)

    def rows(self, y: Tensor) -> Tensor:
        return (y + self.offset).reshape(-1)

    def state(self, run: int, *, bank: str = "old") -> ClassState:
        """Return the classes of one run, of bank ``old`` or ``new``, in float64."""
        return self.state_of(self.named(bank)[run])

    def statistics(self, run: int, *, bank: str = "old") -> ClassStatistics:
        """Return a copy of the sums of one run."""
        return self.statistics_of(self.named(bank)[run])


class StackedProCoLoss(ContrastiveLoss):
    """`ProCoLoss` of R runs that differ in realization, beta and seed.

    Args:
        num_classes: Number of classes C.
        dim: Dimension p of the unit vectors.
        rules: Rule of each run: realization and beta, with one temperature and one family.
        class_counts: Number of training samples per class [C]; equal shares by default.
        prior: Strength of the class prior of all runs.
        seeds: Seed of each run.
        estimator: Estimator of kappa.
        leave_out: Score the class of a query without the query in it.

    Raises:
        ValueError: For settings out of range, for unequal numbers of rules and seeds, and for rules
            that differ in temperature or family.
    """

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
        bank = StackedProCoBank(num_classes, dim, seeds, estimator=estimator, leave_out=leave_out)
        super().__init__(bank, rules, class_counts, prior)
        self.realizations = tuple(rule.realization for rule in rules)
        # A role of all runs or of none has no mask.
        self.in_all: dict[str, bool] = {}
        for role, names in ROLES.items():
            members = torch.tensor([name in names for name in self.realizations])
            self.in_all[role] = bool(members.all())
            mask = members.unsqueeze(-1) if members.any() and not members.all() else None
            self.register_buffer(role, mask, persistent=False)

    def extra_repr(self) -> str:
        settings = f"temperature={self.temperature}, realizations={self.realizations}"
        return f"{settings}, betas={self.beta.squeeze(-1).tolist()}"

    def state(self, run: int) -> ClassState:
        """Return the classes that one run is scored against, of the bank ``old``."""
        return self.bank.state(run)

    def exact(self, rho: Tensor, kappa: Tensor, tau: Tensor) -> Tensor:
        q = super().exact(rho, kappa, tau)
        return q if self.cosine is None else q.masked_fill(self.cosine, 0.0)

    @torch.no_grad()
    def terms(self, kappa: Tensor, gains: Gains | None) -> Terms:
        tau = torch.full((), self.temperature, dtype=kappa.dtype, device=kappa.device)

        def of(name: str) -> Terms:
            return terms(name, kappa, tau, gains, self.bank.dim, self.zero)

        used, slope, shift = None if self.in_all["cosine"] else tau, None, None
        if self._has("tempered"):
            tempered = of("preserve" if self._has("preserve") else "temperature")
            used = None if tempered.tau is None else self._where("tempered", tempered.tau, tau)
            if tempered.shift is not None:
                shift = self._where("preserve", tempered.shift, self.zero).to(kappa.dtype)
        for name in ("angular", "cosine"):
            if self._has(name) and (added := of(name).slope) is not None:
                slope = self._where(name, added, self.zero if slope is None else slope)
        return Terms(used, None if slope is None else slope.to(kappa.dtype), shift)

    def require_temperatures(self, least: Tensor) -> None:
        super().require_temperatures(self._where("tempered", least, math.inf))

    def _has(self, role: str) -> bool:
        return self.in_all[role] or getattr(self, role) is not None

    def _where(self, role: str, a: Tensor, other: Tensor | float) -> Tensor:
        """Return ``a`` for the runs with a role, ``other`` for the rest."""
        mask = getattr(self, role)
        return a if mask is None else torch.where(mask, a, other)


class StackedLogitAdjustedCrossEntropy(LogitAdjustedCrossEntropy):
    """Logit-adjusted cross-entropies [R] of logits [R, N, C] or, for V views, [V, R, N, C]."""

    def __init__(
        self, class_counts: Tensor | Sequence[float], prior: float = 1.0, *, runs: int
    ) -> None:
        super().__init__(class_counts, prior)
        self.lead = (runs,)
