"""Printed tables and our records: representations and classifiers after training, and frozen
decisions."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, NamedTuple

from resultant.features.store import FeatureStore
from resultant_reproduction.cells.cells import (
    Cell,
    Change,
    Outcome,
    load,
    parse_cell,
    printed_rows,
    say,
)
from resultant_reproduction.cells.charts import draw_changes, intervals
from resultant_reproduction.cells.statistics import Judgement, Value, over_settings
from resultant_reproduction.cells.text import markdown_table, p_equation, p_text, span
from resultant_reproduction.recipes.config import PaperConfig, preset
from resultant_reproduction.runs.evidence import (
    Evidence,
    Reader,
    is_external,
    pooled,
    read_change,
    read_edit,
    read_path,
    trained_as,
)
from resultant_reproduction.runs.plans import RULES, planned_seeds
from resultant_reproduction.runs.records import Records, paired, probe_path
from resultant_reproduction.studies import headline
from resultant_reproduction.studies.headline import TITLES


class Entry(NamedTuple):
    """A printed cell and its records: kind of run, and path of the number."""

    row: str
    column: str
    text: str
    kind: tuple[PaperConfig, str, float]
    path: str


def compare(records: Records, entries: Iterable[Entry]) -> tuple[list[Cell], list[Change]]:
    """Cells of a table, and the changes of its rows from the first row with the same column."""
    cells, changes = [], []
    first: dict[str, tuple[float, dict[int, float]]] = {}
    for entry in entries:
        values, paper = records.values(*entry.kind, entry.path), parse_cell(entry.text)
        ours, planned = Value.of(list(values.values())), planned_seeds(*entry.kind)
        cells.append(Cell(entry.row, entry.column, paper, ours, planned=planned))
        if paper is None:
            continue
        before, own = first.setdefault(entry.column, (paper.value.mean, values))
        if own is not values:
            delta = round(paper.value.mean - before, 2)
            changes.append(Change(entry.row, entry.column, delta, paired(values, own)))
    return cells, changes


def realizations(
    records: Records, name: str, path: Callable[[str], str], **settings: object
) -> Outcome:
    """A table with one column per realization and one for the change of Pure Angular."""
    cells, changes = [], []
    for *names, native, temperature, preserve, angular, delta in printed_rows(name):
        condition, external = names[0], is_external(names[0])
        config, title = trained_as(condition, **settings), ", ".join(names)
        texts = (native, temperature, preserve, angular)
        entries = [
            Entry(column, title, text, (config, rule, 0.0), path(names[-1].lower()))
            for column, text, rule in zip(COLUMNS, texts, RULES, strict=True)
        ]
        row, tested = compare(records, entries)
        row = [replace(c, row=title, column=c.row, external=external) for c in row]
        planned = min(c.planned for c in row)
        row += [Cell(title, "Δ", parse_cell(delta), tested[-1].ours, external, planned=planned)]
        cells += [replace(c, planned=0) if external else c for c in row]
        changes += [
            replace(c, row=title, what=f"{c.row} - ProCo")
            for c in tested
            if c.differences or not external
        ]
    return Outcome(cells, changes)


# Realizations of tab:angular-training and tab:joint-fc, in the order of `plan.RULES`.
COLUMNS = tuple(load("printed/tables")["angular-training"]["columns"][-5:-1])
HEADINGS = ("", "change", "paper", "ours", "95 % interval", "networks", "p", "verdict")


def training_table(evidence: Evidence) -> Outcome:
    """tab:angular-training: all networks of the recipe, unpaired as in ``protocol.md``."""
    printed = realizations(evidence.every, "angular-training", probe_path).cells
    judged = {}
    for row in dict.fromkeys(cell.row for cell in printed):
        setting, _, space = row.rpartition(", ")
        for arm in RULES[1:] if setting in headline.SETTINGS else ():
            spaces = (space.lower(),)
            judged[row, arm] = headline.effect(evidence.every, arm, "native", (setting,), spaces)
    effects = {row: j for (row, arm), j in judged.items() if arm == "angular"}
    cells = []
    for cell in printed:
        ours = effects[cell.row].ours if cell.row in effects and cell.column == "Δ" else None
        value = Value(ours.mean, None, ours.n) if ours else None
        cells.append(replace(cell, ours=value, planned=0) if value else cell)
    tested = [
        (
            *(row, f"{TITLES[arm]} - {TITLES['native']}", f"{j.printed:+.2f}"),
            *(f"{j.ours.mean:+.2f}", j.ours.interval(2), str(j.ours.n)),
            *(p_text(j.ours.p), j.text),
        )
        for (row, arm), j in judged.items()
        if j.ours is not None
    ]
    rows = {f"{row} [{j.n}]": j.pair for row, j in effects.items()}
    sections = {"Test": say("training-test") + markdown_table(tested, HEADINGS)}
    return Outcome(
        cells,
        draw=lambda: intervals({"Pure Angular less ProCo": rows}, "percentage points"),
        sections=sections if tested else {},
        headline=_training_headline(evidence, [*effects.values()]),
        notes=[say("training-note")],
    )


def _training_headline(evidence: Evidence, effects: Sequence[Judgement]) -> str:
    whole = headline.effect(evidence.every)
    paper = [j.printed for j in effects if j.printed is not None]
    if whole.ours is None:
        return ""
    texts = {"whole": whole.ours.text(2), "verdict": whole.verdict, "printed": span(paper, 2, "+")}
    counts = {"of": len(effects), "n": whole.ours.n, "risen": sum(v > 0 for v in paper)}
    rise = sum(j.ours is not None and j.ours.mean > 0 for j in effects)
    return say("training-headline", **texts, **counts, rise=rise, mean=fmean(paper))


def joint_fc(evidence: Evidence) -> Outcome:
    """tab:joint-fc: the classifier of joint training, last epoch."""
    outcome = realizations(
        evidence.records, "joint-fc", lambda _: "last.accuracy", objective="joint"
    )
    own = [c for c in outcome.changes if c.what == f"{COLUMNS[-1]} - ProCo"]
    return replace(
        outcome,
        draw=lambda: draw_changes(own, "Pure Angular less ProCo, percentage points"),
        headline=_joint_headline([c for c in own if c.row.startswith("CIFAR")]),
    )


def _joint_headline(changes: list[Change]) -> str:
    known = [c for c in changes if c.ours is not None]
    if not known:
        return ""
    several = [c for c in known if len(c.differences) > 1]
    kept, where = known, "settings"
    if several and len(several) < len(known):
        kept, where = several, f"the settings with several seeds ({len(several)} of {len(known)})"
    pooled = over_settings([c.differences for c in kept])
    assert pooled is not None
    tested = "" if pooled.p is None else f", {p_equation(pooled.p)}"
    paper = span([c.paper or 0.0 for c in changes], 2, sign="+")
    alike = sum(c.ours is not None and c.ours.mean * (c.paper or 0.0) > 0 for c in known)
    texts = {"pooled": pooled.text(), "tested": tested, "where": where, "printed": paper}
    return say("joint-headline", **texts, alike=alike, of=len(known))


EQUALIZED = read_change("accuracy.angular", "accuracy.native")
# Readers of the columns of the frozen tables.
FROZEN: dict[str, dict[str, Reader]] = {
    name: {column: read_path(path, scale) for column, (path, scale) in columns.items()}
    for name, columns in load("printed/frozen").items()
}
FROZEN["frozen-vmf-realizations"]["Δ"] = EQUALIZED


def frozen_table(name: str, evidence: Evidence) -> Outcome:
    """A table of frozen decisions, with the effect of the MLE of kappa as a note."""
    columns = FROZEN[name]
    cells, changes, largest = [], [], dict.fromkeys(columns, 0.0)
    for condition, space, *texts in printed_rows(name):
        by_kappa = [evidence.frozen(condition, space.lower(), e) for e in ("proco", "mle")]
        row, external = f"{condition}, {space}", is_external(condition)
        planned = 0 if external else planned_seeds(trained_as(condition))
        for (column, read), text in zip(columns.items(), texts, strict=True):
            own, others = (
                {seed: v for seed, s in summaries.items() if (v := read(s)) is not None}
                for summaries in by_kappa
            )
            ours, other = (Value.of([*by_seed.values()]) for by_seed in (own, others))
            cells.append(Cell(row, column, parse_cell(text), ours, external, planned=planned))
            if read is EQUALIZED and own:
                changes.append(Change(row, "Pure Angular - native", float(text), own))
            if ours is not None and other is not None:
                largest[column] = max(largest[column], abs(ours.mean - other.mean))
    gaps = ", ".join(f"{column} {gap:.2g}" for column, gap in largest.items())
    headline = _equalized_headline(evidence, changes) if changes else ""
    return Outcome(
        cells,
        changes,
        notes=[say("frozen-kappa", gaps=gaps), *like_cosine(cells)],
        headline=headline,
    )


def like_cosine(cells: Sequence[Cell]) -> list[str]:
    """Say in what range Pure Angular differs from cosine in accuracy; nothing without both."""
    known = {(cell.row, cell.column): cell for cell in cells}
    pairs = [
        (cell, known[cell.row, "Cosine"])
        for cell in cells
        if cell.column == "Pure Angular" and (cell.row, "Cosine") in known
    ]
    paper = [a.paper.value.mean - b.paper.value.mean for a, b in pairs if a.paper and b.paper]
    ours = [a.ours.mean - b.ours.mean for a, b in pairs if a.ours and b.ours]
    if not ours:
        return []
    ranges = {"paper": span(paper, 3, sign="+"), "ours": span(ours, 3, sign="+")}
    return [say("frozen-range", **ranges, rows=len(ours), of=len(paper))]


def _equalized_headline(evidence: Evidence, changes: Sequence[Change]) -> str:
    parts = []
    for place, change in pooled(evidence, EQUALIZED).items():
        dataset, _, space = place.rpartition(" ")
        own = (c for c in changes if c.row.startswith((f"{dataset} /", f"{dataset},")))
        paper = [c.paper for c in own if c.paper is not None and c.row.endswith(space.capitalize())]
        parts.append(f"{place} {change.text()} (printed {fmean(paper):+.2f})")
    return say("equalized-headline", parts="; ".join(parts))


BACKBONES = {
    "ResNet-50": ("imagenet-lt-resnet50", "resnet50"),
    "ResNeXt-50": ("imagenet-lt-resnext50", "resnext50_32x4d"),
}
# app:cross-backbone: the queries are all validation images.
HELD_OUT = "val"


def cross_backbone(evidence: Evidence) -> Outcome:
    """tab:cross-backbone: changes by direct temperature, from native at the same prior."""
    summaries = {title: backbone(evidence, title) for title in BACKBONES}
    cells = []
    for beta, gamma, *texts in printed_rows("cross-backbone"):
        read = read_edit(float(beta), float(gamma), "temperature")
        for (title, summary), text in zip(summaries.items(), texts, strict=True):
            change = read(summary)
            row, own = f"β = {beta}, γ = {gamma}", None if change is None else Value(change)
            cells.append(Cell(row, title, parse_cell(text), own, external=True))
    return Outcome(cells)


def backbone(evidence: Evidence, title: str) -> dict[str, Any]:
    """Summary of the projections of an added store, or of a record of ProCo's recipe."""
    store, architecture = BACKBONES[title]
    if evidence.has(store, "projection"):
        path = evidence.stores[store]
        split = FeatureStore.open(path).metadata.get("held_out", HELD_OUT)
        if split != HELD_OUT:
            rule = f"expected {store} of resultant extract --split {HELD_OUT}"
            raise ValueError(f"{rule}, got the split {split} in {path}")
        return evidence.summary(store, "projection", "proco")
    config = preset("imagenet-lt", architecture=architecture)
    for record in evidence.records.seeds(config).values():
        if "analysis" in record:
            return record["analysis"]["projection"]["proco"]
    return {}
