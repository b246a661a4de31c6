"""The sentences of the guide on frozen features: what is advised hangs on tests alone, corrected by
Holm for how many of them a sentence has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from resultant.analysis import Recommendation
from resultant_reproduction.intervals import Interval
from resultant_reproduction.rules import holm, span

# Differences by place: a data set and a space, or whatever else they are of.
Effects = Mapping[str, Interval]


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


def untold(topic: str, plan: str) -> Sentence:
    """What nothing was measured of."""
    return Sentence(topic, f"{topic}: nothing measured.", plan)


class Seen(NamedTuple):
    """The places of differences that are positive, negative, and of no sign that was seen, by
    Holm's correction for all of them; and those without an interval, which say nothing of it."""

    up: list[str]
    down: list[str]
    none: list[str]
    untested: list[str]

    @staticmethod
    def of(effects: Effects) -> Seen:
        tested = [place for place, i in effects.items() if i.p is not None]
        kept = holm([effects[place].p or 0.0 for place in tested])
        left = {place for place, keep in zip(tested, kept, strict=True) if keep}
        up = [place for place in effects if place in left and effects[place].mean > 0]
        down = [place for place in effects if place in left and effects[place].mean < 0]
        untested = [place for place, i in effects.items() if i.low is None]
        none = [place for place in effects if place not in (*up, *down, *untested)]
        return Seen(up, down, none, untested)

    def any(self) -> bool:
        return bool(self.up or self.down)

    def tested(self) -> bool:
        return self.any() or bool(self.none)


def listed(told: Mapping[str, str], between: str = "; ") -> str:
    """What is told of each place, a data set named once."""
    shared: dict[str, list[str]] = {}
    for place, text in told.items():
        start, _, last = place.rpartition(" ")
        shared.setdefault(start, []).append(f"{last} {text}".strip())
    return between.join(f"{start} {', '.join(last)}".strip() for start, last in shared.items())


def places(names: Iterable[str]) -> str:
    return listed(dict.fromkeys(names, ""), " and ")


def numbers(effects: Effects, digits: int = 2) -> str:
    """Every difference with its interval."""
    return listed({place: i.said(digits) for place, i in effects.items()})


def means(effects: Effects, digits: int = 2) -> str:
    """Their least and largest mean."""
    return span([i.mean for i in effects.values()], digits, sign="+")


def across(families: Mapping[float, Effects], place: str) -> str:
    """The means at one place, over the strengths or priors that they are of."""
    found = (own.get(place) for own in families.values())
    return ", ".join("–" if i is None else f"{i.mean:+z.2f}" for i in found)


def where(seen: Seen, up: str, down: str, none: str) -> str:
    """What is advised of each kind of places, one clause for each that there is."""
    clauses = zip((up, down, none, "not tested on"), seen, strict=True)
    text = "; ".join(f"{word} {places(found)}" for word, found in clauses if found)
    return f"{text[0].upper()}{text[1:]}."


def _turned(native: Effects, settings: Effects, way: str) -> str:
    """Where accuracy goes a way, up or down: as a mean over the settings of a data set, and in
    single ``settings``, named as ``CIFAR-10 / 100 encoder``, whose data set does not."""
    found = getattr(Seen.of({**native, **settings}), way)
    whole = {place: native[place] for place in found if place in native}
    alone = [place for place in found if place in settings and _whole(place) not in whole]
    told = {
        "means over imbalances": numbers(whole),
        "single imbalances": numbers({place: settings[place] for place in alone}),
    }
    return "; ".join(f"on {text} ({how})" for how, text in told.items() if text)


LESS = "Pure Angular at beta 0 less native, points"


def equalize(native: Effects, settings: Effects, missing: str = "") -> Sentence:
    """Where to equalize the gains of frozen features without a prior."""
    topic = "Edit of frozen features"
    if not native:
        return untold(topic, missing)
    seen, up = Seen.of(native), _turned(native, settings, "up")
    text = f"Equalize the gains of frozen features {up}: {LESS}."
    if not up:
        found = "seen to help" if seen.tested() else "tested"
        text = f"Equalizing the gains of frozen features was not {found}: {numbers(native)} points."
    elif seen.untested:
        text += f" Not tested on {places(seen.untested)}."
    return Sentence(topic, text, missing, begun=True)


