"""A step of the loss for classes too many to store their scores, in one or in several processes.

The classes are scored in chunks against all queries, and a chunk leaves nothing behind but its part
of the softmax and of the gradient (`_partial_softmax`). The views of a batch see banks that differ
only in the classes of the batch. These classes are scored separately, once per view, and the
class of a query apart from the others: with x its logit and L the log-sum-exp of the others, the
cross-entropy is log(1 + exp(L - x)).

With classes in shards every process scores the queries of all processes against its own classes,
and the parts are added over the processes.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from resultant._core import chunks, distributed
from resultant._core.compilation import untraced
from resultant.classes.gain import Gains
from resultant.losses._means import lengths, mean
from resultant.losses._partial_softmax import Columns, PartialSoftmax, partial_softmax
from resultant.losses._with_gradient import with_gradient
from resultant.losses.bank import ProCoBank
from resultant.losses.contrastive import ContrastiveLoss


def should_stream(bank: ProCoBank, z: Tensor) -> bool:
    """Return True if the scores of queries z [..., p] are too large to be stored."""
    if torch.compiler.is_compiling():
        return False
    number = z.numel() // bank.dim * bank.num_classes
    return number * z.element_size() > chunks.matrix_bytes(z.device)


@untraced
def streamed_entropies(
    loss: ContrastiveLoss, z: Tensor, y: Tensor, sizes: list[int] | None = None
) -> Tensor:
    """Return the cross-entropies [V, N] of z [V, N, p], in the dtype to compute in, and labels y
    [N]; ``sizes`` are the numbers of samples of all ranks, if known."""
    with torch.no_grad(), torch.autocast(z.device.type, enabled=False):
        entropies, gradient = _Step(loss, z.detach(), y, sizes).result()
    return with_gradient(z, entropies, gradient)


class _Step:
    """One step: queries z [V, Q, p], and the M samples of the batch as the views see them."""

    def __init__(
        self, loss: ContrastiveLoss, z: Tensor, y: Tensor, sizes: list[int] | None
    ) -> None:
        bank = loss.bank
        self.loss, self.bank, self.z = loss, bank, z
        views, self.labels, self.here = z, y, slice(None)
        if loss.training or bank.shard_classes:
            views, self.labels, self.here = bank.gather_ranks(z, y, sizes)
        self.queries = self.here
        if bank.shard_classes:
            self.z, self.queries = views, slice(None)
        # The bank ``old`` in the rows of the batch, after each view.
        self.rows, self.held = bank.rows(self.labels), bank.held_mask(self.labels)
        seen = []
        for view in views:
            if loss.training:
                bank.accumulate(view, self.labels)
            seen.append(bank.old[self.rows])
        self.batch = torch.stack(seen)
        self.mu, self.R = mean(self.batch, z.dtype)
        # A column behind the last class takes what belongs to other processes.
        self.slots = self.rows.where(self.held, len(bank.classes))

    def result(self) -> tuple[Tensor, Tensor]:
        """Return the cross-entropies [V, N] of these queries, and their gradient [V, N, p]."""
        loss, bank, z = self.loss, self.bank, self.z
        held, offset = len(bank.classes), loss.log_prior[self.bank.classes.start :]
        R = self.R.new_empty(len(z), held + 1)
        R[:, :-1] = lengths(bank.old)
        R.index_copy_(1, self.slots, self.R)
        kappa = bank.kappa(R[:, :-1])
        gains = loss.noted_gains(kappa, z.dtype)
        own_logit, own_gradient = self._own(gains, offset)
        kappa = kappa.to(z.dtype)
        offset = torch.cat([offset[:held].to(z.dtype), z.new_full((1,), -math.inf)])
        rest = offset.index_fill(0, self.slots, -math.inf)
        columns = Columns(kappa, loss.terms(kappa, gains), rest[:-1])
        part = partial_softmax(z, loss.score_and_slope, columns.terms)
        bytes_per_class = z.numel() // z.shape[-1] * z.element_size()
        for classes in chunks.row_slices(held, bytes_per_class, chunks.matrix_bytes(z.device)):
            part.absorb(bank.old[classes], columns.at(classes))
        self._absorb_batch(part, columns, offset)
        if bank.shard_classes:
            part.over_processes()
            own_logit = distributed.all_reduce_sum(own_logit)
            own_gradient = distributed.all_reduce_sum(own_gradient)
        above = part.log_sum() - own_logit
        entropies = torch.logaddexp(above, torch.zeros_like(above))
        gradient = above.sigmoid().unsqueeze(-1) * (part.mean_gradient() - own_gradient)
        if bank.shard_classes:
            entropies, gradient = entropies[:, self.here], gradient[:, self.here]
        return entropies, gradient

    def _own(self, gains: Gains | None, offset: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits [V, Q] of the class of each query and their gradients [V, Q, p]; zero if
        another process holds the class."""
        loss, bank, z = self.loss, self.bank, self.z
        mu, R, rows = self.mu[:, self.queries], self.R[:, self.queries], self.rows[self.queries]
        own = None
        if gains is not None:
            own = Gains(gains.g[:, rows], gains.mean, gains.target[:, rows])
        if bank.leave_out and loss.training:
            mu, R = bank.leave_one_out(z, self.batch[:, self.queries], z.dtype)
        kappa = bank.kappa(R)
        if own is not None and bank.leave_out and loss.training:
            # Without the query the class keeps the target gain of the whole.
            own = own._replace(g=loss.gain(kappa))
            self._note(own)
        kappa = kappa.to(z.dtype)
        rho = (z * mu).sum(-1)
        score, slope = loss.score_and_slope(rho, kappa, loss.terms(kappa, own))
        logit = score + offset[rows].to(z.dtype)
        gradient = slope.expand_as(rho).unsqueeze(-1) * mu
        outside = ~self.held[self.queries]
        return logit.masked_fill(outside, 0.0), gradient.masked_fill(outside.unsqueeze(-1), 0.0)

    def _note(self, own: Gains) -> None:
        """Note the gains [V, Q] of own classes; other processes note those of theirs."""
        outside = ~self.held[self.queries]
        g, target = (a.masked_fill(outside, 1.0) for a in (own.g, own.target))
        labels = self.labels[self.queries].clamp(0, self.bank.num_classes - 1)
        labels = labels.unsqueeze(-1).expand(-1, len(g))
        columns = Gains(g.mT.unsqueeze(-1), own.mean, target.mT.unsqueeze(-1))
        self.loss.note(self.z.dtype, columns, labels)

    def _absorb_batch(self, part: PartialSoftmax, columns: Columns, offset: Tensor) -> None:
        """Add the classes of the batch, each once, as the views see them."""
        number = torch.arange(len(self.slots), device=self.slots.device)
        first = number.new_full((len(offset),), len(number))
        first = first.scatter_reduce(0, self.slots, number, "amin")[self.slots]
        once = offset[self.slots].masked_fill(first != number, -math.inf)
        batch = columns.at(self.rows)._replace(offset=once)
        part.absorb_views(self.mu, batch, first[self.queries])
