"""The ProCo loss of a training loop (alg:controlled-training), which may be streamed, sharded or
replayed. Scores, statistics and logarithms are float32 or wider, also under autocast."""

import math
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from resultant._core import distributed, validation
from resultant._core.autograd import is_transformed
from resultant._core.validation import COMPUTE_DTYPE
from resultant.classes.rule import Rule
from resultant.classes.statistics import ClassState
from resultant.losses import _batch
from resultant.losses._batch import by_view, compute_dtype, require_unit
from resultant.losses._cuda_graph import Replay, replayed_entropies, should_replay
from resultant.losses._streamed import should_stream, streamed_entropies
from resultant.losses.bank import ProCoBank
from resultant.losses.contrastive import ContrastiveLoss
from resultant.losses.logit_adjusted import log_prior_of, require_counted, require_counts


class ProCoLoss(ContrastiveLoss):
    r"""Contrastive loss of controlled training, ``loss(z, y)``.

    Each view of a batch in turn enters both banks (`ProCoBank`), the classes of the bank ``old``
    are fitted and detached, and the view is scored against them (`class_scores`). The loss is the
    cross-entropy of :math:`q_c+\gamma\log\pi_c`. The defaults are those of ProCo as published.

    With ``class_counts`` an epoch begins by itself after that many samples; without them, inside
    torch.compile and inside a CUDA graph of your own, call `start_epoch` before every epoch. In
    ``eval`` mode the statistics do not change; ``torch.utils.checkpoint`` counts a step twice.

    On the CPU the values of z and y are checked in the step, except under ``torch.compile``. On a
    GPU nothing waits: vectors without a direction are an error in a later step or in `check`; a
    label out of range, and a class without a temperature, which `check` raises, make the loss NaN.

    Under torch.distributed every process gets the loss of its own queries, takes the same number of
    steps, and has the statistics of all samples. Scores of more than 256 MiB on a GPU, or 64 MiB on
    a CPU, are never stored, and a gradient has no gradient then.

    Args:
        num_classes, dim, temperature: Classes C, dimension p, and temperature, at least 7.6e-6.
        realization, beta, family: As of `Rule`.
        class_counts: Number of training samples per class [C]; their shares are :math:`\pi_c`, and
            their sum is an epoch. Without them the shares are equal, and the first step warns.
        prior: Strength :math:`\gamma` of the class prior.
        estimator, seed: As of `ProCoBank`.
        leave_out: Score the class of a query without it, with the target gain of the whole class.
        normalize: Normalize z in float32 or wider. With False, z of another length is an error.
        reduction: ``mean`` or ``sum`` over views and samples, or ``none`` for [N] or [V, N].
        ignore_index: Label of samples without a class, which have no loss and enter no statistics.
        cuda_graph: With ``"auto"``, a training step with its gradient is recorded as a CUDA graph
            at the third call of a shape and replayed; True records at the first call, False never.
            Not recorded are more than four shapes, steps without a gradient, inside a graph,
            torch.compile or torch.func, on several ranks, and above 128 MiB of classes and scores.
        shard_classes: Share the classes among the processes: `state`, `scores`, ``bank.classes``
            are those of a process; ``state_dict`` has DTensors, which torch.distributed.checkpoint
            loads for any number of processes, and ``load_state_dict`` also takes unsharded banks.

    Raises:
        ValueError: For settings or batches out of range; values of z and y on the CPU only.

    Example:
        >>> loss = ProCoLoss(num_classes=3, dim=4, realization="angular", class_counts=[5, 3, 1])
        >>> loss(torch.ones(2, 4), torch.tensor([0, 1])).shape, loss.state().count.tolist()
        (torch.Size([]), [1, 1, 0])
    """

    def __init__(
        self,
        num_classes: int,
        dim: int,
        temperature: float = 0.1,
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
    ) -> None:
        options: dict[str, Any] = {"estimator": estimator, "leave_out": leave_out, "seed": seed}
        if class_counts is not None:
            options["samples_per_epoch"] = max(1, round(float(require_counts(class_counts).sum())))
        bank = ProCoBank(num_classes, dim, shard_classes=shard_classes, **options)
        rule = Rule(temperature, realization, beta, family)
        super().__init__(bank, rule, log_prior_of(class_counts, prior, bank.num_classes))
        if not isinstance(cuda_graph, bool) and cuda_graph != "auto":
            raise ValueError(f"expected cuda_graph to be 'auto' or a bool, got {cuda_graph!r}")
        if reduction not in (known := _batch.REDUCTIONS):
            raise ValueError(f"expected reduction to be one of {known}, got {reduction!r}")
        self.prior, self.has_counts = float(prior), class_counts is not None
        self.steps, self.warned = 0, self.has_counts
        self.normalize, self.reduction, self.ignore_index = normalize, reduction, ignore_index
        self.replay = Replay(2 if cuda_graph == "auto" else 0) if cuda_graph else None

    def extra_repr(self) -> str:
        parts = [f"temperature={self.temperature}", f"realization={self.realization!r}"]
        if self.realization not in ("native", "cosine"):
            parts.append(f"beta={float(self.beta)}, family={self.family!r}")
        shares = "class_counts" if self.has_counts else "equal shares, no class_counts"
        parts.append(f"prior={self.prior} ({shares})" if self.prior else "prior=0.0 (none)")
        return ", ".join(parts)

    def state(self) -> ClassState:
        """Return the classes scored against, of the bank ``old``."""
        return self.bank.state()

    def scores(self, z: Tensor) -> Tensor:
        """Return scores [..., C] of features z [..., p] against the bank ``old``, without prior."""
        _batch.require_vectors(z, self.bank.old)
        unit = self._unit(z)
        require_unit(unit)
        with torch.autocast(z.device.type, enabled=False):
            scores = self.realized(by_view(unit), self.bank.snapshot(COMPUTE_DTYPE[z.dtype]))
            return scores.movedim(0, -2).reshape(*z.shape[:-1], scores.shape[-1])

    def forward(
        self, z: Tensor, y: Tensor, indices_tuple: Any = None, *, weights: Tensor | None = None
    ) -> Tensor:
        """Return the loss of a batch, which enters the statistics in training mode.

        Args:
            z, y: Features [N, p] or, for V views, [V, N, p], and labels [N] of every view.
            indices_tuple: Indices of samples, as miners of pytorch-metric-learning return them: a
                sample has the weight of its number of places in them.
            weights: Weights [N] of samples in the loss, by whose sum a mean is divided.
        """
        bank = self.bank
        _batch.require_batch(z, y, bank.num_classes, bank.old, self.ignore_index)
        weights = _batch.sample_weights(y, indices_tuple, weights)
        views = by_view(z)
        if not torch.compiler.is_compiling():
            self._begin_step(views, y)
        sizes, losses = None, None
        if self.training:
            sizes = _batch.rank_sizes(len(y)) if distributed.world_size() > 1 else [len(y)]
            bank.advance(sum(sizes))
            if self.replay is not None and should_replay(views, bank.num_classes):
                # A gradient that is scaled for half precision is rounded after the scaling.
                losses = replayed_entropies(self, self.replay, compute_dtype(views), y)
        if losses is None:
            losses = self.step_entropies(views, y, sizes)
        losses = losses if z.dim() == 3 else losses.squeeze(0)
        return _batch.reduced(losses, y, weights, self.reduction, self.ignore_index)

    def _begin_step(self, z: Tensor, y: Tensor) -> None:
        """Check the values of a batch and the lengths of earlier steps; warn of missing counts."""
        self.bank.require_lengths()
        if validation.should_validate(None, y):
            require_unit(self._unit(z.detach()))
            if not is_transformed():
                ignored = self.ignore_index
                require_counted(y if ignored is None else y[y != ignored], self.log_prior)
        self.steps += 1
        if self.warned or not self.training:
            return
        self.warned = True
        uniform = "the prior is uniform, which costs accuracy on classes of unequal size"
        kept = "the statistics keep the samples of all epochs"
        if missing := [uniform] * bool(self.prior) + [kept] * (self.bank.seen >= 0):
            remedy = "pass class_counts, or prior=0 and call start_epoch() before every epoch"
            got = f"expected class_counts, got none: {' and '.join(missing)}; {remedy}"
            warnings.warn(got, stacklevel=5)

    def _unit(self, z: Tensor) -> Tensor:
        return functional.normalize(compute_dtype(z), dim=-1) if self.normalize else z

    def step_entropies(
        self, z: Tensor, y: Tensor, sizes: Any = None, stream: bool = False, again: bool = False
    ) -> Tensor:
        """Return the cross-entropies [V, N] of z [V, N, p], NaN at labels y [N] that are no class;
        ``stream`` stores no scores, ``again`` is for the batch that was added last."""
        z, bank = self._unit(z), self.bank
        labels = y.clamp(0, bank.num_classes - 1)
        if bank.shard_classes or stream or (not again and should_stream(bank, z)):
            entropies = streamed_entropies(self, compute_dtype(z), y, sizes)
        else:
            snapshot = bank.seen_by_views(z, y) if again else self.snapshot(z, y, sizes)
            by_query = labels.unsqueeze(-1).expand(-1, len(z))
            entropies = self.entropies(z, by_query, snapshot).mT
        return entropies.masked_fill(labels != y, math.nan)
