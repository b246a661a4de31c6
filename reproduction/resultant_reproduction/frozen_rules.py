"""Beyond the paper: rules on frozen features by dataset, strength and prior.

Effects are means over the settings of a dataset, because three networks of one setting seldom
settle anything.
"""

from __future__ import annotations

from collections.abc import Mapping

from resultant.analysis import Policy
from resultant_reproduction.evidence import (
    Evidence,
    Reader,
    pooled,
    read_change,
    read_edit,
    read_path,
)
from resultant_reproduction.figures import intervals
from resultant_reproduction.spec import Cell, Outcome
from resultant_reproduction.stats import Effects, Interval, over_queries
from resultant_reproduction.value import Value

GAMMAS = (-1.0, 0.0, 1.0)
NATIVE, ANGULAR = Policy("native").canonical, Policy("angular")

# Columns of the table: two rules, and the reader of their difference in a frozen summary.
COMPARED: dict[str, tuple[Policy, Policy, Reader]] = {
    "PA - native": (ANGULAR, NATIVE, read_change("accuracy.angular", "accuracy.native")),
    **{f"beta {beta:g}": (Policy("angular", beta), NATIVE, read_edit(beta)) for beta in (0.5, 1.5)},
    **{
        f"gamma {g:g}": (Policy("angular", 0.0, g), Policy("native", 1.0, g), read_edit(0.0, g))
        for g in GAMMAS
        if g
    },
    "PA - cosine": (ANGULAR, Policy("cosine"), read_change("accuracy.angular", "accuracy.cosine")),
    **{
        f"{rule} - PA": (Policy(rule), ANGULAR, read_change(f"accuracy.{rule}", "accuracy.angular"))
        for rule in ("temperature", "preserve")
    },
}
NLL = "NLL, PA - native"
BASE = "PA - native"
# Columns of the figure.
DRAWN = {
    BASE: "beta 0, no prior",
    "beta 1.5": "beta 1.5, no prior",
    "gamma -1": "beta 0, inverse prior",
    "gamma 1": "beta 0, frequency prior",
}


def over_records(evidence: Evidence) -> dict[str, dict[str, Interval]]:
    """Differences between rules by column and place, over the networks of the records."""
    readers = {name: read for name, (_, _, read) in COMPARED.items()}
    readers[NLL] = read_change("nll.angular", "nll.native", 1.0)
    return {name: pooled(evidence, read) for name, read in readers.items()}


def over_stores(evidence: Evidence) -> dict[str, dict[str, Interval]]:
    """The same over the queries of stores."""
    decided = {place: evidence.decisions(*at) for place, at in evidence.store_places.items()}
    effects = {
        name: {
            place: over_queries(d.right(after), d.right(before), 100.0)
            for place, d in decided.items()
            # A target may have no temperature.
            if after in d.prediction
        }
        for name, (after, before, _) in COMPARED.items()
    }
    effects[NLL] = {
        place: over_queries(d.nll[ANGULAR], d.nll[NATIVE]) for place, d in decided.items()
    }
    return effects


def native_accuracies(evidence: Evidence) -> dict[str, str]:
    """Accuracy of native by gamma (%), by place."""
    networks = [pooled(evidence, read_path(f"grid.native 1 {g:g}", 100.0)) for g in GAMMAS]
    values = {place: [own[place].mean for own in networks] for place in networks[1]}
    for place, at in evidence.store_places.items():
        decisions = evidence.decisions(*at)
        rules = [Policy("native", 1.0, g).canonical for g in GAMMAS]
        values[place] = [100 * float(decisions.right(rule).double().mean()) for rule in rules]
    return {place: ", ".join(f"{v:.1f}" for v in own) for place, own in values.items()}


def table(
    networks: Mapping[str, Effects], stores: Mapping[str, Effects], native: Mapping[str, str]
) -> list[Cell]:
    """Differences with their intervals, one row per place, with the number of networks."""
    cells = []
    for effects in (networks, stores):
        for place, first in effects[BASE].items():
            row = f"{place} [{first.n}]" if first.seeds else place
            for name, own in effects.items():
                i = own.get(place)
                text = "–" if i is None else i.text(4 if name == NLL else 2)
                ours = None if i is None else Value(i.mean, n=i.n)
                cells.append(Cell(row, name, None, ours, text=text))
            text = native.get(place, "–")
            cells.append(Cell(row, "native at gamma -1, 0, 1 (%)", None, text=text))
    return cells


def frozen_rules(evidence: Evidence) -> Outcome:
    """Differences between rules by dataset and space, over networks and over queries."""
    note = (
        "Rows are frozen features (temperature 0.1, ProCo's kappa): of a dataset the mean over its "
        "settings with the 95 % interval over networks (Welch), their number in brackets; packaged "
        "is one network of CIFAR-100 IF 100 with intervals over held-out queries. PA is Pure "
        "Angular at beta 0 without a prior unless the column says otherwise, accuracy in points. "
        "The intervals are not corrected for their number."
    )
    networks = over_records(evidence)
    cells = table(networks, over_stores(evidence), native_accuracies(evidence))
    drawn = {
        DRAWN[column]: {
            f"{place} [{i.n}]": (i.mean, i.low, i.high) for place, i in networks[column].items()
        }
        for column in DRAWN
    }
    return Outcome(cells, notes=[note], draw=(lambda: intervals(drawn)) if networks[BASE] else None)
