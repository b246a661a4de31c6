r"""Margins of pairs of classes against the errors between them (sec:conditional-margin)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from resultant.analysis.metrics import rank_correlation
from resultant.analysis.pairs import choose_pairs, kinds, member_queries
from resultant.analysis.plain import Result
from resultant.analysis.space import CPU, FrozenSpace
from resultant.classes.realization import realize
from resultant.classes.rule import Rule
from resultant.decisions.margins import centre_margins, pairwise_margins
from resultant.decisions.pairs import SelectedPairs
from resultant.theory.binary_model import BinaryModel
from resultant.theory.rates import projection_variance
from resultant.vmf.tails import log_projection_tail, tail_dimension


@dataclass(frozen=True, eq=False)
class TypicalMargins(Result):
    r"""Margins of pairs against their errors under the native score (sec:conditional-margin).

    Arrays are [P, 2], for the first class against the second and back. Correlations are Spearman's
    rank correlations with the observed error.

    Attributes:
        centre: Margins at the prototypes.
        typical: Typical margins :math:`R_h, R_t`.
        observed: Errors on held-out queries, NaN without queries.
        queries: Number of these queries.
        gaussian: Gaussian errors of the matched binary model, NaN for a degenerate model.
        model: Exact errors of the matched binary model at this dimension.
    """

    pairs: Tensor
    kind: tuple[str, ...]
    centre: Tensor
    typical: Tensor
    observed: Tensor
    queries: Tensor
    gaussian: Tensor
    model: Tensor
    centre_correlation: float | None
    typical_correlation: float | None
    model_correlation: float | None


@torch.no_grad()
def typical_margins(space: FrozenSpace, chosen: SelectedPairs | None = None) -> TypicalMargins:
    """Compare margins of pairs with the errors between both classes, by the native score.

    Args:
        space: The classes and the queries; the prior is zero.
        chosen: The pairs, by default those of `choose_pairs`.

    Returns:
        Margins, and errors on held-out queries and of the matched binary model.

    Example:
        >>> import torch
        >>> from resultant.analysis import FrozenSpace, typical_margins
        >>> z, y = torch.eye(4).repeat(9, 1) + 0.1 * torch.rand(36, 4), torch.arange(4).repeat(9)
        >>> typical_margins(FrozenSpace.fit(z, y, z, y)).observed.shape
        torch.Size([6, 2])
    """
    chosen = choose_pairs(space) if chosen is None else chosen
    pairs, native = chosen.pairs, realize(space.state, Rule(space.tau))
    wrong, number = (torch.zeros(len(pairs), 2, dtype=torch.float64) for _ in range(2))
    rows = member_queries(space, pairs)
    for _, z, y in space.queries(rows, dtype=torch.float64, device=CPU):
        margins = pairwise_margins(z, native, pairs, validate_args=False)
        for side, errors in enumerate((margins < 0, margins >= 0)):
            own = y.unsqueeze(1) == pairs[:, side]
            wrong[:, side] += (own & errors).sum(0)
            number[:, side] += own.sum(0)
    observed = wrong / number
    centre = torch.stack(centre_margins(native, pairs), 1)
    typical, gaussian, model = _binary(space, pairs)
    return TypicalMargins(
        pairs=pairs,
        kind=kinds(chosen),
        centre=centre,
        typical=typical,
        observed=observed,
        queries=number.long(),
        gaussian=gaussian,
        model=model,
        centre_correlation=rank_correlation(centre, observed),
        typical_correlation=rank_correlation(typical, observed),
        model_correlation=rank_correlation(model, observed),
    )


def _binary(space: FrozenSpace, pairs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Typical margins, Gaussian and quadrature errors [P, 2] of the matched binary models."""
    typical, gaussian, model = torch.full((3, len(pairs), 2), torch.nan, dtype=torch.float64)
    p, (mu, kappa) = space.dim, (space.state.mu, space.state.kappa)
    regular, laws = [], []
    for i, (a, b) in enumerate(pairs.tolist()):
        cosine = float((mu[a] @ mu[b]).clamp(-1, 1))
        if p < 3 or not (kappa[a] > 0 and kappa[b] > 0) or cosine == 1:
            continue
        nu = p / 2 - 1
        binary = BinaryModel(float(kappa[a]) / nu, float(kappa[b]) / nu, cosine, space.tau)
        typical[i] = torch.tensor(binary.typical_margins)
        regular.append(i)
        laws.append((binary.xi_0, binary.W, *binary.beta, *binary.alpha))
    if not regular:
        return typical, gaussian, model
    # The same as BinaryModel.gaussian_errors and errors, for all pairs at once.
    nu = tail_dimension(p) / 2 - 1
    xi, W, *angles = torch.tensor(laws, dtype=torch.float64).T
    for side, (beta, alpha) in enumerate(zip(angles[:2], angles[2:], strict=True)):
        own = kappa[pairs[regular, side]]
        variance = projection_variance(own / (p / 2 - 1), W * beta, W * alpha)
        scale = (nu / (2 * variance)).sqrt()
        gaussian[regular, side] = torch.erfc(typical[regular, side] * scale) / 2
        model[regular, side] = log_projection_tail(xi, beta, own, p, upper=side == 1).exp()
    return typical, gaussian, model
