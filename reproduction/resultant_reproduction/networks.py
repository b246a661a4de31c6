"""Numbers of frozen features, and differences between rules and kappas: network by network of the
records, and of stores over their queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from resultant.analysis import Decisions, Policy
from resultant_reproduction.evidence import BROUGHT, CONDITIONS, Evidence
from resultant_reproduction.intervals import Interval, over_queries, over_settings
from resultant_reproduction.plan import RULES
from resultant_reproduction.records import dig, paired
from resultant_reproduction.summarize import SPACES

KAPPAS = {"proco": "ProCo's", "mle": "MLE", "banerjee": "Banerjee"}

# How a number is read from a frozen summary.
Reader = Callable[[Mapping[str, Any]], float | None]


def at_path(path: str, scale: float = 1.0) -> Reader:
    """Reads a number of a summary."""

    def read(summary: Mapping[str, Any]) -> float | None:
        value = dig(summary, path)
        return None if value is None else scale * value

    return read


def less(after: str, before: str, scale: float = 100.0) -> Reader:
    """Reads the difference of two numbers of a summary, by default in points."""

    def read(summary: Mapping[str, Any]) -> float | None:
        a, b = (dig(summary, path) for path in (after, before))
        return None if a is None or b is None else scale * (a - b)

    return read


def on_grid(beta: float, gamma: float = 0.0) -> Reader:
    """Reads what Pure Angular at beta changes in accuracy, from native at the same prior."""

    def read(summary: Mapping[str, Any]) -> float | None:
        grid = summary.get("grid", {})
        a, b = grid.get(f"angular {beta:g} {gamma:g}"), grid.get(f"native 1 {gamma:g}")
        return None if a is None or b is None else 100 * (a - b)

    return read


def apart(after: Reader, before: Reader) -> Reader:
    """Reads the difference of what two readers find, where both find something."""

    def read(summary: Mapping[str, Any]) -> float | None:
        a, b = after(summary), before(summary)
        return None if a is None or b is None else a - b

    return read


def by_place(
    evidence: Evidence,
    read: Reader,
    conditions: Iterable[str] = CONDITIONS,
    spaces: Sequence[str] = SPACES,
) -> dict[tuple[str, str], list[float]]:
    """A number of the frozen summaries, network by network, where there are any."""
    found = {}
    for condition, space in product(conditions, spaces):
        summaries = evidence.frozen(condition, space).values()
        values = [v for s in summaries if (v := read(s)) is not None]
        if values:
            found[condition, space] = values
    return found


def by_mle(evidence: Evidence, rule: str) -> dict[tuple[str, str], list[float]]:
    """What the MLE of kappa changes in the accuracy of a rule from ProCo's (points), network by
    network."""
    found = {}
    for condition, space in product(CONDITIONS, SPACES):
        mle, proco = (
            {
                seed: 100 * accuracy
                for seed, summary in evidence.frozen(condition, space, kappa).items()
                if (accuracy := dig(summary, f"accuracy.{rule}")) is not None
            }
            for kappa in ("mle", "proco")
        )
        differences = paired(mle, proco)
        if differences:
            found[condition, space] = [*differences.values()]
    return found


def over_data_sets(found: Mapping[tuple[str, str], list[float]]) -> dict[str, Interval]:
    """The means over the settings of a data set of what `by_place` has, by data set and space, with
    their intervals over networks."""
    settings: dict[str, list[list[float]]] = {}
    for (condition, space), values in found.items():
        settings.setdefault(f"{condition.partition(' / ')[0]} {space}", []).append(values)
    means = {place: over_settings(values) for place, values in settings.items()}
    return {place: i for place, i in means.items() if i is not None}


def pooled(evidence: Evidence, read: Reader) -> dict[str, Interval]:
    """A number of the frozen summaries, as `over_data_sets`."""
    return over_data_sets(by_place(evidence, read))


def stores(evidence: Evidence) -> dict[str, tuple[str, str]]:
    """The frozen spaces at hand, store and space by name."""
    return {
        f"{BROUGHT.get(store, 'packaged')} {space}": (store, space)
        for _, store, space in evidence.places
    }


def swapped(evidence: Evidence, store: str, space: str, kappa: str, rule: str) -> Interval:
    """What another kappa than ProCo's changes in the held-out accuracy of a rule, in points."""
    after, own = (evidence.decisions(store, space, e).right(Policy(rule)) for e in (kappa, "proco"))
    return over_queries(after, own, 100.0)


def swaps(evidence: Evidence) -> dict[str, Interval]:
    """The same by name, as ``MLE native of CIFAR-10 encoder``: of the MLE over the networks of the
    records, of every kappa over the queries of stores."""
    found = {
        f"{KAPPAS['mle']} {rule} of {place}": i
        for rule in RULES
        for place, i in over_data_sets(by_mle(evidence, rule)).items()
    }
    others = [kappa for kappa in KAPPAS if kappa != "proco"]
    for (place, at), kappa, rule in product(stores(evidence).items(), others, RULES):
        found[f"{KAPPAS[kappa]} {rule} of {place}"] = swapped(evidence, *at, kappa, rule)
    return found


def added(decisions: Decisions) -> Interval:
    """What Pure Angular at beta = 0 adds to native, in points."""
    angular, native = (decisions.right(Policy(rule)) for rule in ("angular", "native"))
    return over_queries(angular, native, 100.0)


def edited(evidence: Evidence) -> dict[str, Interval]:
    """The same by place, of the networks of the records and of stores."""
    found = pooled(evidence, less("accuracy.angular", "accuracy.native"))
    return found | {place: added(evidence.decisions(*at)) for place, at in stores(evidence).items()}