def keep(native: Effects, settings: Effects, missing: str = "") -> Sentence:
    """Where to leave the gains of frozen features as they are."""
    topic = "Frozen features to leave alone"
    if not native:
        return untold(topic, missing)
    seen, down = Seen.of({**native, **settings}), _turned(native, settings, "down")
    flat = {place: native[place] for place in seen.none if place in native}
    found = "seen" if seen.tested() else "tested"
    text = f"That equalizing the gains of frozen features does harm was not {found}."
    if down:
        text = f"Keep the gains of frozen features {down}: {LESS}."
    text += f" As a mean over imbalances no gain was seen on {numbers(flat)}." if flat else ""
    return Sentence(topic, text, missing, begun=True)


def _whole(setting: str) -> str:
    """The place that a setting belongs to: ``CIFAR-10 encoder`` of ``CIFAR-10 / 100 encoder``."""
    dataset, _, rest = setting.partition(" / ")
    return f"{dataset} {rest.rpartition(' ')[2]}"


def choice(found: Mapping[str, Recommendation]) -> Sentence:
    """Which frozen rule to use: the best on one half of the queries, judged on the other."""
    gains = {
        place: Interval(100 * r.gain, 100 * r.low, 100 * r.high, r.queries, p=r.p_value)
        for place, r in found.items()
    }
    better, parts = Seen.of(gains).up, []
    for place, r in found.items():
        name = r.candidate
        if name not in ("cosine", "native"):
            name += f" at beta {r.candidate_beta:g}"
        use = f"use {name}" if place in better else "keep native"
        less = "" if name == "native" else f" ({name} less native {gains[place].said()} points)"
        parts.append(f"{place}: {use}{less}")
    advice = "Let half of your held-out queries choose a rule and the others judge it"
    how = f"{advice}, as resultant analyze --estimator proco does"
    return Sentence("Choice of a rule", f"{how}: {'; '.join(parts)}.")


def cosine(less: Effects, same: float, missing: str = "") -> Sentence:
    """Whether kappa is needed at all once gains are equal; of no network a lesser share of
    decisions than ``same`` is the same."""
    better = Seen.of(less).up
    advice = "Use cosine prototypes in place of Pure Angular at beta 0"
    if better:
        advice = f"Prefer Pure Angular at beta 0 to cosine on {places(better)} alone"
    text = (
        f"{advice}: of every network {100 * same:.2f} % of decisions or more are the same, and "
        f"cosine needs no kappa. Pure Angular less cosine: {means(less)} points."
    )
    return Sentence("Pure Angular or cosine", text, missing, begun=True)


def realized(
    found: Mapping[str, Effects], collapsed: Sequence[tuple[int, int]] = (), missing: str = ""
) -> Sentence:
    """How to realize an edit of frozen features: others less Pure Angular on native networks, and
    how many classes temperature and Pure Angular predict at states that have lost one."""
    every = {f"{rule}, {place}": i for rule, own in found.items() for place, i in own.items()}
    seen = Seen.of(every)
    advice = "Realize an edit of features of a native network as you like"
    if not seen.tested():
        advice = "Compare realizations: no difference was tested"
    elif seen.any():
        advice = f"Compare realizations: a difference is seen of {places((*seen.up, *seen.down))}"
    rules = " and ".join(found)
    text = f"{advice}. {rules.capitalize()} less Pure Angular: {means(every)} points."
    if collapsed:
        by_rule = [", ".join(map(str, own)) for own in zip(*collapsed, strict=True)]
        text += (
            " Not by temperature where a class has lost its kappa: at the ends of trainings that "
            f"lost one it predicts {by_rule[0]} classes where Pure Angular predicts {by_rule[1]} "
            "(fig:realization)."
        )
    return Sentence("Realization of an edit", text, missing, begun=True)


def prior(
    by_gamma: Mapping[float, Effects], moved: Mapping[float, Effects], missing: str = ""
) -> Sentence:
    """Whether the edit of frozen features goes with a log prior of gamma; ``moved`` is by how much
    its effect there differs from that without a prior."""
    every = {f"{g:g} {place}": i for g, own in moved.items() for place, i in own.items()}
    seen = Seen.of(every)
    kept = {key.partition(" ")[2] for key in (*seen.up, *seen.down)}
    hangs = [place for place in by_gamma[0.0] if place in kept]
    advice = f"That the edit depends on a prior was not {'seen' if seen.tested() else 'tested'}"
    if hangs:
        advice = f"Choose the prior first: what the edit does depends on it on {places(hangs)}"
    gammas = ", ".join(f"{gamma:g}" for gamma in by_gamma)
    parts = {place: across(by_gamma, place) for place in by_gamma[0.0]}
    text = (
        f"{advice}. Pure Angular less native under gamma log prior, gamma {gammas} (points): "
        f"{listed(parts)}."
    )
    return Sentence("Prior", text, missing, begun=True)


