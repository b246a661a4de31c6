"""The sentences of the guide: what is advised hangs on the intervals alone, corrected for how many
of them a sentence has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

from resultant.frozen import Recommendation
from resultant.paper.artefact import SIGNIFICANCE
from resultant.paper.failure import Trainings
from resultant.paper.intervals import Interval
from resultant.paper.rules import holm, span
from resultant.paper.summary import SPACES

# A difference by place: a setting and a space, set apart by a comma.
Effects = Mapping[str, Interval]
# What is said of the sign of an interval, None where it has none.
Signs = Mapping[int | None, str]
V = TypeVar("V")

ACCURACY: Signs = {1: "better on", -1: "worse on", 0: "no effect seen on", None: "not tested on"}
LOSS: Signs = {**ACCURACY, 1: "higher on", -1: "lower on"}
STRENGTH: Signs = {sign: word.replace(" on", " at") for sign, word in ACCURACY.items()}

# The letters that the names of some places may take, else they are counted, so that a sentence has
# no more than that.
LETTERS, LENGTH = (90, 45, 25, 0), 390

# An edit that leaves all but this share of decisions as they are is not worth having.
IDLE = 0.01


@dataclass(frozen=True)
class Sentence:
    """A piece of advice and what it comes from; ``missing`` is the plan that has no records of it,
    or not all where it is ``begun``."""

    topic: str
    text: str
    missing: str = ""
    begun: bool = False

    def said(self) -> str:
        if not self.missing:
            return self.text
        lacking = "Not all records yet" if self.begun else "No record yet"
        return f"{self.text} {lacking}: resultant reproduce run {self.missing}."


def named(places: Iterable[str]) -> str:
    """Places in words: a setting alone stands for both its spaces, and settings that differ in
    the imbalance share a name."""
    spaces: dict[str, list[str]] = {}
    for place in places:
        setting, _, space = place.rpartition(", ")
        spaces.setdefault(setting or place, []).append(space)
    shared: dict[tuple[str, str], list[str]] = {}
    for setting, found in spaces.items():
        name, mark, imbalance = setting.partition(" / ")
        alone = f" ({found[0]})" if len(found) == 1 and found[0] in SPACES else ""
        shared.setdefault((name + mark, alone), []).append(imbalance)
    return " and ".join(f"{name}{', '.join(of)}{alone}" for (name, alone), of in shared.items())


def grouped(
    verdicts: Mapping[str, V],
    words: Mapping[V, str],
    letters: int,
    effects: Effects | None = None,
    digits: int = 2,
) -> str:
    """The places of each verdict in the order of ``words``, by name in so many ``letters``, with
    the least and the largest mean of their ``effects``: by how much, or, unless there is more to
    say, of those without one."""
    parts, of = [], len(verdicts)
    for verdict, word in words.items():
        found = [place for place, own in verdicts.items() if own == verdict]
        if not found:
            continue
        where, whole = named(found), len(found) == of
        # All of them, or those without effect, need no names as much as others do.
        if len(where) > letters / (2 if whole or verdict == 0 else 1):
            where = f"all {of}" if whole else f"{len(found)} of {of}"
        if effects and (verdict != 0 or whole):
            means = span([effects[place].mean for place in found], digits, sign="+")
            many = "mean" if len(found) == 1 else "means"
            where += f" by {means}" if verdict != 0 else f" ({many} {means})"
        parts.append(f"{word} {where}")
    return "; ".join(parts)


def short(make: Callable[[int], str]) -> str:
    """What is made with as many letters for names as leave it short."""
    *first, least = map(make, LETTERS)
    return next((text for text in first if len(text) <= LENGTH), least)


def _freedom(interval: Interval) -> float:
    """The degrees of freedom of its Student's t, infinite where it is normal."""
    return interval.n - 1 if interval.seeds else float("inf")


def p_value(interval: Interval) -> float:
    """Of the two-sided test whose 95 % interval it is: below 0.05 where that leaves zero out. Of a
    bootstrap the side towards zero is taken for that of a normal one."""
    from scipy.stats import t

    mean, low, high = interval[:3]
    assert low is not None and high is not None
    reach = mean - low if mean > 0 else high - mean
    if not mean or not reach:
        return float(not mean)
    of = _freedom(interval)
    return 2 * float(t.sf(abs(mean) / reach * t.ppf(1 - SIGNIFICANCE / 2, of), of))


def corrected(found: Mapping[str, Effects]) -> dict[str, dict[str, int | None]]:
    """The signs of all differences of a sentence that are left by Holm's correction for their
    number: 0 where none is, None where there is no interval."""
    tested = [
        (what, at) for what, own in found.items() for at, i in own.items() if i.sign is not None
    ]
    kept = holm([p_value(found[what][at]) for what, at in tested])
    left = {key for key, keep in zip(tested, kept, strict=True) if keep}
    return {
        what: {
            at: i.sign if (what, at) in left or i.sign is None else 0 for at, i in effects.items()
        }
        for what, effects in found.items()
    }


