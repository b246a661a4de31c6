"""Studies beyond the paper on frozen features: columns of ``beyond.toml`` by group of networks."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import product
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, NamedTuple

from resultant.analysis import Decisions, Policy
from resultant.report import style
from resultant_reproduction.evidence import (
    CONDITIONS,
    Evidence,
    Reader,
    is_external,
    pooled,
    read_path,
    trained_as,
)
from resultant_reproduction.figures import LOG, Chart, Curve, draw_charts, intervals
from resultant_reproduction.formats import p_text
from resultant_reproduction.measures import reader
from resultant_reproduction.plan import BOTH, DIMENSIONS, controlled, other_losses, plan, stand_in
from resultant_reproduction.records import packaged_results
from resultant_reproduction.spec import Cell, Outcome, load
from resultant_reproduction.stats import over_queries, over_settings
from resultant_reproduction.summarize import SPACES
from resultant_reproduction.value import Value
from resultant_reproduction.verdicts import LEVEL, Arm, Estimate, contrast, holm

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Summary = Mapping[str, Any]


def columns(study: str) -> dict[str, tuple[Mapping[str, Any], Reader]]:
    """Keys and readers of the columns of a study, by title."""
    return {keys["title"]: (keys, reader(keys)) for keys in load("beyond")[study]["columns"]}


def values(networks: Sequence[Summary], read: Reader) -> list[float]:
    """Read a number of every network that has it."""
    return [v for summary in networks if (v := read(summary)) is not None]


def stored(name: str) -> dict[str, Any]:
    """Read numbers of the packaged network by space; none without the packaged records."""
    folder = packaged_results()
    path = None if folder is None else folder / name
    return json.loads(path.read_text()) if path is not None and path.is_file() else {}


def adjusted(estimates: Mapping[Any, Estimate]) -> dict[Any, float]:
    """Correct the p values of one family by Holm's method, of the estimates that have one."""
    tested = {name: e.p for name, e in estimates.items() if e.p is not None}
    return dict(zip(tested, holm([*tested.values()]), strict=True))


# Rules on frozen features. Effects are means over the settings of a dataset, because three networks
# of one setting seldom settle anything.
GAMMAS = (-1.0, 0.0, 1.0)


def _over_queries(decisions: Decisions, keys: Mapping[str, Any]) -> Estimate | None:
    """Estimate a column over the queries of a store; None where a target has no temperature."""
    if "edit" in keys:
        beta, gamma = keys["edit"]
        after, before = Policy("angular", beta, gamma), Policy("native", 1.0, gamma).canonical
    else:
        after, before = (Policy(keys[k].partition(".")[2]).canonical for k in ("path", "less"))
    if after not in decisions.prediction:
        return None
    if keys.get("path", "").startswith("nll"):
        return over_queries(decisions.nll[after], decisions.nll[before])
    return over_queries(decisions.right(after), decisions.right(before), 100.0)


def native_accuracies(evidence: Evidence) -> dict[str, str]:
    """Accuracy of native by gamma (%), by place."""
    networks = [pooled(evidence, read_path(f"grid.native 1 {g:g}", 100.0)) for g in GAMMAS]
    numbers = {place: [own[place].mean for own in networks] for place in networks[1]}
    for place, at in evidence.store_places.items():
        decisions = evidence.decisions(*at)
        rules = [Policy("native", 1.0, g).canonical for g in GAMMAS]
        numbers[place] = [100 * float(decisions.right(rule).double().mean()) for rule in rules]
    return {place: ", ".join(f"{v:.1f}" for v in own) for place, own in numbers.items()}


