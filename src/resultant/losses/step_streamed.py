"""A step of the loss that stores no scores: classes are scored in chunks, of which sums remain
(`PartialSoftmax`). The classes of the batch, in which the banks of views differ, are scored once
per view, and the class of a query apart: with x its logit and L the log-sum-exp of the others, the
cross-entropy is log(1 + exp(L - x)). The sums of classes in shards are added."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from resultant._core import memory
from resultant._core.device import kernel_module
from resultant._core.modes import no_autocast, untraced
from resultant.classes.gain import Gains
from resultant.classes.scores import ScoreTerms
from resultant.losses.bank import ProCoBank, mean
from resultant.losses.batch import compute_dtype
from resultant.losses.contrastive import ContrastiveLoss
from resultant.losses.ranks import Batch, Ranks
from resultant.vmf.estimators import fit_length


def should_stream(bank: ProCoBank, z: Tensor) -> bool:
    """Return True if the scores of queries z [..., p] are too large to be stored."""
    if torch.compiler.is_compiling():
        return False
    number = z.numel() // bank.dim * bank.num_classes
    return number * z.element_size() > memory.matrix_bytes(z.device)


@untraced
def streamed_step(loss: ContrastiveLoss, batch: Batch) -> Tensor:
    """Return the cross-entropies [V, N] of a batch, as `stored_step` does."""
    z, tau = compute_dtype(batch.z), loss.temperature
    if torch.is_grad_enabled() and isinstance(tau, Tensor) and tau.requires_grad:
        raise RuntimeError(
            "expected a temperature without gradient where scores are not stored (classes in "
            "shards, or scores too large), got one with a gradient: use smaller batches, or "
            "loss.temperature.requires_grad_(False)"
        )
    with torch.no_grad(), no_autocast(z):
        known = _Step(loss, batch._replace(z=z.detach())).result()
    return WithGradient.apply(z, known)  # type: ignore[return-value]


class Columns(NamedTuple):
    """K classes as V views see them."""

    kappa: Tensor  # [V, K]
    terms: ScoreTerms
    offset: Tensor  # [K]; a class of offset minus infinity has no part in the softmax

    def at(self, classes: slice | Tensor) -> Columns:
        """Return some of the classes."""
        terms = self.terms.at(classes)
        return Columns(self.kappa[..., classes], terms, self.offset[..., classes])


class PartialSoftmax:
    """Sums of exp(x - top) and of its products with the gradient of x in the query over the logits
    x of the classes absorbed so far, for queries [V, Q, p]; ``top`` is the largest logit."""

    def __init__(self, z: Tensor) -> None:
        self.z = z
        self.top = z.new_full(z.shape[:2], torch.finfo(z.dtype).min)
        self.total = torch.zeros_like(self.top)
        self.gradient = torch.zeros_like(z)

    def absorb(self, sums: Tensor, columns: Columns) -> None:
        """Add classes of sums and counts [K, p + 1], the same for all views."""
        self.absorb_views(mean(sums, self.z.dtype)[0], columns)

    def absorb_views(self, mu: Tensor, columns: Columns, own: Tensor | None = None) -> None:
        """Add classes of directions ``mu`` [V, K, p] or [K, p] without the class ``own`` [Q]."""
        # Queries first, so that the classes of all views are the columns of one score.
        rho = (self.z @ mu.mT).transpose(0, 1)
        x, slope = columns.terms.score_and_slope(rho, columns.kappa, mu.shape[-1])
        x, slope = x.transpose(0, 1) + columns.offset, slope.expand_as(rho).transpose(0, 1)
        if own is not None:
            x.scatter_(-1, own.view(1, -1, 1).expand(*x.shape[:2], 1), -math.inf)
        self.rescale(torch.maximum(self.top, x.amax(-1)))
        weights = x.sub_(self.top.unsqueeze(-1)).exp_()
        self.total += weights.sum(-1)
        self.gradient += weights.mul_(slope) @ mu

    def rescale(self, top: Tensor) -> None:
        """Set the largest logit, to which all sums are relative."""
        share = (self.top - top).exp()
        self.top = top
        self.total = self.total * share
        self.gradient *= share.unsqueeze(-1)

    def over(self, ranks: Ranks) -> None:
        """Add the classes of all processes to those of this process."""
        self.rescale(ranks.max(self.top.clone()))
        ranks.sum(self.total)
        ranks.sum(self.gradient)


def partial_softmax(z: Tensor, terms: ScoreTerms) -> PartialSoftmax:
    """Return an empty softmax for queries z [V, Q, p], by the fastest way of the device."""
    # Products of halves that are summed in float32 exist from torch 2.8 on.
    if z.is_cuda and z.dtype == torch.float32 and hasattr(torch.ops.aten.mm, "dtype"):
        kernels = kernel_module("resultant.losses._softmax_kernel")
        if kernels is not None:
            return kernels.FusedSoftmax(z, terms)
    return PartialSoftmax(z)


class _Step:
    """One step: queries z [V, Q, p], and the M samples of the batch as the views see them."""

    def __init__(self, loss: ContrastiveLoss, batch: Batch) -> None:
        bank = loss.bank
        self.loss, self.bank, self.z, self.here = loss, bank, batch.z, batch.here
        # The places of the queries among the samples.
        self.queries = batch.here
        if bank.shard_classes:
            self.z, self.queries = compute_dtype(batch.views), slice(None)
        self.labels, rows = batch.labels, bank.rows(batch.labels)
        # A column behind the last class takes what belongs to other processes.
        self.outside, self.rows = rows < 0, rows.clamp_min(0)
        self.slots = self.rows.masked_fill(self.outside, len(bank.classes))
        # The bank ``old`` in the rows of the batch, after each view.
        seen = []
        for view in batch.views:
            if loss.training:
                bank.accumulate(view, batch.labels)
            seen.append(bank.old[self.rows])
        self.batch = torch.stack(seen)
        self.mu, self.R = mean(self.batch, self.z.dtype)

    def result(self) -> tuple[Tensor, Tensor]:
        """Return the cross-entropies [V, N] of these queries, and their gradient [V, N, p]."""
        loss, bank, z = self.loss, self.bank, self.z
        held, offset = len(bank.classes), loss.log_prior[bank.here]
        R = self.R.new_empty(len(z), held + 1)
        R[:, :-1] = fit_length(torch.linalg.vector_norm(bank.old[:, :-1], dim=-1), bank.old[:, -1])
        R.index_copy_(1, self.slots, self.R)
        kappa = bank.kappa(R[:, :-1])
        gains = loss.gains(kappa, z.dtype)
        kappa = kappa.to(z.dtype)
        offset = torch.cat([offset.to(z.dtype), z.new_full((1,), -math.inf)])
        rest = offset.index_fill(0, self.slots, -math.inf)
        columns = Columns(kappa, loss.terms(kappa, gains), rest[:-1])
        batch = columns.at(self.rows)._replace(offset=offset[self.slots])
        own_logit, own_gradient = self._own(batch.at(self.queries), gains)
        part = partial_softmax(z, columns.terms)
        bytes_per_class = z.numel() // z.shape[-1] * z.element_size()
        for classes in memory.row_slices(held, bytes_per_class, memory.matrix_bytes(z.device)):
            part.absorb(bank.old[classes], columns.at(classes))
        # The classes of the batch, each once, as the views see them.
        number = torch.arange(len(self.slots), device=self.slots.device)
        first = number.new_full((held + 1,), len(number))
        first = first.scatter_reduce(0, self.slots, number, "amin")[self.slots]
        once = batch.offset.masked_fill(first != number, -math.inf)
        if len(first):
            part.absorb_views(self.mu, batch._replace(offset=once), first[self.queries])
        if bank.shard_classes:
            part.over(bank.ranks)
            bank.ranks.sum(own_logit)
            bank.ranks.sum(own_gradient)
        above = part.top + part.total.log() - own_logit
        entropies = torch.logaddexp(above, torch.zeros_like(above))
        # The gradient of the log-sum-exp is zero without classes.
        others = part.gradient / part.total.clamp_min(torch.finfo(z.dtype).tiny).unsqueeze(-1)
        gradient = above.sigmoid().unsqueeze(-1) * (others - own_gradient)
        if bank.shard_classes:
            entropies, gradient = entropies[:, self.here], gradient[:, self.here]
        return entropies, gradient

    def _own(self, own: Columns, gains: Gains | None) -> tuple[Tensor, Tensor]:
        """Return the logits [V, Q] and gradients of the own classes; zero for other processes'."""
        loss, bank, z, (kappa, terms, offset) = self.loss, self.bank, self.z, own
        mu, outside = self.mu[:, self.queries], self.outside[self.queries]
        if bank.leave_out and loss.training:
            mu, R = bank.leave_one_out(z, self.batch[:, self.queries], outside, z.dtype)
            kappa = bank.kappa(R)
            labels = self.labels[self.queries].clamp(0, bank.num_classes - 1)
            if gains is not None:
                # Without the query the class keeps the target gain of the whole.
                target = gains.target[:, self.rows[self.queries]]
                gains = Gains(loss.gain(kappa, labels), gains.mean, target)
                self._note(gains, outside, labels)
            kappa = kappa.to(z.dtype)
            terms = loss.terms(kappa, gains, labels)
        rho = (z * mu).sum(-1)
        score, slope = terms.score_and_slope(rho, kappa, bank.dim)
        gradient = (slope.expand_as(rho).unsqueeze(-1) * mu).masked_fill(outside.unsqueeze(-1), 0.0)
        return (score + offset).masked_fill(outside, 0.0), gradient

    def _note(self, gains: Gains, outside: Tensor, labels: Tensor) -> None:
        """Note gains and targets [V, Q] of own classes; other processes note their classes."""
        g, target = (a.masked_fill(outside, 1.0).mT.unsqueeze(-1) for a in (gains.g, gains.target))
        own = labels.unsqueeze(-1).expand(-1, len(gains.g)).unsqueeze(-1)
        self.loss.note(Gains(g, gains.mean, target), self.z.dtype, own)


class WithGradient(torch.autograd.Function):
    """Losses [...] of rows z [..., p] and their gradient [..., p], known: a tuple, whose tensors
    autograd does not inspect."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, known: tuple[Tensor, Tensor]) -> Tensor:
        losses, gradient = known
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(gradient)
        return losses

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        (gradient,) = ctx.saved_tensors
        if torch.is_grad_enabled():
            raise RuntimeError(
                "expected first derivatives only: the gradient of this loss has no gradient "
                "(classes in shards, scores too large to be stored, or a CUDA graph: pass "
                "cuda_graph=False)"
            )
        return gradient * grad.unsqueeze(-1), None
