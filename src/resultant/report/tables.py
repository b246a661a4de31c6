"""The tables of an analysis, for the page and as CSV files with every digit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from resultant._core.text import counted
from resultant.analysis import Analysis, GainDistribution
from resultant.analysis.fits import FITS
from resultant.classes.groups import GROUPS
from resultant.report.table import Column, Table, change, share
from resultant.report.words import (
    NAMES,
    NATIVE_IN_PAPER,
    before_and_after,
    number,
    plain,
    seconds,
    short,
)

SYMBOLS = {"temperature": "τ", "beta": "β", "prior": "γ"}


def rules(a: Analysis) -> Table | None:
    """Return all rules and references on the same held-out rows, the advised rule marked."""
    if (advice := a.advice) is None:
        return None
    groups = tuple(g for g in GROUPS if a.space.groups.get(g))
    notes = any(row.note for row in advice.table)
    rows, marked = [], {}
    for i, row in enumerate(advice.table):
        d = row.difference
        rows.append(
            (
                *(row.name, row.accuracy, _interval(row.low, row.high)),
                *((None, "advised") if d is None else (d.gain, d.verdict)),
                *(row.balanced, *(row.groups.get(g) for g in groups)),
                *(row.before.nll, row.after.nll, row.before.ece, row.after.ece),
                *(row.fit_seconds, row.predict_seconds, _settings(row.settings)),
                *((row.note,) if notes else ()),
            )
        )
        marks = {"advised": row.key == advice.advised, "best": row.key == advice.best}
        if any(marks.values()):
            marked[i] = " ".join(name for name, on in marks.items() if on)
    columns = (
        *(Column("rule"), share("accuracy"), Column("95 % interval")),
        *(change("difference"), Column("verdict")),
        share("balanced accuracy"),
        *(share(g) for g in groups),
        *(Column("log-loss", plain), Column("log-loss, scaled", plain)),
        *(share("calibration error"), share("calibration error, scaled")),
        *(Column("fit time", seconds, "s"), Column("predict time", seconds, "s")),
        *(Column("settings", small=True), *((Column("note", small=True),) if notes else ())),
    )
    of = "balanced accuracy" if advice.metric == "balanced" else "accuracy"
    return Table(
        "rules",
        "Rules and references",
        f"All rules on the same {counted(advice.judged_rows, 'held-out row', 'held-out rows')}, "
        f"which chose nothing. Settings are the plainest that tie with the best by "
        f"{advice.chosen_on}. The advised rule is highlighted, the best has a star. The difference "
        f"is in points of {of} to the advised rule; equivalent: less than "
        f"{100 * advice.margin:g} points; undecided: it may be chance. Log-loss and calibration "
        "error are as the rule gives them, and with its fitted scale or calibration (scaled). "
        f"{advice.left_out}",
        "tab:frozen-vmf",
        columns,
        rows,
        marked,
    )


def _settings(values: Mapping[str, Any]) -> str:
    shown = {SYMBOLS.get(name, name): v for name, v in values.items() if v is not None}
    return ", ".join(f"{name} {_short(v)}" for name, v in shown.items())


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _interval(low: float, high: float) -> str:
    return f"{100 * low:.1f}\u00a0to\u00a0{100 * high:.1f}"


def gain_tables(a: Analysis, names: Sequence[str]) -> list[Table]:
    """Return the table of the classes; ``names`` [C] of the classes."""
    return _kept(_classes(a, names))


def pair_tables(a: Analysis, names: Sequence[str]) -> list[Table]:
    """Return the table of pairs of classes."""
    return _kept(_pairs(a, names))


def decision_tables(a: Analysis, names: Sequence[str]) -> list[Table]:
    """Return the tables of all realizations."""
    return _kept(_realizations(a), _same_state(a, names))


def cosine_tables(a: Analysis) -> list[Table]:
    """Return the table about the cosine rule."""
    return _kept(_cosine(a))


def fit_tables(a: Analysis) -> list[Table]:
    """Return the table of other fits of the classes."""
    if (r := a.fits) is None:
        return []
    rows = [
        (
            *(FITS.get(row.name, row.name), row.mean_gain, row.fitted, row.seen),
            *(value for d in row.decisions for value in (d.accuracy, d.gain if i else None)),
        )
        for i, row in enumerate(r.rows)
    ]
    decided = [
        column
        for d in r.rows[0].decisions
        for column in (share(NAMES[d.realization]), change(f"{NAMES[d.realization]}, change"))
    ]
    return [
        Table(
            "fits",
            "Other fits of the classes",
            f"{r.sentence} The first row is the fit of this page. A fit expects a mean cosine of "
            "new rows with the direction of their class; held-out rows show the one that is seen. "
            f"Accuracies are of {counted(r.judged, 'held-out row', 'held-out rows')} "
            f"at temperature {a.space.tau:g}.",
            "sec:self-inclusion",
            (
                *(Column("fit of the concentrations"), Column("mean gain")),
                *(Column("expected cosine"), Column("seen cosine"), *decided),
            ),
            rows,
        )
    ]


def _kept(*every: Table | None) -> list[Table]:
    return [table for table in every if table is not None]


def _realizations(a: Analysis) -> Table | None:
    if a.grid is None:
        return None
    groups = GROUPS if a.space.groups else ()
    rows = [
        (
            *(NAMES[p.realization], p.beta, p.gamma, p.accuracy, p.change, p.balanced),
            *((p.groups or {}).get(g) for g in groups),
            *(p.nll, p.ece, p.agreement),
        )
        # Points without a prior first.
        for p in sorted(a.grid.points, key=lambda p: abs(p.gamma))
    ]
    columns = (
        *(
            Column("realization"),
            Column("beta", short),
            Column("gamma", short),
            share("accuracy"),
        ),
        *(change("change"), share("balanced accuracy")),
        *(share(g) for g in groups),
        *(Column("log-loss, not scaled"), share("calibration error, not scaled")),
        share("same as cosine"),
    )
    undefined = sum(bool(p.undefined) for p in a.grid.points)
    missing = f" Undefined, because a class would need a negative temperature: {undefined}."
    return Table(
        "realizations",
        "All realizations",
        f"Every way to edit the gains, on {int(a.grid.queries.sum()):,} held-out rows: accuracy "
        f"and its change from {NAMES['native']}, its mean over the classes"
        f"{' and by group' if groups else ''}, and the fraction of rows that get the class of the "
        "cosine rule. Probabilities are not scaled "
        "here; Rules and references compares them with a fitted scale each."
        f"{missing if undefined else ''} {NATIVE_IN_PAPER}",
        "tab:frozen-vmf-realizations",
        columns,
        rows,
    )


def _cosine(a: Analysis) -> Table | None:
    rows: list[tuple[Any, ...]] = []
    if (r := a.cosine) is not None:
        rows += [
            ("held-out rows", r.queries),
            ("disagreements", r.disagreements),
            ("disagreements in the lowest tenth of margins", r.low_margin),
            ("certified rows", r.certified),
            ("disagreements among certified rows", r.certified_disagreements),
            ("mean gain", r.mean_gain),
        ]
    if (g := a.gradients) is not None:
        rows += [
            ("mean difference of the losses, |ΔL|", g.loss_mean),
            ("mean of its bound, 2ε", g.loss_bound_mean),
            ("relative error of the gradients (%)", g.gradient_error),
            ("median cosine between the gradients", g.median_cosine),
            ("bounds hold on every row", g.bounds_held),
        ]
    if not rows:
        return None
    exact = Column("value", lambda v: f"{v:.6g}" if isinstance(v, float) else number(v))
    return Table(
        "cosine",
        "Pure Angular and cosine",
        "Decisions, losses and gradients of Pure Angular at β = 0, compared with cosine prototypes "
        "on the same rows.",
        "tab:cosine-diagnostics, tab:cosine-gradients",
        (Column("quantity"), exact),
        rows,
    )


def _same_state(a: Analysis, names: Sequence[str]) -> Table | None:
    if (r := a.same_state) is None:
        return None
    return Table(
        "same-state",
        "Same fit, different realizations",
        f"{counted(r.queries, 'held-out row', 'held-out rows')}, classified by the same fitted "
        f"classes at β = {r.beta:g}, γ = {r.gamma:g}.",
        "sec:same-state-diagnostic",
        (
            *(Column("realization"), Column("log-loss, not scaled"), share("accuracy")),
            *(Column("classes predicted"), Column("most predicted"), share("share")),
        ),
        [
            (
                *(NAMES[row.realization], row.cross_entropy, row.accuracy),
                *(row.distinct, names[row.top_class], row.top_share),
            )
            for row in r.rows
        ],
    )


def _classes(a: Analysis, names: Sequence[str]) -> Table | None:
    both = before_and_after(a)
    if a.gains is None or both is None or a.grid is None:
        return None
    native, best = (p.per_class for p in both)
    if native is None or best is None:
        return None
    g = a.gains
    rows = list(
        zip(
            *(names, g.count.tolist(), _groups(g)),
            *(g.gain.tolist(), g.resultant.tolist(), g.kappa.tolist(), a.grid.queries.tolist()),
            *(native.tolist(), best.tolist(), (best - native).tolist()),
            strict=True,
        )
    )
    rows.sort(key=lambda row: -abs(row[-1]) if row[-1] == row[-1] else 1.0)
    rules = [NAMES[p.realization] for p in both]
    columns = (
        *(Column("class"), Column("training rows"), Column("group"), Column("gain g")),
        *(Column("mean length A"), Column("concentration κ"), Column("held-out rows")),
        *(share(rule) for rule in rules),
        change("change"),
    )
    compared = f"{rules[0]} and {rules[1]}, the most changed classes first"
    if both[0] is both[1]:
        # Without a candidate there is no second column and no change.
        columns, rows, compared = columns[:-2], [row[:-2] for row in rows], rules[0]
    return Table(
        "classes",
        "All classes",
        f"Gain of each class, and its accuracy under {compared}.",
        "fig:gain-discovery",
        columns,
        rows,
    )


def _groups(g: GainDistribution) -> list[str | None]:
    """Return the shot group of each class, [C]."""
    if g.group is None:
        return [None] * len(g.gain)
    return [GROUPS[i] for i in g.group.tolist()]


def _pairs(a: Analysis, names: Sequence[str]) -> Table | None:
    if (r := a.boundaries) is None:
        return None
    # Without groups, or without a candidate.
    none = [None] * len(r.pairs)
    rows = [
        (names[i], names[j], *rest)
        for (i, j), *rest in zip(
            *(
                r.pairs.tolist(),
                [_kind(k) for k in r.kind] if a.space.groups else none,
                r.cosine.tolist(),
                r.theta_degrees.tolist(),
            ),
            *(r.before_degrees.tolist(), r.after_degrees.tolist(), r.shift_degrees.tolist()),
            r.change or none,
            strict=True,
        )
    ]
    return Table(
        "pairs",
        "Boundaries between pairs",
        "Position of the boundary on the arc between two prototypes, in degrees from the first, "
        "before and after temperatures make the gains equal. Displaced: it is on the arc before "
        "and after; created: after only; vanished: before only.",
        "fig:main-boundaries, sec:boundary-selection",
        (
            *(Column("first class"), Column("second class"), Column("groups"), Column("cosine")),
            *(Column(name, number, "°") for name in ("arc", "before", "after", "shift")),
            Column("change"),
        ),
        rows,
    )


def _kind(letters: str) -> str:
    """Return the groups of a pair: "HT" is "head, tail"."""
    return ", ".join(g for letter in letters for g in GROUPS if g[0].upper() == letter)