def frozen_rules(evidence: Evidence) -> Outcome:
    """Differences between rules by dataset and space, over networks and over queries."""
    asked, native, cells = columns("frozen-rules"), native_accuracies(evidence), []
    networks = {title: pooled(evidence, read) for title, (_, read) in asked.items()}
    decided = {place: evidence.decisions(*at) for place, at in evidence.store_places.items()}
    stores = {
        title: {place: _over_queries(d, keys) for place, d in decided.items()}
        for title, (keys, _) in asked.items()
    }
    for effects in (networks, stores):
        for place, first in next(iter(effects.values())).items():
            row = f"{place} [{first.n}]" if first and first.seeds else place
            for title, own in effects.items():
                i = own.get(place)
                text = "–" if i is None else i.text(asked[title][0].get("digits", 2))
                ours = None if i is None else Value(i.mean, n=i.n)
                cells.append(Cell(row, title, None, ours, text=text))
            text = native.get(place, "–")
            cells.append(Cell(row, "native at gamma -1, 0, 1 (%)", None, text=text))
    drawn = {
        title: {f"{place} [{i.n}]": i[:3] for place, i in networks[column].items()}
        for column, title in load("beyond")["frozen-rules"]["drawn"].items()
    }
    known = any(networks.values())
    return Outcome(cells, draw=(lambda: intervals(drawn)) if known else None)


# Other losses, group 4 of ``protocol.md``.
PROCO = "ProCo"
LOSSES = {"supcon": "SupCon", "balanced": "BCL", "cross-entropy": "cross-entropy"}
# A spread of gains is shared with at least this part of ProCo's.
LEAST_SPREAD = 0.5


def losses(evidence: Evidence) -> Outcome:
    """Gains, edits and certificates by loss and space."""
    configs = {PROCO: controlled("cifar100", 100)}
    configs |= {LOSSES[name]: config for name, config in other_losses().items()}
    found: dict[str, dict[str, list[Summary]]] = {}
    for name, config in configs.items():
        own = evidence.every.frozen(config)
        if own["encoder"]:
            # Cross-entropy trains no projection.
            spaces = SPACES if config.contrastive_weight else SPACES[:1]
            found[name] = {space: own[space] for space in spaces}
    asked, cells = columns("losses"), []
    effects = {
        (name, space, title): contrast([(1.0, Arm.of(values(own, read)))])
        for name, by_space in found.items()
        for space, own in by_space.items()
        for title, (keys, read) in asked.items()
        if keys.get("effect")
    }
    for name, by_space in found.items():
        corrected = adjusted({key: i for key, i in effects.items() if key[0] == name})
        for (space, own), (title, (keys, read)) in product(by_space.items(), asked.items()):
            key, value = (name, space, title), Value.of(values(own, read))
            assert value is not None
            text = value.text(keys.get("digits", 2))
            if key in effects:
                text = f"{effects[key].text(2)}, p {p_text(corrected.get(key))}"
            ours = None if key in effects else value
            cells.append(Cell(f"{name}, {space} [{len(own)}]", title, None, ours, text=text))
    drawn = {
        label: {
            f"{name}, {space} [{len(found[name][space])}]": i[:3]
            for (name, space, title), i in effects.items()
            if title == column
        }
        for column, label in load("beyond")["losses"]["drawn"].items()
    }
    headline = ""
    if len(found) > len(LOSSES):
        numbers = ", ".join(f"{name} {len(own['encoder'])}" for name, own in found.items())
        variation = asked["variation of gains"][1]
        spread = {name: fmean(values(own["encoder"], variation)) for name, own in found.items()}
        sides = {name: effects[name, "encoder", "angular - native"].sign or 0 for name in found}
        alike = [spread[name] >= LEAST_SPREAD * spread[PROCO] for name in LOSSES.values()]
        same = [0 != sides[name] == sides[PROCO] for name in LOSSES.values()]
        headline = (
            f"The spread of gains is {_whose(alike)}. The effect of equal gains is {_whose(same)}. "
            f"Networks: {numbers}."
        )
    draw = (lambda: intervals(drawn)) if len(found) > 1 else None
    parts = {title: title in found for title in LOSSES.values()}
    return Outcome(cells, parts=parts, headline=headline, draw=draw)


def _whose(shared: Sequence[bool]) -> str:
    return "everyone's" if all(shared) else "mixed" if any(shared) else "ProCo's own"


