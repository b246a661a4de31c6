"""Contrastive losses [R] of R runs between the samples of a batch, to compare ProCo with, of unit
vectors z [V, R, N, p] and labels y [N] or [R, N]."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from resultant._core.validation import COMPUTE_DTYPE


class SupConLoss(nn.Module):
    r"""Supervised contrastive loss (Khosla et al., 2020):
    :math:`-\frac1{|P_i|}\sum_{j\in P_i}\log\frac{e^{z_i^\top z_j/\tau}}{\sum_{k\ne i}e^{z_i^\top
    z_k/\tau}}`, where :math:`P_i` are the other views of the class of :math:`i`."""

    def __init__(self, temperature: float = 0.1) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, z: Tensor, y: Tensor) -> Tensor:
        with torch.autocast(z.device.type, enabled=False):
            z, y = _samples(z, y)
            same, itself = _same_class(y, y)
            scores = z @ z.mT / self.temperature
            return _loss(scores, torch.zeros_like(scores), same & ~itself, itself)


class BalancedContrastiveLoss(nn.Module):
    """Balanced contrastive loss (Zhu et al., 2022): SupCon with a learned prototype of every class
    among the samples, drawn by the seed of each run, and with the mean instead of the sum over the
    samples of a class in the denominator."""

    def __init__(
        self, num_classes: int, dim: int, temperature: float, seeds: Sequence[int]
    ) -> None:
        super().__init__()
        self.temperature = temperature
        generators = (torch.Generator().manual_seed(seed) for seed in seeds)
        drawn = [torch.randn(num_classes, dim, generator=g) for g in generators]
        self.prototypes = nn.Parameter(torch.stack(drawn))

    def forward(self, z: Tensor, y: Tensor) -> Tensor:
        with torch.autocast(z.device.type, enabled=False):
            z, y = _samples(z, y)
            prototypes = functional.normalize(self.prototypes, dim=-1)
            classes = torch.arange(prototypes.shape[-2], device=y.device)
            classes = classes.expand(*y.shape[:-1], -1)
            columns = torch.cat((y, classes), -1)
            same, itself = _same_class(y, columns)
            scores = z @ torch.cat((z, prototypes.to(z.dtype)), -2).mT / self.temperature
            # Number of columns of the class of each column, without the query itself.
            sizes = functional.one_hot(columns, classes.shape[-1]).sum(-2).gather(-1, columns)
            weights = -torch.log((sizes.unsqueeze(-2) - same.long()).clamp(min=1).to(z.dtype))
            return _loss(scores, weights, same & ~itself, itself)


def _samples(z: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return all views of all samples as [*lead, V N, p], and their labels [*lead, V N]."""
    views, lead = len(z), z.shape[1:-2]
    z = z.to(COMPUTE_DTYPE[z.dtype]).movedim(0, -3).flatten(-3, -2)
    return z, y.expand(*lead, y.shape[-1]).repeat(*(1 for _ in lead), views)


def _same_class(rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
    """Return where row and column have the same class, and where they are the same sample."""
    same = rows.unsqueeze(-1) == columns.unsqueeze(-2)
    return same, torch.eye(*same.shape[-2:], dtype=torch.bool, device=same.device)


def _loss(scores: Tensor, weights: Tensor, positive: Tensor, itself: Tensor) -> Tensor:
    """Return the mean over rows of -log of the share of a positive column in the weighted sum; a
    row without a positive column has no part in the mean, which is zero without other rows."""
    total = torch.logsumexp((scores + weights).masked_fill(itself, -torch.inf), -1)
    number = positive.sum(-1)
    mean = (scores * positive).sum(-1) / number.clamp(min=1)
    each = (total - mean).masked_fill(number == 0, 0.0)
    # The mean of all rows, corrected: a factor of one leaves it as it is.
    return each.mean(-1) * (number.shape[-1] / (number > 0).sum(-1).clamp(min=1))
