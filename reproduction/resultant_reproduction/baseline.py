"""Our baseline beside the paper's: where native ProCo differs by more than the printed spread."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import fmean

from resultant_reproduction.artefact import SIGNIFICANCE, Artefact, Cell, Change, Outcome, said_p
from resultant_reproduction.beyond import recipe
from resultant_reproduction.controls import TABLES, control_table
from resultant_reproduction.doubts import KEPT, doubts
from resultant_reproduction.evidence import Evidence
from resultant_reproduction.frozen_tables import frozen_table
from resultant_reproduction.historical import heads
from resultant_reproduction.rules import equals, significant
from resultant_reproduction.spread import PRINTED_SEEDS, pairings, spread, weak_pairs
from resultant_reproduction.training import angular_training, joint_fc

LOGS = "public logs"
# How far a number may be from the printed one to be called near, in points.
NEAR = 1.0


@dataclass(frozen=True)
class Gap:
    """A native number of the paper, ours less that, and the probability of so large a difference
    by chance: Welch's t test where the paper prints a spread, else that its number, taken to be of
    a single run, is one more draw of ours. None for a single seed, or for equal ones."""

    where: str
    cell: Cell
    difference: float
    times: float | None
    p_value: float | None

    @property
    def within(self) -> str:
        """Where in its table it is printed."""
        cell = self.cell
        own = f"{cell.row}, {cell.column}" if self.where == LOGS else cell.row
        return cell.column if cell.row == "ProCo" else own

    @property
    def place(self) -> str:
        """Where it is printed."""
        return f"{self.where}: {self.within}"

    @property
    def kind(self) -> str:
        """How its network was trained, on which data, and what is measured."""
        joint = self.where == "tab:joint-fc" or self.cell.column.startswith("joint")
        setting = self.cell.column if self.cell.row == "ProCo" else self.cell.row
        dataset = "CIFAR-10" if "c10" in self.where else setting.partition(" /")[0]
        how = "joint" if joint else "contrastive"
        if self.where in (LOGS, "tab:historical-power-temperature"):
            how = "three views, joint"
        _, _, space = setting.partition(", ")
        what = f", frozen {space}" if self.where == "tab:frozen-vmf" else ""
        return f"{dataset}, {how}{what}"

    @property
    def network(self) -> str:
        """The setting of the training that it is a number of, within its `kind`."""
        if self.cell.row != "ProCo":
            return self.cell.row.partition(",")[0]
        if not self.where.startswith("tab:c10"):
            return self.cell.column
        _, imbalance, prior = self.where.split("-")
        return f"CIFAR-10 / {imbalance[2:]}{', uniform prior' if prior == 'u' else ''}"

    @property
    def seeds(self) -> int:
        return self.cell.ours.n if self.cell.ours else 0

    @property
    def verdict(self) -> str:
        beyond = "no printed spread"
        if self.times is not None:
            beyond = f"{'beyond' if self.times > 1 else 'within'} its spread"
        if self.p_value is None:
            return f"{beyond}, {'equal seeds' if self.seeds > 1 else 'one seed'}: not tested"
        return f"{beyond}, {'differs' if self.p_value < SIGNIFICANCE else 'could be chance'}"


def gap(where: str, cell: Cell) -> Gap | None:
    """Of a cell that has both numbers."""
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
        p = ours.drawn(paper.mean)
    return Gap(where, cell, d, abs(d) / paper.sd if paper.sd else None, p)


def native_cells(evidence: Evidence) -> Iterator[tuple[str, Cell]]:
    """Every number of native ProCo on CIFAR, with where it is printed; classifiers of CIFAR-10 by
    the control matrix alone, which has them too."""
    tables = (
        ("tab:angular-training", "ProCo", angular_training(evidence)),
        ("tab:frozen-vmf", "Original vMF", frozen_table("frozen-vmf", evidence)),
        ("tab:joint-fc", "ProCo", joint_fc(evidence)),
    )
    for label, column, outcome in tables:
        own = [c for c in outcome.cells if c.column == column and not c.foreign]
        twice = "CIFAR-10 /" if label == "tab:joint-fc" else "-"
        yield from ((label, c) for c in own if not c.row.startswith(twice))
    for label, outcome in (
        *((f"tab:{name}", control_table(name, evidence)) for name in TABLES),
        ("tab:historical-power-temperature", heads(evidence)),
    ):
        yield from ((label, c) for c in outcome.cells if c.row == "ProCo")
    yield from ((LOGS, cell) for cell in recipe(evidence).cells)


def baseline(evidence: Evidence) -> Outcome:
    """The numbers that have records, and what is to be said of the protocol."""
    every = list(native_cells(evidence))
    gaps = [found for where, cell in every if (found := gap(where, cell)) is not None]
    cells = []
    for g in gaps:
        row = g.place
        both = replace(g.cell, row=row, column="paper / ours", paper=None, text=g.cell.said())
        cells.append(both)
        cells.append(Cell(row, "ours less paper", None, text=f"{g.difference:+z.2f}"))
        times = "–" if g.times is None else f"{g.times:.1f}"
        cells.append(Cell(row, "times its spread", None, text=times))
        cells.append(Cell(row, "p", None, text=said_p(g.p_value)))
        cells.append(Cell(row, "verdict", None, text=g.verdict))
    parts = {f"{where}: {c.row}, {c.column}": c.ours is not None for where, c in every}
    paper, pairs = [g for g in gaps if g.where != LOGS], pairings(evidence)
    notes = [
        *_summary(paper, sum(where != LOGS for where, _ in every)),
        *spread(evidence, [g.cell for g in gaps], pairs),
        KEPT,
        "\n".join(f"- {doubt}" for doubt in doubts(evidence, every)),
    ]
    headline = f"{_headline(paper)}{_apart(paper)}{weak_pairs(evidence, pairs)}" if paper else ""
    return Outcome(cells, parts=parts, notes=notes, headline=headline)


def _names(gaps: list[Gap]) -> str:
    """Table by table, or none."""
    tables: dict[str, list[str]] = {}
    for g in gaps:
        tables.setdefault(g.where, []).append(f"{g.within} {g.difference:+z.2f}")
    return ", ".join(f"{where} ({'; '.join(own)})" for where, own in tables.items()) or "none"


def _headline(gaps: list[Gap]) -> str:
    """How near they are as a whole."""
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


def _summary(gaps: list[Gap], of: int) -> Iterator[str]:
    if not gaps:
        yield "No native run has a record yet."
        return
    printed = [g for g in gaps if g.times is not None]
    wide = sum((g.times or 0.0) > 1 for g in printed)
    apart = [g for g in gaps if g.p_value is not None and g.p_value < SIGNIFICANCE]
    alone = sum(g.seeds == 1 for g in gaps)
    untested = f" Of one seed, and not tested: {alone}." if alone else ""
    yield _by_kind(gaps)
    yield (
        f"Native ProCo has records for {len(gaps)} of the {of} numbers printed. Beyond the printed "
        f"spread are {wide} of the {len(printed)} that have one. Different with p < 0.05, each "
        f"taken by itself: {_names(apart)}."
        f"{untested} The p is of Welch's t test against the {PRINTED_SEEDS} seeds of the paper "
        "where it prints a spread; what is printed without one is taken to be a single run, and "
        "it asks whether that could be one more draw of ours."
    )


def _kinds(gaps: list[Gap]) -> list[Change]:
    """The differences by kind of training, a mean for each network, whose numbers are of the
    same."""
    kinds: dict[str, dict[str, list[float]]] = {}
    for g in gaps:
        kinds.setdefault(g.kind, {}).setdefault(g.network, []).append(g.difference)
    means = {kind: [fmean(own) for own in each.values()] for kind, each in kinds.items()}
    return [Change(kind, "", None, dict(enumerate(own))) for kind, own in means.items()]


def _apart(gaps: list[Gap]) -> str:
    """Which kinds of training differ as a whole, in a sentence; nothing where none is tested."""
    changes = _kinds(gaps)
    if all(change.p_value is None for change in changes):
        return ""
    kept = (f"{c.row} ({fmean(c.differences):+z.2f})" for c in significant(changes))
    return f" By kind of training and Holm's correction these differ: {', '.join(kept) or 'none'}."


def _by_kind(gaps: list[Gap]) -> str:
    """Whether kinds of training differ as a whole."""
    told = (
        f"{c.row} {fmean(c.differences):+z.2f}, {sum(d < 0 for d in c.differences)} of "
        f"{len(c.differences)}" + ("" if c.p_value is None else f", {equals(c.p_value)}")
        for c in _kinds(gaps)
    )
    return (
        "Ours less the paper's by kind of training, mean over its settings (points), in how many "
        f"of these ours is below, and the p of a t test over them: {'; '.join(told)}.{_apart(gaps)}"
    )


ARTEFACTS = (
    Artefact(
        "baseline",
        "beyond:baseline",
        "Native ProCo beside the paper's, and what could set them apart",
        baseline,
        ("main", "joint", "controls", "power", "beyond", "members", "trials"),
    ),
)