# The law of dimension, group 3: errors of the leading geometry against nu = p/2 - 1.
THEORY = -1.0
# Fewer dimensions leave a slope open.
LEAST_DIMENSIONS = 4


class Slope(NamedTuple):
    """Least-squares line of log10 y against log10 x, with the 95 % interval of the slope."""

    slope: float
    intercept: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """Compare the interval with the slope of the theory."""
        if self.low <= THEORY <= self.high:
            return "confirmed"
        return "steeper" if self.high < THEORY else "flatter"


def fit_slope(x: Sequence[float], y: Sequence[float]) -> Slope:
    """Fit a power law to points with positive coordinates."""
    from scipy.stats import linregress, t

    line: Any = linregress([math.log10(v) for v in x], [math.log10(v) for v in y])
    reach = float(t.ppf(1 - LEVEL / 2, len(x) - 2)) * line.stderr
    return Slope(line.slope, line.intercept, line.slope - reach, line.slope + reach)


def dimension(evidence: Evidence) -> Outcome:
    """Errors by dimension, and their slopes against the slope of the theory."""
    networks: dict[int, list[Summary]] = {
        p: [
            record["analysis"]["projection"]["proco"]
            for seed, record in evidence.every.seeds(controlled("cifar100", 100, dim=p)).items()
            if seed in plan("dimension").seeds and "analysis" in record
        ]
        for p in sorted(DIMENSIONS)
    }
    readers = {title: read for title, (_, read) in columns("dimension").items()}
    cells, slopes, points = [], {}, {}
    for p, own in networks.items():
        numbers = {title: values(own, read) for title, read in readers.items()}
        numbers["mean resultant length"] = [s["gains"]["mean"] * s["tau"] for s in own]
        for title, numbers_ in numbers.items():
            value = Value.of(numbers_)
            text = "no run" if value is None else f"{value.text(4)} [{value.n}]"
            cells.append(Cell(f"p = {p}", title, None, value, text=text))
    known = {p: own for p, own in networks.items() if own}
    if len(known) >= LEAST_DIMENSIONS:
        nu = [p / 2 - 1 for p, own in known.items() for _ in own]
        for title, read in readers.items():
            points[title] = nu, [v for own in known.values() for v in values(own, read)]
            slopes[title] = s = fit_slope(*points[title])
            text = f"{s.slope:.2f} [{s.low:.2f}, {s.high:.2f}]: {s.verdict}"
            cells.append(Cell("slope (theory -1)", title, None, text=text))
    headline = "; ".join(
        f"{title.partition(' (')[0]} {s.slope:.2f}, {s.verdict}" for title, s in slopes.items()
    )
    number = sum(map(len, known.values()))
    words = f"Slope against nu on a log scale, {number} networks, theory -1: {headline}."
    return Outcome(
        cells,
        parts={f"p = {p}": p in known for p in DIMENSIONS},
        headline=words if slopes else "",
        draw=(lambda: _draw_slopes(points, slopes)) if slopes else None,
    )


def _draw_slopes(
    points: Mapping[str, tuple[list[float], list[float]]], slopes: Mapping[str, Slope]
) -> Figure:
    charts = []
    for title, (x, y) in points.items():
        ends, s = [min(x), max(x)], slopes[title]
        fitted = [10**s.intercept * v**s.slope for v in ends]
        middle = 10 ** fmean(math.log10(v) for v in x), 10 ** fmean(math.log10(v) for v in y)
        theory = [middle[1] * (v / middle[0]) ** THEORY for v in ends]
        curves = [
            Curve(x, y, ".", "networks", style.BLUE),
            Curve(ends, fitted, "-", "fitted slope", style.BLUE),
            Curve(ends, theory, "--", "slope -1", style.ORANGE),
        ]
        name = f"{title.partition(' (')[0]}: {s.slope:.2f}"
        charts.append(Chart(curves, r"$\nu = p/2 - 1$", title, name, more=LOG))
    return draw_charts(charts, columns=2, width=4.0, height=3.0)


