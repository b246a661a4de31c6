r"""Random features of the vMF kernel, for rows of few dimensions whose classes no linear score
divides: inner products of the features are those of :math:`e^{k(x^\top x'-1)}` up to
:math:`1/\sqrt D`, so that a linear score of features is a sum of vMF densities around rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import normalize

from resultant._core.arrays import directions
from resultant.classes.metric import Metric
from resultant.classifiers.inputs import Sample, row_chunks

# Number of random features.
FEATURES = 800

# Concentrations k that a search tries.
LIFTS = (0.5, 1.0)

PARTS = ("centre", "frequency", "phase")


@dataclass(frozen=True, eq=False)
class Lift:
    r"""Features :math:`\cos(\sqrt k\,\omega_d^\top x+\phi_d)`, normalized, of vectors that are
    centred and normalized again; the frequencies are orthogonal in blocks of p.

    Attributes:
        k: Concentration of the kernel.
        centre: Mean of the class means [p].
        frequency: Gaussian frequencies [p, D].
        phase: Phases [D].
    """

    k: float
    centre: Tensor
    frequency: Tensor
    phase: Tensor

    @staticmethod
    def fit(sample: Sample, k: float) -> Lift:
        """Draw the features of a sample's rows."""
        centre = Metric.fit(sample.summed, whiten=False).mean
        p, generator = sample.dim, torch.Generator().manual_seed(0)

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator, dtype=torch.float64)

        blocks = [torch.linalg.qr(normal(p, p))[0] for _ in range(math.ceil(FEATURES / p))]
        # The length of a Gaussian vector.
        lengths = torch.stack([normal(p, p).norm(dim=0) for _ in blocks])
        frequency = torch.cat([q * r for q, r in zip(blocks, lengths, strict=True)], 1)
        phase = 2 * torch.pi * torch.rand(FEATURES, generator=generator, dtype=torch.float64)
        device = centre.device
        return Lift(k, centre, frequency[:, :FEATURES].to(device), phase.to(device))

    def __call__(self, z: Tensor) -> Tensor:
        """Return the features [N, D] of unit vectors [N, p], unit vectors as rows are; zeros for
        vectors of zeros."""
        x = normalize(z - self.centre.to(z), dim=1)
        s = (math.sqrt(self.k) * (x @ self.frequency.to(z))).add_(self.phase.to(z)).cos_()
        return normalize(s, dim=1) * z.any(1, keepdim=True)

    def lifted(self, sample: Sample) -> Sample:
        """Return the sample with the features of its rows, which are kept in memory."""
        dtype = sample.rows.dtype
        rows = [
            self(directions(sample.rows[at])[0].to(dtype))
            for at in row_chunks(sample.rows, FEATURES)
        ]
        return replace(sample, rows=torch.cat(rows))

    def to(self, dtype: torch.dtype) -> Lift:
        """Return the lift in a dtype."""
        return Lift(self.k, *(getattr(self, name).to(dtype) for name in PARTS))

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors by name, for a file."""
        return {f"lift.{name}": getattr(self, name) for name in PARTS}

    @staticmethod
    def of(k: float, tensors: Mapping[str, Tensor]) -> Lift:
        """Return the lift of `tensors`."""
        return Lift(k, *(tensors[f"lift.{name}"] for name in PARTS))
