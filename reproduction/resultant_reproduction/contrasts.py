"""Comparisons beyond the paper: strengths of the edit, and other views."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from statistics import fmean
from typing import TYPE_CHECKING, Any

from resultant.analysis import Policy
from resultant.report import style
from resultant.training.config import TrainConfig
from resultant_reproduction.evidence import PACKAGED, Evidence, by_condition, read_edit
from resultant_reproduction.figures import Chart, Curve, draw_charts, means
from resultant_reproduction.headline import TITLES
from resultant_reproduction.plan import BOTH, controlled, planned_seeds, stronger_views
from resultant_reproduction.records import probe_path
from resultant_reproduction.spec import Cell, Change, Outcome
from resultant_reproduction.stats import change_effects, corrected_text, over_queries, over_seeds
from resultant_reproduction.summarize import BETAS, SPACES
from resultant_reproduction.value import Value
from resultant_reproduction.verdicts import Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = dict(zip(SPACES, (style.BLUE, style.ORANGE), strict=True))
# Setting of the sweep, as a condition of frozen features.
CONDITION = "CIFAR-100 / 100"

# A kind of runs: settings, realization and beta.
Kind = tuple[TrainConfig, str, float]


def complete(evidence: Evidence, config: TrainConfig) -> bool:
    """Return True if native and angular runs have long-tail probes of all planned seeds."""
    return all(
        len(evidence.records.values(config, rule, 0.0, probe_path(space)))
        >= planned_seeds(config, rule, 0.0)
        for rule, space in product(BOTH, SPACES)
    )


def compare_probes(
    evidence: Evidence, row: str, what: str, space: str, after: Kind, before: Kind
) -> Change:
    """Change of the long-tail probe of a space from one kind of runs to another, by seed."""
    differences = evidence.records.differences(after, before, probe_path(space))
    return Change(row, what, None, differences)


def sweep(evidence: Evidence) -> Outcome:
    """Pure Angular over beta, CIFAR-100 IF 100: frozen decisions, and long-tail probes after
    training; beta = 1 is native."""
    config = controlled("cifar100", 100)
    kinds: dict[float, Kind] = {
        beta: (config, "native", 0.0) if beta == 1 else (config, "angular", beta) for beta in BETAS
    }
    trained: dict[str, dict[float, Value | None]] = {
        space: {b: evidence.records.value(*kind, probe_path(space)) for b, kind in kinds.items()}
        for space in SPACES
    }
    cells, changes = [], []
    for beta, kind in kinds.items():
        row = f"beta {beta:g}" + (" (native)" if beta == 1 else "")
        cells += [cell for space in SPACES for cell in _frozen_cells(evidence, row, beta, space)]
        for space in SPACES:
            own = trained[space][beta]
            text = "no record" if own is None else f"{own.text(2)} [{own.n}]"
            cells.append(Cell(row, f"trained, {space} (%)", None, text=text))
            if beta != 1:
                places = (f"trained, {space}", f"beta {beta:g} - native", space)
                changes.append(compare_probes(evidence, *places, kind, kinds[1.0]))

    def draw() -> Figure:
        frozen, after = [], []
        for space, colour in COLOURS.items():
            frozen += _frozen_lines(evidence, space, colour)
            points = {b: (v.mean, v.sd or 0.0) for b, v in trained[space].items() if v is not None}
            after.append(means(points, "o-", colour))
        xlabel = r"$\beta$ (native: 1)"
        charts = [
            Chart(frozen, xlabel, "frozen, points over native"),
            Chart(after, xlabel, "trained, long-tail probe (%)"),
        ]
        return draw_charts(charts, width=3.6, height=3.2, legend=2)

    parts = {
        f"{space} {beta:g}": own is not None and own.n >= planned_seeds(*kinds[beta])
        for space in SPACES
        for beta, own in trained[space].items()
    }
    effects = {name.replace(", trained,", ""): i for name, i in change_effects(changes).items()}
    headline = (
        f"{_best(evidence)}Trained at these strengths, less native: {corrected_text(effects)}."
    )
    tested = [change for change in changes if change.differences]
    return Outcome(cells, tested, draw, parts, headline=headline)


def _frozen_lines(evidence: Evidence, space: str, colour: str) -> list[Curve]:
    """Points over native by beta, of the packaged network and of the records."""
    effects = {b: _over_native(evidence, b, space) for b in BETAS if b != 1}
    lines = []
    for i, (source, look) in enumerate({"packaged": "o-", "records": "s--"}.items()):
        own = {b: both[i] for b, both in effects.items()} | {1.0: Estimate(0.0, 0.0, 0.0)}
        points = {
            b: (x.mean, x.mean - x.low)
            for b, x in sorted(own.items())
            if x is not None and x.low is not None
        }
        if len(points) > 1:
            lines.append(means(points, look, colour, f"{space}, {source}"))
    return lines


def _networks(evidence: Evidence, space: str, after: float, before: float = 1.0) -> list[float]:
    """Difference of two strengths on frozen features of the records, in points."""

    def read(summary: Mapping[str, Any]) -> float | None:
        a, b = (0.0 if beta == 1 else read_edit(beta)(summary) for beta in (after, before))
        return None if a is None or b is None else a - b

    return by_condition(evidence, read, (CONDITION,), (space,)).get((CONDITION, space), [])


def _over_native(evidence: Evidence, beta: float, space: str) -> tuple[Estimate, Estimate | None]:
    """Change by beta on frozen features, of the packaged network and of the records."""
    decisions = evidence.decisions(PACKAGED, space)
    after, before = (decisions.right(p) for p in (Policy("angular", beta), Policy("native")))
    return over_queries(after, before, 100.0), over_seeds(_networks(evidence, space, beta))


def _frozen_cells(evidence: Evidence, row: str, beta: float, space: str) -> list[Cell]:
    texts = ["0", "0"]
    if beta != 1:
        queries, i = _over_native(evidence, beta, space)
        networks = "–" if i is None or i.low is None else f"{i.text()} [{i.n}]"
        texts = [queries.text(), networks]
    columns = (f"frozen, {space}, {source}" for source in ("packaged", "records"))
    return [Cell(row, column, None, text=t) for column, t in zip(columns, texts, strict=True)]


def _best(evidence: Evidence) -> str:
    """The best beta on frozen features of the records, less native and less the next best one;
    empty with fewer than two networks."""
    texts = []
    for space in SPACES:
        values = {b: _networks(evidence, space, b) for b in BETAS}
        level = {b: fmean(own) for b, own in values.items() if len(own) > 1}
        if len(level) < 2:
            return ""
        first, second, *_ = sorted(level, key=level.__getitem__, reverse=True)
        others = [b for b in dict.fromkeys((1.0, second)) if b != first]
        ahead = {b: over_seeds(_networks(evidence, space, first, b)) for b in others}
        less = (
            f"{i.text()} less {'native' if b == 1 else f'{b:g}'}" for b, i in ahead.items() if i
        )
        texts.append(f"{first:g} on {space} ({', '.join(less)}; {len(values[first])} networks)")
    return f"The best beta on frozen features is (points) {' and '.join(texts)}. "


def views(evidence: Evidence) -> Outcome:
    """Pure Angular on AutoAugment and Cutout views, CIFAR-10 IF 100, long-tail probes; and the
    effect of the views themselves."""
    configs = {"SimCLR": controlled("cifar10", 100), "AutoAugment": stronger_views()}
    kinds: dict[tuple[str, str], Kind] = {
        (name, rule): (config, rule, 0.0) for name, config in configs.items() for rule in BOTH
    }
    changes, notes, parts, effects = [], [], {}, []
    for space in SPACES:
        for name in configs:
            places = (f"{name} views, {space}", "Pure Angular - ProCo", space)
            pair = kinds[name, "angular"], kinds[name, "native"]
            changes.append(compare_probes(evidence, *places, *pair))
        effect = over_seeds(changes[-1].differences)
        effects += [effect.effect(space)] if effect else []
        for rule in BOTH:
            places = (f"{TITLES[rule]}, {space}", "AutoAugment - SimCLR", space)
            pair = kinds["AutoAugment", rule], kinds["SimCLR", rule]
            changes.append(compare_probes(evidence, *places, *pair))
            trained = evidence.records.values(*pair[0], probe_path(space))
            parts[places[0]] = len(trained) >= planned_seeds(configs["AutoAugment"], rule)
        texts = [
            f"{TITLES[rule]} on {name} views {value.text(2)} [{value.n}]"
            for (name, rule), kind in kinds.items()
            if (value := evidence.records.value(*kind, probe_path(space))) is not None
        ]
        if texts:
            notes.append(f"{space.capitalize()} (%): {', '.join(texts)}.")
    headline = f"Pure Angular less ProCo on stronger views (points): {'; '.join(effects)}."
    tested = [c for c in changes if c.differences]
    return Outcome((), tested, parts=parts, notes=notes, headline=headline if effects else "")
