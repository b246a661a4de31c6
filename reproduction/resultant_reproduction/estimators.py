r"""Beyond the paper: the share of the estimator in the effect. ProCo's kappa against others, the
temperatures of eq:cross-fit-temperature, and queries left out of their own class
(sec:self-inclusion) on frozen features; and the same in training."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from resultant.analysis import Policy
from resultant_reproduction.contrasts import compare_probes, complete
from resultant_reproduction.evidence import (
    KAPPAS,
    Evidence,
    equalization,
    kappa_change,
    kappa_changes,
)
from resultant_reproduction.plan import BOTH, RULES, controlled
from resultant_reproduction.refits import CLIP, cross_fitted, leave_out, percent_right
from resultant_reproduction.spec import Cell, Change, Outcome
from resultant_reproduction.stats import change_effects, corrected_text, over_queries
from resultant_reproduction.summarize import SPACES
from resultant_reproduction.templating import fill
from resultant_reproduction.value import Value
from resultant_reproduction.verdicts import Estimate


def _change_text(change: Estimate) -> str:
    """Format a change of accuracy; without an interval where no decision changes."""
    if change.low == change.high == 0:
        return f"0 of {change.n:,} queries"
    return change.text()


def _frozen(evidence: Evidence, title: str, store: str, space: str) -> Iterator[Cell]:
    """Rows of one space: gains, rules under each kappa, and the effect of Pure Angular."""
    decisions = {kappa: evidence.decisions(store, space, kappa) for kappa in KAPPAS}
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
                percent_right(decisions[kappa].right(policy)),
                float(decisions[kappa].nll[policy].mean()),
            )
            text = f"{accuracy:.2f} %, NLL {nll:.4f}"
            yield Cell(f"{title}: {rule}", name, None, Value(accuracy), text=text)
        for kappa in list(KAPPAS)[1:]:
            change = kappa_change(evidence, store, space, kappa, rule)
            nll = over_queries(decisions[kappa].nll[policy], decisions["proco"].nll[policy])
            yield Cell(
                *(f"{title}: {rule}", f"{KAPPAS[kappa]} less ProCo's (points; NLL)", None),
                Value(change.mean),
                text=f"{_change_text(change)}; {nll.text(4)}",
            )
    for kappa, name in KAPPAS.items():
        change = equalization(decisions[kappa])
        row = f"{title}: angular less native (points)"
        yield Cell(row, name, None, Value(change.mean), text=change.text())


# The edit that is fitted again, and its queries.
LEFT_OUT = "Pure Angular on training rows, the query left out"
CROSSED = "temperature on held-out queries, cross-fitted"
TRAINED = {"MLE of kappa": {"estimator": "mle"}, "query left out": {"leave_out": True}}


def trained(evidence: Evidence) -> list[Change]:
    """Changes by other statistics in training, long-tail probes of CIFAR-100 IF 100, and the effect
    of Pure Angular under each."""
    changes, own = [], controlled("cifar100", 100)
    for space, (name, settings) in product(SPACES, TRAINED.items()):
        config = controlled("cifar100", 100, **settings)
        for rule in BOTH:
            places = (f"{rule}, {space}", f"{name} - ProCo's", space)
            pair = (config, rule, 0.0), (own, rule, 0.0)
            changes.append(compare_probes(evidence, *places, *pair))
        places = (f"{name}, {space}", "Pure Angular - ProCo", space)
        pair = (config, "angular", 0.0), (config, "native", 0.0)
        changes.append(compare_probes(evidence, *places, *pair))
    return changes


def _headline(evidence: Evidence, refits: dict[str, Estimate], changes: list[Change]) -> str:
    own = change_effects(c for c in changes if c.what.endswith("ProCo's"))
    return (
        "On frozen features another kappa than ProCo's changes the accuracy of a rule by "
        f"{corrected_text(kappa_changes(evidence))}. Other statistics change what an edit adds to "
        f"native by {corrected_text(refits)}. Training with the MLE of kappa or the query left out "
        f"changes probes by {corrected_text(own)}."
    )


def estimators(evidence: Evidence) -> Outcome:
    """Frozen features under each kappa and with the query left out; then training."""
    cells = [cell for place in evidence.places for cell in _frozen(evidence, *place)]
    refits, notes = dict[str, Estimate](), []
    for (title, *at), name in zip(evidence.places, evidence.store_places, strict=True):
        space = evidence.space(*at)
        out = leave_out(space)
        refits[f"{LEFT_OUT}, {name}"] = out.added_change
        try:
            crossed = cross_fitted(space)
            refits[f"{CROSSED}, {name}"] = crossed.correction
        except ValueError as error:
            crossed = str(error)
        about = {"num_classes": space.num_classes, "clip": f"{CLIP[1]:g}"}
        notes += fill("refits.md", title=title, out=out, crossed=crossed, **about).split("\n\n")
    changes = trained(evidence)
    parts = {"frozen": bool(cells)}
    for name, settings in TRAINED.items():
        parts[name] = complete(evidence, controlled("cifar100", 100, **settings))
        if not parts[name]:
            some = any(c.differences for c in changes if c.what.startswith(name))
            state = "not all seeds yet" if some else "not run yet"
            notes.append(f"Trained, {name}: {state} (resultant reproduce run beyond).")
    headline = _headline(evidence, refits, changes)
    tested = [c for c in changes if c.differences]
    return Outcome(cells, tested, parts=parts, notes=notes, headline=headline)
