r"""Margins of pairs of classes, chosen from training geometry (sec:boundary-selection)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from resultant.analysis.metrics import Result, rank_correlation
from resultant.classes.rule import Rule
from resultant.classes.scores import realize
from resultant.decisions import margins
from resultant.decisions.certificates import margin_change
from resultant.theory.binary_model import BinaryModel
from resultant_reproduction.frozen.boundaries import choose_pairs, pair_types
from resultant_reproduction.frozen.space import FrozenSpace


@dataclass(frozen=True, eq=False)
class MarginDirections(Result):
    r"""Signs of margin changes by direct temperature against their prediction
    :math:`\Delta m_{lin}`, over the queries of both classes of every pair; certified if
    :math:`|\Delta m_{lin}|>|r|` (sec:margin-change-protocol). No queries have no fractions."""

    pairs: Tensor
    incidences: int  #: number of pairs and queries
    agreement: float | None  #: fraction of incidences with the predicted sign
    coverage: float | None  #: fraction of certified incidences
    certified_wrong: int  #: certified incidences with another sign; zero if the theory holds
    undefined: tuple[int, ...] = ()  #: classes without a temperature


@dataclass(frozen=True, eq=False)
class TypicalMargins(Result):
    r"""Margins of pairs against their errors under the native score, [P, 2] for the first class
    against the second and back, and their rank correlations (sec:conditional-margin)."""

    pairs: Tensor
    kind: tuple[str, ...]
    centre: Tensor  #: margins at the prototypes
    typical: Tensor  #: typical margins :math:`R_h, R_t`
    observed: Tensor  #: errors on held-out queries, NaN without queries
    centre_correlation: float | None
    typical_correlation: float | None


@torch.no_grad()
def margin_directions(
    space: FrozenSpace, chosen: margins.SelectedPairs | None = None, *, intercept: bool = False
) -> MarginDirections:
    """Predict the signs of margin changes from native to direct temperature at beta 0: by gains and
    intercepts, as the text of the paper defines the linear mean, or by gains alone, as its printed
    numbers."""
    chosen = choose_pairs(space) if chosen is None else chosen
    undefined, rule = space.untempered(0.0), Rule(space.tau, "temperature")
    number = correct = certified = wrong = 0
    asked = torch.isin(space.test_labels, chosen.pairs)
    rows = asked.nonzero().squeeze(1)[: 0 if undefined else None]
    for _, z, y in space.queries(rows, exact=True):
        change = margin_change(
            z, y, space.state, rule, chosen.pairs, intercept=intercept, validate_args=False
        )
        number += len(change.correct)
        correct += int(change.correct.sum())
        certified += int(change.certified.sum())
        wrong += int((change.certified & ~change.correct).sum())
    agreement, coverage = (a / number if number else None for a in (correct, certified))
    return MarginDirections(chosen.pairs, number, agreement, coverage, wrong, undefined)


@torch.no_grad()
def typical_margins(
    space: FrozenSpace, chosen: margins.SelectedPairs | None = None
) -> TypicalMargins:
    """Compare margins of pairs with the errors between both classes, by the native score."""
    chosen = choose_pairs(space) if chosen is None else chosen
    pairs, native = chosen.pairs, realize(space.state, Rule(space.tau))
    wrong, number = (torch.zeros(len(pairs), 2, dtype=torch.float64) for _ in range(2))
    rows = torch.isin(space.test_labels, pairs).nonzero().squeeze(1)
    for _, z, y in space.queries(rows, exact=True):
        found = margins.pairwise_margins(z, native, pairs, validate_args=False)
        for side, errors in enumerate((found < 0, found >= 0)):
            own = y.unsqueeze(1) == pairs[:, side]
            wrong[:, side] += (own & errors).sum(0)
            number[:, side] += own.sum(0)
    observed, centre = wrong / number, torch.stack(margins.centre_margins(native, pairs), 1)
    typical, mu, nu = torch.full_like(observed, torch.nan), space.state.mu, space.dim / 2 - 1
    for i, (a, b) in enumerate(pairs.tolist()):
        cosine, lam = float((mu[a] @ mu[b]).clamp(-1, 1)), space.state.kappa[[a, b]] / nu
        # The matched binary model of these classes, if there is one.
        if nu > 0 and bool((lam > 0).all()) and cosine != 1:
            model = BinaryModel(float(lam[0]), float(lam[1]), cosine, space.tau)
            typical[i] = torch.tensor(model.typical_margins)
    return TypicalMargins(
        pairs=pairs,
        kind=pair_types(chosen),
        centre=centre,
        typical=typical,
        observed=observed,
        centre_correlation=rank_correlation(centre, observed),
        typical_correlation=rank_correlation(typical, observed),
    )
