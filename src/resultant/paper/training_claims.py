"""Sentences of the paper with a number in them, of training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from resultant.paper.artefact import (
    Change,
    Claim,
    Outcome,
    Value,
    judged,
    untestable,
    waiting,
)
from resultant.paper.controls import control_changes, control_config, control_table
from resultant.paper.evidence import Evidence, trained_as
from resultant.paper.historical import historical_claims
from resultant.paper.intervals import Interval, over_settings
from resultant.paper.plan import REALIZATIONS
from resultant.paper.records import Records, dig, paired
from resultant.paper.rules import (
    BORNE_OUT,
    FOREIGN,
    alike,
    borne_out,
    by_network,
    counted,
    seen,
    spread,
    whole,
)
from resultant.paper.summary import SPACES
from resultant.paper.training import (
    CHANGES,
    COLUMNS,
    angular_training,
    joint_fc,
    of_cifar,
)
from resultant.presets import preset


def training_claims(evidence: Evidence) -> Iterator[Claim]:
    """sec:new-learning, sec:learning-extensions and the historical family."""
    trained = angular_training(evidence)
    yield from _readouts(of_cifar(trained))
    for column in COLUMNS[1:-1]:
        yield _unlike(column, evidence, trained)
    yield from _imagenet(evidence, trained.changes)
    yield from _uniform(evidence)
    yield _mixed(of_cifar(joint_fc(evidence)))
    yield from _joint_controls(evidence)
    yield _intercepts(evidence.records)
    yield from historical_claims(evidence)
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
    """All twelve changes positive, and of the printed size: by data set, and all together."""
    for name, paper in (("CIFAR-10", "+0.19 to +1.17"), ("CIFAR-100", "+0.22 to +0.94")):
        own = [c for c in changes if c.row.startswith(f"{name} ")]
        known = [c for c in own if c.ours is not None]
        text = f"{name}: Pure Angular less ProCo, six long-tail readouts (points)"
        if known:
            ours = f"{_told(known)}; {_signs(known)}; mean over settings {whole(known)}"
            yield judged(
                *("sec:new-learning", text, paper, ours, borne_out(known), BORNE_OUT),
                tested=len(known),
                of=len(own),
            )
        else:
            yield waiting("sec:new-learning", text, paper, "main")
        yield _sized(f"{name}: the same, of the printed size (points)", own)
    yield _pooled(changes)
    yield _sized("The same: of the printed size (points)", changes)


def _told(changes: list[Change]) -> str:
    return spread([c.ours for c in changes if c.ours is not None], 2, sign="+")


def _signs(changes: list[Change]) -> str:
    positive = sum(c.ours is not None and c.ours.mean > 0 for c in changes)
    up, down = seen(changes)
    return f"{positive} of {len(changes)} positive, by Holm {up} up and {down} down"


def _left_out(found: Interval, printed: float) -> bool | None:
    """Whether the interval leaves the printed number out; None where there is no interval."""
    if found.low is None or found.high is None:
        return None
    return not found.low <= printed <= found.high


def _unlike(column: str, evidence: Evidence, trained: Outcome) -> Claim:
    """That another realization improves less consistently than Pure Angular: what that has more,
    over the seeds that both have."""
    text = f"Pure Angular less {column}, which lacks its consistent improvement (points)"
    changes, every = of_cifar(trained, f"{column} - ProCo"), _more(column, evidence, trained)
    positive = sum((c.paper or 0.0) > 0 for c in changes)
    more = [c for c in every if c.differences]
    paper = (
        f"{_mean(every):+.2f}, {OURS}; {column} less ProCo positive in {positive} of {len(changes)}"
    )
    found = over_settings(by_network(more))
    if found is None:
        return waiting("sec:new-learning", text, paper, "main")
    out, sure = _left_out(found, _mean(more)), found.sign == 1
    told = f"{'' if sure else 'not '}positive with p < 0.05, {_mean(more):+.2f} "
    told += "not tested" if out is None else f"is {'left out' if out else 'inside'}"
    known = [c for c in changes if c.ours is not None]
    ours = f"{whole(more)}, n = {found.n}: {told}; {column} less ProCo {_told(known)}, "
    return judged(
        *("sec:new-learning", text, paper, ours + _signs(known)),
        True if sure else False if out else None,
        "positive with p < 0.05; one that is not, and whose 95 % interval leaves the printed "
        "difference out, is against it",
        tested=len(more) // len(SPACES),
        of=len(changes) // len(SPACES),
    )


def _more(column: str, evidence: Evidence, trained: Outcome) -> list[Change]:
    """Pure Angular less another column of tab:angular-training, in the settings of CIFAR."""
    known = {(c.row, c.column): c.paper.value.mean for c in trained.cells if c.paper is not None}
    found = []
    for row in (c.row for c in of_cifar(trained)):
        name, _, space = row.rpartition(", ")
        after, before = (
            evidence.records.values(
                *(trained_as(name), REALIZATIONS[COLUMNS.index(each)], 0.0),
                f"probes.long_tail.{space.lower()}.accuracy",
            )
            for each in (COLUMNS[-1], column)
        )
        delta = round(known[row, COLUMNS[-1]] - known[row, column], 2)
        found.append(Change(row, column, delta, paired(after, before)))
    return found


# The paper prints readouts one by one.
OURS = "our mean of the printed ones"


def _pooled(changes: list[Change]) -> Claim:
    """Whether the mean over settings of the means over networks, whose Encoder and Projection are
    averaged, is positive."""
    label, text = "sec:new-learning", "All settings together: Pure Angular less ProCo (points)"
    rows = [c for c in changes if c.differences]
    paper, found = f"{_mean(changes):+.2f}, {OURS}", over_settings(by_network(rows))
    if found is None:
        return waiting(label, text, paper, "main")
    return judged(
        *(label, text, paper, f"{whole(rows)}, n = {found.n}"),
        None if not found.sign else found.mean > 0,
        "positive with p < 0.05: mean over settings, variance of the means within them (Welch); "
        "that mean is a summary of ours, the paper prints none",
        tested=len(rows) // len(SPACES),
        of=len(changes) // len(SPACES),
    )


def _sized(text: str, changes: list[Change]) -> Claim:
    """Whether the same mean is as large as that of the printed changes."""
    rows = [c for c in changes if c.differences]
    found, paper = over_settings(by_network(rows)), f"{_mean(changes):+.2f}"
    if rows and len(rows) < len(changes):
        paper += f" ({_mean(rows):+.2f} on ours)"
    paper += f", {OURS}"
    if found is None:
        return waiting("sec:new-learning", text, paper, "main")
    out = _left_out(found, _mean(rows))
    told = "" if out is None else f": {_mean(rows):+.2f} is {'left out' if out else 'inside'}"
    return judged(
        *("sec:new-learning", text, paper, f"{whole(rows)}, n = {found.n}{told}"),
        False if out else True if out is False and found.sign == 1 else None,
        "the 95 % interval has it and leaves zero out; one that leaves it out is against it",
        tested=len(rows) // len(SPACES),
        of=len(changes) // len(SPACES),
    )


def _mean(changes: list[Change]) -> float:
    """The printed mean; every setting has two readouts."""
    return sum(c.paper or 0.0 for c in changes) / len(changes)


def _uniform(evidence: Evidence) -> Iterator[Claim]:
    """Contrastive Pure Angular under a uniform prior: probes on the long-tailed subset, and on all
    images, of which the control matrix has the numbers."""
    names = ("c10-if50-u", "c10-if100-u")
    matrix = [
        c.paper or 0.0
        for name in names
        for c in control_changes(name, evidence)
        if c.row == "Pure Angular 0" and c.what.startswith("contrastive")
    ]
    for label, pool, printed in (
        ("sec:prior-support-extension", "long-tail", [-11.47, -14.51, -15.98, -18.31]),
        ("sec:cifar10-cross-setting", "balanced", matrix),
    ):
        text = f"CIFAR-10, uniform prior: Pure Angular less ProCo, {pool} E / P at IF50; IF100"
        paper = "{:+.2f} / {:+.2f}; {:+.2f} / {:+.2f}".format(*printed)
        known: list[tuple[Value, float]] = []
        for (name, space), wanted in zip(product(names, SPACES), printed, strict=True):
            config = control_config(name, "contrastive")
            path = f"probes.{pool.replace('-', '_')}.{space}.accuracy"
            after, before = (
                evidence.records.values(config, r, 0.0, path) for r in ("angular", "native")
            )
            value = Value.of(paired(after, before))
            known += [] if value is None else [(value, wanted)]
        if not known:
            yield waiting(label, f"{text} (points)", paper, "controls")
            continue
        ours = ", ".join(v.said(2, sign=True) for v, _ in known)
        ours += f"; {counted(v.n for v, _ in known)}"
        holds = all(alike(v.mean, wanted) for v, wanted in known)
        rule = "each mean over networks of the printed size within a factor of two"
        about = (label, f"{text} (points)", paper, ours, holds, rule)
        yield judged(*about, tested=len(known), of=len(printed))


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


def _intercepts(records: Records) -> Claim:
    """sec:cifar10-local-mechanism: at the ends of trainings, and at the states that a trajectory
    keeps."""
    text = "Intercepts at cosine zero are preserved at every recorded state: largest mean |drift|"
    paper = "0 under intercept-preserving and Pure Angular"
    ends: dict[str, list[float]] = {name: [] for name in REALIZATIONS[1:]}
    along: list[float] = []
    for record in records:
        name, drift = record["realization"], dig(record, "last.intercept_drift")
        if name not in ends or drift is None:
            continue
        ends[name].append(drift)
        if name != "temperature":
            along += record.get("trajectory", {}).get("intercept_drift", [])
    kept = [*ends["preserve"], *ends["angular"]]
    if not ends["preserve"] or not ends["angular"]:
        return waiting("sec:cifar10-local-mechanism", text, paper, "main")
    ours = f"{max(kept):.3g} at the ends of {len(ends['preserve'])} and {len(ends['angular'])} runs"
    ours += f", {max(along):.3g} at {len(along)} states before" if along else ""
    if moved := ends["temperature"]:
        ours += f"; direct temperature {min(moved):.3g} to {max(moved):.3g} in {len(moved)}"
    return judged(
        *("sec:cifar10-local-mechanism", text, paper, ours, max([*kept, *along]) <= 1e-9),
        "at most 1e-9 in every run: at their ends, and along trajectories, which the plan controls "
        "keeps",
        tested=1 + bool(along),
        of=2,
    )
