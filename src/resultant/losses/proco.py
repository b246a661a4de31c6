r"""The ProCo loss: contrastive learning against running von Mises-Fisher classes.

One step of controlled training (alg:controlled-training): each view enters the class statistics, is
scored against them under a realization of the target gains, and the cross-entropy of
:math:`q_c^{\mathcal R}+\gamma\log\pi_c` is differentiated in the queries only. Scores, statistics
and logarithms are float32 or wider, also under autocast; nothing in a step waits for the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from resultant._core import validation
from resultant.classes.rule import Rule
from resultant.classes.statistics import ClassState
from resultant.losses._cuda_graph import Replay, replays
from resultant.losses._fused_step import fused_loss, fuses
from resultant.losses._streamed import streamed_loss, streams
from resultant.losses._views import compute_dtype
from resultant.losses.bank import ProCoBank, WideModule
from resultant.losses.contrastive import ContrastiveLoss
from resultant.losses.prior import log_prior_of


class ProCoLoss(ContrastiveLoss):
    r"""Contrastive loss of controlled training, ``loss(z, y)``.

    ``z`` are unit vectors [N, p] or, for V views of a batch, [V, N, p]; ``y`` [N] are the labels of
    every view. Each view in turn enters both banks (`ProCoBank`), the classes of the bank ``old``
    are fitted and detached, and the view is scored against them (`class_scores`). The loss is the
    cross-entropy of :math:`q_c+\gamma\log\pi_c`, averaged over views and queries.

    Call `start_epoch` before every epoch. In ``eval`` mode the statistics do not change. Under
    ``torch.utils.checkpoint`` each step enters the statistics twice: keep the loss outside of it.

    On the CPU the values of z and y are checked in the step, except under ``torch.compile``. On a
    GPU nothing waits: vectors of another length than one, zero among them, are an error in the next
    step that begins after the device has met them, or in `check`; a label out of range makes the
    loss NaN.

    A class temperature exists for a positive gain and a positive target gain, and in the range of
    `class_scores`. A class whose samples cancel has the gain zero. On the CPU a class without its
    temperature is an error; on a GPU its scores become NaN, and `check` raises the error later.

    Under torch.distributed every process gives its own queries, however many, and gets their mean
    loss. The statistics are those of the samples of all processes, which are exchanged in every
    step. With ``shard_classes`` each process holds a share of the classes: of the banks, and of the
    scores of all queries. Losses and gradients are those of unsharded classes up to rounding.
    ``state_dict`` then holds the banks as DTensors: torch.distributed.checkpoint saves and loads
    them for any number of processes, and ``load_state_dict`` also takes the banks of an unsharded
    loss.

    Scores that would take more than 256 MiB on a GPU, or 64 MiB on a CPU, are never stored: the
    classes are scored in chunks, and a gradient has no gradient then.

    Args:
        num_classes: Number of classes C.
        dim: Dimension p of the unit vectors.
        temperature: Temperature tau, at least 7.6e-6.
        realization: Scores of `class_scores`: ``native``, ``temperature``, ``preserve``,
            ``angular`` or ``cosine``.
        beta: Strength of the target gains; ignored by native and cosine.
        class_counts: Number of training samples per class [C]; their shares are :math:`\pi_c`.
            Equal shares by default.
        prior: Strength :math:`\gamma` of the class prior.
        family: Family of the target gains, ``linear`` or ``power``.
        estimator: Estimator of kappa, ``proco``, ``mle`` or ``banerjee``.
        leave_out: Score the class of a query without the query in it: mu, kappa and gain are those
            of the other samples, and the target gain is that of the whole class
            (sec:self-inclusion).
        seed: Seed >= 0 of the random starts of the classes.
        cuda_graph: On a CUDA device, record a step with its gradient at the first call for each of
            up to four shapes and settings, and replay it from then on: several times faster. No
            effect on other devices, inside a graph, torch.compile or inference mode, and on several
            ranks. The gradient of a replayed step has no gradient.
        shard_classes: Share the classes among the processes of the default group, which must exist
            already. `state`, `scores` and ``bank.classes`` are those of this process. Without a
            group the one process holds all classes.

    Raises:
        ValueError: For settings out of range, for z or y of other shapes or dtypes and, on the CPU,
            for z that is not of unit length, labels out of range or classes without a count; for
            fewer classes than processes to share them.

    Example:
        >>> import torch
        >>> from resultant import ProCoLoss
        >>> loss = ProCoLoss(num_classes=3, dim=4, realization="angular", class_counts=[5, 3, 1])
        >>> z = torch.nn.functional.normalize(torch.ones(2, 4), dim=-1)
        >>> loss(z, torch.tensor([0, 1])).shape, loss.state().count.tolist()
        (torch.Size([]), [1, 1, 0])

        One million classes on four GPUs, each with a quarter of the banks (under torchrun after
        ``torch.distributed.init_process_group()``, with ``.cuda()``); here in one process:

        >>> options = {"class_counts": [5, 3, 1], "shard_classes": True}
        >>> shard = ProCoLoss(3, 4, realization="angular", **options)
        >>> torch.allclose(shard(z, torch.tensor([0, 1])), loss.eval()(z, torch.tensor([0, 1])))
        True
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
        cuda_graph: bool = False,
        shard_classes: bool = False,
    ) -> None:
        bank = ProCoBank(
            num_classes,
            dim,
            estimator=estimator,
            leave_out=leave_out,
            seed=seed,
            shard_classes=shard_classes,
        )
        rule = Rule(temperature, realization, validation.finite_number("beta", beta), family)
        super().__init__(bank, rule, log_prior_of(class_counts, prior, bank.num_classes))
        self.replay = Replay() if cuda_graph else None

    def extra_repr(self) -> str:
        settings = f"temperature={self.temperature}, realization={self.realization!r}"
        return f"{settings}, beta={float(self.beta)}"

    def state(self) -> ClassState:
        """Return the classes scored against, of the bank ``old``."""
        return self.bank.state()

    def forward(self, z: Tensor, y: Tensor) -> Tensor:
        if self.replay is None or not replays(z, y):
            return self.step(z, y)
        bank = self.bank
        bank.require_lengths()
        state = (bank.old, bank.new, self.least_target)
        settings = (self.training, self.temperature, self.family, bank.estimator, bank.leave_out)
        # In the computing dtype: a gradient scaled for half precision is rounded after the scaling.
        return self.replay(
            self.step, compute_dtype(z), y, state, (*settings, self.beta, self.log_prior)
        )

    def step(self, z: Tensor, y: Tensor) -> Tensor:
        """Return the loss of a batch, which enters the statistics in training mode."""
        self.require(z, y)
        if self.bank.shard_classes or streams(self.bank, z):
            return streamed_loss(self, compute_dtype(z), y)
        return fused_loss(self, compute_dtype(z), y) if fuses(self, z) else self.stored(z, y)

    def _apply(self, fn: Any, recurse: bool = True) -> WideModule:
        if self.replay is not None:
            # Graphs read the buffers at their old addresses.
            self.replay = Replay()
        return super()._apply(fn, recurse)
