"""Beyond the paper: a sweep of beta, other views, and ProCo's public recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from resultant import figures
from resultant.frozen import Policy
from resultant.paper.artefact import Artefact, Cell, Change, Outcome, Value, printed, rows
from resultant.paper.evidence import PACKAGED, Evidence
from resultant.paper.intervals import over_queries, over_seeds, over_settings
from resultant.paper.networks import by_place, on_grid
from resultant.paper.plan import BOTH, controlled, official, stronger_views, wanted
from resultant.paper.records import paired, path_of
from resultant.paper.rules import significant, span
from resultant.paper.summary import BETAS, SPACES

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

COLOURS = dict(zip(SPACES, (figures.BLUE, figures.ORANGE), strict=True))

# The authors' public logs, IF 100: last and best epoch on the test set.
LOGS = """
CIFAR-10 | 85.63 | 85.93
CIFAR-100 | 52.76 | 52.84
"""


def sweep(evidence: Evidence) -> Outcome:
    """Pure Angular over beta, CIFAR-100 IF 100: frozen decisions and long-tail probes after
    training; beta = 1 is native."""
    config, found, native = controlled("cifar100", 100), {}, {}
    for space in SPACES:
        path = path_of(space)
        for beta in BETAS:
            kind = ("native", 0.0) if beta == 1 else ("angular", beta)
            found[space, beta] = evidence.records.values(config, *kind, path)
        native[space] = found[space, 1.0]
    cells, changes = [], []
    for beta in BETAS:
        row = f"beta {beta:g}" + (" (native)" if beta == 1 else "")
        for space in SPACES:
            cells += _frozen(evidence, row, beta, space)
        for space in SPACES:
            values = found[space, beta]
            value, seeds = Value.of(list(values.values())), len(values)
            said = "no record" if value is None else f"{value.said(2)} [{seeds}]"
            cells.append(Cell(row, f"trained, {space} (%)", None, text=said))
            if beta != 1 and values:
                differences = paired(values, native[space])
                what = f"beta {beta:g} - native"
                changes.append(Change(f"trained, {space}", what, None, differences))

    def draw() -> Figure:
        with figures.style():
            figure, (ax,) = figures.panels(width=4.6, height=3.2)
            for space, colour in COLOURS.items():
                values = {b: Value.of(list(found[space, b].values())) for b in BETAS}
                known = {b: v for b, v in values.items() if v is not None}
                means = [v.mean for v in known.values()]
                spread = [v.sd or 0.0 for v in known.values()]
                ax.errorbar(list(known), means, spread, fmt="o-", color=colour, label=space)
            ax.axvline(1, color=figures.GREY, ls=":")
            ax.set(xlabel=r"$\beta$ (dotted: native)", ylabel="long-tail probe (%)")
            figures.legend_below(figure, ax)
        return figure

    tested = [c for c in changes if c.differences]
    drawings: dict[str, Callable[[], Figure]] = {"beta": draw} if any(found.values()) else {}
    parts = {f"{space} {beta:g}": bool(values) for (space, beta), values in found.items()}
    note = (
        "Frozen: points over native with 95 % intervals, of the packaged network over queries and "
        "of the records over networks, their number in brackets; a dash where fewer than two were "
        "asked for that beta. Trained: mean ± standard deviation, seeds in brackets."
    )
    best = _best(evidence)
    return Outcome(cells, tested, drawings, parts, [note], headline=f"{best}; {_trained(tested)}.")


def _best(evidence: Evidence) -> str:
    """Which beta decides best on the frozen features of the packaged network."""
    found = {}
    for space in SPACES:
        right = {beta: _right(evidence, beta, space) for beta in BETAS}
        best = max(BETAS, key=lambda beta: int(right[beta].sum()))
        gain = over_queries(right[best], right[1.0], 100.0)
        found[space] = f"{best:g} on {space} ({gain.said()} points over native)"
    return f"On the packaged features the best beta is {' and '.join(found.values())}"


def _trained(tested: Sequence[Change]) -> str:
    """Whether any beta was seen to matter in training."""
    known = [c for c in tested if c.p_value is not None]
    if not known:
        return "trained, none was tested"
    kept = [f"{c.what} {c.ours.said(2, True)} ({c.row})" for c in significant(known) if c.ours]
    means = span([c.ours.mean for c in known if c.ours], 2, sign="+")
    seen = f"these differ: {', '.join(kept)}" if kept else "none was seen to differ"
    wide = [i.high - i.mean for c in known if (i := over_seeds(c.differences)) and i.high]
    return (
        f"trained, of {len(known)} differences from native {seen} by Holm's correction, means "
        f"{means} points with intervals of ± {span(wide, 1)}"
    )


def _right(evidence: Evidence, beta: float, space: str) -> Tensor:
    """Which queries [N] of the packaged network Pure Angular at beta has right, native at 1."""
    policy = Policy("native") if beta == 1 else Policy("angular", beta)
    return evidence.decisions(PACKAGED, space).right(policy)


def _frozen(evidence: Evidence, row: str, beta: float, space: str) -> Iterator[Cell]:
    """What beta changes on frozen features, of the packaged network and of the records."""
    columns = [f"frozen, {space}, {whose}" for whose in ("packaged", "records")]
    if beta == 1:
        yield from (Cell(row, column, None, text="0") for column in columns)
        return
    after, before = (_right(evidence, b, space) for b in (beta, 1.0))
    yield Cell(row, columns[0], None, text=over_queries(after, before, 100.0).said())
    found = by_place(evidence, on_grid(beta), ("CIFAR-100 / 100",), (space,))
    i = over_settings(list(found.values()))
    text = "–" if i is None or i.low is None else f"{i.said()} [{i.n}]"
    yield Cell(row, columns[1], None, text=text)


def recipe(evidence: Evidence) -> Outcome:
    """The three-view joint recipe beside the authors' public logs."""
    cells = []
    for (name, *texts), dataset in zip(rows(LOGS), ("cifar10", "cifar100"), strict=True):
        config = official(dataset, 100)
        for column, key, text in zip(
            ("last epoch", "best epoch"), ("accuracy", "best_accuracy"), texts, strict=True
        ):
            ours: Value | None = evidence.records.value(config, "native", 0.0, f"last.{key}")
            seeds = wanted(config)
            cells.append(Cell(f"{name} / 100", column, printed(text), ours, wanted=seeds))
    notes = ["The printed values are of the authors' public logs, not of the paper."]
    return Outcome(cells, notes=notes)


