"""Sentences of the paper with a number in them, of training."""

from __future__ import annotations

from collections.abc import Iterator
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
from resultant.paper.claims import FOREIGN, alike, counted, span, spread, within
from resultant.paper.controls import control_config, control_table
from resultant.paper.evidence import Evidence, trained_as
from resultant.paper.historical import POLICIES
from resultant.paper.plan import official
from resultant.paper.records import paired
from resultant.paper.summary import SPACES
from resultant.paper.training import CHANGES, angular_training, joint_fc, of_cifar
from resultant.presets import preset


def training_claims(evidence: Evidence) -> Iterator[Claim]:
    """sec:new-learning, sec:learning-extensions and the historical family."""
    trained = angular_training(evidence)
    yield from _readouts(of_cifar(trained))
    for what in CHANGES[:-1]:
        yield _unlike(what, of_cifar(trained, what))
    stronger = [
        evidence.records.value(trained_as("ImageNet-LT"), "angular", 1.5, path)
        for path in (f"probes.long_tail.{space}.accuracy" for space in SPACES)
    ]
    text = "ImageNet-LT: beta = 1.5, encoder / projection (%)"
    yield _brought("sec:new-learning", text, (23.56, 37.76), 2, stronger)
    yield _uniform(evidence)
    yield _mixed(of_cifar(joint_fc(evidence)))
    yield from _joint_controls(evidence)
    yield from _historical(evidence)
    config = preset("imagenet-lt", architecture="resnext50_32x4d")
    head = [evidence.records.value(config, "native", 0.0, "last.accuracy")]
    text = "ResNeXt-50 classifier, ImageNet-LT test (%)"
    yield _brought("sec:backbone-control", text, (58.026,), 3, head)


def _brought(
    label: str, text: str, printed: tuple[float, ...], digits: int, ours: list[Value | None]
) -> Claim:
    """A claim about accuracies on listed images, for which a user brings records."""
    paper = " / ".join(f"{value:.{digits}f}" for value in printed)
    known = [value for value in ours if value is not None]
    if len(known) < len(printed):
        return untestable(label, text, paper, FOREIGN)
    near = all(abs(v.mean - wanted) <= 1 for v, wanted in zip(known, printed, strict=True))
    said = f"{' / '.join(value.said(digits) for value in known)}; {counted(known)}"
    return judged(label, text, paper, said, near, "within one point")


def _readouts(changes: list[Change]) -> Iterator[Claim]:
    """All twelve changes positive: each by its test, and all settings together."""
    rule = (
        "each positive with p < 0.05 in a paired t test; one negative with p < 0.05 is against it"
    )
    for name, paper in (("CIFAR-10", "+0.19 to +1.17"), ("CIFAR-100", "+0.22 to +0.94")):
        own = [c for c in changes if c.row.startswith(f"{name} ")]
        known = [c for c in own if c.ours is not None]
        text = f"{name}: Pure Angular less ProCo, six long-tail readouts (points)"
        if not known:
            yield waiting("sec:new-learning", text, paper, "main")
            continue
        good, bad = _signs(known)
        ours = f"{_told(known)}; {good} significant, {bad} against"
        holds = False if bad else True if good == len(known) else None
        yield judged(
            *("sec:new-learning", text, paper, ours, holds, rule), tested=len(known), of=len(own)
        )
    yield _pooled(changes)


def _told(changes: list[Change]) -> str:
    return spread([c.ours for c in changes if c.ours is not None], 2, sign="+")


def _signs(changes: list[Change]) -> tuple[int, int]:
    """How many changes are positive, and how many negative, with p < 0.05."""
    tested = [
        c.ours.mean
        for c in changes
        if c.ours is not None and c.p_value is not None and c.p_value < SIGNIFICANCE
    ]
    return sum(mean > 0 for mean in tested), sum(mean < 0 for mean in tested)


