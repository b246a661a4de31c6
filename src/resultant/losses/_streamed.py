"""A step of the loss that stores no scores: classes are scored in chunks, of which sums remain
(`PartialSoftmax`). The classes of the batch, in which the banks of views differ, are scored once
per view, and the class of a query apart: with x its logit and L the log-sum-exp of the others, the
cross-entropy is log(1 + exp(L - x)). The sums of classes in shards are added."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from resultant._core import distributed, memory
from resultant._core.autograd import untraced
from resultant._core.device import kernel_module
from resultant.classes.gain import Gains
from resultant.classes.realization import Terms
from resultant.classes.statistics import fit_length
from resultant.losses._batch import gather_ranks
from resultant.losses.bank import ProCoBank, mean
from resultant.losses.contrastive import ContrastiveLoss


def should_stream(bank: ProCoBank, z: Tensor) -> bool:
    """Return True if the scores of queries z [..., p] are too large to be stored."""
    if torch.compiler.is_compiling():
        return False
    number = z.numel() // bank.dim * bank.num_classes
    return number * z.element_size() > memory.matrix_bytes(z.device)


@untraced
def streamed_entropies(
    loss: ContrastiveLoss, z: Tensor, y: Tensor, sizes: list[int] | None = None
) -> Tensor:
    """Return the cross-entropies [V, N] of z [V, N, p], in the dtype to compute in."""
    with torch.no_grad(), torch.autocast(z.device.type, enabled=False):
        entropies, gradient = _Step(loss, z.detach(), y, sizes).result()
    return WithGradient.apply(z, (entropies, gradient, None))  # type: ignore[return-value]


class Columns(NamedTuple):
    """K classes as V views see them."""

    kappa: Tensor  # [V, K]
    terms: Terms
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

    def over_processes(self) -> None:
        """Add the classes of all processes to those of this process."""
        self.rescale(distributed.all_reduce_max(self.top.clone()))
        distributed.all_reduce_sum(self.total)
        distributed.all_reduce_sum(self.gradient)


def partial_softmax(z: Tensor, terms: Terms) -> PartialSoftmax:
    """Return an empty softmax for queries z [V, Q, p], by the fastest way of the device."""
    # Products of halves that are summed in float32 exist from torch 2.8 on.
    if z.is_cuda and z.dtype == torch.float32 and hasattr(torch.ops.aten.mm, "dtype"):
        kernels = kernel_module("resultant.losses._softmax_kernel")
        if kernels is not None:
            return kernels.FusedSoftmax(z, terms)
    return PartialSoftmax(z)


class _Step:
    """One step: queries z [V, Q, p], and the M samples of the batch as the views see them."""

    def __init__(
        self, loss: ContrastiveLoss, z: Tensor, y: Tensor, sizes: list[int] | None
    ) -> None:
        bank = loss.bank
        self.loss, self.bank, self.z = loss, bank, z
        views, labels, self.here = z, y, slice(None)
        if loss.training or bank.shard_classes:
            views, labels, self.here = gather_ranks(z, y, sizes)
        # The places of the queries among the samples.
        self.queries = self.here
        if bank.shard_classes:
            self.z, self.queries = views, slice(None)
        self.labels, rows = labels, bank.rows(labels)
        # A column behind the last class takes what belongs to other processes.
        self.outside, self.rows = rows < 0, rows.clamp_min(0)
        self.slots = self.rows.masked_fill(self.outside, len(bank.classes))
        # The bank ``old`` in the rows of the batch, after each view.
        seen = []
        for view in views:
            if loss.training:
                bank.accumulate(view, labels)
            seen.append(bank.old[self.rows])
        self.batch = torch.stack(seen)
        self.mu, self.R = mean(self.batch, z.dtype)

    def result(self) -> tuple[Tensor, Tensor]:
        """Return the cross-entropies [V, N] of these queries, and their gradient [V, N, p]."""
        loss, bank, z = self.loss, self.bank, self.z
        held, offset = len(bank.classes), loss.log_prior[bank.classes.start :]
        R = self.R.new_empty(len(z), held + 1)
        R[:, :-1] = fit_length(torch.linalg.vector_norm(bank.old[:, :-1], dim=-1), bank.old[:, -1])
        R.index_copy_(1, self.slots, self.R)
        kappa = bank.kappa(R[:, :-1])
        gains = loss.noted_gains(kappa, z.dtype)
        kappa = kappa.to(z.dtype)
        offset = torch.cat([offset[:held].to(z.dtype), z.new_full((1,), -math.inf)])
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
        part.absorb_views(self.mu, batch._replace(offset=once), first[self.queries])
        if bank.shard_classes:
            part.over_processes()
            distributed.all_reduce_sum(own_logit)
            distributed.all_reduce_sum(own_gradient)
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
            mu, R = bank.leave_one_out(z, self.batch[:, self.queries], z.dtype)
            kappa = bank.kappa(R)
            if gains is not None:
                # Without the query the class keeps the target gain of the whole.
                target = gains.target[:, self.rows[self.queries]]
                gains = Gains(loss.gain(kappa), gains.mean, target)
                # Other processes note the classes that they hold.
                g, target = (
                    a.masked_fill(outside, 1.0).mT.unsqueeze(-1) for a in (gains.g, target)
                )
                labels = self.labels[self.queries].clamp(0, bank.num_classes - 1)
                noted = Gains(g, gains.mean, target)
                loss.note(z.dtype, noted, labels.unsqueeze(-1).expand(-1, len(z)))
            kappa = kappa.to(z.dtype)
            terms = loss.terms(kappa, gains)
        rho = (z * mu).sum(-1)
        score, slope = terms.score_and_slope(rho, kappa, bank.dim)
        gradient = (slope.expand_as(rho).unsqueeze(-1) * mu).masked_fill(outside.unsqueeze(-1), 0.0)
        return (score + offset).masked_fill(outside, 0.0), gradient


class WithGradient(torch.autograd.Function):
    """Losses [...] of rows z [..., p] and their gradient [..., p]: known, in a tuple, whose tensors
    autograd does not inspect, with a function that computes them again for second derivatives."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, known: tuple[Tensor, Tensor, Any]) -> Tensor:
        losses, gradient, ctx.again = known
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(gradient, *(() if ctx.again is None else (z,)))
        return losses

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        gradient, *z = ctx.saved_tensors
        if not torch.is_grad_enabled():
            return gradient * grad.unsqueeze(-1), None
        if ctx.again is None:
            raise RuntimeError(
                "expected first derivatives only: the gradient of this loss has no gradient "
                "(classes in shards, or scores too large to be stored)"
            )
        (first,) = torch.autograd.grad(ctx.again(z[0]), z[0], grad, create_graph=True)
        return first, None