TITLES = dict(zip(BOTH, ("ProCo", "Pure Angular"), strict=True))


def views(evidence: Evidence) -> Outcome:
    """Whether Pure Angular helps on AutoAugment and Cutout views, CIFAR-10 IF 100, long-tail
    probes; and what the views themselves change."""
    configs = {"SimCLR": controlled("cifar10", 100), "AutoAugment": stronger_views()}
    changes, notes, parts, added = [], [], {}, []
    for space in SPACES:
        path = path_of(space)
        found = {
            (kind, r): evidence.records.values(config, r, 0.0, path)
            for kind, config in configs.items()
            for r in BOTH
        }
        for kind in configs:
            differences = paired(found[kind, "angular"], found[kind, "native"])
            changes.append(
                Change(f"{kind} views, {space}", "Pure Angular - ProCo", None, differences)
            )
        effect = over_seeds(changes[-1].differences)
        added += [effect.effect(space)] if effect else []
        for r, title in TITLES.items():
            differences = paired(found["AutoAugment", r], found["SimCLR", r])
            changes.append(Change(f"{title}, {space}", "AutoAugment - SimCLR", None, differences))
            known, seeds = found["AutoAugment", r], wanted(configs["AutoAugment"], r)
            parts[f"{title}, {space}"] = len(known) >= seeds
        said = [
            f"{title} on {kind} views {value.said(2)} [{value.n}]"
            for kind in configs
            for r, title in TITLES.items()
            if (value := Value.of(list(found[kind, r].values()))) is not None
        ]
        if said:
            notes.append(f"{space.capitalize()} (%): {', '.join(said)}.")
    said = f"Pure Angular less ProCo on stronger views (points): {'; '.join(added)}."
    tested = [c for c in changes if c.differences]
    return Outcome((), tested, parts=parts, notes=notes, headline=said if added else "")


ARTEFACTS = (
    Artefact(
        "official-recipe",
        "beyond:official-recipe",
        "ProCo's public recipe, classifier accuracy",
        recipe,
        ("power", "official"),
    ),
    Artefact(
        "beta-sweep",
        "beyond:beta-sweep",
        "Strength of the intervention, CIFAR-100 IF 100",
        sweep,
        ("main", "beyond"),
    ),
    Artefact(
        "stronger-views",
        "beyond:stronger-views",
        "AutoAugment and Cutout views, CIFAR-10 IF 100",
        views,
        ("main", "beyond"),
    ),
)
