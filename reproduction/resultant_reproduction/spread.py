"""What moves a probe: seeds, and training again; and what pairing by seeds gains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import sqrt
from random import Random
from statistics import fmean
from typing import NamedTuple

from resultant.classes.rule import EDITED
from resultant.training.config import TrainConfig
from resultant.training.records import identity, of_record
from resultant_reproduction.artefact import Cell, Change, Value, equal
from resultant_reproduction.evidence import CONDITIONS, Evidence, trained_as
from resultant_reproduction.plan import IMBALANCES, RULES, SETS, official
from resultant_reproduction.records import dig, paired, path_of
from resultant_reproduction.rules import equals, span
from resultant_reproduction.summarize import SPACES

# tab:angular-training.
PRINTED_SEEDS = 3


def pooled(values: Sequence[Value]) -> tuple[float, float]:
    """The variance within cells and its degrees of freedom; half of these, for Encoder and
    Projection are of one network."""
    known = [(v.sd * v.sd, v.n - 1) for v in values if v.sd is not None]
    freedom = sum(n for _, n in known)
    return sum(n * variance for variance, n in known) / freedom, freedom / 2


def spread(
    evidence: Evidence, cells: Sequence[Cell], pairs: Mapping[str, Pairing]
) -> Iterator[str]:
    """Our variance over seeds beside the printed one of ``cells`` of tab:angular-training, and that
    of runs of one seed; and what `pairings` find."""
    from scipy.stats import f

    known = [
        (cell.ours, cell.paper.value._replace(n=PRINTED_SEEDS))
        for cell in cells
        if cell.ours and cell.ours.sd and cell.paper and cell.paper.value.sd
    ]
    if not known:
        return
    (ours, freedom), (paper, other) = (pooled(column) for column in zip(*known, strict=True))
    p = equals(float(f.sf(ours / paper, freedom, other)))
    printed = [v.sd for _, v in known if v.sd is not None]
    yield (
        f"Spread itself: printed are {span(printed, 2)} points. Pooled over "
        f"{_number(len(known), 'cell')} of tab:angular-training our variance over seeds is "
        f"{ours / paper:.1f} times the printed one, a standard deviation of {sqrt(ours):.2f} "
        f"points for {sqrt(paper):.2f} (one-sided F test, {freedom:g} and {other:g} degrees of "
        f"freedom, Encoder and Projection of a network counted once, {p}). "
        "In ours a seed changes the initial network, the order of images and the views; what it "
        "changes in the paper is not said."
    )
    again = twice(evidence)
    if again:
        alone = deviation(again)
        told = [
            f"- {name} {', again '.join(' / '.join(f'{100 * v:.2f}' for v in run) for run in runs)}"
            for name, pairs in again.items()
            for runs in (zip(*pairs, strict=True),)
        ]
        yield (
            "A seed does not fix a run: trained again with the same recipe and seed a probe has a "
            f"standard deviation of {alone:.2f} points, where that over seeds is {sqrt(ours):.2f}. "
            f"That is of {_number(len(again), 'run')} of tab:angular-training; the second time "
            "other kernels were fused, or more runs trained side by side, which should change "
            "nothing but rounding. Encoder / Projection, first of the record that was set aside:"
        )
        yield "\n".join(told)
        yield from _unpaired(evidence, pairs)
    yield from _heads_again(evidence)


def _heads_again(evidence: Evidence) -> Iterator[str]:
    """The classifiers of which there are two records, of tab:joint-fc and of ProCo's public recipe,
    in a sentence."""
    kinds = {
        identity(trained_as(condition, objective="joint"), rule, 0.0): f"{condition}, {rule}"
        for condition, rule in product(CONDITIONS, RULES)
    } | {
        identity(
            official(dataset, imbalance), "native", 0.0
        ): f"{dataset} / {imbalance}, public recipe"
        for dataset, imbalance in product(SETS, IMBALANCES)
    }
    told = []
    for old in evidence.records.set_aside:
        kind = of_record(old)
        new = evidence.records.by_kind[kind][old["seed"]]
        both = [v for r in (old, new) if (v := dig(r, "last.accuracy")) is not None]
        if kind in kinds and len(both) == 2:
            said = ", again ".join(f"{100 * v:.2f}" for v in both)
            told.append(f"{kinds[kind]} seed {old['seed']} {said}")
    if told:
        yield f"Classifiers of joint training, first of the record set aside: {'; '.join(told)}."


def deviation(again: Mapping[str, Sequence[tuple[float, float]]]) -> float:
    """The standard deviation (points) of probes that runs have at two trainings of one seed."""
    moved = [100 * (b - a) for pairs in again.values() for a, b in pairs]
    return sqrt(sum(d * d for d in moved) / (2 * len(moved)))


def weak_pairs(evidence: Evidence, pairs: Mapping[str, Pairing]) -> str:
    """How far a seed fixes a run, in a sentence; nothing where no run was trained twice."""
    again = twice(evidence)
    if not again or not pairs:
        return ""
    told = " and ".join(
        f"{own.share:.2f} times as large in {table} ({own.low:.2f} to {own.high:.2f} by chance)"
        for table, own in pairs.items()
    )
    return (
        " Trained again with the same seed a probe has a standard deviation of "
        f"{deviation(again):.2f} points, and pairing by seeds {_helps(pairs)}: it makes the "
        f"variance of a change {told}. Tests over three seeds are weak."
    )


def twice(evidence: Evidence) -> dict[str, list[tuple[float, float]]]:
    """The runs of tab:angular-training of which there are two records, by name: the probes of both,
    first those of the record that was set aside, in each space."""
    known = {
        identity(trained_as(condition), realization, 0.0)
        for condition in CONDITIONS
        for realization in RULES
    }
    found: dict[str, list[tuple[float, float]]] = {}
    for old in evidence.records.set_aside:
        kind, config = of_record(old), old["config"]
        new = evidence.records.by_kind[kind][old["seed"]]
        name = f"{config['dataset']} IF {config['imbalance']:g} {old['realization']}"
        for path in map(path_of, SPACES):
            a, b = dig(old, path), dig(new, path)
            if kind in known and a is not None and b is not None:
                found.setdefault(f"{name} seed {old['seed']}", []).append((a, b))
    return found


# What the networks of a condition reach by rule and seed, a number for each of some readouts.
Networks = Mapping[str, Mapping[int, Sequence[float]]]


def probes(evidence: Evidence) -> list[Networks]:
    """Of tab:angular-training, condition by condition."""
    return [_networks(evidence, trained_as(c), map(path_of, SPACES)) for c in CONDITIONS]


def heads(evidence: Evidence) -> list[Networks]:
    """Of tab:joint-fc."""
    configs = (trained_as(condition, objective="joint") for condition in CONDITIONS)
    return [_networks(evidence, config, ["last.accuracy"]) for config in configs]


def _networks(evidence: Evidence, config: TrainConfig, paths: Iterable[str]) -> Networks:
    places, found = list(paths), {}
    for rule in RULES:
        known = evidence.records.seeds(config, rule, 0.0)
        values = {s: [v for p in places if (v := dig(r, p)) is not None] for s, r in known.items()}
        found[rule] = {seed: own for seed, own in values.items() if len(own) == len(places)}
    return found


def tie(found: Iterable[Networks]) -> tuple[float, int]:
    """The variance of paired changes, pooled, as a share of the sum of both variances: 1 where a
    seed does not tie runs together. And how many changes have two seeds."""
    apart, together, number = 0.0, 0.0, 0
    for own, edited in product(found, EDITED):
        seeds = [seed for seed in own[edited] if seed in own["native"]]
        if len(seeds) > 1:
            # Readout by readout, a number a seed.
            after, before = (
                zip(*(own[rule][seed] for seed in seeds), strict=True)
                for rule in (edited, "native")
            )
            for a, b in zip(after, before, strict=True):
                together += _scatter([x - y for x, y in zip(a, b, strict=True)])
                apart += _scatter(a) + _scatter(b)
                number += 1
    return (together / apart if apart else 1.0), number


def _scatter(values: Sequence[float]) -> float:
    """The sum of squares about the mean."""
    mean = sum(values) / len(values)
    return sum((v - mean) ** 2 for v in values)


class Pairing(NamedTuple):
    """What `tie` finds of ``number`` changes, and from where to where 95 % of it lie if seeds are
    dealt anew to the networks of a kind."""

    share: float
    number: int
    low: float
    high: float


def dealt(found: Sequence[Networks], draws: int = 1000) -> list[float]:
    """What `tie` finds if every kind of run has its seeds at random, in order; readouts of a
    network keep together."""
    generator = Random(0)

    def anew(own: Mapping[int, Sequence[float]]) -> dict[int, Sequence[float]]:
        return dict(zip(own, generator.sample([*own.values()], len(own)), strict=True))

    return sorted(
        tie([{rule: anew(own) for rule, own in networks.items()} for networks in found])[0]
        for _ in range(draws)
    )


def pairings(evidence: Evidence) -> dict[str, Pairing]:
    """By table, of those that have changes of several seeds."""
    tables = {"tab:angular-training": probes(evidence), "tab:joint-fc": heads(evidence)}
    found = {}
    for table, networks in tables.items():
        share, number = tie(networks)
        if number:
            shares = dealt(networks)
            cut = len(shares) // 40
            found[table] = Pairing(share, number, shares[cut], shares[-cut - 1])
    return found


def _helps(found: Mapping[str, Pairing]) -> str:
    """Whether pairing takes more off a variance than chance does."""
    where = [table for table, own in found.items() if own.share < own.low]
    return f"is seen to help in {' and '.join(where)}" if where else "is not seen to help"


def _unpaired(evidence: Evidence, pairs: Mapping[str, Pairing]) -> Iterator[str]:
    """What pairing by seeds gains, and what all trainings say without it."""
    found = []
    for condition, space in product(CONDITIONS, SPACES):
        config, path = trained_as(condition), path_of(space)
        every = [
            [100 * v for v in known if v is not None]
            for name in ("angular", "native")
            for known in ([dig(r, path) for r in evidence.records.trainings(config, name)],)
        ]
        after, before = (
            evidence.records.values(config, name, 0.0, path) for name in ("angular", "native")
        )
        change = Change("", "", None, paired(after, before))
        if all(every) and change.ours and [*map(len, every)] != [len(after), len(before)]:
            n, d = " and ".join(str(len(v)) for v in every), fmean(every[0]) - fmean(every[1])
            found.append(
                f"{condition}, {space.capitalize()} {d:+.2f} (n = {n}, {equals(welch(*every))}; "
                f"paired {change.ours.mean:+.2f}, n = {change.ours.n}, {equals(change.p_value)})"
            )
    if pairs:
        told = "; ".join(
            f"over {_number(own.number, 'change')} of {table} {own.share:.2f} times, where "
            f"{own.low:.2f} to {own.high:.2f} are 95 % of what seeds dealt at random make of it"
            for table, own in pairs.items()
        )
        yield (
            "Pairing by seeds, the variance of paired differences beside the sum of both "
            f"variances: {told}. Pairing {_helps(pairs)}. Paired tests stay valid; "
            "but where training again moves a probe as much as another seed does, a seed hardly "
            "makes a pair of two runs, and records that were set aside are draws as good as those "
            "that count."
        )
    if found:
        yield (
            "Pure Angular less ProCo on all trainings, those set aside too, unpaired (Welch's t "
            f"test, each by itself): {'; '.join(found)}."
        )


def welch(a: Sequence[float], b: Sequence[float]) -> float | None:
    """The two-sided p value, None where a spread is not known."""
    from scipy.stats import ttest_ind

    if min(len(a), len(b)) < 2 or (equal(a) and equal(b)):
        return None
    return float(ttest_ind(a, b, equal_var=False).pvalue)  # type: ignore[attr-defined]


def _number(n: int, what: str) -> str:
    return f"{n} {what}{'s' if n > 1 else ''}"