# Temperatures of their own for both rules, group 1. Accuracies by space, rule and choice.
def tuned_networks(evidence: Evidence) -> dict[str, list[Summary]]:
    """Read the accuracies of native networks, by setting."""
    configs = {name: trained_as(name) for name in CONDITIONS if not is_external(name)}
    configs["Tiny-ImageNet-LT"] = stand_in()
    found = {
        name: [r["tuned"] for r in evidence.every.seeds(config).values() if "tuned" in r]
        for name, config in configs.items()
    }
    return {name: own for name, own in found.items() if own}


def tuned_change(network: Summary, choice: str, spaces: Sequence[str] = SPACES) -> float:
    """Angular less native, points, the mean over spaces."""
    native, angular = (fmean(network[space][rule][choice] for space in spaces) for rule in BOTH)
    return 100 * (angular - native)


def tuned_effects(
    evidence: Evidence, spaces: Sequence[str] = SPACES, dataset: str = "CIFAR"
) -> dict[str, Estimate | None]:
    """Mean change over the settings whose names begin with a dataset, by choice of temperatures."""
    settings = [own for name, own in tuned_networks(evidence).items() if name.startswith(dataset)]
    return {
        choice: over_settings([[tuned_change(n, choice, spaces) for n in own] for own in settings])
        for choice in load("beyond")["tuned-rules"]["choices"]
    }


def tuned_verdict(shared: Estimate, chosen: Estimate) -> str:
    """Apply the rule of the protocol."""
    if chosen.low is None or chosen.high is None:
        return "not tested"
    if chosen.low <= 0:
        return "all of it goes"
    if chosen.high < shared.mean / 2:
        return "most of it goes"
    return "it remains" if chosen.low > shared.mean / 2 else "open"


def tuned_rules(evidence: Evidence) -> Outcome:
    """Both rules at 0.1 and at chosen temperatures, by setting."""
    rows = tuned_networks(evidence)
    if packaged := stored("tuned.json"):
        rows["packaged network"] = [packaged]
    choices: dict[str, str] = load("beyond")["tuned-rules"]["choices"]
    cells, drawn = [], {title: {} for title in choices.values()}
    for (name, own), (choice, title) in product(rows.items(), choices.items()):
        row = f"{name} [{len(own)}]"
        for rule in BOTH:
            value = 100 * fmean(n[space][rule][choice] for n in own for space in SPACES)
            cells.append(Cell(row, f"{rule}, {title}", None, Value(value), text=f"{value:.2f}"))
        i = over_settings([[tuned_change(n, choice) for n in own]])
        assert i is not None
        cells.append(Cell(row, f"change, {title}", None, Value(i.mean), text=i.text()))
        drawn[title][row] = i[:3]
    single = [f"{name} [1]" for name, own in rows.items() if len(own) == 1]
    chosen = []
    for space, rule in product(SPACES, BOTH):
        used = [t for own in rows.values() for n in own for t in n[space][rule]["temperatures"]]
        chosen.append(f"{rule} on {space}s {median(used):g} ({min(used):g} to {max(used):g})")
    note = f"Chosen temperatures, median and range: {'; '.join(chosen)}."
    return Outcome(
        cells, draw=lambda: intervals(drawn, single), notes=[note], headline=tuned_answer(evidence)
    )


def tuned_answer(evidence: Evidence) -> str:
    """State the effect at 0.1 and at chosen temperatures, with the verdict of the protocol."""
    shared, halves, folds = tuned_effects(evidence).values()
    if shared is None or halves is None or folds is None:
        return ""
    before, after, _ = tuned_effects(evidence, ("encoder",)).values()
    assert before is not None and after is not None
    return (
        f"With both rules at temperature 0.1, Pure Angular changes the accuracy of frozen features "
        f"by {shared.text()} points over {shared.n} networks of CIFAR; with a temperature chosen "
        f"for each rule on other test images by {halves.text()} ({tuned_verdict(shared, halves)}), "
        f"and with one chosen on the training images by {folds.text()} "
        f"({tuned_verdict(shared, folds)}). On encoders alone: {before.text()} before, "
        f"{after.text()} after."
    )
