r"""A shared metric: unit vectors z move to :math:`W(z-m)` and normalized again. The centre m is
the mean of the class means, and W whitens the covariance :math:`\Sigma` within the classes, shrunk
to :math:`(1-\lambda)\Sigma+\lambda\,\tfrac1p\operatorname{tr}(\Sigma)\,I`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from resultant._core.validation import finite_number, require_in_range
from resultant.classes.statistics import ClassStatistics, Device

# Variances below this fraction of the largest are rounding of the sums.
ROUNDING = 1e-14


@dataclass(frozen=True, eq=False)
class Metric:
    r"""Centre and whitening of unit vectors.

    Attributes:
        mean: Centre m [p].
        variance: Eigenvalues [p] of the within-class covariance.
        basis: Eigenvectors [p, p] of the within-class covariance as columns; None to centre only.
        shrinkage: Fraction :math:`\lambda` of the covariance that its mean variance replaces.

    Example:
        >>> z = torch.nn.functional.normalize(torch.tensor([[9.0, 1], [9, -1], [1, 9], [-1, 9]]))
        >>> statistics = ClassStatistics(2, 2, scatter=True).update(z, torch.tensor([0, 0, 1, 1]))
        >>> x = Metric.fit(statistics, shrinkage=0.5).transform(z)
        >>> (x @ x.T)[0].round(decimals=3)
        tensor([ 1.0000,  0.9750, -0.9690, -1.0000])
    """

    mean: Tensor
    basis: Tensor | None
    variance: Tensor
    shrinkage: float = 0.3

    @staticmethod
    def fit(
        statistics: ClassStatistics,
        shrinkage: float = 0.3,
        *,
        center: bool = True,
        whiten: bool = True,
        dtype: torch.dtype = torch.float64,
    ) -> Metric:
        """Fit the metric to sums of unit vectors, which need ``scatter`` for a whitening; ``dtype``
        is that of the eigendecomposition and of the metric, and a shrinkage is from 0 to 1."""
        shrinkage = require_shrinkage(shrinkage)
        total, weight = statistics.total, statistics.weight
        present = weight > 0
        if not present.any():
            raise ValueError("expected statistics of one sample or more, got none")
        means = total[present] / weight[present, None]
        mean = means.mean(0) if center else torch.zeros_like(means[0])
        if not whiten:
            return Metric(mean, None, torch.ones_like(mean), shrinkage).to(dtype=dtype)
        if statistics.scatter is None:
            rule = "expected statistics with scatter for a whitening"
            raise ValueError(f"{rule}, got none; use ClassStatistics(..., scatter=True)")
        covariance = (statistics.scatter - means.T @ total[present]) / weight.sum()
        covariance = ((covariance + covariance.T) / 2).to(dtype)
        variance, basis = _eigen(covariance, int(statistics.count.sum()))
        # A square of a unit vector has the scale of one, whatever the variances are.
        floor = ROUNDING * statistics.scatter.diagonal().sum() / weight.sum()
        variance = torch.where(variance > floor, variance, 0.0)
        return Metric(mean.to(dtype), basis, variance, shrinkage)

    def with_shrinkage(self, shrinkage: float) -> Metric:
        """Return the metric of another shrinkage, which shares the eigenvectors."""
        return replace(self, shrinkage=require_shrinkage(shrinkage))

    @property
    def dim(self) -> int:
        """Dimension p."""
        return len(self.mean)

    @property
    def scale(self) -> Tensor:
        r"""Factors :math:`\Sigma_\lambda^{-1/2}` [p] of the coordinates, up to one common factor; a
        direction without variance, at shrinkage zero, has the factor of the least variance."""
        average = self.variance.mean()
        shrunk = (1 - self.shrinkage) * self.variance + self.shrinkage * average
        if not average > 0:
            return torch.ones_like(shrunk)
        return (average / torch.where(shrunk > 0, shrunk, shrunk[shrunk > 0].min())).sqrt()

    def rotate(self, z: Tensor) -> Tensor:
        """Return the coordinates [N, p] of centred vectors before scaling, in the dtype of z."""
        centred = z - self.mean.to(z)
        return centred if self.basis is None else centred @ self.basis.to(z)

    def transform(self, z: Tensor) -> Tensor:
        """Move unit vectors z [N, p] to the metric and normalize them again, in the dtype of z; a
        vector of zeros or at the centre, which has no direction, becomes zeros."""
        return self.normalize(z, self.rotate(z))

    def normalize(self, z: Tensor, rotated: Tensor) -> Tensor:
        """Scale the coordinates [N, p] of `rotate` and normalize them, as `transform` does."""
        x, directed = rotated, have_direction(z, rotated)
        if self.basis is not None:
            x = x * self.scale.to(z)
        length = x.square().sum(-1, keepdim=True).sqrt()
        return torch.where(directed, x / length.masked_fill(~directed, 1.0), 0.0)

    def to(self, device: Device | None = None, dtype: torch.dtype | None = None) -> Metric:
        """Copy the metric to a device and a floating dtype."""
        tensors = {name: a for name, a in vars(self).items() if isinstance(a, Tensor)}
        return replace(self, **{n: a.to(device=device, dtype=dtype) for n, a in tensors.items()})


def _eigen(a: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Return eigenvalues [p] and eigenvectors of a symmetric matrix [p, p] of at most a rank; below
    p / 2, within its range, which it maps random vectors to."""
    if 2 * rank >= len(a):
        return torch.linalg.eigh(a)
    generator = torch.Generator("cpu").manual_seed(0)
    random = torch.randn(len(a), rank, generator=generator, dtype=a.dtype, device="cpu")
    every = torch.linalg.qr(a @ random.to(a.device), mode="complete")[0]
    inside = every[:, :rank]
    values, vectors = torch.linalg.eigh(inside.T @ a @ inside)
    return torch.cat([values.new_zeros(len(a) - rank), values]), torch.cat(
        [every[:, rank:], inside @ vectors], 1
    )


def have_direction(z: Tensor, rotated: Tensor) -> Tensor:
    """Return True [N, 1] for vectors z that are neither zeros nor, up to rounding, the centre."""
    length = rotated.square().sum(-1, keepdim=True).sqrt()
    return (length > 64 * torch.finfo(z.dtype).eps) & (z != 0).any(-1, keepdim=True)


def require_shrinkage(shrinkage: float) -> float:
    """Return a shrinkage as a float; raise unless it is from 0 to 1."""
    value = finite_number("shrinkage", shrinkage)
    require_in_range("shrinkage", value, 0.0, 1.0, rule="from 0 to 1")
    return value
