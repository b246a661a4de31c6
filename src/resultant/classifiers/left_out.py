r"""The scores of rows against classes that they have no part in, for a grid of parameters.

What the rest of a sample says about its classes is the sums of the whole less those of the rows
left out, be it a fold or one query (sec:self-inclusion, sec:cross-fitted-estimator): nothing is
fitted again from rows. The cosines of the left-out rows are computed once for the whole grid, and
the exact scores once for each temperature and each class temperature; every other point is
arithmetic on those.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from resultant._core.arrays import directions
from resultant.classes.gain import Gains
from resultant.classes.realization import Terms, terms
from resultant.classes.rule import TEMPERED
from resultant.classes.statistics import ZERO_LENGTH, ClassStatistics
from resultant.classifiers.vmf import add_rows, row_chunks
from resultant.score.exact import vmf_score
from resultant.vmf.distribution import mean_resultant


@dataclass(frozen=True)
class Part:
    """n rows left out, and the classes as the rest of the sample has them.

    ``rho`` [n, C] cosines, ``y`` [n]; ``kappa`` and ``weight`` [n, C] or [1, C] in float64, the
    first where each row has a rest of its own.
    """

    rho: Tensor
    y: Tensor
    kappa: Tensor
    weight: Tensor
    dim: int

    @cached_property
    def present(self) -> Tensor:
        return self.weight > 0

    @cached_property
    def resultant(self) -> Tensor:
        return mean_resultant(self.dim, self.kappa, validate_args=False)

    @cached_property
    def log_prior(self) -> Tensor:
        """log pi, zero for classes that are not in the rest."""
        share = self.weight / self.weight.sum(-1, keepdim=True)
        return torch.where(self.present, share, 1.0).log()

    def absent(self) -> Tensor:
        """Rows [n] whose own class is not in the rest."""
        return ~self.present.expand_as(self.rho).gather(1, self.y[:, None])[:, 0]

    def realized(self, tau: float, rules: Iterable[tuple[str, float]]) -> Iterator[Tensor]:
        r"""The scores [n, C] of `resultant.classes.gain.class_scores` for realizations with beta.

        NaN for classes without a temperature that realizes the target.
        """
        present, dtype = self.present, self.rho.dtype
        g, kappa, base = self.resultant / tau, self.kappa.to(dtype), self.rho.new_full((), tau)
        mean = torch.where(present, g, 0.0).sum(-1, keepdim=True) / present.sum(-1, keepdim=True)
        exact: dict[float | None, Tensor] = {}
        for realization, beta in rules:
            gains = Gains(g, mean, torch.lerp(mean.expand_as(g), g, beta))
            used, *added = terms(realization, kappa, base, gains, self.dim)
            rule = Terms(used, *(None if a is None else a.to(dtype) for a in added))
            key = beta if realization in TEMPERED else None
            if used is not None and key not in exact:
                exact[key] = vmf_score(self.rho, kappa, used, self.dim, validate_args=False)
            yield rule.of(None if used is None else exact[key], self.rho)


def fold_parts(
    X: Tensor,
    y: Tensor,
    w: Tensor,
    statistics: ClassStatistics,
    train: np.ndarray,
    test: np.ndarray,
    estimator: str,
) -> Iterator[Part]:
    """The rows ``test`` before the classes of the rows ``train``, in pieces."""
    out = torch.ones(len(X), dtype=torch.bool)
    out[torch.from_numpy(train)] = False
    if len(train) + int(out.sum()) != len(X):
        raise ValueError("expected each row at most once in the training part of a split")
    out = out.nonzero().squeeze(-1).to(X.device)
    taken = ClassStatistics(statistics.num_classes, statistics.dim, device=X.device)
    for rows in out.split(next(row_chunks(X, 1)).stop):
        add_rows(taken, X[rows], y[rows], w[rows])
    rest = statistics.without(taken)
    if not (rest.weight > 0).any():
        raise ValueError("expected a training part of positive weight in each split, got none")
    state = rest.state(estimator)
    at = torch.from_numpy(test).to(X.device)
    for rows in at.split(next(row_chunks(X, state.num_classes)).stop):
        rho = directions(X[rows])[0].to(X.dtype) @ state.mu.to(X.dtype).T
        yield Part(rho, y[rows], state.kappa[None], rest.weight[None], rest.dim)


def left_out_parts(
    X: Tensor, y: Tensor, w: Tensor, statistics: ClassStatistics, estimator: str
) -> Iterator[Part]:
    """Every row before the classes without it, in pieces."""
    state = statistics.state(estimator)
    # More memory is in use where each row has its own kappa.
    for rows in row_chunks(X, 4 * state.num_classes):
        (x, _), own = directions(X[rows]), y[rows, None]
        mu, kappa = statistics.left_out(x, y[rows], w[rows], estimator)
        rho = x.to(X.dtype) @ state.mu.to(X.dtype).T
        rho.scatter_(1, own, (x * mu).sum(-1, keepdim=True).to(X.dtype))
        before = statistics.weight[y[rows]]
        weight = before - w[rows]
        # As the statistics have it: what is left of an empty class is rounding.
        weight = torch.where(weight > ZERO_LENGTH * before, weight, 0.0)
        yield Part(
            rho,
            y[rows],
            state.kappa.expand_as(rho).scatter(1, own, kappa[:, None]),
            statistics.weight.expand_as(rho).scatter(1, own, weight[:, None]),
            state.dim,
        )


def measure(
    parts: Iterable[Part], taus: list[float], rules: list[tuple[str, float]], priors: list[float]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log-likelihoods and hits [G, M] of the rows at each point of the grid, and `Part.absent`."""
    pieces = []
    for part in parts:
        own, absent = part.y[:, None], part.absent()
        columns = []
        for tau in taus:
            for scores in part.realized(tau, rules):
                for prior in priors:
                    s = scores + (prior * part.log_prior).to(scores.dtype) if prior else scores
                    s = s.masked_fill(~part.present, -torch.inf)
                    logp = (s.gather(1, own)[:, 0] - s.logsumexp(-1)).double()
                    hit = (s.argmax(-1) == part.y).double()
                    columns.append(torch.stack([logp, torch.where(logp.isnan(), logp, hit)]))
        pieces.append((torch.stack(columns, 1).cpu().numpy(), absent.cpu().numpy()))
    values = np.concatenate([piece for piece, _ in pieces], -1)
    return values[0], values[1], np.concatenate([absent for _, absent in pieces])
