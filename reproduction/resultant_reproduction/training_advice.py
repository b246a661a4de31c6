"""The sentences of the guide on training; see `resultant_reproduction.advice`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from statistics import fmean

from resultant.training.config import TrainConfig
from resultant_reproduction.advice import Effects, Seen, Sentence, means, numbers, places, untold
from resultant_reproduction.artefact import Change, Value
from resultant_reproduction.courses import said_seeds
from resultant_reproduction.evidence import Evidence
from resultant_reproduction.failure import Training, Trainings
from resultant_reproduction.intervals import Interval, over_seeds
from resultant_reproduction.plan import wanted
from resultant_reproduction.records import path_of
from resultant_reproduction.rules import counted, span
from resultant_reproduction.summarize import SPACES


def training(found: Effects, missing: str = "") -> Sentence:
    """Whether to train with an edited gain under the frequency prior: realizations less ProCo,
    each a mean over settings."""
    topic = "Training with an edited gain"
    if not found:
        return untold(topic, missing)
    seen = Seen.of(found)
    advice = "Under the frequency prior expect little of training with an edited gain"
    tail = "" if seen.any() else "; none of them is seen"
    if not seen.tested():
        advice, tail = "Training with an edited gain under the frequency prior", "; not tested"
    elif seen.up:
        advice = f"Under the frequency prior train with {', '.join(seen.up)}"
    elif seen.down:
        advice = f"Do not train with {', '.join(seen.down)} under the frequency prior"
    text = (
        f"{advice}: less ProCo on long-tail probes, mean over settings (points), {numbers(found)}"
        f"{tail} (tab:angular-training)."
    )
    return Sentence(topic, text, missing, begun=True)


def _open(found: Effects, seen: Seen) -> str:
    """The differences that were not tested."""
    own = {place: found[place] for place in seen.untested}
    seeds = ", of one seed each" if all(i.n == 1 for i in own.values()) else ""
    return f"not tested{seeds}: {numbers(own)} points"


def over_seeds_of(changes: Iterable[Change]) -> dict[str, Interval]:
    """Changes over seeds by name, where there are any."""
    found = {f"{c.what.partition(' - ')[0]}, {c.row}": over_seeds(c.differences) for c in changes}
    return {name: i for name, i in found.items() if i is not None}


def rerun(
    evidence: Evidence,
    config: TrainConfig,
    kinds: Iterable[tuple[str, float]] = (("native", 0.0), ("angular", 0.0)),
) -> bool:
    """Whether kinds of runs, realization and beta, have long-tail probes of all planned seeds."""
    return all(
        len(evidence.records.values(config, *kind, path_of(space))) >= wanted(config, *kind)
        for kind, space in product(kinds, SPACES)
    )


def in_words(found: Effects) -> str:
    """What was seen of some changes of the training in long-tail probes."""
    seen, parts = Seen.of(found), []
    if seen.any():
        own = {place: found[place] for place in (*seen.up, *seen.down)}
        parts.append(f"seen are {numbers(own)} points, of {len(found)} comparisons")
    elif seen.none:
        flat = {place: found[place] for place in seen.none}
        of = f" ({numbers(flat)})"
        if len(flat) > 2:
            wide = [i.high - i.mean for i in flat.values() if i.high is not None]
            of = f" over {len(flat)} comparisons, each ± {span(wide, 1)}"
        parts.append(f"no effect was seen, means {means(flat)} points{of}")
    if seen.untested:
        parts.append(_open(found, seen))
    return "; ".join(parts)


def trained(topic: str, what: str, found: Effects, source: str, missing: str = "") -> Sentence:
    """What some change of the training does to long-tail probes, or to what is named."""
    if not found:
        return untold(topic, missing)
    return Sentence(topic, f"{what}: {in_words(found)} ({source}).", missing, begun=True)


def avoid(topic: str, what: str, found: Effects, source: str, missing: str = "") -> Sentence:
    """Whether to train in a way that may do harm."""
    if not found:
        return untold(topic, missing)
    seen = Seen.of(found)
    if not seen.any():
        return trained(topic, f"To {what}", found, source, missing)
    advice = "Do not" if not seen.up else "Do" if not seen.down else "See first whether to"
    sure = {place: i for place, i in found.items() if place not in seen.untested}
    text = f"{advice} {what}: less ProCo on long-tail probes (points), {numbers(sure)}"
    text += f"; no effect was seen on {places(seen.none)}" if seen.none else ""
    text += f"; {_open(found, seen)}" if seen.untested else ""
    return Sentence(topic, f"{text} ({source}).", missing, begun=True)


def any_edit(found: Mapping[str, Mapping[float, Sequence[Value]]], missing: str = "") -> Sentence:
    """Whether some edit is spared under a uniform prior: the changes that each of them makes
    (points, over seeds), by kind of training and by imbalance."""
    topic = "Any edit under a uniform prior"
    known = {kind: own for kind, own in found.items() if own}
    if not known:
        return untold(topic, missing)
    parts = []
    for kind, own in known.items():
        every = [change for changes in own.values() for change in changes]
        below = f"{sum(change.mean < 0 for change in every)} of {len(every)} long-tail probes"
        told = ", ".join(
            f"{fmean(c.mean for c in changes):+z.2f} at IF {imbalance:g}"
            for imbalance, changes in own.items()
        )
        parts.append(f"after {kind} training {below} are below ProCo's, by {told}")
    seeds = counted(v.n for own in known.values() for changes in own.values() for v in changes)
    text = (
        f"{topic}, temperature, preserve or angular at beta 0 or 0.5, CIFAR-10: {'; '.join(parts)} "
        f"(points, mean over the edits; {seeds} of each, not tested; tab:c10-if10-u and others)."
    )
    return Sentence(topic, text, missing, begun=True)


def failure(trainings: Trainings | None, missing: str = "") -> Sentence:
    """Whether to train by direct temperature under a uniform prior (sec:same-state-diagnostic):
    advised by accuracy, whichever classes collapsed."""
    topic = "Direct temperature under a uniform prior"
    if trainings is None:
        return untold(topic, "failure")
    found = {f"CIFAR-100 IF 10 {space}": i for space, i in trainings.changes().items()}
    text = f"{topic}: no probes to compare."
    if found:
        what = "train contrastively by direct temperature under a uniform prior"
        text = avoid(topic, what, found, "fig:realization").text
    lost = [t for t in trainings.edited if trainings.lost(t)]
    kept = [t for t in trainings.edited if not trainings.lost(t)]
    if len(trainings.edited) > len(trainings.seeds):
        text += " A seed that was trained twice counts once, by its mean."
    of = f"of {len(trainings.edited)} trainings of {said_seeds(trainings.seeds)}"
    text += f" A class collapsed in {len(lost) or 'none'} {of}"
    if lost and kept:
        kinds = {"where it did": lost, "where it did not": kept, "native": trainings.native}
        told = "; ".join(f"{kind} {said}" for kind, t in kinds.items() if (said := _probed(t)))
        text += f"; probes {told}" if told else ""
    return Sentence(topic, f"{text}.", missing, begun=True)


def _probed(trainings: Sequence[Training]) -> str:
    """The mean accuracies of probes, by space."""
    own = {s: [t.probes[s] for t in trainings if s in t.probes] for s in SPACES}
    return ", ".join(f"{space} {100 * fmean(v):.1f} %" for space, v in own.items() if v)
