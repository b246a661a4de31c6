"""The historical power-temperature family: classifiers, gains and gradients, common readouts
(sec:historical-power-temperature)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from resultant import figures
from resultant.paper.artefact import (
    HOLDS,
    SO_FAR,
    Artefact,
    Cell,
    Change,
    Claim,
    Outcome,
    Value,
    judged,
    printed,
    rows,
    waiting,
)
from resultant.paper.courses import Course, seeds_of, unprinted
from resultant.paper.evidence import Evidence
from resultant.paper.plan import official, wanted
from resultant.paper.records import paired
from resultant.paper.rules import counted, significant, span, within
from resultant.presets import TrainConfig
from resultant.records import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEADS = """
ProCo | 87.57 | 85.39 | 55.78 | 51.34
Reduced gain disparity | 87.72 | 85.10 | 56.62 | 51.72
Increased gain disparity | 87.56 | 85.14 | 55.99 | 52.05
"""

SETTINGS = (("cifar10", 50), ("cifar10", 100), ("cifar100", 50), ("cifar100", 100))
COLUMNS = ("CIFAR-10 / 50", "CIFAR-10 / 100", "CIFAR-100 / 50", "CIFAR-100 / 100")
# Realization and beta of the power family.
POLICIES = {
    "ProCo": ("native", 0.0),
    "Reduced gain disparity": ("temperature", 0.5),
    "Increased gain disparity": ("temperature", 1.5),
}
COLOURS = dict(zip(POLICIES, (figures.BLACK, figures.BLUE, figures.ORANGE), strict=True))
STYLES = dict(zip(POLICIES, ("-", "--", ":"), strict=True))
# The interventions by their names in records.
STRENGTHS = {"reduced": "Reduced gain disparity", "increased": "Increased gain disparity"}
INTERVENTIONS = tuple(STRENGTHS.values())
# What is printed of the last epoch on CIFAR-100 IF 100: label, what, its name in records, and the
# numbers policy by policy.
ENDS = (
    (
        *("sec:historical-power-temperature", "sd of applied gain", "applied_gain_sd"),
        ("0.630", "0.349", "0.948"),
    ),
    (
        *("sec:historical-power-temperature", "sd of native gain", "gain_sd"),
        ("0.630", "0.684", "0.648"),
    ),
    (
        *("sec:historical-gradient", "leading gradient error (%)", "gradient_error"),
        ("4.87", "5.34", "4.57"),
    ),
)


def _planned(policy: str) -> int:
    """How many seeds of a policy the plans have; as many in every setting."""
    return wanted(_shown(), *POLICIES[policy])


def _shown() -> TrainConfig:
    """The setting of fig:training-gain and fig:common-readouts."""
    return official("cifar100", 100, family="power")


def heads(evidence: Evidence) -> Outcome:
    """tab:historical-power-temperature: the classifiers of three-view joint training, and the
    interventions against ProCo as changes to be tested."""
    cells, changes, best = [], [], []
    native: dict[str, tuple[float, dict[int, float]]] = {}
    for policy, *texts in rows(HEADS):
        for column, setting, text in zip(COLUMNS, SETTINGS, texts, strict=True):
            config, paper = official(*setting, family="power"), printed(text)
            assert paper is not None
            found = evidence.records.values(config, *POLICIES[policy], "last.accuracy")
            seeds = wanted(config, *POLICIES[policy])
            ours = Value.of(list(found.values()))
            cells.append(Cell(policy, column, paper, ours, wanted=seeds))
            before, own = native.setdefault(column, (paper.value.mean, found))
            if policy != "ProCo" and (differences := paired(found, own)):
                delta = round(paper.value.mean - before, 2)
                changes.append(Change(column, f"{policy} - ProCo", delta, differences))
            top = evidence.records.value(config, *POLICIES[policy], "last.best_accuracy")
            if top is not None:
                best.append(f"{policy}, {column}: {top.said(2)} [{top.n}]")
    notes = ["Final epoch, as sec:historical-classification says of the printed numbers."]
    if best:
        notes.append(f"Best epoch on the test set: {'; '.join(best)}.")
    return Outcome(cells, changes, notes=notes)


def increment_errors(records: Mapping[int, Record]) -> dict[str, Course]:
    """Errors of leading gradient increments over the epochs, by strength."""
    found = {s: Course.of(records, f"increment_error.{s}") for s in STRENGTHS}
    return {s: course for s, course in found.items() if course is not None}


def increment_plane(records: Mapping[int, Record]) -> tuple[int, int, dict[str, Any]] | None:
    """Projected increments of the first seed that has some: seed, its last epoch, and these."""
    for seed, record in records.items():
        told = record.get("trajectory", {})
        rows = zip(told.get("epoch", ()), told.get("increment_plane", ()), strict=False)
        if known := [(seed, *row) for row in rows if row[1] is not None]:
            return max(known, key=lambda row: row[1])
    return None


def training_gain(evidence: Evidence) -> Outcome:
    """fig:training-gain: gain dispersion, the error of leading gradient increments, and these on a
    plane, CIFAR-100 IF 100."""
    config, cells = _shown(), []
    known = {name: evidence.records.seeds(config, *policy) for name, policy in POLICIES.items()}
    applied, native = (
        {name: c for name, own in known.items() if (c := Course.of(own, key))}
        for key in ("applied_gain_sd", "gain_sd")
    )
    errors = {name: found for name, own in known.items() if (found := increment_errors(own))}
    planes = {name: plane for name, own in known.items() if (plane := increment_plane(own))}
    for i, (name, policy) in enumerate(POLICIES.items()):
        for _, what, key, texts in ENDS:
            ours = evidence.records.value(config, *policy, f"last.{key}", 1.0)
            cells.append(Cell(name, what, printed(texts[i]), ours, wanted=_planned(name)))
        for strength in STRENGTHS:
            course = errors.get(name, {}).get(strength)
            ours = course and course.at(config.epochs)
            what = f"error of the {strength} increment (%)"
            cells.append(unprinted(name, what, ours, 2, _planned(name)))

    def draw() -> Figure:
        with figures.style():
            figure, axes = figures.panels(3, width=3.2)
            for name, course in applied.items():
                course.draw(axes[0], "-", COLOURS[name], name)
            for name, course in native.items():
                course.draw(axes[0], ":", COLOURS[name])
            for state, by_strength in errors.items():
                for strength, course in by_strength.items():
                    course.draw(axes[1], STYLES[state], COLOURS[STRENGTHS[strength]])
            for state, (seed, epoch, plane) in list(planes.items())[:1]:
                _draw_plane(axes[2], plane)
                axes[2].set_xlabel(f"{state}, seed {seed}, epoch {epoch}")
            axes[0].set_ylabel("sd of gain (dotted: native)")
            axes[1].set_ylabel("leading increment error (%)")
            axes[2].set_ylabel("increments (dashed: leading)")
            for ax, there in zip(axes, (applied, errors, planes), strict=True):
                if not there:
                    ax.text(0.5, 0.5, "no record", transform=ax.transAxes, ha="center")
            for ax in axes[:2]:
                ax.set_xlabel("epoch")
            figures.letter(axes)
            figures.legend_below(figure, axes[0])
        return figure

    followed = {n for n, e in errors.items() if any(len(c.values) > 1 for c in e.values())}
    parts = {
        f"{what}, {name}": name in there
        for what, there in (("gain dispersion", applied), ("increment errors", followed))
        for name in POLICIES
    }
    parts["projected increments"] = bool(planes)
    notes = [
        f"In the table, numbers of epoch {config.epochs}. (b) Colours are of the intervention, "
        "line styles of the state: solid ProCo, dashed reduced, dotted increased. (c) Tangent "
        "gradients of all queries are stacked to a vector; the paper does not say which plane it "
        "takes, ours is the one through zero that is nearest to the exact and leading increments "
        "of both interventions at the state that is named."
    ]
    if applied:
        seeds = seeds_of({name: applied.get(name) for name in POLICIES})
        notes.append(
            f"(a), (b) Lines: {seeds}; of several seeds their mean, shaded from the least to the "
            "largest."
        )
    for state, (seed, epoch, plane) in list(planes.items())[:1]:
        notes.append(
            f"(c) One network, {state} of seed {seed} at epoch {epoch}: "
            f"{100 * plane['share']:.2f} % of their squared lengths are in the plane."
        )
    there = bool(applied or errors or planes)
    drawings: dict[str, Callable[[], Figure]] = {"training-gain": draw} if there else {}
    return Outcome(cells, drawings=drawings, parts=parts, notes=notes)


def _draw_plane(ax: Axes, plane: dict[str, Any]) -> None:
    for strength, name in STRENGTHS.items():
        for kind, dash in (("exact", "-"), ("leading", "--")):
            x, y = plane[strength][kind]
            ax.plot([0, x], [0, y], dash, marker="o", markevery=[1], color=COLOURS[name])
    ax.set_aspect("equal", adjustable="datalim")


def common_readouts(evidence: Evidence) -> Outcome:
    """fig:common-readouts: linear probes of the historical models against those of ProCo."""
    config, cells, changes = _shown(), [], []
    for pool in ("long_tail", "balanced"):
        for space in ("encoder", "projection"):
            path, at = f"probes.{pool}.{space}.accuracy", f"{pool.replace('_', '-')} {space}"
            found = {n: evidence.records.values(config, *p, path) for n, p in POLICIES.items()}
            for name, own in found.items():
                ours = Value.of(list(own.values()))
                cells.append(unprinted(name, at, ours, 2, _planned(name)))
            for name in INTERVENTIONS:
                differences = paired(found[name], found["ProCo"])
                changes.append(Change(at, f"{name} - ProCo", None, differences))
    tested = [change for change in changes if change.differences]
    drawings: dict[str, Callable[[], Figure]] = {}
    notes = [
        "The paper does not say which images the probes are fitted on: ours are of both pools, "
        "of the last epoch, in percent."
    ]
    if tested:
        drawings["readouts"] = lambda: _draw_readouts(changes)
        notes.append(
            "Bars are means over the seeds that both kinds have, lines their standard deviation, "
            "points the seeds."
        )
    parts = {f"{change.what}, {change.row}": bool(change.differences) for change in changes}
    return Outcome(cells, tested, drawings, parts, notes)


def _draw_readouts(changes: Sequence[Change]) -> Figure:
    """Changes from ProCo; a dash where there is none."""
    places = list(dict.fromkeys(change.row for change in changes))
    with figures.style():
        figure, (ax,) = figures.panels(width=5.2, height=3.0)
        for i, name in enumerate(INTERVENTIONS):
            ax.plot([], [], "s", color=COLOURS[name], label=name)
            own = (change for change in changes if change.what == f"{name} - ProCo")
            for place, change in zip(places, own, strict=True):
                x, ours = places.index(place) + 0.4 * i - 0.2, change.ours
                if ours is None:
                    ax.text(x, 0, "–", ha="center", va="bottom", color=COLOURS[name])
                    continue
                ax.bar(x, ours.mean, 0.38, yerr=ours.sd, color=COLOURS[name], alpha=0.7)
                ax.plot([x] * ours.n, change.differences, ".", color=figures.BLACK)
        ax.axhline(0, color=figures.GREY, lw=1)
        ax.set_xticks(range(len(places)), [place.replace(" ", "\n") for place in places])
        ax.set_ylabel("points from ProCo")
        figures.legend_below(figure, ax)
    return figure


def historical_claims(evidence: Evidence) -> Iterator[Claim]:
    """sec:historical-power-temperature, sec:historical-gradient, CIFAR-100 IF100, and the
    classifiers of sec:historical-classification."""
    yield _orders(evidence)
    config = _shown()
    for label, what, key, texts in ENDS:
        text = f"Power family: {what} at epoch {config.epochs}, ProCo, reduced, increased"
        every = zip(POLICIES.items(), texts, strict=True)
        found = [
            (name.split()[0], ours, float(number))
            for (name, policy), number in every
            if (ours := evidence.records.value(config, *policy, f"last.{key}", 1.0)) is not None
        ]
        if not found:
            yield waiting(label, text, ", ".join(texts), "power")
            continue
        near = all(0.8 <= ours.mean / number <= 1.25 for _, ours, number in found)
        said = ", ".join(f"{name} {ours.said(3)}" for name, ours, _ in found)
        rule = "each mean over networks within a quarter of the printed one"
        about, values = (label, text, ", ".join(texts)), [ours for _, ours, _ in found]
        yield _by_seeds(*about, said, values, near, rule, of=len(texts))
    text = f"Power family: error of leading gradient increments at epoch {config.epochs} (%)"
    about = ("sec:historical-gradient", text, "8.82 to 10.18")
    courses = [
        course
        for policy in POLICIES.values()
        for course in increment_errors(evidence.records.seeds(config, *policy)).values()
    ]
    known = [v for course in courses if (v := course.at(config.epochs)) is not None]
    if not known:
        yield waiting(*about, "power")
        return
    means, deviations = [v.mean for v in known], [v.sd for v in known if v.sd is not None]
    said = span(means, 2) + (f", sd up to {max(deviations):.2f}" if deviations else "")
    of = len(POLICIES) * len(STRENGTHS)
    yield _by_seeds(*about, said, known, *within(means, 8.82, 10.18), of=of)


def _by_seeds(
    label: str,
    text: str,
    paper: str,
    ours: str,
    values: Sequence[Value],
    holds: bool | None,
    rule: str,
    *,
    of: int,
) -> Claim:
    """A claim about ``of`` numbers, each a mean over networks: one of a kind leaves it open, and
    fewer than planned do not settle that it holds."""
    least, planned = min(v.n for v in values), _planned("ProCo")
    if least < 2:
        holds, rule = None, f"{rule}; one network of a kind leaves it open"
    seeds = _counted(values)
    claim = judged(
        *(label, text, paper, f"{ours}; {seeds}", holds, rule), tested=len(values), of=of
    )
    early = claim.verdict == HOLDS and least < planned
    return replace(claim, verdict=SO_FAR) if early else claim


def _counted(values: Sequence[Value]) -> str:
    """Over how many networks values are, and of how many where more are planned."""
    planned, told = _planned("ProCo"), counted(v.n for v in values)
    return f"{told} of {planned}" if min(v.n for v in values) < planned else told


def _orders(evidence: Evidence) -> Claim:
    """sec:historical-classification: no policy is the better one in every setting."""
    label = "sec:historical-classification"
    text = "Power family: the order of the classifiers changes across settings"
    values = {
        (policy, column): evidence.records.values(
            official(*setting, family="power"), *POLICIES[policy], "last.accuracy"
        )
        for policy in POLICIES
        for column, setting in zip(COLUMNS, SETTINGS, strict=True)
    }
    paper = _ordered(
        {(c.row, c.column): c.paper.value.mean for c in heads(evidence).cells if c.paper}
    )
    if not all(values.values()):
        return waiting(label, text, paper, "power")
    known = {at: v for at, own in values.items() if (v := Value.of(list(own.values())))}
    means = {at: v.mean for at, v in known.items()}
    changes = [
        Change(f"{after} less {before}", column, None, paired(values[after, column], own))
        for before, after in combinations(POLICIES, 2)
        for column in COLUMNS
        for own in (values[before, column],)
    ]
    signs: dict[str, set[int]] = {}
    for change in significant(changes):
        assert change.ours is not None
        signs.setdefault(change.row, set()).add(1 if change.ours.mean > 0 else -1)
    both = [row for row, own in signs.items() if len(own) == 2]
    said = _ordered(means) + (f"; both signs of {', '.join(both)}" if both else "")
    same = len({tuple(_order(means, column)) for column in COLUMNS}) == 1
    return _by_seeds(
        *(label, text, paper, said, list(known.values())),
        True if both else False if same else None,
        "one difference of two policies is seen with both signs by Holm's correction; the same "
        "order of the means in all settings is against it",
        of=len(values),
    )


def _order(means: Mapping[tuple[str, str], float], column: str) -> list[str]:
    """The policies from the best to the worst one."""
    return sorted(POLICIES, key=lambda policy: -means[policy, column])


def _ordered(means: Mapping[tuple[str, str], float]) -> str:
    short = {policy: policy.split()[0] for policy in POLICIES}
    return "; ".join(
        f"{column}: {' > '.join(short[policy] for policy in _order(means, column))}"
        for column in COLUMNS
    )


ARTEFACTS = (
    Artefact(
        "historical-power-temperature",
        "tab:historical-power-temperature",
        "Power-temperature intervention, classifier accuracy",
        heads,
        ("power", "official"),
    ),
    Artefact(
        "training-gain",
        "fig:training-gain",
        "Angular gain and local gradients during training",
        training_gain,
        ("power",),
    ),
    Artefact(
        "common-readouts",
        "fig:common-readouts",
        "Changes in common linear readouts",
        common_readouts,
        ("power",),
    ),
)
