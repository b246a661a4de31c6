"""Beyond the paper: a sweep of beta, other views, and ProCo's public recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import combinations
from statistics import fmean
from typing import TYPE_CHECKING

from resultant.analysis import Policy
from resultant.report import style
from resultant_reproduction.advice import Seen, numbers, places
from resultant_reproduction.artefact import Artefact, Cell, Change, Outcome, Value, printed, rows
from resultant_reproduction.evidence import PACKAGED, Evidence
from resultant_reproduction.figures import Chart, Curve, draw_charts, means
from resultant_reproduction.intervals import Interval, over_queries, over_seeds
from resultant_reproduction.networks import Reader, apart, by_place, on_grid
from resultant_reproduction.plan import BOTH, controlled, official, stronger_views, wanted
from resultant_reproduction.records import paired, path_of
from resultant_reproduction.rules import span
from resultant_reproduction.summarize import BETAS, SPACES
from resultant_reproduction.training_advice import in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

COLOURS = dict(zip(SPACES, (style.BLUE, style.ORANGE), strict=True))

# The setting of the sweep, and its name among the conditions of frozen features.
SWEPT, CONDITION = ("cifar100", 100), "CIFAR-100 / 100"

# The authors' public logs by imbalance: last and best epoch on the test set.
LOGS = """
CIFAR-10 / 50 | 88.07 | 88.17
CIFAR-10 / 100 | 85.63 | 85.93
CIFAR-100 / 50 | 56.82 | 57.13
CIFAR-100 / 100 | 52.76 | 52.84
"""


def sweep(evidence: Evidence) -> Outcome:
    """Pure Angular over beta, CIFAR-100 IF 100: frozen decisions and long-tail probes after
    training; beta = 1 is native."""
    config, found = controlled(*SWEPT), {}
    parts, cells, changes, trained = {}, [], [], {}
    for space in SPACES:
        for beta in BETAS:
            kind = ("native", 0.0) if beta == 1 else ("angular", beta)
            own = evidence.records.values(config, *kind, path_of(space))
            found[space, beta] = own
            parts[f"{space} {beta:g}"] = len(own) >= wanted(config, *kind)
    for beta in BETAS:
        row = f"beta {beta:g}" + (" (native)" if beta == 1 else "")
        for space in SPACES:
            cells += _frozen(evidence, row, beta, space)
        for space in SPACES:
            values = found[space, beta]
            value, seeds = Value.of(list(values.values())), len(values)
            said = "no record" if value is None else f"{value.said(2)} [{seeds}]"
            cells.append(Cell(row, f"trained, {space} (%)", None, text=said))
            differences = {} if beta == 1 else paired(values, found[space, 1.0])
            change = over_seeds([*differences.values()])
            if change is not None:
                trained[f"beta {beta:g} {space}"] = change
                what = f"beta {beta:g} - native"
                changes.append(Change(f"trained, {space}", what, None, differences))

    def draw() -> Figure:
        frozen, after = [], []
        for space, colour in COLOURS.items():
            frozen += _frozen_lines(evidence, space, colour)
            values = {b: Value.of(list(found[space, b].values())) for b in BETAS}
            points = {b: (v.mean, v.sd or 0.0) for b, v in values.items() if v is not None}
            after.append(means(points, "o-", colour))
        xlabel = r"$\beta$ (native: 1)"
        charts = [
            Chart(frozen, xlabel, "frozen, points over native"),
            Chart(after, xlabel, "trained, long-tail probe (%)"),
        ]
        return draw_charts(charts, width=3.6, height=3.2, legend=2)

    note = (
        "Frozen: points over native with 95 % intervals, of the packaged network over queries and "
        "of the records over networks, their number in brackets; a dash where fewer than two were "
        "asked for that beta. Trained: mean ± standard deviation, seeds in brackets. Told apart is "
        "what Holm's correction at 5 % leaves, of the best over all pairs."
    )
    seen = in_words(trained) or "nothing measured"
    headline = f"{_best(evidence)} Trained at these strengths, less native: {seen}."
    return Outcome(cells, changes, {"beta": draw}, parts, [note], headline=headline)


def _frozen_lines(evidence: Evidence, space: str, colour: str) -> Iterator[Curve]:
    """Points over native by beta, of the packaged network and of the records."""
    looks = {"packaged": "o-", "records": "s--"}
    known = {b: _over_native(evidence, b, space) for b in BETAS if b != 1}
    for i, (whose, look) in enumerate(looks.items()):
        own = {b: both[i] for b, both in known.items()} | {1.0: Interval(0.0, 0.0, 0.0, 0)}
        at = {
            b: (x.mean, x.mean - x.low)
            for b, x in sorted(own.items())
            if x is not None and x.low is not None
        }
        if len(at) > 1:
            yield means(at, look, colour, f"{space}, {whose}")


def _read(beta: float) -> Reader:
    """Reads what beta changes from native, which it is at 1."""
    return (lambda summary: 0.0) if beta == 1 else on_grid(beta)


def _networks(evidence: Evidence, space: str, after: float, before: float = 1.0) -> list[float]:
    """What a beta has more than another on frozen features of the records, in points."""
    read = apart(_read(after), _read(before))
    return by_place(evidence, read, (CONDITION,), (space,)).get((CONDITION, space), [])


def _queries(evidence: Evidence, space: str, after: float, before: float) -> Interval:
    """The same of the packaged network, over its queries."""
    return over_queries(_right(evidence, after, space), _right(evidence, before, space), 100.0)


def _right(evidence: Evidence, beta: float, space: str) -> Tensor:
    """Which queries [N] of the packaged network Pure Angular at beta has right, native at 1."""
    policy = Policy("native") if beta == 1 else Policy("angular", beta)
    return evidence.decisions(PACKAGED, space).right(policy)


def _over_native(evidence: Evidence, beta: float, space: str) -> tuple[Interval, Interval | None]:
    """What beta changes on frozen features, of the packaged network and of the records."""
    return _queries(evidence, space, beta, 1.0), over_seeds(_networks(evidence, space, beta))


def _frozen(evidence: Evidence, row: str, beta: float, space: str) -> Iterator[Cell]:
    columns = [f"frozen, {space}, {whose}" for whose in ("packaged", "records")]
    if beta == 1:
        yield from (Cell(row, column, None, text="0") for column in columns)
        return
    queries, i = _over_native(evidence, beta, space)
    yield Cell(row, columns[0], None, text=queries.said())
    text = "–" if i is None or i.low is None else f"{i.said()} [{i.n}]"
    yield Cell(row, columns[1], None, text=text)


def _best(evidence: Evidence) -> str:
    """Which beta is best on frozen features: over the networks of the records, then over the
    queries of the packaged one beside the strengths that these lack. Where no two networks have a
    sweep the packaged one is asked for all."""

    def networks(space: str, after: float, before: float) -> Interval | None:
        return over_seeds(_networks(evidence, space, after, before))

    def queries(space: str, after: float, before: float) -> Interval:
        return _queries(evidence, space, after, before)

    known = {s: {b: _networks(evidence, s, b) for b in BETAS} for s in SPACES}
    means = {s: {b: fmean(v) for b, v in own.items() if len(v) > 1} for s, own in known.items()}
    if any(len(own) < 2 for own in means.values()):
        means = {s: {b: queries(s, b, 1.0).mean for b in BETAS} for s in SPACES}
        return f"On the packaged features {ranked(means, queries)[0]}."
    text, best = ranked(means, networks)
    sizes = [len(known[s][b]) for s, own in means.items() for b in own if b != 1]
    text = f"On frozen features of {span([*map(float, sizes)], 0)} networks {text}."
    lacking = [b for b in BETAS if any(b not in own for own in means.values())]
    ahead = {f"{b:g} on {s}": queries(s, best[s], b) for b in lacking for s in SPACES}
    if not ahead:
        return text
    up, asked = Seen.of(ahead).up, " and ".join(f"{b:g}" for b in lacking)
    return (
        f"{text} On the packaged network, which alone has {asked}, it is ahead of "
        f"{numbers(ahead)}{_close(name for name in ahead if name not in up)}."
    )


def ranked(
    means: Mapping[str, Mapping[float, float]],
    less: Callable[[str, float, float], Interval | None],
) -> tuple[str, dict[str, float]]:
    """The best beta by space, in words too: how far it is ahead of native and of the next, and from
    which it is not told apart by Holm's correction for all pairs. ``means`` by space and beta;
    ``less`` has what the first beta has more than the second in a space."""
    order = {s: sorted(own, key=own.__getitem__, reverse=True) for s, own in means.items()}
    pairs = {
        f"{a:g} less {b:g} on {s}": i
        for s, own in order.items()
        for a, b in combinations(own, 2)
        if (i := less(s, a, b)) is not None
    }
    up, told, close = Seen.of(pairs).up, [], []
    for s, (first, *others) in order.items():
        names = {b: f"{first:g} less {b:g} on {s}" for b in others}
        shown = [b for b in dict.fromkeys((1.0, others[0])) if names.get(b) in pairs]
        ahead = (f"{pairs[names[b]].said()} over {'native' if b == 1 else f'{b:g}'}" for b in shown)
        told.append(f"{first:g} on {s} ({', '.join(ahead)})")
        close += [f"{b:g} on {s}" for b, name in names.items() if name not in up]
    betas = ", ".join(f"{b:g}" for b in sorted({b for own in order.values() for b in own}))
    text = f"the best beta of {betas} is (points) {' and '.join(told)}{_close(close)}"
    return text, {s: own[0] for s, own in order.items()}


def _close(names: Iterable[str]) -> str:
    """What the best is not told apart from."""
    from_ = places(names)
    return f", not told apart from {from_}" if from_ else ", told apart from all"


def recipe(evidence: Evidence) -> Outcome:
    """The three-view joint recipe beside the authors' public logs."""
    cells = []
    for name, *texts in rows(LOGS):
        dataset, imbalance = name.lower().replace("-", "").split(" / ")
        config = official(dataset, int(imbalance))
        for column, key, text in zip(
            ("last epoch", "best epoch"), ("accuracy", "best_accuracy"), texts, strict=True
        ):
            ours: Value | None = evidence.records.value(config, "native", 0.0, f"last.{key}")
            cells.append(Cell(name, column, printed(text), ours, wanted=wanted(config)))
    note = (
        "The printed values are of the authors' public logs, not of the paper. Their logs of IF 10 "
        "(last epoch 91.70 on CIFAR-10, 65.37 on CIFAR-100) are in no plan."
    )
    return Outcome(cells, notes=[note])


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
