"""The question "What does the temperature do to native scores?" (protocol, group 6).

As tau grows, native decides by A_c rho, the inner product with the class mean; as it falls, by the
likelihood of the vMF classes. Each statement is judged by the mean over the six settings.
"""

from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Any

from resultant_reproduction.cells.cells import Cell, Outcome, say
from resultant_reproduction.cells.charts import Chart, Curve, draw_charts
from resultant_reproduction.cells.statistics import (
    CONFIRMED,
    INCONCLUSIVE,
    NOT_REPRODUCED,
    Estimate,
    Value,
    over_settings,
)
from resultant_reproduction.cells.text import markdown_table
from resultant_reproduction.frozen.summarize import SPACES
from resultant_reproduction.frozen.temperature_path import PATH
from resultant_reproduction.runs.evidence import CONDITIONS, Evidence, is_external, trained_as
from resultant_reproduction.studies.tuned_temperature import DATASETS

# A record of one network, and a number of it.
Network = Mapping[str, Any]
Read = Callable[[Network], float]

# Rules of the path with their titles, from high to low temperature, and at the side of it.
RULES = {
    "means": "class means, A_c ρ",
    "shared": "native at 0.1",
    "halves": "native, temperature chosen",
    "likelihood": "likelihood",
    "cosine": "cosine",
    "angular": "Pure Angular at 0.1",
}
# Statement 1: the least share of queries (%); statement 2: the margin in points.
AGREEMENT, MARGIN = 99.0, 0.2


def networks(evidence: Evidence) -> dict[str, list[Network]]:
    """Records of the plan by setting."""
    configs = {name: trained_as(name) for name in CONDITIONS if not is_external(name)}
    found: dict[str, list[Network]] = {
        name: [r for r in evidence.third.seeds(config).values() if "path" in r]
        for name, config in configs.items()
    }
    return {name: own for name, own in found.items() if own}


def mean(found: Mapping[str, list[Network]], read: Read, dataset: str = "") -> Estimate:
    """The mean of a number over settings, with the interval over networks."""
    own = [[read(n) for n in rows] for name, rows in found.items() if name.startswith(dataset)]
    estimate = over_settings(own)
    assert estimate is not None
    return estimate


def accuracy(space: str, rule: str) -> Read:
    """Read the accuracy of a rule of `RULES` (%)."""
    if rule in ("shared", "halves"):
        return lambda network: 100 * network["tuned"][space]["native"][rule]
    return lambda network: 100 * network["path"][space]["accuracy"][rule]


def agreement(space: str) -> Read:
    """Read the share of queries on which native at 0.1 decides by the class means (%)."""
    return lambda network: 100 * network["path"][space]["agrees"]["means"][PATH.index(0.1)]


def statements(found: Mapping[str, list[Network]]) -> list[tuple[str, Estimate, str]]:
    """The statements of the protocol by space, each with its number and its verdict."""
    rows = []
    for space in SPACES:
        share = mean(found, agreement(space))
        side = None if share.low is None or share.high is None else (share.low, share.high)
        verdict = INCONCLUSIVE
        if side is not None and side[0] > AGREEMENT:
            verdict = CONFIRMED
        elif side is not None and side[1] < AGREEMENT:
            verdict = NOT_REPRODUCED
        rows.append((say("path-agrees", space=space), share, verdict))
    chosen, likelihood = (accuracy("encoder", rule) for rule in ("halves", "likelihood"))
    for dataset in ("", *DATASETS):
        apart = mean(found, lambda n: chosen(n) - likelihood(n), dataset)
        near = apart.within(MARGIN)
        verdict = "equivalent" if near else "open" if apart.contains(0.0) else "different"
        of = f", {dataset.strip()} alone" if dataset else ""
        rows.append((say("path-tuned", of=of), apart, verdict))
    low, cosine = (accuracy("projection", rule) for rule in ("likelihood", "cosine"))
    apart = mean(found, lambda n: low(n) - cosine(n))
    misfit = all(
        n["path"]["projection"]["fitted"] > n["path"]["projection"]["held_out"]
        for own in found.values()
        for n in own
    )
    verdict = INCONCLUSIVE
    if apart.sign == -1 and misfit:
        verdict = CONFIRMED
    elif apart.sign == 1 or not misfit:
        verdict = NOT_REPRODUCED
    rows.append((say("path-misfit"), apart, verdict))
    return rows


def temperature_path(evidence: Evidence) -> Outcome:
    """Accuracies of the path by setting and space, the statements, and a figure of the path."""
    found = networks(evidence)
    if not found:
        return Outcome()
    cells = []
    for name, own in found.items():
        for space in SPACES:
            row = f"{name}, {space} [{len(own)}]"
            for rule, title in RULES.items():
                value = Value.over([accuracy(space, rule)(n) for n in own])
                cells.append(Cell(row, title, None, value, text=f"{value.mean:.2f}"))
            for part, title in (("fitted", "A_c"), ("held_out", "held-out cosine")):
                value = Value.over([n["path"][space][part] for n in own])
                cells.append(Cell(row, title, None, value, text=f"{value.mean:.3f}"))
    judged = statements(found)
    rows = [(text, own.text(2, "less" in text), verdict) for text, own, verdict in judged]
    shares = [mean(found, agreement(space)).mean for space in SPACES]
    texts: dict[str, Any] = {"shares": shares, "verdicts": [verdict for *_, verdict in judged]}
    texts["gaps"] = [own.text() for _, own, _ in judged]
    return Outcome(
        cells,
        draw=lambda: draw_charts(
            [_chart(found, d, s) for s in SPACES for d in DATASETS], columns=2
        ),
        headline=say("path", n=sum(map(len, found.values())), **texts),
        sections={
            "Statements of the protocol": markdown_table(rows, ("statement", "ours", "verdict"))
        },
    )


def _chart(found: Mapping[str, list[Network]], dataset: str, space: str) -> Chart:
    """Accuracy of native against the temperature, and those of the limits and of cosine."""
    own = [n["path"][space] for name, rows in found.items() for n in rows if dataset in name]
    native = [100 * fmean(path["native"][i] for path in own) for i in range(len(PATH))]
    curves = [Curve(PATH, native, "o-", "native", "C0", more={"ms": 3})]
    for rule, look in (("means", "--"), ("likelihood", ":"), ("cosine", "-.")):
        level = 100 * fmean(path["accuracy"][rule] for path in own)
        curves.append(Curve((PATH[0], PATH[-1]), (level, level), look, RULES[rule]))
    more = {"xscale": "log", "xlim": (PATH[0] * 2, PATH[-1] / 2)}
    return Chart(curves, "temperature", "accuracy (%)", f"{dataset.strip()}, {space}s", more)
