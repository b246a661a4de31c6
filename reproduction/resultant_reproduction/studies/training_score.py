"""The question "Does training need the vMF score?" (protocol, group 8).

Pure Angular, which equalizes the gains of the vMF score, is compared with a cosine score at the
same mean gain, both also with native. Runs are unpaired, and judged once all of them have records.
"""

from collections.abc import Sequence

from resultant_reproduction.cells.cells import Cell, Outcome, say
from resultant_reproduction.cells.charts import intervals
from resultant_reproduction.cells.statistics import (
    Estimate,
    Heterogeneity,
    Value,
    contrast,
    heterogeneity,
    holm,
)
from resultant_reproduction.cells.text import markdown_table, p_text
from resultant_reproduction.runs.evidence import Evidence
from resultant_reproduction.runs.plans import plan
from resultant_reproduction.studies.headline import networks

SETTINGS = ("CIFAR-10 / 10", "CIFAR-10 / 100", "CIFAR-100 / 10")
ARMS = {"native": "native", "angular": "Pure Angular", "cosine": "cosine"}
# The compared arms, each pair with the word of its title; the first two are the interaction.
PAIRS = (("angular", "native"), ("cosine", "native"), ("cosine", "angular"))
MARGIN = 0.2

# Accuracies (%) of the networks of each arm, by setting.
Accuracies = dict[str, dict[str, list[float]]]


def recorded(evidence: Evidence) -> Accuracies:
    """Return the accuracies of the networks of the plan so far."""
    seeds = plan("score").seeds
    return {
        name: {arm: [*networks(evidence.third, name, arm, seeds=seeds).values()] for arm in ARMS}
        for name in SETTINGS
    }


def progress(evidence: Evidence) -> tuple[int, int]:
    """Return the number of networks with a record, and of those planned."""
    number = sum(len(own) for arms in recorded(evidence).values() for own in arms.values())
    return number, len(SETTINGS) * len(ARMS) * len(plan("score").seeds)


def effect(found: Accuracies, after: str, before: str, settings: Sequence[str]) -> Estimate:
    """Estimate the mean over settings of a difference of two arms, with Welch's interval."""
    terms = [
        (sign / len(settings), Value.over(found[name][arm]))
        for name in settings
        for arm, sign in ((after, 1.0), (before, -1.0))
    ]
    return contrast(terms)


def interaction(found: Accuracies, after: str, before: str) -> Heterogeneity:
    """Compare the effects of the settings by Cochran's Q."""
    spread = heterogeneity([effect(found, after, before, (name,)) for name in SETTINGS])
    assert spread is not None
    return spread


def verdict(apart: Estimate) -> str:
    """Judge cosine less angular as the protocol says."""
    if apart.within(MARGIN):
        return "equivalent"
    return "open" if apart.contains(0.0) else "different"


def training_score(evidence: Evidence) -> Outcome:
    """Accuracies by setting and arm, the interaction, and the judged effects."""
    found, (number, planned) = recorded(evidence), progress(evidence)
    if number < planned:
        return Outcome()
    cells = []
    for name, arms in found.items():
        for arm, own in arms.items():
            value = Value.over(own)
            text = f"{value.mean:.2f} ± {value.sd:.2f}"
            cells.append(Cell(f"{name} [{len(own)}]", ARMS[arm], None, value, text=text))
    effects = {pair: effect(found, *pair, SETTINGS) for pair in PAIRS}
    titles = {pair: f"{ARMS[pair[0]]} less {ARMS[pair[1]]}" for pair in PAIRS}
    spreads = [interaction(found, *pair) for pair in PAIRS[:2]]
    corrected = dict(zip(PAIRS[:2], holm([spread.p for spread in spreads]), strict=True))
    rows = []
    for pair, estimate in effects.items():
        each = [effect(found, *pair, (name,)).text() for name in SETTINGS]
        rows.append((titles[pair], estimate.text(), *each))
    tests = [
        (titles[pair], f"{spread.q:.1f}", p_text(spread.p), p_text(corrected[pair]))
        for pair, spread in zip(PAIRS[:2], spreads, strict=True)
    ]
    judged = effects[PAIRS[2]]
    drawn = {
        titles[pair]: {name: (effect(found, *pair, (name,)), None) for name in SETTINGS}
        for pair in PAIRS
    }
    return Outcome(
        cells,
        draw=lambda: intervals(drawn, "percentage points"),
        headline=say(
            "training-score",
            n=number,
            apart=judged.text(),
            verdict=verdict(judged),
            others=[effects[pair].text() for pair in PAIRS[:2]],
            p=[p_text(corrected[pair]) for pair in PAIRS[:2]],
        ),
        sections={
            "Effects, in points": markdown_table(rows, ("effect", "settings alike", *SETTINGS)),
            "Do the settings differ?": markdown_table(
                tests, ("effect", "Cochran's Q, 2 degrees of freedom", "p", "p, Holm")
            ),
        },
    )
