"""Sentences of the paper with a number in them, of training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from resultant.paper.artefact import (
    SIGNIFICANCE,
    Change,
    Claim,
    Value,
    judged,
    untestable,
    waiting,
)
from resultant.paper.controls import control_config, control_table
from resultant.paper.evidence import Evidence, trained_as
from resultant.paper.historical import POLICIES, STRENGTHS, increment_errors
from resultant.paper.intervals import over_settings
from resultant.paper.plan import official
from resultant.paper.records import paired
from resultant.paper.rules import (
    BORNE_OUT,
    FOREIGN,
    alike,
    borne_out,
    by_network,
    counted,
    seen,
    span,
    spread,
    whole,
    within,
)
from resultant.paper.summary import SPACES
from resultant.paper.training import CHANGES, angular_training, joint_fc, of_cifar
from resultant.presets import preset


def training_claims(evidence: Evidence) -> Iterator[Claim]:
    """sec:new-learning, sec:learning-extensions and the historical family."""
    trained = angular_training(evidence)
    yield from _readouts(of_cifar(trained))
    for what in CHANGES[:-1]:
        yield _unlike(what, of_cifar(trained, what))
    yield from _imagenet(evidence, trained.changes)
    yield _uniform(evidence)
    yield _mixed(of_cifar(joint_fc(evidence)))
    yield from _joint_controls(evidence)
    yield from _historical(evidence)
    config = preset("imagenet-lt", architecture="resnext50_32x4d")
    heads = [
        evidence.records.value(config, "native", 0.0, f"last.{name}")
        for name in ("accuracy", "head", "medium", "tail")
    ]
    for text, printed, ours in (
        ("ResNeXt-50 classifier, ImageNet-LT test (%)", (58.026,), heads[:1]),
        ("The same, head / medium / tail (%)", (67.787, 55.620, 38.868), heads[1:]),
    ):
        yield _brought("sec:backbone-control", text, printed, 3, ours)


def _imagenet(evidence: Evidence, trained: Sequence[Change]) -> Iterator[Claim]:
    """sec:new-learning and sec:imagenet-strength-extension: Encoder and Projection."""
    label, config = "sec:new-learning", trained_as("ImageNet-LT")
    paths = [f"probes.long_tail.{space}.accuracy" for space in SPACES]
    for name, kind, printed in (
        ("ProCo", ("native", 0.0), (23.05, 36.86)),
        ("Pure Angular", ("angular", 0.0), (23.22, 37.07)),
        ("beta = 1.5", ("angular", 1.5), (23.56, 37.76)),
    ):
        ours = [evidence.records.value(config, *kind, path) for path in paths]
        yield _brought(label, f"ImageNet-LT: {name}, encoder / projection (%)", printed, 2, ours)
    text, paper = "ImageNet-LT: Pure Angular less ProCo, E / P (points)", "+0.17 / +0.21"
    changes = [c for c in trained if c.row.startswith("ImageNet-LT") and c.what == CHANGES[-1]]
    if not changes:
        yield untestable(label, text, paper, FOREIGN)
        return
    yield judged(label, text, paper, _told(changes), borne_out(changes), BORNE_OUT)


def _brought(
    label: str, text: str, printed: tuple[float, ...], digits: int, ours: list[Value | None]
) -> Claim:
    """A claim about accuracies on listed images, for which a user brings records."""
    paper = " / ".join(f"{value:.{digits}f}" for value in printed)
    known = [value for value in ours if value is not None]
    if len(known) < len(printed):
        return untestable(label, text, paper, FOREIGN)
    near = all(abs(v.mean - wanted) <= 1 for v, wanted in zip(known, printed, strict=True))
    said = " / ".join(value.said(digits) for value in known)
    said += f"; {counted(value.n for value in known)}"
    return judged(label, text, paper, said, near, "mean over networks within one point")


def _readouts(changes: list[Change]) -> Iterator[Claim]:
    """All twelve changes positive: by data set, and all settings together."""
    for name, paper in (("CIFAR-10", "+0.19 to +1.17"), ("CIFAR-100", "+0.22 to +0.94")):
        own = [c for c in changes if c.row.startswith(f"{name} ")]
        known = [c for c in own if c.ours is not None]
        text = f"{name}: Pure Angular less ProCo, six long-tail readouts (points)"
        if not known:
            yield waiting("sec:new-learning", text, paper, "main")
            continue
        ours = f"{_told(known)}; {_signs(known)}; mean over settings {whole(known)}"
        yield judged(
            *("sec:new-learning", text, paper, ours, borne_out(known), BORNE_OUT),
            tested=len(known),
            of=len(own),
        )
    yield from _pooled(changes)


def _told(changes: list[Change]) -> str:
    return spread([c.ours for c in changes if c.ours is not None], 2, sign="+")


def _signs(changes: list[Change]) -> str:
    positive = sum(c.ours is not None and c.ours.mean > 0 for c in changes)
    up, down = seen(changes)
    return f"{positive} of {len(changes)} positive, by Holm {up} up and {down} down"


def _unlike(what: str, changes: list[Change]) -> Claim:
    """That another realization does not improve as consistently as Pure Angular."""
    name, printed = what.removesuffix(" - ProCo"), [c.paper or 0.0 for c in changes]
    text = f"{name} less ProCo: without the consistent improvement of Pure Angular (points)"
    positive = sum(value > 0 for value in printed)
    paper = f"{span(printed, 2, sign='+')}, {positive} of {len(printed)} positive"
    known = [c for c in changes if c.ours is not None]
    if not known:
        return waiting("sec:new-learning", text, paper, "main")
    up, down = seen(known)
    # Every one up would be against it, as far as there are records.
    holds = True if down else False if up == len(changes) else None
    rule = (
        "one negative by Holm's correction, which three seeds hardly reach; all positive by it is "
        "against it"
    )
    return judged(
        *("sec:new-learning", text, paper, f"{_told(known)}; {_signs(known)}", holds, rule),
        tested=len(known),
        of=len(changes),
    )


def _pooled(changes: list[Change]) -> Iterator[Claim]:
    """The mean over settings of the means over networks, whose Encoder and Projection are
    averaged: whether it is positive, and whether it is as large as printed."""
    label, text = "sec:new-learning", "All settings together: Pure Angular less ProCo (points)"
    sized = "The same: of the printed size (points)"
    rows = [c for c in changes if c.differences]
    every, found = _mean(changes), over_settings(by_network(rows))
    if found is None:
        yield waiting(label, text, f"{every:+.2f}", "main")
        yield waiting(label, sized, f"{every:+.2f}", "main")
        return
    mean, low, high, n, _, p = found
    ours = f"{whole(rows)}, n = {n}"
    about = {"tested": len(rows) // len(SPACES), "of": len(changes) // len(SPACES)}
    positive = None if p is None or p >= SIGNIFICANCE else mean > 0
    rule = "positive with p < 0.05: mean over settings, variance of the means within them (Welch)"
    yield judged(label, text, f"{every:+.2f}", ours, positive, rule, **about)
    printed = _mean(rows)
    paper = f"{every:+.2f}" + ("" if len(rows) == len(changes) else f" ({printed:+.2f} on ours)")
    holds = None
    if low is not None and high is not None:
        holds = False if not low <= printed <= high else True if low > 0 else None
    rule = "the 95 % interval has it and leaves zero out; one that leaves it out is against it"
    yield judged(label, sized, paper, ours, holds, rule, **about)


def _mean(changes: list[Change]) -> float:
    """The printed mean; every setting has two readouts."""
    return sum(c.paper or 0.0 for c in changes) / len(changes)


def _uniform(evidence: Evidence) -> Claim:
    text = (
        "CIFAR-10, uniform prior: Pure Angular less ProCo, long-tail E / P at IF50; IF100 (points)"
    )
    printed = (-11.47, -14.51, -15.98, -18.31)
    paper = "-11.47 / -14.51; -15.98 / -18.31"
    known: list[tuple[Value, float]] = []
    places = product(("c10-if50-u", "c10-if100-u"), ("encoder", "projection"))
    for (name, space), wanted in zip(places, printed, strict=True):
        config, path = control_config(name, "contrastive"), f"probes.long_tail.{space}.accuracy"
        after, before = (
            evidence.records.values(config, r, 0.0, path) for r in ("angular", "native")
        )
        value = Value.of(paired(after, before))
        known += [] if value is None else [(value, wanted)]
    if not known:
        return waiting("sec:prior-support-extension", text, paper, "controls")
    ours = ", ".join(v.said(2, sign=True) for v, _ in known)
    ours += f"; {counted(v.n for v, _ in known)}"
    holds = all(alike(v.mean, wanted) for v, wanted in known)
    rule = "each mean over networks of the printed size within a factor of two"
    return judged(
        *("sec:prior-support-extension", text, paper, ours, holds, rule),
        tested=len(known),
        of=len(printed),
    )


APART = f"{BORNE_OUT}; of single runs, every sign in five settings or more"


def _apart(changes: list[Change]) -> bool | None:
    """Whether the signs of changes are those printed. Those of five settings that were trained
    apart, once each, are so by chance with p = 1 / 32."""
    if len(changes) >= 5 and all(len(c.differences) == 1 for c in changes):
        same = [c.ours is not None and c.ours.mean * (c.paper or 0.0) > 0 for c in changes]
        return True if all(same) else None
    return borne_out(changes)


def _mixed(changes: list[Change]) -> Claim:
    text = "Joint classifiers: Pure Angular better at CIFAR-100 IF10, 50 and CIFAR-10 IF50 only"
    known = [c for c in changes if c.ours is not None]
    if not known:
        return waiting("sec:joint-head-results", text, "3 of 6 positive", "joint")
    same = sum(c.ours.mean * (c.paper or 0.0) > 0 for c in known if c.ours is not None)
    ours = f"{same} of {len(known)} signs as printed; {_told(known)}"
    return judged(
        *("sec:joint-head-results", text, "3 of 6 positive", ours, _apart(known), APART),
        tested=len(known),
        of=len(changes),
    )


def _joint_controls(evidence: Evidence) -> Iterator[Claim]:
    """sec:cifar10-cross-setting: the joint readouts under the frequency prior."""
    for name, policies, text in (
        ("c10-if50-f", ("Pure Angular 0.5",), "IF50: Pure Angular at 0.5 raises E, P, FC"),
        (
            *("c10-if100-f", ("Pure Angular 0", "Pure Angular 0.5")),
            "IF100: Pure Angular at 0 and 0.5 lowers E, P, FC",
        ),
    ):
        text = f"CIFAR-10 joint, frequency prior, {text} (points)"
        changes = [
            c
            for c in control_table(name, evidence).changes
            if c.row in policies and c.what.startswith("joint")
        ]
        paper = f"all {'positive' if 'raises' in text else 'negative'}"
        if not changes:
            yield waiting("sec:cifar10-cross-setting", text, paper, "controls")
            continue
        # They share the native networks, so that they count as one setting.
        together = [replace(c, row="") for c in changes]
        yield judged(
            *("sec:cifar10-cross-setting", text, paper, _told(changes), borne_out(together)),
            BORNE_OUT,
            tested=len(changes),
            of=3 * len(policies),
        )


def _historical(evidence: Evidence) -> Iterator[Claim]:
    """sec:historical-power-temperature and sec:historical-gradient, CIFAR-100 IF100."""
    config = official("cifar100", 100, family="power")

    def values(path: str) -> list[Value]:
        found = (evidence.records.value(config, *p, path, 1.0) for p in POLICIES.values())
        return [v for v in found if v is not None]

    cases = (
        (
            "sd of applied gain, ProCo, reduced, increased",
            "last.applied_gain_sd",
            (0.630, 0.349, 0.948),
        ),
        ("sd of native gain, ProCo, reduced, increased", "last.gain_sd", (0.630, 0.684, 0.648)),
        ("leading gradient error at epoch 200 (%)", "last.gradient_error", (4.87, 5.34, 4.57)),
    )
    for what, path, printed in cases:
        text, paper = f"Power family: {what}", ", ".join(f"{v:g}" for v in printed)
        found = values(path)
        if len(found) < len(printed):
            yield waiting("sec:historical-power-temperature", text, paper, "power")
            continue
        near = all(0.8 <= a.mean / b <= 1.25 for a, b in zip(found, printed, strict=True))
        ours = f"{', '.join(v.said(3) for v in found)}; {counted(v.n for v in found)}"
        rule = "each mean over networks within a quarter of the printed one"
        yield judged("sec:historical-power-temperature", text, paper, ours, near, rule)
    text = "Power family: error of leading gradient increments (%)"
    known = []
    for policy in POLICIES.values():
        told = [increment_errors(r) for r in evidence.records.seeds(config, *policy).values()]
        last = (Value.of([each[s][1][-1] for each in told if each]) for s in STRENGTHS)
        known += [v for v in last if v is not None]
    if not known:
        yield waiting("sec:historical-gradient", text, "8.82 to 10.18", "power")
        return
    inside = within([v.mean for v in known], 8.82, 10.18)
    yield judged("sec:historical-gradient", text, "8.82 to 10.18", spread(known, 2), *inside)
