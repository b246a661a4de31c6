"""Comparisons beyond the paper: strengths of the edit, and other views."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from statistics import fmean
from typing import TYPE_CHECKING

from resultant.analysis import Policy
from resultant.report import style
from resultant.training.config import TrainConfig
from resultant_reproduction.evidence import (
    PACKAGED,
    Evidence,
    Reader,
    by_condition,
    read_edit,
    subtract,
)
from resultant_reproduction.figures import Chart, Curve, draw_charts, means
from resultant_reproduction.headline import TITLES
from resultant_reproduction.plan import BOTH, controlled, planned_seeds, stronger_views
from resultant_reproduction.records import paired, probe_path
from resultant_reproduction.spec import Cell, Change, Outcome
from resultant_reproduction.stats import Interval, corrected_text, over_queries, over_seeds
from resultant_reproduction.summarize import BETAS, SPACES
from resultant_reproduction.value import Value

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

COLOURS = dict(zip(SPACES, (style.BLUE, style.ORANGE), strict=True))
# Setting of the sweep, as a condition of frozen features.
CONDITION = "CIFAR-100 / 100"


def complete(evidence: Evidence, config: TrainConfig) -> bool:
    """Return True if native and angular runs have long-tail probes of all planned seeds."""
    kinds = ("native", 0.0), ("angular", 0.0)
    return all(
        len(evidence.records.values(config, *kind, probe_path(space)))
        >= planned_seeds(config, *kind)
        for kind, space in product(kinds, SPACES)
    )


def added(
    evidence: Evidence, config: TrainConfig, betas: Iterable[float] = (0.0,), name: str = ""
) -> dict[str, Interval]:
    """Change of long-tail probes by training with Pure Angular, over seeds, by space."""
    effects = {}
    for beta, space in product(betas, SPACES):
        kinds = (config, "angular", beta), (config, "native", 0.0)
        differences = evidence.records.differences(*kinds, probe_path(space))
        effects[f"{name.format(beta=beta)}{space}"] = over_seeds([*differences.values()])
    return {place: i for place, i in effects.items() if i is not None}


def sweep(evidence: Evidence) -> Outcome:
    """Pure Angular over beta, CIFAR-100 IF 100: frozen decisions, and long-tail probes after
    training; beta = 1 is native."""
    config, values = controlled("cifar100", 100), {}
    parts, cells, changes = {}, [], []
    for space, beta in product(SPACES, BETAS):
        kind = ("native", 0.0) if beta == 1 else ("angular", beta)
        own = evidence.records.values(config, *kind, probe_path(space))
        values[space, beta] = own
        parts[f"{space} {beta:g}"] = len(own) >= planned_seeds(config, *kind)
    for beta in BETAS:
        row = f"beta {beta:g}" + (" (native)" if beta == 1 else "")
        cells += [cell for space in SPACES for cell in _frozen_cells(evidence, row, beta, space)]
        for space in SPACES:
            own = Value.of(list(values[space, beta].values()))
            text = "no record" if own is None else f"{own.text(2)} [{own.n}]"
            cells.append(Cell(row, f"trained, {space} (%)", None, text=text))
            differences = {} if beta == 1 else paired(values[space, beta], values[space, 1.0])
            if differences:
                name = f"beta {beta:g} - native"
                changes.append(Change(f"trained, {space}", name, None, differences))

    def draw() -> Figure:
        frozen, after = [], []
        for space, colour in COLOURS.items():
            frozen += _frozen_lines(evidence, space, colour)
            own = {b: Value.of(list(values[space, b].values())) for b in BETAS}
            points = {b: (v.mean, v.sd or 0.0) for b, v in own.items() if v is not None}
            after.append(means(points, "o-", colour))
        xlabel = r"$\beta$ (native: 1)"
        charts = [
            Chart(frozen, xlabel, "frozen, points over native"),
            Chart(after, xlabel, "trained, long-tail probe (%)"),
        ]
        return draw_charts(charts, width=3.6, height=3.2, legend=2)

    note = (
        "Frozen: points over native with 95 % intervals, over queries for the packaged network and "
        "over networks for the records, with their number in brackets; a dash means fewer than two "
        "networks at that beta. Trained: mean ± standard deviation, seeds in brackets."
    )
    trained = added(evidence, config, [b for b in BETAS if b != 1], "beta {beta:g} ")
    headline = (
        f"{_best(evidence)}Trained at these strengths, less native: {corrected_text(trained)}."
    )
    return Outcome(cells, changes, draw, parts, [note], headline=headline)


def _frozen_lines(evidence: Evidence, space: str, colour: str) -> list[Curve]:
    """Points over native by beta, of the packaged network and of the records."""
    effects = {b: _over_native(evidence, b, space) for b in BETAS if b != 1}
    lines = []
    for i, (source, look) in enumerate({"packaged": "o-", "records": "s--"}.items()):
        own = {b: both[i] for b, both in effects.items()} | {1.0: Interval(0.0, 0.0, 0.0, 0)}
        points = {
            b: (x.mean, x.mean - x.low)
            for b, x in sorted(own.items())
            if x is not None and x.low is not None
        }
        if len(points) > 1:
            lines.append(means(points, look, colour, f"{space}, {source}"))
    return lines


def _read(beta: float) -> Reader:
    return (lambda summary: 0.0) if beta == 1 else read_edit(beta)


def _networks(evidence: Evidence, space: str, after: float, before: float = 1.0) -> list[float]:
    """Difference of two strengths on frozen features of the records, in points."""
    read = subtract(_read(after), _read(before))
    return by_condition(evidence, read, (CONDITION,), (space,)).get((CONDITION, space), [])


def _hits(evidence: Evidence, beta: float, space: str) -> Tensor:
    """Right decisions [N] of the packaged network by Pure Angular at beta, native at 1."""
    policy = Policy("native") if beta == 1 else Policy("angular", beta)
    return evidence.decisions(PACKAGED, space).right(policy)


def _over_native(evidence: Evidence, beta: float, space: str) -> tuple[Interval, Interval | None]:
    """Change by beta on frozen features, of the packaged network and of the records."""
    after, before = (_hits(evidence, b, space) for b in (beta, 1.0))
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
    changes, notes, parts, effects = [], [], {}, []
    for space in SPACES:
        path = probe_path(space)
        values = {
            (views, rule): evidence.records.values(config, rule, 0.0, path)
            for views, config in configs.items()
            for rule in BOTH
        }
        for kind in configs:
            differences = paired(values[kind, "angular"], values[kind, "native"])
            row = f"{kind} views, {space}"
            changes.append(Change(row, "Pure Angular - ProCo", None, differences))
        effect = over_seeds(changes[-1].differences)
        effects += [effect.effect(space)] if effect else []
        for rule in BOTH:
            differences = paired(values["AutoAugment", rule], values["SimCLR", rule])
            changes.append(
                Change(f"{TITLES[rule]}, {space}", "AutoAugment - SimCLR", None, differences)
            )
            planned = planned_seeds(configs["AutoAugment"], rule)
            parts[f"{TITLES[rule]}, {space}"] = len(values["AutoAugment", rule]) >= planned
        texts = [
            f"{TITLES[rule]} on {kind} views {value.text(2)} [{value.n}]"
            for kind in configs
            for rule in BOTH
            if (value := Value.of(list(values[kind, rule].values()))) is not None
        ]
        if texts:
            notes.append(f"{space.capitalize()} (%): {', '.join(texts)}.")
    headline = f"Pure Angular less ProCo on stronger views (points): {'; '.join(effects)}."
    tested = [c for c in changes if c.differences]
    return Outcome((), tested, parts=parts, notes=notes, headline=headline if effects else "")
