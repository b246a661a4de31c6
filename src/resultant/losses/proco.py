r"""The probabilistic contrastive loss with its running class statistics, and logit adjustment.

alg:controlled-training in a module: each view enters the statistics, is scored against them
under a realization of the target gains, and the cross-entropy of
:math:`q_c^{\mathcal R}+\gamma\log\pi_c` goes back to the queries alone. Scores, statistics and
logarithms are float32 or wider, also under autocast; nothing in a step waits for the device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from resultant._core import validation
from resultant._core.arrays import shape_of
from resultant._core.validation import COMPUTE_DTYPE
from resultant.classes.gain import NAMED, Gains, comparable, mean_and_targets
from resultant.classes.realization import Terms, terms
from resultant.classes.rule import FAMILIES, REALIZATIONS, TEMPERED
from resultant.classes.statistics import ClassState
from resultant.losses._cross_entropy import cross_entropy
from resultant.losses._cuda_graph import Replay, replays
from resultant.losses._prior import log_prior_of, numbers, require_counted
from resultant.losses.bank import (
    ProCoBank,
    Snapshot,
    WideModule,
    by_view,
    labels_by_view,
    require_run_labels,
    require_runs,
)
from resultant.score.exact import vmf_score, vmf_score_and_slope
from resultant.score.limits import require_comparable

# A tilt by 1/VANISHING leaves every kappa as it is.
VANISHING = 2.0**40

# What a run's realization asks for; the two that move the temperature have that in common.
_ROLES = {
    "tempered": TEMPERED,
    "preserve": ("preserve",),
    "angular": ("angular",),
    "cosine": ("cosine",),
}


class ProCoLoss(WideModule):
    r"""The contrastive loss of alg:controlled-training, ``loss(z, y)``.

    ``z`` [N, p] are unit vectors, or [V, N, p] the V views of a batch, and ``y`` [N] their labels.
    For each view in turn: it enters both banks (`ProCoBank`), the classes of ``old`` are fitted
    and detached, and the view is scored against them at ``temperature`` under ``realization`` and
    ``beta`` (`class_scores`). The loss is the cross-entropy of
    :math:`q_c+\gamma\log\pi_c`, the mean over views and queries; :math:`\gamma` is ``prior`` and
    :math:`\pi_c` the share of ``class_counts`` [C] (equal shares if not given).
    Call `start_epoch` before every epoch. ``temperature`` is at least 7.6e-6 (`class_scores`).

    With ``leave_out`` the query's own class is scored without the query in it: its mu, kappa and
    gain are those of the rest, while the target gain stays that of the class (sec:self-inclusion).

    ``runs`` puts independent losses side by side: z is [*runs, N, p] or [V, *runs, N, p], y [N] or
    [*runs, N], and the loss has the shape ``runs``. Then ``realization``, ``beta``, ``prior`` and
    ``seed`` may be sequences, one a run.

    With ``cuda_graph`` a step on a CUDA device is recorded at its first call for each of up to four
    shapes of z and settings, gradient included, and replayed from then on: several times as fast as
    called from Python. Elsewhere, inside a graph, torch.compile or inference mode, and on several
    ranks it changes nothing. The gradient then has no gradient.

    In ``eval`` mode the statistics stay as they are.
    Under ``torch.utils.checkpoint`` each step enters them twice: keep the loss outside of it.
    Values of z and y are checked on the CPU alone, and not under ``torch.compile``.

    A gain or target gain that is not positive has no temperature: a class whose samples cancel has
    the gain zero. Nor has a class for which it would be below those of `class_scores`. On the CPU
    that is an error; elsewhere the scores become NaN, and `check` raises the error afterwards.
    """

    log_prior: Tensor
    beta: Tensor
    least_target: Tensor
    zero: Tensor
    vanishing: Tensor
    cosine: Tensor | None

    def __init__(
        self,
        num_classes: int,
        dim: int,
        temperature: float = 0.1,
        realization: str | Sequence[str] = "native",
        beta: float | Sequence[float] = 0.0,
        class_counts: Tensor | Sequence[float] | None = None,
        prior: float | Sequence[float] = 1.0,
        *,
        family: str = "linear",
        estimator: str = "proco",
        leave_out: bool = False,
        runs: Sequence[int] = (),
        seed: int | Sequence[int] = 0,
        cuda_graph: bool = False,
    ) -> None:
        super().__init__()
        self.replay = Replay() if cuda_graph else None
        if family not in FAMILIES:
            raise ValueError(f"expected family to be one of {FAMILIES}, got {family!r}")
        self._temperature, self._family = _temperature(temperature), family
        self.bank = ProCoBank(
            num_classes, dim, estimator=estimator, leave_out=leave_out, runs=runs, seed=seed
        )
        num_classes, self.runs = self.bank.num_classes, self.bank.runs
        number = math.prod(self.runs)
        names = (realization,) * number if isinstance(realization, str) else tuple(realization)
        if len(names) != number or not set(names) <= set(REALIZATIONS):
            rule = f"expected realization to be of {REALIZATIONS}, or one a run ({number})"
            raise ValueError(f"{rule}, got {realization!r}")
        self._realization = names
        self.everywhere: dict[str, bool] = {}
        for role, of in _ROLES.items():
            taken = [name in of for name in names]
            mixed = any(taken) and not all(taken)
            self.register_buffer(role, self._one_a_run(taken) if mixed else None, persistent=False)
            self.everywhere[role] = all(taken)
        self.register_buffer("beta", self._one_a_run(numbers("beta", beta, number)), False)
        counts = torch.ones(num_classes) if class_counts is None else class_counts
        log_prior = log_prior_of(counts, prior, self.runs)
        if log_prior.shape[-1] != num_classes:
            got = log_prior.shape[-1]
            raise ValueError(f"expected class_counts [{num_classes}], one a class, got {got}")
        self.register_buffer("log_prior", log_prior, persistent=False)
        # On the device beforehand: a number would be filled in at every call.
        for name, value in (("zero", 0.0), ("vanishing", VANISHING)):
            constant = torch.tensor(value, dtype=torch.float64)
            self.register_buffer(name, constant, persistent=False)
        least = torch.full((*self.runs, num_classes), math.inf, dtype=torch.float64)
        self.register_buffer("least_target", least, persistent=False)

    @property
    def temperature(self) -> float:
        """tau, which may be changed between steps."""
        return self._temperature

    @temperature.setter
    def temperature(self, value: float) -> None:
        self._temperature = _temperature(value)

    @property
    def family(self) -> str:
        return self._family

    @property
    def realization(self) -> tuple[str, ...]:
        return self._realization

    def extra_repr(self) -> str:
        names = self.realization if self.runs else self.realization[0]
        beta = self.beta.squeeze(-1).tolist()
        return f"temperature={self.temperature}, realization={names!r}, beta={beta}"

    def _one_a_run(self, values: list[float] | list[bool]) -> Tensor:
        wide = torch.float64 if isinstance(values[0], float) else None
        return torch.tensor(values, dtype=wide).view(*self.runs, 1)

    def start_epoch(self) -> None:
        """Begin an epoch: ``old`` becomes ``new``, and ``new`` starts again."""
        self.bank.start_epoch()

    def state(self, run: int | tuple[int, ...] = ()) -> ClassState:
        """The classes scored against, of bank ``old``; with ``runs``, those of the run given."""
        return self.bank.state(run)

    def _apply(self, fn: Any, recurse: bool = True) -> WideModule:
        if self.replay is not None:
            # Graphs read the buffers where they were.
            self.replay = Replay()
        return super()._apply(fn, recurse)

    def forward(self, z: Tensor, y: Tensor) -> Tensor:
        if self.replay is None or not replays(z, y):
            return self._step(z, y)
        bank = self.bank
        state = (bank.old, bank.new, self.least_target)
        settings = (
            *(self.training, self.temperature, self.family),
            *(bank.estimator, bank.leave_out),
        )
        # In the dtype to compute with: what scales the loss of half precision scales this gradient.
        z = _computing(z)
        return self.replay(self._step, z, y, state, (*settings, self.beta, self.log_prior))

    def _step(self, z: Tensor, y: Tensor) -> Tensor:
        self.bank.require_batch(z, y)
        require_counted(y, self.log_prior)
        if self.training:
            snapshot = self.bank.add(z, y)
        else:
            snapshot = self.bank.snapshot(COMPUTE_DTYPE[z.dtype])
        with torch.autocast(z.device.type, enabled=False):
            views = by_view(_computing(z), self.runs)
            labels = labels_by_view(y, len(views), self.runs)
            scores = self._scores(views, snapshot, labels)
            return cross_entropy(scores, self.log_prior, labels).mean((0, 1))

    def scores(self, z: Tensor) -> Tensor:
        """The scores [*runs, N, C] of ``z`` [*runs, N, p] against ``old`` as it is, or of views
        [V, ...]; without the prior, and without an update."""
        self.bank.require(z)
        with torch.autocast(z.device.type, enabled=False):
            views = by_view(_computing(z), self.runs)
            scores = self._scores(views, self.bank.snapshot(views.dtype))
            return scores.movedim(0, -2).reshape(*z.shape[:-1], self.bank.num_classes)

    def check(self) -> None:
        """Raise if a loss or scores since the last call met gains that have no temperature."""
        least = self.least_target.clone()
        self.least_target.fill_(math.inf)
        self._require_positive(least)

    def _scores(self, z: Tensor, snapshot: Snapshot, labels: Tensor | None = None) -> Tensor:
        """The realized scores [N, V, *runs, C] of z [V, *runs, N, p].

        The queries come first, so that the classes of all runs are the columns of one score.
        """
        rho = (z @ snapshot.mu.mT).movedim(-2, 0)
        kappa = self.bank.kappa(snapshot.R)
        gains = self._gains(kappa)
        scores = self._score(rho, kappa, gains)
        if labels is None or snapshot.own_mu is None or snapshot.own_R is None:
            self._note(z.dtype, gains)
            return scores
        at = labels.unsqueeze(-1)
        rho = (z * snapshot.own_mu).sum(-1, keepdim=True).movedim(-2, 0)
        kappa = self.bank.kappa(snapshot.own_R).unsqueeze(-1).movedim(-2, 0)
        rest = None
        if gains is not None:
            target = gains.target.expand(len(at), *gains.target.shape).gather(-1, at)
            rest = Gains(self._gain(kappa), gains.mean, target)
        self._note(z.dtype, gains, rest, labels)
        return scores.scatter(-1, at, self._score(rho, kappa, rest))

    def _score(self, rho: Tensor, kappa: Tensor, gains: Gains | None) -> Tensor:
        kappa = kappa.to(rho.dtype)
        rule, q = self._terms(kappa, gains), None
        if rule.tau is not None:
            q = vmf_score(rho, kappa, rule.tau, self.bank.dim, validate_args=False)
            q = q if self.cosine is None else q.masked_fill(self.cosine, 0.0)
        return rule.of(q, rho)

    def _gain(self, kappa: Tensor) -> Tensor:
        """g = A(kappa)/tau_0: the slope of a vanishing tilt, in one kernel where there is one."""
        slope = vmf_score_and_slope(
            self.zero, kappa, self.vanishing, self.bank.dim, validate_args=False
        )[1]
        return slope * (VANISHING / self.temperature)

    @torch.no_grad()
    def _gains(self, kappa: Tensor) -> Gains | None:
        """Gains and targets of kappa [V, *runs, C], if a run asks for them."""
        if set(self.realization) == {"native"}:
            return None
        g = self._gain(kappa)
        return Gains(g, *mean_and_targets(g, self.beta, self.family))

    @torch.no_grad()
    def _note(
        self,
        dtype: torch.dtype,
        gains: Gains | None,
        rest: Gains | None = None,
        labels: Tensor | None = None,
    ) -> None:
        """Keep the least of the gains and targets [V, *runs, C], also of the gains
        [N, V, *runs, 1] of own classes without their queries, and look at it on the CPU."""
        if gains is None or self._taken("tempered") is False:
            return
        least = self._least(gains, dtype).amin(0)
        if rest is not None and labels is not None:
            gain = self._least(rest, dtype).squeeze(-1).amin(1)
            own, at = (a.movedim(0, -1) for a in (gain, labels[:, 0]))
            least.scatter_reduce_(-1, at, own, "amin")
        if validation.should_validate(None, least):
            self._require_positive(least)
        torch.fmin(self.least_target, least, out=self.least_target)

    def _least(self, gains: Gains, dtype: torch.dtype) -> Tensor:
        """The lesser of gain and target; minus infinity where both are positive, but scores are not
        compared at the temperature that they ask for."""
        least = torch.minimum(gains.g, gains.target)
        known = comparable(self.temperature * (gains.g / gains.target), dtype)
        return torch.where(known | ~(least > 0), least, -math.inf)

    @torch.no_grad()
    def _terms(self, kappa: Tensor, gains: Gains | None) -> Terms:
        """How the runs score classes, together; all in the dtype of kappa."""
        tau = torch.full((), self.temperature, dtype=kappa.dtype, device=kappa.device)

        def of(name: str) -> Terms:
            return terms(name, kappa, tau, gains, self.bank.dim, self.zero)

        used, slope, shift = None if self.everywhere["cosine"] else tau, None, None
        if self._taken("tempered") is not False:
            # The two have one temperature.
            some = of("temperature" if self._taken("preserve") is False else "preserve")
            used = None if some.tau is None else self._pick("tempered", some.tau, tau)
            if some.shift is not None:
                shift = self._pick("preserve", some.shift, self.zero).to(kappa.dtype)
        for name in ("angular", "cosine"):
            if self._taken(name) is not False and (added := of(name).slope) is not None:
                slope = self._pick(name, added, self.zero if slope is None else slope)
        return Terms(used, None if slope is None else slope.to(kappa.dtype), shift)

    def _taken(self, role: str) -> Tensor | bool:
        """Which runs have a role, [*runs, 1], or whether all (True) or none (False) do."""
        where = getattr(self, role)
        return self.everywhere[role] if where is None else where

    def _pick(self, role: str, a: Tensor, other: Tensor | float) -> Tensor:
        where = self._taken(role)
        return torch.where(where, a, other) if isinstance(where, Tensor) else a

    def _require_positive(self, target: Tensor) -> None:
        """Raise unless the least gains [*runs, C] of runs with class temperatures are > 0."""
        bad = ~(self._pick("tempered", target, math.inf) > 0)
        if not bad.any():
            return
        named = []
        for *run, c in bad.nonzero()[:NAMED].tolist():
            least = float(target[(*run, c)])
            said = f"{least:.4g}" if math.isfinite(least) else "no temperature in reach"
            named.append(f"{f'run {tuple(run)} ' if run else ''}class {c} ({said})")
        more = ", ..." if int(bad.sum()) > NAMED else ""
        rule = "expected target gains > 0 and gains > 0 for class temperatures in reach"
        got = f"{int(bad.sum())} of {bad.numel()} not: {', '.join(named)}{more}"
        raise validation.DivergedError(f"{rule} ({self.family}), got {got}")


class LogitAdjustedCrossEntropy(WideModule):
    r"""Cross-entropy of ``logits`` + :math:`\gamma\log\pi_c`, for the classifier of joint training.

    ``logits`` are [*runs, N, C] or, of V views, [V, *runs, N, C]; ``y`` is [N] or [*runs, N], and
    the loss has the shape ``runs``. :math:`\gamma` is ``prior``, with ``runs`` also one a run;
    :math:`\pi_c` is the share of ``class_counts`` [C]. At least float32, also under autocast.
    """

    log_prior: Tensor

    def __init__(
        self,
        class_counts: Tensor | Sequence[float],
        prior: float | Sequence[float] = 1.0,
        *,
        runs: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self.runs = require_runs(runs)
        log_prior = log_prior_of(class_counts, prior, self.runs)
        self.register_buffer("log_prior", log_prior, persistent=False)

    def forward(self, logits: Tensor, y: Tensor) -> Tensor:
        rank, C = len(self.runs) + 2, self.log_prior.shape[-1]
        lead = "".join(f"{n}, " for n in self.runs)
        if (
            not isinstance(logits, Tensor)
            or logits.dim() not in (rank, rank + 1)
            or logits.shape[-rank:-2] != self.runs
            or logits.shape[-1] != C
        ):
            rule = f"expected logits [{lead}N, {C}] or [V, {lead}N, {C}]"
            raise ValueError(f"{rule}, got {shape_of(logits)}")
        if logits.dtype not in validation.COMPUTE_DTYPE:
            raise ValueError(f"expected logits of a floating dtype, got {logits.dtype}")
        require_run_labels(y, logits.shape[-2], C, self.runs, logits.device)
        require_counted(y, self.log_prior)
        with torch.autocast(logits.device.type, enabled=False):
            views = by_view(_computing(logits), self.runs).movedim(-2, 0)
            labels = labels_by_view(y, views.shape[1], self.runs)
            return cross_entropy(views, self.log_prior, labels).mean((0, 1))


def _temperature(value: float) -> float:
    (tau,) = numbers("temperature", value, 1)
    require_comparable("temperature", tau, torch.float32)
    return tau


def _computing(a: Tensor) -> Tensor:
    """In the dtype to compute with, at least float32."""
    return a.to(COMPUTE_DTYPE[a.dtype])
