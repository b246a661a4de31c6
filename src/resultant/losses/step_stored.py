"""A step of the loss as the paper writes it: the scores of all queries and classes are stored, and
autograd differentiates them."""

from torch import Tensor

from resultant._core.validation import COMPUTE_DTYPE
from resultant.losses.contrastive import ContrastiveLoss
from resultant.losses.ranks import Batch


def stored_step(loss: ContrastiveLoss, batch: Batch) -> Tensor:
    """Return the cross-entropies [V, N] of a batch, which enters the statistics in training mode;
    at a label that is no class, that of another class."""
    bank, z = loss.bank, batch.z
    snapshot = bank.add(batch) if loss.training else bank.snapshot(COMPUTE_DTYPE[z.dtype])
    labels = batch.y.clamp(0, bank.num_classes - 1)
    return loss.entropies(z, labels.unsqueeze(-1).expand(-1, len(z)), snapshot).mT