def _unlike(what: str, changes: list[Change]) -> Claim:
    """That another realization does not improve as consistently as Pure Angular."""
    name, printed = what.removesuffix(" - ProCo"), [c.paper or 0.0 for c in changes]
    text = f"{name} less ProCo: without the consistent improvement of Pure Angular (points)"
    positive = sum(value > 0 for value in printed)
    paper = f"{span(printed, 2, sign='+')}, {positive} of {len(printed)} positive"
    known = [c for c in changes if c.ours is not None]
    if not known:
        return waiting("sec:new-learning", text, paper, "main")
    up, down = _signs(known)
    ours = f"{_told(known)}; {up} up and {down} down with p < 0.05"
    # Every one up would be against it, as far as there are records.
    holds = True if down else False if up == len(changes) else None
    rule = "one negative with p < 0.05; all positive with p < 0.05 is against it"
    return judged(
        *("sec:new-learning", text, paper, ours, holds, rule),
        tested=len(changes) if down else len(known),
        of=len(changes),
    )


def _pooled(changes: list[Change]) -> Claim:
    """The mean over settings: one difference a network, Encoder and Projection averaged."""
    text = "All settings together: Pure Angular less ProCo (points)"
    settings: dict[str, list[Change]] = {}
    for change in changes:
        settings.setdefault(change.row.rpartition(",")[0], []).append(change)
    known = [both for both in settings.values() if all(c.differences for c in both)]
    networks = tuple(
        sum(pair) / len(pair)
        for both in known
        for pair in zip(*(c.differences for c in both), strict=True)
    )
    printed = sum(c.paper or 0.0 for c in changes) / len(changes)
    whole = Change("all", "", printed, networks)
    if whole.ours is None:
        return waiting("sec:new-learning", text, f"{printed:+.2f}", "main")
    p = whole.p_value
    ours = f"{whole.ours.said(2, sign=True)}, n = {whole.ours.n}"
    ours += "" if p is None else f", p = {p:.2g}"
    holds = None if p is None or p >= SIGNIFICANCE else whole.ours.mean > 0
    rule = "positive with p < 0.05, paired t test over networks"
    return judged(
        *("sec:new-learning", text, f"{printed:+.2f}", ours, holds, rule),
        tested=len(known),
        of=len(settings),
    )


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
    ours += f"; {counted([v for v, _ in known])}"
    holds = all(alike(v.mean, wanted) for v, wanted in known)
    rule = "each the same size within a factor of two"
    return judged(
        *("sec:prior-support-extension", text, paper, ours, holds, rule),
        tested=len(known),
        of=len(printed),
    )


SIGNS = "every sign as printed with p < 0.05 over seeds; another one with p < 0.05 is against it"
APART = "every sign as printed, in five settings or more; another one with p < 0.05 is against it"


def _as_printed(changes: list[Change], apart: bool = False) -> bool | None:
    """Whether the signs of changes are those printed, None where chance may have made them. Those
    of five settings that were trained ``apart`` are so by chance with p = 1 / 32."""
    if any(c.verdict.startswith("does not") for c in changes):
        return False
    if apart and len(changes) >= 5:
        same = [c.ours is not None and c.ours.mean * (c.paper or 0.0) > 0 for c in changes]
        return True if all(same) else None
    return True if all(c.verdict == "holds" for c in changes) else None


def _mixed(changes: list[Change]) -> Claim:
    text = "Joint classifiers: Pure Angular better at CIFAR-100 IF10, 50 and CIFAR-10 IF50 only"
    known = [c for c in changes if c.ours is not None]
    if not known:
        return waiting("sec:joint-head-results", text, "3 of 6 positive", "joint")
    same = sum(c.ours.mean * (c.paper or 0.0) > 0 for c in known if c.ours is not None)
    ours = f"{same} of {len(known)} signs as printed; {_told(known)}"
    holds = _as_printed(known, apart=True)
    return judged(
        *("sec:joint-head-results", text, "3 of 6 positive", ours, holds, APART),
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
        yield judged(
            *("sec:cifar10-cross-setting", text, paper, _told(changes), _as_printed(changes)),
            SIGNS,
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
        ours = f"{', '.join(v.said(3) for v in found)}; {counted(found)}"
        rule = "each within a quarter of the printed one"
        yield judged("sec:historical-power-temperature", text, paper, ours, near, rule)
    text = "Power family: error of leading gradient increments (%)"
    known = [v for name in ("reduced", "increased") for v in values(f"increments.{name}")]
    if not known:
        yield waiting("sec:historical-gradient", text, "8.82 to 10.18", "power")
        return
    inside = within([v.mean for v in known], 8.82, 10.18)
    yield judged("sec:historical-gradient", text, "8.82 to 10.18", spread(known, 2), *inside)
