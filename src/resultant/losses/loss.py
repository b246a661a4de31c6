"""The ProCo loss of a training loop (alg:controlled-training), whose steps may be stored, streamed,
sharded or replayed. Scores, statistics and logarithms are float32 or wider, also under autocast."""

import math
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from resultant._core import validation
from resultant._core.distributed import Group
from resultant._core.modes import is_transformed, no_autocast
from resultant._core.validation import COMPUTE_DTYPE
from resultant.classes.rule import Rule
from resultant.classes.statistics import ClassState
from resultant.losses.bank import ProCoBank
from resultant.losses.batch import (
    REDUCTIONS,
    by_view,
    compute_dtype,
    reduced,
    require_batch,
    require_unit,
    require_vectors,
    sample_weights,
)
from resultant.losses.contrastive import ContrastiveLoss, require_learned, require_temperature
from resultant.losses.graph import Graphs, Recorded, should_replay
from resultant.losses.prior import log_prior_of, require_counted, require_counts
from resultant.losses.ranks import Batch
from resultant.losses.step_stored import stored_step
from resultant.losses.step_streamed import should_stream, streamed_step

# Arguments from which the parts of a loss are built.
FIXED = ("num_classes", "dim", "realization", "family", "estimator", "leave_out", "seed")
FIXED += ("cuda_graph", "shard_classes", "process_group")


