"""The sentences of the guide: what is advised hangs on the intervals alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from resultant.frozen import Recommendation
from resultant.paper.artefact import Change
from resultant.paper.estimators import TRAINED
from resultant.paper.intervals import Interval, over_seeds

POINTS = " points"
BETAS = (-0.5, 0.0, 0.5, 1.5, 2.0)

# An edit that leaves all but this share of decisions as they are is not worth having.
IDLE = 0.01


@dataclass(frozen=True)
class Sentence:
    """A piece of advice and what it comes from; ``missing`` is the plan that has no records of it,
    or not all where it is ``begun``; the ``question`` is one of the guide's."""

    topic: str
    text: str
    missing: str = ""
    begun: bool = False
    question: str = ""

    @property
    def short(self) -> str:
        """The advice without the numbers in brackets."""
        return f"{self.topic}: {re.sub(r' [(][^()]*[)]', '', self.text)}"

    def said(self) -> str:
        if not self.missing:
            return f"{self.topic}: {self.text}"
        lacking = "Not all records yet" if self.begun else "No record yet"
        return f"{self.topic}: {self.text} {lacking}: resultant reproduce run {self.missing}."


Effects = Mapping[str, Interval]


def listed(effects: Effects, what: str = "accuracy", digits: int = 2, unit: str = POINTS) -> str:
    return "; ".join(f"{name}: {i.effect(what, digits, unit)}" for name, i in effects.items())


def agreed(effects: Iterable[Interval]) -> int | None:
    """The sign on which all that was tested agree, 0 where nothing has one, None where they do not
    agree."""
    signs = {i.sign for i in effects} - {0, None}
    return None if len(signs) > 1 else signs.pop() if signs else 0


def choice(title: str, found: Recommendation) -> Sentence:
    """Which frozen rule to use: the best on one half of the queries, judged on the other."""
    gain = Interval(100 * found.gain, 100 * found.low, 100 * found.high, found.queries)
    name = f"{found.candidate} at beta = {found.candidate_beta:g}"
    name = found.candidate if found.candidate in ("cosine", "native") else name
    advice = f"use {name} there" if gain.sign == 1 else "keep native there"
    if name == "native":
        text = "keep native there, the most accurate on the half of the queries that chose"
    else:
        text = f"{advice}; {name} less native: {gain.effect('accuracy', unit=POINTS)}"
    return Sentence(
        f"Frozen features, {title}", f"{text} ({found.queries:,} queries that did not choose)."
    )


def elsewhere(found: Effects, missing: int) -> Sentence:
    """Whether the sign of the frozen edit is that of the data at hand or a law."""
    plan = "main" if missing else ""
    topic = "Frozen features of several networks"
    if not found:
        return Sentence(topic, "nothing measured.", plan)
    signs = {i.mean > 0 for i in found.values()}
    advice = "the measured sign differs: try it on your own features before editing"
    if len(signs) == 1:
        advice = f"accuracy is {'higher' if signs.pop() else 'not higher'} in all of them"
        advice += ", of one network each" if all(i.sign is None for i in found.values()) else ""
    return Sentence(
        topic,
        f"Pure Angular less native, by training set: {advice} ({listed(found)}; tab:frozen-vmf).",
        plan,
        begun=True,
    )


def confidence(nll: Effects, ece: Effects) -> Sentence:
    """What the edit does to probabilities."""
    worse = [n for n in nll if nll[n].sign == 1 or (n in ece and ece[n].sign == 1)]
    advice = "Pure Angular was not seen to harm them"
    if worse:
        advice = f"calibrate after Pure Angular, or keep native, on {'; '.join(worse)}"
    numbers = "; ".join(
        f"{name}: {nll[name].effect('NLL', 4)}"
        + (f", {ece[name].effect('ECE', 4)}" if name in ece else "")
        for name in nll
    )
    return Sentence("Probabilities", f"{advice} ({numbers}; held-out queries).")


def cosine(less: Effects, agreement: Mapping[str, tuple[float, float]]) -> Sentence:
    """Whether kappa is needed at all once gains are equal: shares of the same and of certified
    decisions."""
    sign = agreed(less.values())
    advice = "they differ by place: choose by measuring"
    if sign is not None:
        advice = {0: "either will do, and cosine needs no kappa", 1: "take Pure Angular"}.get(
            sign, "take cosine"
        )
    # A difference can be certain and small.
    seen = [abs(i.mean) for i in less.values() if i.sign]
    if seen:
        advice += f", though where a difference is seen it is {max(seen):.2f} points at most"
    numbers = "; ".join(
        f"{name}: {less[name].effect('accuracy', unit=POINTS)}, {100 * same:.2f} % of decisions "
        f"the same, {100 * sure:.2f} % certified to be"
        for name, (same, sure) in agreement.items()
    )
    return Sentence(
        "Pure Angular at beta 0 or cosine",
        f"{advice} (Pure Angular less cosine, {numbers}; tab:cosine-diagnostics).",
    )


