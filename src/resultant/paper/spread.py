"""What moves a probe: seeds, and training again; and what pairing by seeds gains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import sqrt
from statistics import fmean, variance

from resultant.gain import EDITED
from resultant.paper.artefact import Cell, Change, Value, equal
from resultant.paper.evidence import CONDITIONS, Evidence, trained_as
from resultant.paper.plan import IMBALANCES, RULES, SETS, official
from resultant.paper.records import dig, paired, path_of
from resultant.paper.rules import equals, span
from resultant.paper.summary import SPACES
from resultant.presets import TrainConfig
from resultant.records import identity, of_record

# tab:angular-training.
PRINTED_SEEDS = 3


def pooled(values: Sequence[Value]) -> tuple[float, float]:
    """The variance within cells and its degrees of freedom; half of these, for Encoder and
    Projection are of one network."""
    known = [(v.sd * v.sd, v.n - 1) for v in values if v.sd is not None]
    freedom = sum(n for _, n in known)
    return sum(n * variance for variance, n in known) / freedom, freedom / 2


def spread(evidence: Evidence, cells: Sequence[Cell]) -> Iterator[str]:
    """Our variance over seeds beside the printed one of ``cells`` of tab:angular-training, and that
    of runs of one seed."""
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
        yield from _unpaired(evidence)
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


def weak_pairs(evidence: Evidence) -> str:
    """How far a seed fixes a run, in a sentence; nothing where no run was trained twice."""
    again, (share, number) = twice(evidence), tie(columns(evidence))
    if not again or not number:
        return ""
    other, of = tie(heads(evidence))
    also = f", and {_paired(other)} that of one of tab:joint-fc" if of else ""
    return (
        " Trained again with the same seed a probe has a standard deviation of "
        f"{deviation(again):.2f} points, and pairing by seeds {_paired(share)} the variance of a "
        f"change of tab:angular-training{also}: tests over three seeds are weak."
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


# What an edited and a native kind of run reach, by seed.
Both = tuple[Mapping[int, float], Mapping[int, float]]


def columns(evidence: Evidence) -> Iterator[Both]:
    """Of tab:angular-training."""
    for condition, space, edited in product(CONDITIONS, SPACES, EDITED):
        yield _both(evidence, trained_as(condition), edited, path_of(space))


def heads(evidence: Evidence) -> Iterator[Both]:
    """Of tab:joint-fc."""
    for condition, edited in product(CONDITIONS, EDITED):
        config = trained_as(condition, objective="joint")
        yield _both(evidence, config, edited, "last.accuracy")


def _both(evidence: Evidence, config: TrainConfig, edited: str, path: str) -> Both:
    after, before = (
        evidence.records.values(config, name, 0.0, path) for name in (edited, "native")
    )
    return after, before


def tie(pairs: Iterable[Both]) -> tuple[float, int]:
    """The variance of paired changes, pooled, as a share of the sum of both variances: 1 where a
    seed does not tie runs together. And how many changes have two seeds."""
    apart, together, number = 0.0, 0.0, 0
    for after, before in pairs:
        both = [seed for seed in after if seed in before]
        if len(both) > 1:
            freedom, number = len(both) - 1, number + 1
            together += freedom * variance(paired(after, before).values())
            apart += freedom * sum(variance(v[s] for s in both) for v in (after, before))
    return (together / apart if apart else 1.0), number


def _unpaired(evidence: Evidence) -> Iterator[str]:
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
    (share, number), (other, of) = tie(columns(evidence)), tie(heads(evidence))
    if number:
        also = (
            f" Over {_number(of, 'change')} of tab:joint-fc it is {other:.2f} times." if of else ""
        )
        yield (
            f"Pairing by seeds: over {_number(number, 'change')} of tab:angular-training the "
            f"variance of paired differences is {share:.2f} times the sum of both variances, so "
            f"that pairing {_paired(share)} it.{also} Paired tests stay valid; "
            "but where training again moves a probe as much as another seed does, a seed hardly "
            "makes a pair of two runs, and records that were set aside are draws as good as those "
            "that count."
        )
    if found:
        yield (
            "Pure Angular less ProCo on all trainings, those set aside too, unpaired (Welch's t "
            f"test, each by itself): {'; '.join(found)}."
        )


def _paired(share: float) -> str:
    """What pairing does to a variance, of which it leaves a share."""
    off = round(100 * (1 - share))
    return f"takes {off} % off" if off > 0 else f"adds {-off} % to" if off else "leaves"


def welch(a: Sequence[float], b: Sequence[float]) -> float | None:
    """The two-sided p value, None where a spread is not known."""
    from scipy.stats import ttest_ind

    if min(len(a), len(b)) < 2 or (equal(a) and equal(b)):
        return None
    return float(ttest_ind(a, b, equal_var=False).pvalue)  # type: ignore[attr-defined]


def _number(n: int, what: str) -> str:
    return f"{n} {what}{'s' if n > 1 else ''}"
