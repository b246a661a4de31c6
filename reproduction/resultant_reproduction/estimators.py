r"""Beyond the paper: how much of the effect is the estimator. ProCo's kappa against others, the
temperatures of eq:cross-fit-temperature, and queries left out of their own class
(sec:self-inclusion) on frozen features; and the same in training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from resultant.analysis import FrozenSpace, Policy, decide
from resultant.analysis.sampling import owners, rank_in_class, sample_rows
from resultant.classes.finite_sample import (
    CrossFit,
    cross_fit_temperature,
    fold_statistics,
    leave_one_out_scores,
    unbiased_square_resultant,
)
from resultant.classes.gain import target_temperature
from resultant.classes.realization import class_scores
from resultant.classes.statistics import ClassState, ClassStatistics
from resultant.classifiers.left_out import left_out_parts, measure
from resultant_reproduction.advice import Effects, listed, spotted, weighed
from resultant_reproduction.artefact import Artefact, Cell, Change, Outcome, Value
from resultant_reproduction.evidence import Evidence
from resultant_reproduction.intervals import Interval, over_queries, resampled
from resultant_reproduction.networks import KAPPAS, added, edited, stores, swapped, swaps
from resultant_reproduction.plan import BOTH, RULES, controlled
from resultant_reproduction.records import paired, path_of
from resultant_reproduction.summarize import SPACES
from resultant_reproduction.training_advice import in_words, over_seeds_of, rerun

# Of cross-fitting. The paper gives no numbers; a clip at a factor of two leaves the ordinary class.
FOLDS = 5
CLIP = (0.5, 2.0)

# Training rows that are asked about at most.
MOST_ROWS = 20_000


@dataclass(frozen=True)
class LeftOut:
    """What training rows lose when they are taken out of the statistics of their own class.

    ``increment`` is the mean and standard deviation over ``rows`` of the own score with the row
    less that without it. By rule: the shares of right decisions ``included`` and ``left_out`` in
    percent, and the ``change`` in points. What Pure Angular adds to native in points is
    ``added_included`` and ``added_left_out``, and the latter less the former ``added_change``.
    """

    rows: int
    increment: Value
    included: dict[str, float]
    left_out: dict[str, float]
    change: dict[str, Interval]
    added_included: Interval
    added_left_out: Interval
    added_change: Interval


@torch.no_grad()
def leave_out(space: FrozenSpace, most: int = MOST_ROWS, seed: int = 0) -> LeftOut:
    """Training rows of classes of two or more, with themselves in the statistics and without.

    The rules are native and Pure Angular at beta = 0. Without a row its own class has another
    direction, kappa and gain, and the mean gain is of those.
    """
    rows = asked_rows(space, most, seed)
    x, y = space.units("train", rows), space.labels[rows].to(space.device)
    scores = leave_one_out_scores(x, y, space.statistics, space.tau, space.estimator)
    moved = scores.included - scores.left_out
    before = decide(_of_training(space, rows), [Policy(rule) for rule in BOTH])
    parts = left_out_parts(x, y, torch.ones_like(moved), space.statistics, space.estimator)
    hits = measure(parts, [space.tau], [(rule, 0.0) for rule in BOTH], [0.0])[1]
    included = {rule: before.right(Policy(rule)) for rule in BOTH}
    left = {rule: torch.from_numpy(h) > 0 for rule, h in zip(BOTH, hits, strict=True)}
    return LeftOut(
        rows=len(rows),
        increment=Value(float(moved.mean()), float(moved.std()), len(rows)),
        included={rule: _percent(hit) for rule, hit in included.items()},
        left_out={rule: _percent(hit) for rule, hit in left.items()},
        change={rule: over_queries(left[rule], included[rule], 100.0) for rule in BOTH},
        added_included=over_queries(included["angular"], included["native"], 100.0),
        added_left_out=over_queries(left["angular"], left["native"], 100.0),
        added_change=over_queries(_more(left), _more(included), 100.0),
    )


def _more(hits: dict[str, Tensor]) -> Tensor:
    """What Pure Angular has right and native not, less the reverse, query by query [N]."""
    return hits["angular"].double() - hits["native"].double()


@dataclass(frozen=True)
class CrossFitted:
    """Equalization by class temperatures, less native in points of accuracy.

    On training rows: ``in_sample``; out of fold from the lengths as they are (``plain``) and by
    eq:cross-fit-temperature (``crossed``). On held-out queries: from the lengths as they are
    (``held_out``) and by the same formula (``corrected``), the latter less the former in
    ``correction``. ``clipped`` of ``folds`` times the classes. ``spread``: the standard deviation
    over the mean of the gains that held-out queries have at the temperatures of native, held_out
    and corrected.
    """

    rows: int
    folds: int
    clipped: int
    in_sample: Interval
    plain: Interval
    crossed: Interval
    held_out: Interval
    corrected: Interval
    correction: Interval
    spread: dict[str, Interval]


@torch.no_grad()
def cross_fitted(
    space: FrozenSpace, folds: int = FOLDS, most: int = MOST_ROWS, seed: int = 0
) -> CrossFitted:
    """Whether equalization does as well where it was not fitted. Every class must have two
    fitting rows, so that there is something to fit outside each fold."""
    few = (space.state.count < 2).nonzero().squeeze(1)
    if len(few):
        got = f"{int(space.state.count[few[0]])} in class {int(few[0])}"
        raise ValueError(f"expected two fitting rows or more of each class, got {got}")
    C, tau, A_ref = space.num_classes, space.tau, float(space.state.resultant.mean())
    fold = stratified(space, folds, seed)
    # Rows that are not fitted are in a fold of their own, which nothing is made of.
    parts = fold_statistics(
        *(space.train[:], space.labels, fold.masked_fill(fold < 0, folds), C, folds + 1),
        validate_args=False,
    )[:folds]
    parts = [part.to(space.device) for part in parts]
    fit = _crossed(parts, tau, A_ref, space.estimator)
    whole = space.statistics
    nothing = ClassStatistics(C, space.dim, device=space.device)
    corrected = _crossed([nothing, whole], tau, A_ref, space.estimator)
    rows = asked_rows(space, most, seed)
    own = decide(_of_training(space, rows), [Policy("native"), Policy("temperature")])
    out = {name: torch.zeros(len(rows), dtype=torch.bool) for name in ("native", "plain", "fit")}
    for k, part in enumerate(parts):
        at = (fold[rows] == k).nonzero().squeeze(1)
        x, y = space.units("train", rows[at]), space.labels[rows[at]]
        rest = whole.without(part).state(space.estimator)
        out["native"][at] = _right(x, y, rest, tau, "native")
        out["plain"][at] = _right(x, y, rest, tau, "temperature")
        out["fit"][at] = _right(x, y, fit.states[k], fit.temperature[k], "native")
    held = decide(space, [Policy("native"), Policy("temperature")])
    native, warmed = (held.right(Policy(rule)) for rule in ("native", "temperature"))
    state, warm = corrected.states[0], corrected.temperature[0]
    fresh = torch.cat([_right(z, y.cpu(), state, warm, "native") for _, z, y in space.queries()])
    used = {
        "native": torch.full_like(warm, tau),
        "plain": target_temperature(space.state, tau, 0.0),
        "corrected": warm,
    }
    return CrossFitted(
        rows=len(rows),
        folds=folds,
        clipped=int(((fit.temperature - tau * fit.resultant / A_ref).abs() > 1e-12 * tau).sum()),
        in_sample=over_queries(own.right(Policy("temperature")), own.right(Policy("native")), 100),
        plain=over_queries(out["plain"], out["native"], 100.0),
        crossed=over_queries(out["fit"], out["native"], 100.0),
        held_out=over_queries(warmed, native, 100.0),
        corrected=over_queries(fresh, native, 100.0),
        correction=over_queries(fresh, warmed, 100.0),
        spread={name: gain_spread(space, t) for name, t in used.items()},
    )


def gain_spread(space: FrozenSpace, tau: Tensor) -> Interval:
    r"""The spread over classes of :math:`\hat A_c/\tau_c`, where the unbiased lengths are those of
    the held-out queries; the interval resamples classes."""
    held = ClassStatistics(space.num_classes, space.dim, device=space.device)
    for _, z, y in space.queries(dtype=torch.float64):
        held.update(z, y, validate_args=False)
    able = held.count >= 2
    U = unbiased_square_resultant(held.mean_length[able], held.count[able])
    g = (U.clamp_min(0).sqrt() / tau[able]).cpu()
    return resampled(len(g), lambda at: float(g[at].std(correction=0) / g[at].mean()))


def asked_rows(space: FrozenSpace, most: int, seed: int) -> Tensor:
    """Up to ``most`` random fitting rows of classes of two or more, in order."""
    able = (space.state.count >= 2).cpu()[space.labels]
    if space.fitting is not None:
        able &= space.fitting
    rows = able.nonzero().squeeze(1)
    return rows[sample_rows(len(rows), most, seed)]


def stratified(space: FrozenSpace, folds: int, seed: int) -> Tensor:
    """The folds [N] of fitting rows, even within each class, -1 for other rows; rows of one
    identity are in one fold."""
    labels = space.labels
    owner = torch.arange(len(labels))
    if space.identities is not None:
        owner = owners(labels, space.identities)
    of = torch.empty(int(owner.max()) + 1, dtype=torch.int64)
    of[owner] = labels
    order = torch.randperm(len(of), generator=torch.Generator().manual_seed(seed))
    place = torch.empty_like(of)
    place[order] = rank_in_class(of[order]) % folds
    fold = place[owner]
    return fold if space.fitting is None else fold.masked_fill(~space.fitting, -1)


def _crossed(parts: list[ClassStatistics], tau: float, A_ref: float, estimator: str) -> CrossFit:
    low, high = CLIP
    return cross_fit_temperature(parts, tau, A_ref, r_min=low, r_max=high, estimator=estimator)


def _right(x: Tensor, y: Tensor, state: ClassState, tau: Tensor | float, rule: str) -> Tensor:
    scores = class_scores(x.to(state.mu.dtype), state, tau, rule, validate_args=False)
    return scores.argmax(1).cpu() == y


def _of_training(space: FrozenSpace, rows: Tensor) -> FrozenSpace:
    """The same classes, asked about training rows."""
    return FrozenSpace(
        *(space.name, space.train, space.labels, space.train[rows], space.labels[rows]),
        *(space.fitting, space.identities, space.statistics),
        *(space.tau, space.estimator, space.dtype),
    )


def _percent(hits: Tensor) -> float:
    return 100 * float(hits.double().mean())


def _said(change: Interval) -> str:
    """A change of accuracy; where every query is as right as before there is no interval."""
    if change.low == change.high == 0:
        return f"0 of {change.n:,} queries"
    return change.said()


def _frozen(evidence: Evidence, title: str, store: str, space: str) -> Iterator[Cell]:
    """The rows of one space: gains, rules under each kappa, and what Pure Angular adds."""
    found = {kappa: evidence.decisions(store, space, kappa) for kappa in KAPPAS}
    for kappa, name in KAPPAS.items():
        g = evidence.space(store, space, kappa).gain
        spread = float(g.std(correction=0) / g.mean())
        text = f"{float(g.mean()):.3f}, {float(g.min()):.3f} to {float(g.max()):.3f}, {spread:.4f}"
        value = Value(float(g.mean()))
        yield Cell(f"{title}: gain, range, sd / mean", name, None, value, text=text)
    for rule in RULES:
        policy = Policy(rule).canonical
        for kappa, name in KAPPAS.items():
            accuracy, nll = (
                _percent(found[kappa].right(policy)),
                float(found[kappa].nll[policy].mean()),
            )
            text = f"{accuracy:.2f} %, NLL {nll:.4f}"
            yield Cell(f"{title}: {rule}", name, None, Value(accuracy), text=text)
        for kappa in list(KAPPAS)[1:]:
            change = swapped(evidence, store, space, kappa, rule)
            nll = over_queries(found[kappa].nll[policy], found["proco"].nll[policy])
            yield Cell(
                *(f"{title}: {rule}", f"{KAPPAS[kappa]} less ProCo's (points; NLL)", None),
                Value(change.mean),
                text=f"{_said(change)}; {nll.said(4)}",
            )
    for kappa, name in KAPPAS.items():
        change = added(found[kappa])
        row = f"{title}: angular less native (points)"
        yield Cell(row, name, None, Value(change.mean), text=change.said())


def _said_left_out(found: LeftOut, title: str) -> str:
    """What is said of leaving out in one space."""
    shares = "; ".join(
        f"{rule} {found.included[rule]:.2f} % right with it, {found.left_out[rule]:.2f} % without, "
        f"{found.change[rule].said()} points"
        for rule in BOTH
    )
    return (
        f"{title}, query left out: over {found.rows:,} training rows the score of the own class is "
        f"{found.increment.said(3)} (sd over rows) higher for having the row in it; {shares}; "
        f"Pure Angular adds {found.added_included.said()} to native with it and "
        f"{found.added_left_out.said()} without, {found.added_change.said()} by that."
    )


def _said_crossed(crossed: CrossFitted, title: str, num_classes: int) -> str:
    """What is said of cross-fitting in one space."""
    spread = ", ".join(f"{name} {i.said(3, sign=False)}" for name, i in crossed.spread.items())
    return (
        f"{title}, cross-fitted: equalization by temperature less native (points) is "
        f"{crossed.in_sample.said()} on {crossed.rows:,} training rows in the sample, "
        f"{crossed.plain.said()} out of {crossed.folds} folds and {crossed.crossed.said()} there "
        f"with unbiased lengths, clipped to a factor of {CLIP[1]:g} ({crossed.clipped} of "
        f"{crossed.folds * num_classes} times); on held-out queries "
        f"{crossed.held_out.said()} and {crossed.corrected.said()}, {crossed.correction.said()} by "
        f"that. Spread of the gains of "
        f"held-out queries at these temperatures: {spread}."
    )


# Which edit is fitted again, and on which queries.
LEFT_OUT = "Pure Angular on training rows, the query left out"
CROSSED = "temperature on held-out queries, cross-fitted"


class Refit(NamedTuple):
    """By how much other statistics ``change`` what an ``edit`` adds (points)."""

    change: Interval
    edit: Interval


TRAINED = {
    "MLE of kappa": {"estimator": "mle"},
    "query left out": {"leave_out": True},
}


def trained(evidence: Evidence) -> list[Change]:
    """What other statistics in training change, beside ProCo's own: long-tail probes of CIFAR-100
    IF 100, and what Pure Angular adds under each."""
    changes, before = [], controlled("cifar100", 100)
    for space in SPACES:
        path = path_of(space)
        own = {r: evidence.records.values(before, r, 0.0, path) for r in BOTH}
        for name, settings in TRAINED.items():
            config = controlled("cifar100", 100, **settings)
            after = {r: evidence.records.values(config, r, 0.0, path) for r in BOTH}
            changes += [
                Change(f"{r}, {space}", f"{name} - ProCo's", None, paired(after[r], own[r]))
                for r in BOTH
            ]
            differences = paired(after["angular"], after["native"])
            changes.append(Change(f"{name}, {space}", "Pure Angular - ProCo", None, differences))
    return changes


def in_short(
    swapped: Effects, edit: Effects, refitted: dict[str, Refit], changes: list[Change]
) -> str:
    """How much of the effect is the estimator: another kappa, statistics without the query, and
    both in training."""
    own = over_seeds_of(c for c in changes if c.what.endswith("ProCo's"))
    told = {name: f"{r.change.said()} of {r.edit.mean:+z.2f}" for name, r in refitted.items()}
    seen = spotted({name: r.change for name, r in refitted.items()})
    return (
        f"On frozen features {weighed(swapped, edit)}. Other statistics change what an edit adds "
        f"to native (points): {listed(told)}; {seen}. Training with the MLE of kappa or the query "
        f"left out: {in_words(own) or 'nothing measured'}."
    )


def estimators(evidence: Evidence) -> Outcome:
    """Frozen features under each kappa and each way to leave a query out; then training."""
    cells = [cell for place in evidence.places for cell in _frozen(evidence, *place)]
    left, crossed, notes = dict[str, Refit](), dict[str, Refit](), []
    for (title, *_), (name, at) in zip(evidence.places, stores(evidence).items(), strict=True):
        space = evidence.space(*at)
        out = leave_out(space)
        notes.append(_said_left_out(out, title))
        left[f"{LEFT_OUT}, {name}"] = Refit(out.added_change, out.added_included)
        try:
            fit = cross_fitted(space)
        except ValueError as error:
            notes.append(f"{title}, cross-fitted: {error}.")
            continue
        notes.append(_said_crossed(fit, title, space.num_classes))
        crossed[f"{CROSSED}, {name}"] = Refit(fit.correction, fit.held_out)
    changes = trained(evidence)
    parts = {"frozen": bool(cells)}
    for name, settings in TRAINED.items():
        parts[name] = rerun(evidence, controlled("cifar100", 100, **settings))
        if not parts[name]:
            begun = any(c.differences for c in changes if c.what.startswith(name))
            state = "not all seeds yet" if begun else "not run yet"
            notes.append(f"Trained, {name}: {state} (resultant reproduce run beyond).")
    note = (
        "Encoder and Projection are of the packaged network. Held-out queries, temperature 0.1, "
        "zero prior, beta 0; brackets are 95 % intervals of paired differences over queries, of "
        "spreads over classes: of one network, not over seeds."
    )
    headline = in_short(swaps(evidence), edited(evidence), left | crossed, changes)
    tested = [c for c in changes if c.differences]
    return Outcome(cells, tested, parts=parts, notes=[note, *notes], headline=headline)


ARTEFACTS = (
    Artefact(
        "estimator",
        "beyond:estimator",
        "How much of the effect is the estimator",
        estimators,
        ("main", "beyond"),
    ),
)