def unseen(found: Mapping[str, Effects]) -> list[float]:
    """The sizes below which differences of a sentence of m are not seen: half of each interval at
    the level over m, which the first of Holm's steps asks for. None where nothing varies."""
    from scipy.stats import t

    sizes = []
    every = [i for own in found.values() for i in own.values() if i.sign is not None]
    for i in every:
        assert i.low is not None and i.high is not None
        wide = t.ppf(1 - SIGNIFICANCE / 2 / len(every), _freedom(i))
        sizes.append((i.high - i.low) / 2 * float(wide / t.ppf(1 - SIGNIFICANCE / 2, _freedom(i))))
    return [size for size in sizes if size > 0]


def agreed(signs: Iterable[int | None]) -> int | None:
    """The sign on which all that was tested agree, 0 where nothing has one, None where they do not
    agree."""
    known = set(signs) - {0, None}
    return None if len(known) > 1 else known.pop() if known else 0


def advised(
    topic: str,
    words: Signs,
    found: Mapping[str, Effects],
    source: str,
    missing: str = "",
    signs: Signs = ACCURACY,
    digits: int = 2,
    unit: str = " points",
    note: str = "",
) -> Sentence:
    """The one of the ``words`` that all differences bear out, what these are, by what is compared,
    and a ``note``; ``source`` is where their intervals stand."""
    left = corrected(found)
    every = [sign for own in left.values() for sign in own.values()]
    if not every:
        return Sentence(topic, f"{topic}: nothing measured.", missing)
    tested = sum(sign is not None for sign in every)
    text = words[agreed(every)]
    if not tested:
        text = f"{topic}: not tested yet, for want of seeds"
    elif not any(every) and (sizes := unseen(found)):
        of = "the one interval" if len(sizes) == 1 else f"the median of {len(sizes)}"
        text += f", but one below {median(sizes):.{digits}f}{unit} would go unseen ({of})"

    def said(letters: int) -> str:
        parts = [text]
        for what, effects in found.items():
            if effects:
                parts.append(f"{what}: {grouped(left[what], signs, letters, effects, digits)}")
        return f"{'. '.join(parts + [note] * bool(note))} ({source})."

    return Sentence(topic, short(said), missing, begun=True)


def whether(
    act: str,
    found: Mapping[str, Effects],
    source: str = "table",
    plan: str = "",
    planned: int = 0,
    signs: Signs = ACCURACY,
    alone: str = "",
    note: str = "",
) -> Sentence:
    """Whether to do something for accuracy; the ``plan`` has so many differences ``planned``. All
    that it rests on may be ``alone``."""
    rests = f" (tried: {alone} alone)" if alone else ""
    words: Signs = {
        1: f"{act[0].upper()}{act[1:]}{rests} where it was seen to help",
        -1: f"Do not {act}{rests} where it was seen to harm",
        0: f"{act[0].upper()}{act[1:]}{rests} or not: no effect was seen",
        None: f"Measure before you {act}{rests}: it helps here and harms there",
    }
    missing = plan if sum(map(len, found.values())) < planned else ""
    return advised(f"Whether to {act}", words, found, source, missing, signs, note=note)


def cosine(less: Effects, same: float) -> Sentence:
    """Whether kappa is needed at all once gains are equal; a share ``same`` of decisions is."""
    words: Signs = {
        1: "Take Pure Angular at beta 0, not cosine",
        -1: "Take cosine, not Pure Angular at beta 0",
        0: "Take cosine for Pure Angular at beta 0, which is simpler: no difference was seen",
        None: "Measure before you choose between cosine and Pure Angular at beta 0",
    }
    what = f"{100 * same:.2f} % of decisions or more are the same, and cosine needs no kappa"
    found = {f"{what}. Pure Angular less cosine (points)": less}
    return advised("Pure Angular or cosine", words, found, "table")


def realized(found: Mapping[str, Effects]) -> Sentence:
    """How to realize an edit of frozen features: others less Pure Angular."""
    words: Signs = {
        1: "Try temperature and preserve too, for small differences from Pure Angular",
        -1: "Take Pure Angular for an edit of frozen features",
        0: "Realize an edit of frozen features as you like: no difference was seen",
        None: "Measure which realization suits your frozen features",
    }
    return advised("Realization of an edit", words, found, "table")


def confidence(nll: Effects, ece: Effects) -> Sentence:
    """What the edit does to probabilities."""
    harmed = "Calibrate after Pure Angular, or keep native, where probabilities matter and suffer"
    words: Signs = dict.fromkeys((1, None), harmed) | {
        -1: "Probabilities do not speak against Pure Angular",
        0: "No effect of Pure Angular on probabilities was seen",
    }
    found = {"NLL": nll, "ECE": ece}
    return advised("Probabilities", words, found, "table", signs=LOSS, digits=4, unit="")


