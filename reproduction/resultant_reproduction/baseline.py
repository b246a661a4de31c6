"""Native ProCo compared with the paper: numbers that differ by more than the printed spread, and
settings that could be the reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from resultant.training.config import TrainConfig
from resultant_reproduction import historical
from resultant_reproduction.controls import TABLES, control_table
from resultant_reproduction.evidence import Evidence
from resultant_reproduction.figures import HOLLOW, OURS, Chart, Curve, draw_charts, name_rows
from resultant_reproduction.formats import SIGNIFICANCE, p_equation, p_text
from resultant_reproduction.plan import controlled, joint_trials, official, stronger_views
from resultant_reproduction.recipes import recipe
from resultant_reproduction.records import probe_path
from resultant_reproduction.spec import Cell, Change, Outcome
from resultant_reproduction.spread import pairings, spread_notes, weak_pairs
from resultant_reproduction.stats import significant
from resultant_reproduction.summarize import SPACES
from resultant_reproduction.tables import angular_training, frozen_table, joint_fc
from resultant_reproduction.templating import fill
from resultant_reproduction.value import Value
from resultant_reproduction.verdicts import PRINTED_SEEDS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOGS = "public logs"
# Largest distance from the printed number, in points, that counts as near.
NEAR = 1.0


class Gap(NamedTuple):
    """A native number of ours less the printed one, of a table or of `LOGS`; its size over the
    printed spread, if any; and the p value of Welch's t test where the paper prints a spread, else
    of the printed number as one more draw of ours, None for one seed or equal ones."""

    source: str
    cell: Cell
    difference: float
    times: float | None
    p_value: float | None

    @property
    def within(self) -> str:
        """Row or column within the table."""
        cell = self.cell
        own = f"{cell.row}, {cell.column}" if self.source == LOGS else cell.row
        return cell.column if cell.row == "ProCo" else own

    @property
    def place(self) -> str:
        """Table, and row or column."""
        return f"{self.source}: {self.within}"

    @property
    def kind(self) -> str:
        """Dataset, kind of training and measured quantity."""
        joint = self.source == "tab:joint-fc" or self.cell.column.startswith("joint")
        setting = self.cell.column if self.cell.row == "ProCo" else self.cell.row
        dataset = "CIFAR-10" if "c10" in self.source else setting.partition(" /")[0]
        training = "joint" if joint else "contrastive"
        if self.source in (LOGS, "tab:historical-power-temperature"):
            training = "three views, joint"
        _, _, space = setting.partition(", ")
        frozen = f", frozen {space}" if self.source == "tab:frozen-vmf" else ""
        return f"{dataset}, {training}{frozen}"

    @property
    def network(self) -> str:
        """Setting of the training, within its `kind`."""
        if self.cell.row != "ProCo":
            return self.cell.row.partition(",")[0]
        if not self.source.startswith("tab:c10"):
            return self.cell.column
        _, imbalance, prior = self.source.split("-")
        return f"CIFAR-10 / {imbalance[2:]}{', uniform prior' if prior == 'u' else ''}"

    @property
    def seeds(self) -> int:
        return self.cell.ours.n if self.cell.ours else 0


def gap(source: str, cell: Cell) -> Gap | None:
    """Compare a cell; None unless it has both numbers."""
    from scipy.stats import ttest_ind_from_stats

    if cell.paper is None or cell.ours is None or cell.difference is None:
        return None
    paper, ours, d, p = cell.paper.value, cell.ours, cell.difference, None
    if ours.sd is None or not (ours.sd or paper.sd):
        pass
    elif paper.sd is not None:
        stats = (ours.mean, ours.sd, ours.n, paper.mean, paper.sd, PRINTED_SEEDS)
        p = float(ttest_ind_from_stats(*stats, equal_var=False).pvalue)  # type: ignore[attr-defined]
    else:
        p = ours.p_of_draw(paper.mean)
    return Gap(source, cell, d, abs(d) / paper.sd if paper.sd else None, p)


def native_cells(evidence: Evidence) -> Iterator[tuple[str, Cell]]:
    """Every number of native ProCo on CIFAR, with its table; classifiers of CIFAR-10 by the control
    matrix alone, which repeats them."""
    tables = (
        ("tab:angular-training", "ProCo", angular_training(evidence)),
        ("tab:frozen-vmf", "Original vMF", frozen_table("frozen-vmf", evidence)),
        ("tab:joint-fc", "ProCo", joint_fc(evidence)),
    )
    for label, column, outcome in tables:
        own = [c for c in outcome.cells if c.column == column and not c.external]
        repeated = "CIFAR-10 /" if label == "tab:joint-fc" else "-"
        yield from ((label, c) for c in own if not c.row.startswith(repeated))
    for label, outcome in (
        *((f"tab:{name}", control_table(name, evidence)) for name in TABLES),
        ("tab:historical-power-temperature", historical.heads(evidence)),
    ):
        yield from ((label, c) for c in outcome.cells if c.row == "ProCo")
    yield from ((LOGS, cell) for cell in recipe(evidence).cells)


def baseline(evidence: Evidence) -> Outcome:
    """Numbers of native ProCo that have records, and the differences of the recipe."""
    every = list(native_cells(evidence))
    gaps = [g for source, cell in every if (g := gap(source, cell)) is not None]
    cells = []
    for g in gaps:
        row = g.place
        both = {"row": row, "column": "paper / ours", "paper": None, "text": g.cell.content()}
        cells.append(replace(g.cell, **both))
        times = "–" if g.times is None else f"{g.times:.1f}"
        texts = {
            "ours less paper": f"{g.difference:+z.2f}",
            "times its spread": times,
            "p": p_text(g.p_value),
        }
        cells += [Cell(row, column, None, text=text) for column, text in texts.items()]
    parts = {f"{source}: {c.row}, {c.column}": c.ours is not None for source, c in every}
    paper, pairs = [g for g in gaps if g.source != LOGS], pairings(evidence)
    notes = [
        *_summary(paper, sum(source != LOGS for source, _ in every)),
        *spread_notes(evidence, pairs),
        *fill("recipe.md", **_recipe_numbers(evidence, every)).split("\n\n"),
    ]
    headline = f"{_headline(paper)}{_differing(paper)}{weak_pairs(evidence, pairs)}"
    draw = (lambda: _draw(paper)) if paper else None
    return Outcome(cells, (), draw, parts, notes, headline=headline if paper else "")


def _draw(gaps: Sequence[Gap]) -> Figure:
    """Draw the differences by kind of training, one dot per number."""
    kinds = list(dict.fromkeys(g.kind for g in gaps))
    curves = []
    for label, single in (("several networks", False), ("one network", True)):
        own = [g for g in gaps if (g.seeds == 1) == single]
        x, y = [g.difference for g in own], [kinds.index(g.kind) for g in own]
        curves.append(Curve(x, y, "o", label, OURS, more=HOLLOW if single else {}))
    chart = Chart(curves, "ours less paper (points)", paint=lambda ax: name_rows(ax, kinds))
    return draw_charts([chart], width=6.4, height=1.0 + 0.25 * len(kinds))


def _headline(gaps: Sequence[Gap]) -> str:
    if not gaps:
        return ""
    near = sum(abs(g.difference) <= NEAR for g in gaps)
    far = max(gaps, key=lambda g: abs(g.difference))
    tested = [g for g in gaps if g.p_value is not None]
    apart = sum((g.p_value or 0.0) < SIGNIFICANCE for g in tested)
    by_chance = SIGNIFICANCE * len(tested)
    return (
        f"Native ProCo is within {NEAR:g} point of the paper in {near} of {len(gaps)} numbers, at "
        f"most {far.difference:+.2f} from it ({far.place}); of {len(tested)} that have several "
        f"seeds {apart} differ with p < {SIGNIFICANCE:g}, where chance makes {by_chance:.1f}."
    )


def _summary(gaps: Sequence[Gap], of: int) -> Iterator[str]:
    if not gaps:
        yield "No native run has a record yet."
        return
    printed = [g for g in gaps if g.times is not None]
    wide = sum((g.times or 0.0) > 1 for g in printed)
    single = sum(g.seeds == 1 for g in gaps)
    untested = f" Of one seed, and not tested: {single}." if single else ""
    tables: dict[str, list[str]] = {}
    for g in gaps:
        if g.p_value is not None and g.p_value < SIGNIFICANCE:
            tables.setdefault(g.source, []).append(f"{g.within} {g.difference:+z.2f}")
    apart = ", ".join(f"{source} ({'; '.join(own)})" for source, own in tables.items()) or "none"
    by_kind = (
        f"{c.row} {fmean(c.differences):+z.2f}, {sum(d < 0 for d in c.differences)} of "
        f"{len(c.differences)}" + ("" if c.p_value is None else f", {p_equation(c.p_value)}")
        for c in _by_kind(gaps)
    )
    yield (
        "Ours less the paper's by kind of training, mean over its settings (points), in how many "
        f"of these ours is below, and the p of a t test over them: {'; '.join(by_kind)}."
        f"{_differing(gaps)}"
    )
    yield (
        f"Native ProCo has records for {len(gaps)} of the {of} numbers printed. Beyond the printed "
        f"spread are {wide} of the {len(printed)} that have one. Different with p < 0.05, each "
        f"taken by itself: {apart}.{untested} The p is of Welch's t test against the "
        f"{PRINTED_SEEDS} seeds of the paper where it prints a spread; what is printed without one "
        "is taken to be a single run, and it asks whether that could be one more draw of ours."
    )


def _by_kind(gaps: Sequence[Gap]) -> list[Change]:
    """Differences by kind of training, one mean per network."""
    kinds: dict[str, dict[str, list[float]]] = {}
    for g in gaps:
        kinds.setdefault(g.kind, {}).setdefault(g.network, []).append(g.difference)
    means = {kind: map(fmean, by_network.values()) for kind, by_network in kinds.items()}
    return [Change(kind, "", None, dict(enumerate(own))) for kind, own in means.items()]


def _differing(gaps: Sequence[Gap]) -> str:
    """Kinds of training that differ as a whole; empty where none is tested."""
    changes = _by_kind(gaps)
    if all(change.p_value is None for change in changes):
        return ""
    kept = (f"{c.row} ({fmean(c.differences):+z.2f})" for c in significant(changes))
    return f" By kind of training and Holm's correction these differ: {', '.join(kept) or 'none'}."


def _recipe_numbers(evidence: Evidence, cells: Sequence[tuple[str, Cell]]) -> dict[str, Any]:
    """Numbers of ``templates/recipe.md``: texts of native networks, empty without records."""

    def texts(config: TrainConfig, *paths: str) -> str:
        values = [evidence.records.value(config, "native", 0.0, path) for path in paths]
        known: list[Value] = [v for v in values if v is not None]
        seeds = f" [{known[0].n}]" if known and known[0].n > 1 else ""
        return " / ".join(v.text(2) for v in known) + seeds

    def probes(config: TrainConfig, pool: str = "long_tail") -> str:
        return texts(config, *(probe_path(space, pool) for space in SPACES))

    means = {(label, c.row, c.column): c.paper.value.mean for label, c in cells if c.paper}
    training, matrix = "tab:angular-training", "tab:c10-if100-f"
    pairs = {
        "long_tail": [
            means[training, f"CIFAR-10 / 100, {s}", "ProCo"] for s in ("Encoder", "Projection")
        ],
        "balanced": [means[matrix, "ProCo", f"contrastive {c}"] for c in "EP"],
    }
    power = "tab:historical-power-temperature"
    heads = {
        power: means[power, "ProCo", "CIFAR-10 / 100"],
        matrix: means[matrix, "ProCo", "joint FC"],
    }
    printed = {
        **{pool: " / ".join(f"{v:.2f}" for v in pair) for pool, pair in pairs.items()},
        "heads": heads,
        "uniform": means["tab:c10-if100-u", "ProCo", "joint FC"],
    }
    own, three_views = controlled("cifar10", 100), official("cifar10", 100)
    head = evidence.records.value(three_views, "native", 0.0, "last.accuracy")
    kept, *others = joint_trials("cifar10").values()
    subsets = {i: controlled("cifar100", 100, subset=i) for i in range(3)}
    rules = [f"frozen.{space}.proco.native" for space in SPACES]
    frozen = {i: texts(config, *rules) for i, config in subsets.items()}
    return {
        "printed": printed,
        "long_tail": probes(own),
        "balanced": probes(own, "balanced"),
        "official": probes(three_views),
        "official_head": texts(three_views, "last.accuracy"),
        "nearest_head": ""
        if head is None
        else min(heads, key=lambda table: abs(heads[table] - head.mean)),
        "stronger": probes(stronger_views()),
        "last": texts(three_views, "last.accuracy"),
        "best": texts(three_views, "last.best_accuracy"),
        "draws": {i: probes(config) for i, config in subsets.items()},
        "frozen_draws": {i: text for i, text in frozen.items() if text},
        "trials": any(evidence.records.seeds(config) for config in others),
        "weighted": texts(replace(kept, prior=1.0), "last.accuracy"),
        "uniform": texts(replace(kept, prior=0.0), "last.accuracy"),
    }