def realization(
    accuracy: Mapping[str, Effects], drift: Mapping[str, Mapping[str, float]]
) -> Sentence:
    """How to realize the edit: temperature and preserve against Pure Angular, by place."""
    lost = [
        f"{rule} on {place}"
        for place, rules in accuracy.items()
        for rule, i in rules.items()
        if i.sign == -1
    ]
    won = [
        f"{rule} on {place}"
        for place, rules in accuracy.items()
        for rule, i in rules.items()
        if i.sign == 1
    ]
    advice = "on a native state the three do not differ visibly"
    if lost or won:
        advice = "; ".join(
            f"{', '.join(names)} {verb} Pure Angular"
            for names, verb in ((lost, "is worse than"), (won, "is better than"))
            if names
        )
        means = (abs(i.mean) for rules in accuracy.values() for i in rules.values() if i.sign)
        advice += f", by {max(means):.2f} points at most"
    numbers = "; ".join(
        f"{place}: "
        + ", ".join(f"{rule} less Pure Angular {i.said()} points" for rule, i in rules.items())
        + ", largest change of an intercept "
        + ", ".join(f"{drift[place][rule]:.2g} under {rule}" for rule in (*rules, "angular"))
        for place, rules in accuracy.items()
    )
    return Sentence("Temperature, preserve or Pure Angular", f"{advice} ({numbers}).")


def failure(state: Mapping[str, Any] | None) -> Sentence:
    """The state of a network trained by direct temperature (fig:realization)."""
    topic = "When direct temperature fails"
    if state is None:
        text = "CIFAR-100 IF 10 with a uniform prior is where the paper saw intercepts drift."
        return Sentence(topic, text, "failure")
    losses = {rule: row["cross_entropy"] for rule, row in state["same_state"].items()}
    drift = state["intercepts"].get("temperature", float("nan"))
    worst = losses.get("temperature", float("nan"))
    fails = worst > 2 * losses["native"]
    advice = "it fails: edit slopes, not temperatures" if fails else "no failure seen"
    said = ", ".join(f"{rule} {loss:.4g}" for rule, loss in losses.items())
    text = (
        f"{advice} (one network of CIFAR-100 IF 10, uniform prior: cross-entropy {said}, largest "
        f"change of an intercept {drift:.3g}; more than twice native counts as failing)."
    )
    return Sentence(topic, text)


def strength(
    frozen: Mapping[str, Mapping[float, Interval]], swept: Mapping[float, Interval]
) -> Sentence:
    """By how much: accuracy over beta less native, frozen by place and trained."""
    parts = []
    for place, by_beta in frozen.items():
        best = max(by_beta, key=lambda beta: by_beta[beta].mean)
        sign = agreed(i for beta, i in by_beta.items() if beta > 1)
        high = {0: "shows no effect", 1: "helps", -1: "harms", None: "may help or harm"}[sign]
        numbers = ", ".join(f"{beta:g} {i.said()}" for beta, i in by_beta.items())
        take = f"beta {best:g} is most accurate" if by_beta[best].sign == 1 else "none beats native"
        parts.append(f"{place}: {take}, beta above 1 {high} ({numbers} points over native)")
    wanted = [beta for beta in BETAS if beta not in swept]
    if swept:
        numbers = ", ".join(f"{beta:g} {i.effect('accuracy')}" for beta, i in swept.items())
        parts.append(f"trained, Projection probes less native: {numbers} (beyond:beta-sweep)")
    # Beta 0 is of another plan.
    begun = any(beta in swept for beta in BETAS if beta)
    return Sentence("Strength", "; ".join(parts) + ".", "beyond" if wanted else "", begun)


def training(changes: Sequence[Change]) -> Sentence:
    """Whether to train with it: tab:angular-training, paired over seeds."""
    known = {c.row: i for c in changes if (i := over_seeds(c.differences)) is not None}
    missing = "main" if len(known) < len(changes) else ""
    if not known:
        return Sentence("Training with Pure Angular", "nothing measured.", missing)
    sign = agreed(known.values())
    advice = {1: "use it where it was seen to help", -1: "do not where it was seen to harm"}.get(
        sign or 0, "no effect seen in any setting that could be tested"
    )
    advice = "it depends on the data" if sign is None else advice
    if all(i.sign is None for i in known.values()):
        advice = "not tested yet, for want of seeds"
    return Sentence(
        "Training with Pure Angular",
        f"{advice} (less ProCo, long-tail probes, {listed(known)}; tab:angular-training; "
        f"{len(known)} of {len(changes)} readouts have records).",
        missing,
        begun=True,
    )


