r"""Margins of pairs of classes, chosen from training geometry (sec:boundary-selection)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from resultant.analysis.metrics import Result, rank_correlation
from resultant.analysis.space import FrozenSpace
from resultant.analysis.theory import choose_pairs, pair_types
from resultant.classes.rule import TEMPERED, Rule
from resultant.classes.scores import realize
from resultant.decisions import margins
from resultant.decisions.certificates import margin_change
from resultant.theory.binary_model import BinaryModel
from resultant.vmf.tails import log_projection_tail

# About the number of margin changes that are kept for figures.
DRAWN = 2000


@dataclass(frozen=True, eq=False)
class MarginDirections(Result):
    r"""Signs of exact margin changes against their prediction :math:`\Delta m_{lin}`, over the
    queries of both classes of every pair; certified if :math:`|\Delta m_{lin}|>|r|`
    (sec:margin-change-protocol). Fractions are None without queries."""

    pairs: Tensor
    incidences: int  #: number of pairs and queries
    agreement: float | None  #: fraction of incidences with the predicted sign
    coverage: float | None  #: fraction of certified incidences
    certified_wrong: int  #: certified incidences with another sign; zero if the theory holds
    by_kind: dict[str, dict[str, float | None]]  #: the same per type of pair
    linear: Tensor  #: a sample [S] of predicted changes, for figures
    exact: Tensor  #: the exact changes [S] of the sample
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
    queries: Tensor  #: number of these queries
    gaussian: Tensor  #: Gaussian errors of the matched binary model, NaN for a degenerate model
    model: Tensor  #: exact errors of the matched binary model at this dimension
    centre_correlation: float | None
    typical_correlation: float | None
    model_correlation: float | None


@torch.no_grad()
def margin_directions(
    space: FrozenSpace,
    chosen: margins.SelectedPairs | None = None,
    *,
    realization: str = "temperature",
    beta: float = 0.0,
    intercept: bool = False,
) -> MarginDirections:
    """Predict the signs of margin changes from native to a realization.

    Args:
        chosen: The pairs, by default those of `choose_pairs`.
        realization: The realization after the change.
        beta: Strength of the target gain.
        intercept: Predict by gains and intercepts, as the text of the paper defines the linear
            mean; otherwise by gains alone, as its printed numbers.

    Example:
        >>> margin_directions(space).certified_wrong
        0
    """
    chosen = choose_pairs(space) if chosen is None else chosen
    undefined = space.untempered(beta) if realization in TEMPERED else ()
    # Rows: incidences, correct, certified, and certified but wrong.
    tally = torch.zeros(4, len(margins.PAIR_TYPES), dtype=torch.int64)
    drawn = [torch.empty(2, 0, dtype=torch.float64)]
    rule = Rule(space.tau, realization, beta)
    asked = torch.isin(space.test_labels, chosen.pairs)
    rows = asked.nonzero().squeeze(1)[: 0 if undefined else None]
    for _, z, y in space.queries(rows, exact=True):
        change = margin_change(
            z, y, space.state, rule, chosen.pairs, intercept=intercept, validate_args=False
        )
        kind = chosen.kind[change.pair]
        certified, correct = change.certified, change.correct
        for row, members in enumerate(
            (torch.ones_like(correct), correct, certified, certified & ~correct)
        ):
            tally[row] += torch.bincount(kind[members], minlength=len(margins.PAIR_TYPES))
        share = DRAWN * len(y) // len(rows) + 1
        some = torch.linspace(0, len(kind) - 1, min(share, len(kind))).round().long()
        drawn.append(torch.stack([change.linear[some], change.exact[some]]))
    whole, wrong = _shares(tally.sum(1)), int(tally[3].sum())
    by_kind = {name: _shares(tally[:, k]) for k, name in enumerate(margins.PAIR_TYPES)}
    numbers = int(tally[0].sum()), whole["agreement"], whole["coverage"], wrong
    linear, exact = torch.cat(drawn, 1)
    return MarginDirections(chosen.pairs, *numbers, by_kind, linear, exact, undefined)


def _shares(tally: Tensor) -> dict[str, float | None]:
    number, correct, certified, _ = tally.tolist()
    agreement, coverage = (a / number if number else None for a in (correct, certified))
    return {"incidences": number, "agreement": agreement, "coverage": coverage}


@torch.no_grad()
def typical_margins(
    space: FrozenSpace, chosen: margins.SelectedPairs | None = None
) -> TypicalMargins:
    """Compare margins of pairs with the errors between both classes, by the native score.

    Args:
        chosen: The pairs, by default those of `choose_pairs`.

    Example:
        >>> typical_margins(space).observed.shape
        torch.Size([6, 2])
    """
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
    typical, gaussian, model = _binary(space, pairs)
    found = centre, typical, observed, number.long(), gaussian, model
    correlations = (rank_correlation(a, observed) for a in (centre, typical, model))
    return TypicalMargins(pairs, pair_types(chosen), *found, *correlations)


def _binary(space: FrozenSpace, pairs: Tensor) -> Tensor:
    """Return typical margins, Gaussian and exact errors [3, P, 2] of the matched binary models."""
    numbers = torch.full((3, len(pairs), 2), torch.nan, dtype=torch.float64)
    p, mu, kappa = space.dim, space.state.mu, space.state.kappa
    regular, laws = [], []
    for i, (a, b) in enumerate(pairs.tolist()):
        cosine = float((mu[a] @ mu[b]).clamp(-1, 1))
        if p >= 3 and kappa[a] > 0 and kappa[b] > 0 and cosine != 1:
            nu = p / 2 - 1
            binary = BinaryModel(float(kappa[a]) / nu, float(kappa[b]) / nu, cosine, space.tau)
            numbers[:2, i] = torch.tensor([binary.typical_margins, binary.gaussian_errors(p)])
            regular.append(i)
            laws.append((binary.xi_0, *binary.beta))
    if regular:
        # `BinaryModel.errors` of all pairs at once.
        xi, *angles = torch.tensor(laws, dtype=torch.float64).T
        for side, beta in enumerate(angles):
            own = kappa[pairs[regular, side]]
            tail = log_projection_tail(xi, beta, own, p, upper=side == 1)
            numbers[2, regular, side] = tail.exp()
    return numbers