class ProCoLoss(ContrastiveLoss):
    r"""Contrastive loss of controlled training, ``loss(z, y)``.

    Each view of a batch in turn enters both banks (`ProCoBank`), the classes of the bank ``old``
    are fitted and detached, and the view is scored against them (`class_scores`). The loss is the
    cross-entropy of :math:`q_c+\gamma\log\pi_c`. The defaults are those of ProCo as published.

    With ``class_counts`` an epoch begins by itself after that many samples; without them, inside
    torch.compile and inside a CUDA graph of your own, call `start_epoch` before every epoch. In
    ``eval`` mode the statistics do not change; ``torch.utils.checkpoint`` counts a step twice. The
    loss of no samples is zero.

    On the CPU the values of z and y are checked in the step, except under ``torch.compile``. On a
    GPU nothing waits: vectors without a direction, which do not enter the statistics, and classes
    without a temperature are an error in a later step or in `check`; a label out of range and a
    class without a temperature make the loss NaN.

    Under torch.distributed every process gets the loss of its own queries, takes the same number of
    steps, and has the statistics of all samples; an error of one process is raised in all. Scores
    of more than 256 MiB on a GPU, or 64 MiB on a CPU, are never stored; then, and in a CUDA graph,
    a gradient has no gradient.

    Temperature, beta, prior, class_counts, normalize, reduction and ignore_index may be assigned,
    and take effect at the next step.

    Args:
        num_classes, dim: Number of classes C and dimension p.
        temperature: Temperature, at least 7.6e-6; or a tensor [] or [C], such as an
            ``nn.Parameter``, which receives a gradient where scores are stored.
        realization, beta, family: As of `Rule`.
        class_counts: Number of training samples per class [C]; their shares are :math:`\pi_c`, and
            their sum is an epoch. Without them the shares are equal, and the first step warns.
        prior: Strength :math:`\gamma` of the class prior.
        estimator, seed: As of `ProCoBank`.
        leave_out: Score the class of a query without it, with the target gain of the whole class.
        normalize: Normalize z in float32 or wider. With False, z of another length is an error.
        reduction: ``mean`` or ``sum`` over views and samples, or ``none`` for [N] or [V, N].
        ignore_index: Label of samples that are as if not in the batch, whatever vectors they have;
            it may be the number of a class.
        cuda_graph: With ``"auto"``, a training step with its gradient is recorded as a CUDA graph
            at the third call of a shape and replayed; True records at the first call, False never.
            Not recorded are more than four shapes, steps without a gradient or with one of the
            temperature, inside a graph, torch.compile or torch.func, on several ranks, and above
            128 MiB of classes and scores.
        shard_classes: Share the classes among the processes of a group that exists: `state`,
            `scores`, ``bank.classes`` are those of a process; ``state_dict`` has DTensors, which
            torch.distributed.checkpoint loads for any number of processes, and ``load_state_dict``
            also takes unsharded banks.
        process_group: Processes that share the statistics, by default all of torch.distributed.

    Raises:
        ValueError: For settings or batches out of range; values of z and y on the CPU only.

    Example:
        >>> loss = ProCoLoss(num_classes=3, dim=4, realization="angular", class_counts=[5, 3, 1])
        >>> loss(torch.ones(2, 4), torch.tensor([0, 1])).shape, loss.state().count.tolist()
        (torch.Size([]), [1, 1, 0])
    """

    @torch.inference_mode(False)
    def __init__(
        self,
        num_classes: int,
        dim: int,
        temperature: float | Tensor = 0.1,
        realization: str = "native",
        beta: float = 0.0,
        class_counts: Tensor | Sequence[float] | None = None,
        prior: float = 1.0,
        *,
        family: str = "linear",
        estimator: str = "proco",
        leave_out: bool = False,
        seed: int = 0,
        normalize: bool = True,
        reduction: str = "mean",
        ignore_index: int | None = None,
        cuda_graph: bool | str = "auto",
        shard_classes: bool = False,
        process_group: Group = None,
    ) -> None:
        bank = ProCoBank(
            num_classes,
            dim,
            estimator=estimator,
            leave_out=leave_out,
            seed=seed,
            shard_classes=shard_classes,
            process_group=process_group,
        )
        if not isinstance(cuda_graph, bool) and cuda_graph != "auto":
            raise ValueError(f"expected cuda_graph to be 'auto' or a bool, got {cuda_graph!r}")
        temperature = require_temperature(temperature, bank.num_classes)
        rule = Rule(temperature, realization, beta, family)
        super().__init__(bank, rule, log_prior_of(None, 0.0, bank.num_classes))
        self.class_counts, self.prior = class_counts, prior
        self.normalize, self.reduction, self.ignore_index = normalize, reduction, ignore_index
        self.warned = class_counts is not None
        self.graphs = Graphs(2 if cuda_graph == "auto" else 0) if cuda_graph else None

    def __setattr__(self, name: str, value: Any) -> None:
        """Check a setting, which takes effect at the next step."""
        if name in FIXED and "graphs" in vars(self):
            rule = f"expected {name} as it was when the loss was built, got an assignment"
            raise AttributeError(f"{rule}: build another loss, and load the state_dict of this one")
        value = checked(name, value)
        if name in ("prior", "class_counts"):
            now = {"prior": 1.0, "class_counts": None, **vars(self), name: value}
            log_prior = log_prior_of(now["class_counts"], now["prior"], self.bank.num_classes)
            # In place, where a recorded step reads it.
            self.log_prior.copy_(log_prior)
        if name == "class_counts":
            size = None if value is None else max(1, round(float(value.sum())))
            self.bank.samples_per_epoch = size
        super().__setattr__(name, value)

    def extra_repr(self) -> str:
        tau = self.temperature
        shown = f"tensor of shape {tuple(tau.shape)}" if isinstance(tau, Tensor) else tau
        parts = [f"temperature={shown}", f"realization={self.realization!r}"]
        if self.realization not in ("native", "cosine"):
            parts.append(f"beta={self.beta}, family={self.family!r}")
        shares = "equal shares, no class_counts" if self.class_counts is None else "class_counts"
        parts.append(f"prior={self.prior} ({shares})" if self.prior else "prior=0.0 (none)")
        return ", ".join(parts)

    def state(self) -> ClassState:
        """Return the classes scored against, of the bank ``old``."""
        return self.bank.state()

    def scores(self, z: Tensor) -> Tensor:
        """Return scores [..., C] of features z [..., p] against the bank ``old``, without prior."""
        require_vectors(z, self.bank.old)
        unit = self._unit(z)
        require_unit(unit)
        with no_autocast(z):
            snapshot = self.bank.snapshot(COMPUTE_DTYPE[z.dtype])
            scores = self.class_scores(by_view(unit), snapshot)
            return scores.movedim(0, -2).reshape(*z.shape[:-1], scores.shape[-1])

    def forward(
        self, z: Tensor, y: Tensor, indices_tuple: Any = None, *, weights: Tensor | None = None
    ) -> Tensor:
        """Return the loss of a batch, which enters the statistics in training mode.

        Args:
            z, y: Features [N, p] or, for V views, [V, N, p], and labels [N] of every view.
            indices_tuple: Indices of samples, as miners of pytorch-metric-learning return them: a
                sample has the weight of its number of places in them.
            weights: Weights [N] >= 0 of samples in the loss, by whose sum a mean is divided.
        """
        bank, together = self.bank, self.training or self.bank.shard_classes
        try:
            views, labels, ignored = self._checked(z, y)
            weights = sample_weights(y, indices_tuple, weights, ignored)
        except Exception as error:
            if together:
                bank.ranks.fail(error)
            raise
        graph = self._graph(views, labels)
        if graph is not None:
            bank.advance(labels, ignored is not None)
            # A gradient that is scaled for half precision is rounded after the scaling.
            losses = graph(compute_dtype(views), labels)
        else:
            batch = bank.ranks.gather(self._unit(views), labels, together)
            if self.training:
                bank.advance(batch.labels, ignored is not None)
            losses = self._entropies(batch)
        losses = losses if z.dim() == 3 else losses.squeeze(0)
        return reduced(losses, ignored, weights, self.reduction)

    def _checked(self, z: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return views [V, N, p], labels [N] and the samples [N] that are ignored, if there may be
        any: with some unit vector, and without a class. Raise what is wrong with the batch, or was
        with earlier ones."""
        bank, ignored = self.bank, None
        if bank.shard_classes:
            bank.ranks.require_shares(bank.shares, bank.classes)
        require_batch(z, y, bank.num_classes, bank.old, self.ignore_index)
        views = by_view(z)
        if self.ignore_index is not None:
            ignored = y == self.ignore_index
            views = views.masked_fill(ignored.unsqueeze(-1), bank.dim**-0.5)
            y = y.masked_fill(ignored, -1)
        if torch.compiler.is_compiling():
            return views, y, ignored
        require_learned(self.temperature)
        if validation.should_validate(None, y):
            require_unit(self._unit(views.detach()))
            if not is_transformed():
                require_counted(y if ignored is None else y[~ignored], self.log_prior)
        if self.training:
            # Not in eval mode, in which the ranks do not share their errors.
            bank.raise_known_errors()
            self._warn()
        return views, y, ignored

    def _warn(self) -> None:
        """Warn once of what is not known without class counts."""
        if self.warned:
            return
        self.warned = True
        uniform = "the prior is uniform, which costs accuracy on classes of unequal size"
        kept = "the statistics keep the samples of all epochs"
        if missing := [uniform] * bool(self.prior) + [kept] * (self.bank.seen >= 0):
            remedy = "pass class_counts, or prior=0 and call start_epoch() before every epoch"
            got = f"expected class_counts, got none: {' and '.join(missing)}; {remedy}"
            warnings.warn(got, stacklevel=6)

    def _unit(self, z: Tensor) -> Tensor:
        return functional.normalize(compute_dtype(z), dim=-1) if self.normalize else z

    def _graph(self, z: Tensor, y: Tensor) -> Recorded | None:
        """Return the recorded step of a batch, if it can be recorded and is due."""
        bank, tau = self.bank, self.temperature
        if self.graphs is None or not self.training or isinstance(tau, Tensor):
            return None
        if not should_replay(bank, z):
            return None
        state = bank.old, bank.new, bank.errors.noted, bank.errors.least
        settings = tau, self.beta, self.normalize, bank.estimator, bank.leave_out
        settings += tuple(a.data_ptr() for a in self.buffers())
        return self.graphs.find(self._streamed, compute_dtype(z), y, state, settings)

    def _streamed(self, z: Tensor, y: Tensor) -> Tensor:
        """Return the entropies of a batch of one process, by a step that can be recorded."""
        return self._entropies(self.bank.ranks.gather(self._unit(z), y, False), stream=True)

    def _entropies(self, batch: Batch, stream: bool = False) -> Tensor:
        """Return the cross-entropies [V, N] of a batch, NaN at labels that are no class."""
        bank, y = self.bank, batch.y
        if stream or bank.shard_classes or should_stream(bank, batch.z):
            entropies = streamed_step(self, batch)
        else:
            entropies = stored_step(self, batch)
        if self.training:
            bank.errors.publish()
        return entropies.masked_fill((y < 0) | (y >= bank.num_classes), math.nan)


def checked(name: str, value: Any) -> Any:
    """Return a setting as a loss keeps it; raise unless the loss can have it."""
    if name in ("beta", "prior"):
        return validation.finite_number(name, value)
    if name == "class_counts" and value is not None:
        return require_counts(value)
    if name == "ignore_index" and value is not None:
        return validation.integer(name, value, -1 << 63, " or None")
    if name == "reduction" and value not in REDUCTIONS:
        raise ValueError(f"expected reduction to be one of {REDUCTIONS}, got {value!r}")
    return value