def strength(by_beta: Mapping[float, Effects], missing: str = "") -> Sentence:
    """By how much to edit frozen features: the most accurate beta where one helps."""
    every = {f"{b:g} {place}": i for b, own in by_beta.items() for place, i in own.items()}
    seen, best = Seen.of(every), dict[float, list[str]]()
    for place in by_beta[0.0]:
        known = {b: every[f"{b:g} {place}"].mean for b in by_beta if f"{b:g} {place}" in seen.up}
        if known:
            best.setdefault(max(known, key=known.__getitem__), []).append(place)
    betas = ", ".join(f"{b:g}" for b in by_beta)
    if not best:
        found = "seen to help" if seen.tested() else "tested"
        return Sentence("Strength", f"No beta of {betas} was {found}.", missing, begun=True)
    take = "; ".join(f"{b:g} on {places(own)}" for b, own in sorted(best.items()))
    helped = [place for own in best.values() for place in own]
    rest = [place for place in by_beta[0.0] if place not in helped]
    text = f"Of beta {betas} take the one with the largest mean of those seen to help: {take}"
    text += f"; none was seen to help on {places(rest)}" if rest else ""
    return Sentence("Strength", f"{text}.", missing, begun=True)


def spotted(found: Effects) -> str:
    """Which differences are seen, by name."""
    seen = Seen.of(found)
    return f"seen: {places((*seen.up, *seen.down))}" if seen.any() else "none seen"


def weighed(found: Effects, edit: Effects) -> str:
    """What another kappa does, its differences named as ``MLE native of CIFAR-10 encoder``, beside
    the edit at the same place."""
    seen = Seen.of(found)
    text = f"another kappa than ProCo's moves the accuracy of a rule by {means(found)} points"
    told = {name: found[name] for name in (*seen.up, *seen.down)}
    if not told:
        return f"{text}, none seen"
    beside = {name: edit[name.partition(" of ")[2]] for name in told}
    much = any(abs(i.mean) >= abs(beside[name].mean) for name, i in told.items())
    order = "as much as" if much else "less than"
    return f"{text}; seen: {numbers(told)}, {order} the edit there ({means(beside)})"


def kappas(found: Effects, edit: Effects) -> Sentence:
    """Whether another kappa than ProCo's matters on frozen features."""
    seen = Seen.of(found)
    advice = "Take any estimator of kappa on frozen features"
    if seen.any():
        advice = "Compare estimators of kappa" if seen.up else "Keep ProCo's kappa"
    text = f"{advice}: {weighed(found, edit)} (records and packaged; beyond:estimator)."
    return Sentence("Estimator of kappa, frozen", text)


def confidence(nll: Effects, missing: str = "") -> Sentence:
    """What the edit does to probabilities."""
    if not nll:
        return untold("Probabilities", missing)
    clauses = where(Seen.of(nll), "NLL rises on", "NLL falls on", "no effect on NLL was seen on")
    sizes = f"Pure Angular less native {means(nll, 4)}; calibration was not tried"
    text = f"Look at probabilities too where they matter. {clauses} {sizes}."
    return Sentence("Probabilities", text, missing, begun=True)


def groups(found: Mapping[str, Effects]) -> Sentence:
    """Who gains and who pays: the change of accuracy by shot group on each place."""
    topic = "Head, medium and tail"
    if not found:
        return untold(topic, "")
    told = "; ".join(f"{place} {numbers(own)}" for place, own in found.items())
    text = f"See which classes pay: {LESS}, by shot group, each of one network: {told}."
    return Sentence(topic, text)


class Reach(NamedTuple):
    """The standard deviation over the mean of the gains of a space, and the share of decisions that
    complete equalization changes."""

    spread: float
    changed: float


def restraint(found: Mapping[str, Reach]) -> Sentence:
    """That small differences of gain are not small in effect."""
    told = "; ".join(
        f"{place}, whose gains spread by {100 * r.spread:.1f} %: {100 * r.changed:.1f} %"
        for place, r in found.items()
    )
    text = (
        "Count the decisions that an edit changes, not how far gains are apart: nearly equal ones "
        "move a decision where the margin of the two best classes is small. Changed are, of "
        f"{told}."
    )
    return Sentence("Gains that are nearly equal", text)
