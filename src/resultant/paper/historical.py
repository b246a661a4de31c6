"""The historical power-temperature family: classifiers, gains and gradients, common readouts
(sec:historical-power-temperature)."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Any

from resultant import figures
from resultant.paper.artefact import (
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
from resultant.paper.evidence import Evidence
from resultant.paper.plan import official, wanted
from resultant.paper.records import paired
from resultant.paper.rules import counted, significant, spread, within
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


def heads(evidence: Evidence) -> Outcome:
    """tab:historical-power-temperature: the classifiers of three-view joint training."""
    cells, best = [], []
    for policy, *texts in rows(HEADS):
        for column, setting, text in zip(COLUMNS, SETTINGS, texts, strict=True):
            config = official(*setting, family="power")
            ours = evidence.records.value(config, *POLICIES[policy], "last.accuracy")
            seeds = wanted(config, *POLICIES[policy])
            cells.append(Cell(policy, column, printed(text), ours, wanted=seeds))
            top = evidence.records.value(config, *POLICIES[policy], "last.best_accuracy")
            if top is not None:
                best.append(f"{policy}, {column}: {top.said(2)} [{top.n}]")
    notes = ["Final epoch, as sec:historical-classification says of the printed numbers."]
    if best:
        notes.append(f"Best epoch on the test set: {'; '.join(best)}.")
    return Outcome(cells, notes=notes)


def increment_errors(record: Record) -> dict[str, tuple[list[int], list[float]]]:
    """Epochs and errors of leading gradient increments by strength."""
    told = record.get("trajectory", {})
    rows = dict(zip(told.get("epoch", ()), told.get("increment_error", ()), strict=False))
    known = {epoch: row for epoch, row in rows.items() if row is not None}
    return {s: (list(known), [row[s] for row in known.values()]) for s in STRENGTHS if known}


def increment_plane(record: Record) -> tuple[int, dict[str, Any]] | None:
    """The last epoch of which a record has projected increments, with these."""
    told = record.get("trajectory", {})
    rows = zip(told.get("epoch", ()), told.get("increment_plane", ()), strict=False)
    return max((row for row in rows if row[1] is not None), default=None, key=lambda row: row[0])


def training_gain(evidence: Evidence) -> Outcome:
    """fig:training-gain: gain dispersion, the error of leading gradient increments, and these on a
    plane, CIFAR-100 IF 100."""
    config = official("cifar100", 100, family="power")
    known: dict[str, Record] = {}
    for name, policy in POLICIES.items():
        found = evidence.records.seeds(config, *policy).values()
        record = next((r for r in found if "trajectory" in r), None)
        if record is not None:
            known[name] = record
    lines = {name: r["trajectory"] for name, r in known.items() if "trajectory" in r}
    errors = {name: e for name, r in known.items() if (e := increment_errors(r))}
    planes = {name: plane for name, r in known.items() if (plane := increment_plane(r))}

    def draw() -> Figure:
        with figures.style():
            figure, axes = figures.panels(3, width=3.2)
            for name, found in lines.items():
                colour = COLOURS[name]
                axes[0].plot(found["epoch"], found["applied_gain_sd"], color=colour, label=name)
                axes[0].plot(found["epoch"], found["gain_sd"], ":", color=colour)
            for state, by_strength in errors.items():
                for strength, (epochs, values) in by_strength.items():
                    colour = COLOURS[STRENGTHS[strength]]
                    mark = "." if len(epochs) == 1 else None
                    axes[1].plot(epochs, values, marker=mark, ls=STYLES[state], color=colour)
            for state, (epoch, plane) in list(planes.items())[:1]:
                _draw_plane(axes[2], plane)
                axes[2].set_xlabel(f"{state}, epoch {epoch}")
            axes[0].set_ylabel("sd of gain (dotted: native)")
            axes[1].set_ylabel("leading increment error (%)")
            axes[2].set_ylabel("increments (dashed: leading)")
            for ax, there in zip(axes, (lines, errors, planes), strict=True):
                if not there:
                    ax.text(0.5, 0.5, "no record", transform=ax.transAxes, ha="center")
            for ax in axes[:2]:
                ax.set_xlabel("epoch")
            figures.letter(axes)
            figures.legend_below(figure, axes[0])
        return figure

    parts = {
        f"{what}, {name}": name in there
        for what, there in (
            ("gain dispersion", lines),
            ("increment errors", {n for n, e in errors.items() if len(e["reduced"][0]) > 1}),
        )
        for name in POLICIES
    }
    parts["projected increments"] = bool(planes)
    notes = [
        "(b) Colours are of the intervention, line styles of the state: solid ProCo, dashed "
        "reduced, dotted increased. (c) Tangent gradients of all queries are stacked to a vector; "
        "the paper does not say which plane it takes, ours is the one through zero that is nearest "
        "to the exact and leading increments of both interventions at the state that is named."
    ]
    for _, plane in list(planes.values())[:1]:
        notes.append(f"(c) {100 * plane['share']:.2f} % of their squared lengths are in the plane.")
    drawings: dict[str, Callable[[], Figure]] = {"training-gain": draw} if known else {}
    return Outcome(drawings=drawings, parts=parts, notes=notes)


def _draw_plane(ax: Axes, plane: dict[str, Any]) -> None:
    for strength, name in STRENGTHS.items():
        for kind, dash in (("exact", "-"), ("leading", "--")):
            x, y = plane[strength][kind]
            ax.plot([0, x], [0, y], dash, marker="o", markevery=[1], color=COLOURS[name])
    ax.set_aspect("equal", adjustable="datalim")


def common_readouts(evidence: Evidence) -> Outcome:
    """fig:common-readouts: linear probes of the historical models against those of ProCo."""
    config = official("cifar100", 100, family="power")
    found: dict[tuple[str, str], Value | None] = {}
    for policy in list(POLICIES)[1:]:
        for pool in ("long_tail", "balanced"):
            for space in ("encoder", "projection"):
                path = f"probes.{pool}.{space}.accuracy"
                after, before = (
                    evidence.records.values(config, *POLICIES[name], path)
                    for name in (policy, "ProCo")
                )
                at = f"{pool.replace('_', '-')} {space}"
                found[policy, at] = Value.of(paired(after, before))

    def draw() -> Figure:
        names = list(dict.fromkeys(at for _, at in found))
        with figures.style():
            figure, (ax,) = figures.panels(width=5.2, height=3.0)
            for i, policy in enumerate(list(POLICIES)[1:]):
                heights = [v.mean if (v := found[policy, at]) else 0.0 for at in names]
                at = [x + 0.4 * i - 0.2 for x in range(len(names))]
                ax.bar(at, heights, 0.38, color=COLOURS[policy], label=policy)
            ax.axhline(0, color=figures.GREY, lw=1)
            ax.set_xticks(range(len(names)), [n.replace(" ", "\n") for n in names])
            ax.set_ylabel("points from ProCo")
            figures.legend_below(figure, ax)
        return figure

    some = any(value is not None for value in found.values())
    drawings: dict[str, Callable[[], Figure]] = {"readouts": draw} if some else {}
    parts = {f"{policy}, {at}": value is not None for (policy, at), value in found.items()}
    return Outcome(drawings=drawings, parts=parts)


def historical_claims(evidence: Evidence) -> Iterator[Claim]:
    """sec:historical-power-temperature, sec:historical-gradient, CIFAR-100 IF100, and the
    classifiers of sec:historical-classification."""
    yield _orders(evidence)
    config = official("cifar100", 100, family="power")

    def values(path: str) -> list[Value]:
        found = (evidence.records.value(config, *p, path, 1.0) for p in POLICIES.values())
        return [v for v in found if v is not None]

    cases = (
        (
            "sd of applied gain, ProCo, reduced, increased",
            "last.applied_gain_sd",
            (0.630, 0.349, 0.948),
        ),
        ("sd of native gain, ProCo, reduced, increased", "last.gain_sd", (0.630, 0.684, 0.648)),
        ("leading gradient error at epoch 200 (%)", "last.gradient_error", (4.87, 5.34, 4.57)),
    )
    for what, path, numbers in cases:
        gradient = path.endswith("gradient_error")
        label = "sec:historical-gradient" if gradient else "sec:historical-power-temperature"
        text, paper = f"Power family: {what}", ", ".join(f"{v:g}" for v in numbers)
        found = values(path)
        if len(found) < len(numbers):
            yield waiting(label, text, paper, "power")
            continue
        near = all(0.8 <= a.mean / b <= 1.25 for a, b in zip(found, numbers, strict=True))
        ours = f"{', '.join(v.said(3) for v in found)}; {counted(v.n for v in found)}"
        rule = "each mean over networks within a quarter of the printed one"
        yield judged(label, text, paper, ours, near, rule)
    text = "Power family: error of leading gradient increments (%)"
    known = []
    for policy in POLICIES.values():
        told = [increment_errors(r) for r in evidence.records.seeds(config, *policy).values()]
        last = (Value.of([each[s][1][-1] for each in told if each]) for s in STRENGTHS)
        known += [v for v in last if v is not None]
    if not known:
        yield waiting("sec:historical-gradient", text, "8.82 to 10.18", "power")
        return
    inside = within([v.mean for v in known], 8.82, 10.18)
    yield judged("sec:historical-gradient", text, "8.82 to 10.18", spread(known, 2), *inside)


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
    means = {at: statistics.fmean(own.values()) for at, own in values.items()}
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
    ours = f"{_ordered(means)}; {counted(map(len, values.values()))}"
    ours += f"; both signs of {', '.join(both)}" if both else ""
    same = len({tuple(_order(means, column)) for column in COLUMNS}) == 1
    return judged(
        *(label, text, paper, ours, True if both else False if same else None),
        "one difference of two policies is seen with both signs by Holm's correction; the same "
        "order of the means in all settings is against it",
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