def choice(found: Mapping[str, Recommendation]) -> Sentence:
    """Which frozen rule to use: the best on one half of the queries, judged on the other."""
    gains = {
        place: Interval(100 * r.gain, 100 * r.low, 100 * r.high, r.queries)
        for place, r in found.items()
    }
    signs, parts = corrected({"": gains})[""], []
    for place, r in found.items():
        gain, name = gains[place], r.candidate
        if name not in ("cosine", "native"):
            name += f" at beta {r.candidate_beta:g}"
        use = f"use {name}" if signs[place] == 1 else "keep native"
        numbers = "" if name == "native" else f" ({name} less native {gain.said()} points)"
        parts.append(f"{named([place])}: {use}{numbers}")
    advice = "Let half of the held-out queries choose a rule and the others judge it"
    return Sentence("Choice of a rule", f"{advice}. So judged, {'; '.join(parts)}.")


def prior(by_gamma: Mapping[float, Effects]) -> Sentence:
    """Whether the edit of frozen features goes with a log prior of gamma."""
    left = corrected({f"{gamma:g}": effects for gamma, effects in by_gamma.items()})
    signs = {
        place: agreed(own[place] for own in left.values() if place in own)
        for place in by_gamma[0.0]
    }
    advice = "No turn of the edit by the prior was seen"
    if None in signs.values():
        advice = "Decide on edit and prior together"
    words: Signs = {None: "turns on", 1: "is plus on", -1: "is minus on", 0: "is not seen on"}
    gammas = ", ".join(f"{gamma:g}" for gamma in sorted(by_gamma))
    text = f"{advice}. Over gamma {gammas} the sign of Pure Angular less native, where seen,"
    return Sentence("Prior", short(lambda n: f"{text} {grouped(signs, words, n)} (table)."))


def strength(by_beta: Mapping[float, Effects]) -> Sentence:
    """By how much to edit frozen features: the most accurate beta by place."""
    best: dict[str, str] = {}
    left = corrected({f"{beta:g}": effects for beta, effects in by_beta.items()})
    for place in by_beta[0.0]:
        known = {beta: effects[place] for beta, effects in by_beta.items() if place in effects}
        beta = max(known, key=lambda beta: known[beta].mean)
        best[place] = f"{beta:g}" if left[f"{beta:g}"][place] == 1 else "none"
    won = Counter(beta for beta in best.values() if beta != "none").most_common(1)
    advice = f"Start from beta {won[0][0]}" if won else "Keep native"
    betas = [f"{beta:g}" for beta in by_beta]
    text = f"{advice}. Of beta {', '.join(betas)} the most accurate, where it beats native, is"
    words = {beta: f"{beta} on" for beta in (*betas, "none")}
    return Sentence("Strength", short(lambda n: f"{text} {grouped(best, words, n)} (table)."))


def failure(trainings: Trainings | None) -> Sentence:
    """What became of trainings by direct temperature (sec:same-state-diagnostic)."""
    topic, where = "Failure of direct temperature", "CIFAR-100 IF 10 with a uniform prior"
    if trainings is None:
        return Sentence(
            topic, f"{where} is where the paper saw direct temperature fail.", "failure"
        )
    lost = sum(map(trainings.lost, trainings.edited))
    advice = "Do not train with direct temperature" if lost else "Direct temperature did not fail"
    edited, native = (", ".join(f"{t.loss:.3g}" for t in each) for each in trainings)
    text = (
        f"{advice} on {where}: a class collapsed in {lost} of {len(trainings.edited)} trainings, "
        f"which end at a loss of {edited}, native ones at {native}; a class counts as collapsed "
        "with a kappa below a tenth of the least of native ones (fig:realization)."
    )
    return Sentence(topic, text)


@dataclass(frozen=True)
class Reach:
    r"""How far an edit of the gains reaches in one space.

    ``spread`` is the standard deviation over the mean of the gains, ``changed`` the share of
    decisions that complete equalization changes, ``idle`` the share t of it,
    :math:`\beta=1-t`, up to which no more than `IDLE` of them change.
    """

    spread: float
    changed: float
    idle: Interval


def restraint(found: Mapping[str, Reach]) -> Sentence:
    """When not to edit: gains so equal that few decisions can change."""
    parts = []
    for place, r in found.items():
        own = f"own {r.spread:.4f} changes {100 * r.changed:.1f} %"
        if r.idle.mean < 1:
            mean, low, high = (f"{r.spread * (t or 0.0):#.2g}" for t in r.idle[:3])
            parts.append(f"{mean} [{low}, {high}] on {named([place])}, whose {own}")
        else:
            parts.append(f"none on {named([place])}, whose {own}")
    text = (
        "Leave gains alone that are nearly equal. The sd / mean of gains at which "
        f"{100 * IDLE:g} % of decisions change is {'; '.join(parts)}."
    )
    return Sentence("Gains that are nearly equal", text)