def other_trainings(changes: Sequence[Change]) -> Sentence:
    """Whether to train with another realization: tab:angular-training, paired over seeds."""
    known = {
        f"{c.what.removesuffix(' - ProCo')} on {c.row}": i
        for c in changes
        if (i := over_seeds(c.differences)) is not None
    }
    topic = "Training with temperature or preserve"
    missing = "main" if len(known) < len(changes) else ""
    if not known:
        return Sentence(topic, "nothing measured.", missing)
    parts = [
        f"{verb}: {', '.join(names)}"
        for verb, sign in (("better than ProCo", 1), ("worse than ProCo", -1))
        if (names := [name for name, i in known.items() if i.sign == sign])
    ]
    advice = "; ".join(parts) or "no effect seen in any setting that could be tested"
    return Sentence(
        topic,
        f"{advice} (less ProCo, long-tail probes, {listed(known)}; tab:angular-training; "
        f"{len(known)} of {len(changes)} readouts have records).",
        missing,
        begun=True,
    )


def prior(frozen: Mapping[str, Mapping[float, Interval]], uniform: Effects) -> Sentence:
    """Whether the edit goes with a log prior of gamma, and with a uniform prior in training."""
    parts = []
    for place, by_gamma in frozen.items():
        sign = agreed(by_gamma.values())
        verdict = "the sign turns with the prior: decide on both together"
        if sign is not None:
            verdict = {0: "no effect seen at any prior", 1: "helps where an effect is seen"}.get(
                sign, "harms where an effect is seen"
            )
        numbers = ", ".join(f"gamma {gamma:g} {i.said()}" for gamma, i in by_gamma.items())
        parts.append(f"{place}: {verdict} ({numbers} points)")
    if uniform:
        sign = agreed(uniform.values())
        advice = {-1: "do not train with it under a uniform prior", 1: "it helps there too"}.get(
            sign or 0, "uniform prior in training is not settled"
        )
        parts.append(f"{advice} ({listed(uniform)}; tab:c10-if50-u, tab:c10-if100-u)")
    text = f"Pure Angular less native on frozen features, {'; '.join(parts)}."
    return Sentence("Prior", text, "" if len(uniform) == 4 else "controls", bool(uniform))


def views(less: Effects) -> Sentence:
    """Whether it still helps on AutoAugment and Cutout views."""
    if not less:
        return Sentence("Stronger views", "nothing measured.", "beyond")
    sign = agreed(less.values())
    advice = {1: "Pure Angular helps there too", -1: "drop Pure Angular there"}.get(
        sign or 0, "no effect of Pure Angular seen there"
    )
    if all(i.sign is None for i in less.values()):
        advice = "not tested yet, for want of seeds"
    text = f"{advice} ({listed(less)}; CIFAR-10 IF 100, beyond:stronger-views)."
    return Sentence("Stronger views", text)


def estimator(frozen: Sequence[str], changes: Sequence[Change]) -> Sentence:
    """Which kappa: what is said of frozen features, and changes in training."""
    known = {
        f"{c.what}, {c.row}": i
        for c in changes
        if c.what.endswith("ProCo's") and (i := over_seeds(c.differences)) is not None
    }
    lacking = [n for n in TRAINED if not any(name.startswith(n) for name in known)]
    text = "; ".join(frozen) + (f"; trained, {listed(known)}" if known else "")
    missing, begun = "beyond" if lacking else "", len(lacking) < len(TRAINED)
    return Sentence("Estimator", f"{text} (beyond:estimator).", missing, begun)


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
    queries: int


def restraint(found: Mapping[str, Reach]) -> Sentence:
    """When not to edit: gains so equal that few decisions can change."""
    parts = []
    for place, r in found.items():
        share = f"{100 * IDLE:g} % of the decisions"
        here = f"sd / mean of the gains {r.spread:.4f}, {r.queries:,} queries"
        if r.idle.mean >= 1:
            parts.append(f"{place}: do not bother, not even {share} change ({here})")
            continue
        said, limit = r.idle.said(3, sign=False), r.spread * r.idle.mean
        parts.append(
            f"{place}: complete equalization changes {100 * r.changed:.1f} % of the decisions and "
            f"{said} of that edit changes {share}, so do not bother where the gains are as equal "
            f"as sd / mean {limit:.2g} ({here})"
        )
    return Sentence("Gains that are nearly equal", "; ".join(parts) + ".")
