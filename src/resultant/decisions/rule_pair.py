r"""Pure Angular at beta = 0 and the shared-scale cosine rule, evaluated together."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from resultant._core import chunks
from resultant.classes.cosines import cosines
from resultant.classes.realization import Realization
from resultant.decisions._rounding import score_error
from resultant.score.exact import vmf_score_and_slope


class RulePair:
    """The angular and the cosine rule for the classes that can win, in float64.

    Args:
        native: Native scores of all classes in float64, with their offset.
        chunk: Rows at a time; by default as many as fit the budget of scores.
    """

    def __init__(self, native: Realization, chunk: int | None = None) -> None:
        g, b, tau = native.gain(), native.shift, native.tau
        assert tau is not None
        b = torch.zeros_like(g) if b is None else b
        self.gbar, self.classes = g.mean(), len(g)
        self.live = (b > -math.inf).nonzero().squeeze(1)
        if not len(self.live):
            raise ValueError("expected a class with an offset above -inf, got none")
        self.chunk = chunk or chunks.rows_per_chunk(8 * len(self.live), chunks.SCORE_BYTES)
        self.g, self.b = g[self.live], b[self.live]
        self.tau = tau.expand_as(g)[self.live]
        mu, kappa = native.mu[self.live], native.kappa[self.live]
        self.native = Realization(mu, kappa, self.tau, None, None)

    def __call__(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Compute cosine logits, residuals and slopes of the residuals, all [N, live]."""
        rho = cosines(z, self.native.mu)
        p, (kappa, tau) = z.shape[1], (self.native.kappa, self.tau)
        # Score and slope together cost little more than the score, and less than the slope.
        q, slope = vmf_score_and_slope(rho, kappa, tau, p, validate_args=False)
        delta = torch.addcmul(q, self.g, rho, value=-1)
        return torch.addcmul(self.b, self.gbar, rho), delta, slope - self.g

    def chunks(self, z: Tensor) -> Iterator[slice]:
        """Yield slices of the rows of z, at least one."""
        return (slice(top, top + self.chunk) for top in range(0, max(1, len(z)), self.chunk))

    def labels(self, y: Tensor) -> Tensor:
        """Return labels as indices of the classes that can win; raise if a class cannot."""
        index = torch.full((self.classes,), -1, device=self.live.device)
        index[self.live] = torch.arange(len(self.live), device=self.live.device)
        lost = (index[y] < 0).nonzero()
        if len(lost):
            i = int(lost[0])
            got = f"class {int(y[i])} of offset -inf at index {i}"
            raise ValueError(f"expected labels of classes with an offset above -inf, got {got}")
        return index[y]

    def slack(self, dtype: torch.dtype) -> Tensor:
        """Compute twice the errors of the scores in a dtype, and of margin and residual here."""
        cosine = replace(self.native, tau=None, slope=self.gbar, shift=self.b)
        angular = replace(self.native, slope=self.gbar - self.g, shift=self.b)
        residual = replace(self.native, slope=-self.g)
        scores = torch.maximum(score_error(cosine, dtype).max(), score_error(angular, dtype).max())
        own = (score_error(rule, torch.float64).max() for rule in (cosine, residual))
        return 2 * (scores + sum(own))
