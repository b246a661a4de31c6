r"""Pure Angular at beta = 0 and the shared-scale cosine rule, evaluated together."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from resultant._core import chunks, validation
from resultant._core.arrays import require_features, require_labels
from resultant._core.validation import Number
from resultant.classes.cosines import cosines
from resultant.classes.realization import Realization, realize
from resultant.classes.rule import Rule
from resultant.classes.statistics import ClassState
from resultant.decisions._rounding import score_error
from resultant.score.exact import vmf_score_and_slope


class RulePair:
    """The angular and the cosine rule for the classes that can win, in float64.

    Args:
        state: C classes.
        tau: Temperature, a number or one per class [C].
        offset: Numbers [C] added to the scores, or None.
        chunk: Rows at a time; by default as many as fit the budget of scores.
        validate: Check values; see `resultant.decisions`.
    """

    def __init__(
        self,
        state: ClassState,
        tau: Number,
        offset: Tensor | None,
        chunk: int | None,
        validate: bool | None,
    ) -> None:
        if chunk is not None:
            chunk = validation.integer("chunk", chunk, 1, " or None")
        native = realize(state, Rule(tau, offset=offset), validate_args=validate)
        assert native.tau is not None
        g, self.validate = native.gain(), validate
        b = torch.zeros_like(g) if native.shift is None else native.shift
        self.gbar, self.classes = g.mean(), len(g)
        self.live = (b > -math.inf).nonzero().squeeze(1)
        if not len(self.live):
            raise ValueError("expected a class with an offset above -inf, got none")
        self.chunk = chunk or chunks.rows_per_chunk(8 * len(self.live), chunks.SCORE_BYTES)
        self.g, self.b = g[self.live], b[self.live]
        self.tau = native.tau.expand_as(g)[self.live]
        mu, kappa = native.mu[self.live], native.kappa[self.live]
        self.native = Realization(mu, kappa, self.tau, None, None)

    def __call__(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Compute cosine logits, residuals and slopes of the residuals, all [N, live]."""
        rho = cosines(z, self.native.mu)
        # Score and slope together cost little more than the score, and less than the slope.
        q, slope = vmf_score_and_slope(
            rho, self.native.kappa, self.tau, z.shape[1], validate_args=False
        )
        delta = torch.addcmul(q, self.g, rho, value=-1)
        return torch.addcmul(self.b, self.gbar, rho), delta, slope - self.g

    def chunks(self, z: Tensor) -> Iterator[slice]:
        """Yield slices of the rows of z, at least one; raise unless z fits the classes."""
        require_features(z, self.native.mu.shape[1], self.native.mu.device, self.validate)
        return (slice(top, top + self.chunk) for top in range(0, max(1, len(z)), self.chunk))

    def labels(self, y: Tensor, number: int) -> Tensor:
        """Return labels as indices of the classes that can win; raise if a class cannot."""
        require_labels(y, number, self.classes, self.live.device, self.validate)
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
