"""Sentences of the paper with a number in them, of training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from resultant.paper.artefact import (
    SIGNIFICANCE,
    Change,
    Claim,
    Outcome,
    Value,
    judged,
    untestable,
    waiting,
)
from resultant.paper.control_claims import intercept_claim, joint_claims, uniform_claims
from resultant.paper.evidence import Evidence, trained_as
from resultant.paper.historical_claims import historical_claims
from resultant.paper.intervals import Interval, over_settings
from resultant.paper.plan import REALIZATIONS
from resultant.paper.records import paired, path_of
from resultant.paper.rules import (
    BORNE_OUT,
    FOREIGN,
    borne_out,
    by_network,
    counted,
    seen,
    spanned,
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
    yield from _readouts(columns_less(COLUMNS[-1], COLUMNS[0], evidence, trained))
    for column in COLUMNS[1:-1]:
        yield _unlike(column, evidence, trained)
    yield from _imagenet(evidence, trained.changes)
    yield from uniform_claims(evidence)
    yield _mixed(of_cifar(joint_fc(evidence)))
    yield from joint_claims(evidence)
    yield intercept_claim(evidence.records)
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
    paths = [path_of(space) for space in SPACES]
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
    return spanned([c.ours for c in changes if c.ours is not None], 2, sign="+")


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
    changes = columns_less(column, COLUMNS[0], evidence, trained)
    every = columns_less(COLUMNS[-1], column, evidence, trained)
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


def columns_less(after: str, before: str, evidence: Evidence, trained: Outcome) -> list[Change]:
    """A column of tab:angular-training less another, by readout in the settings of CIFAR."""
    known = {(c.row, c.column): c.paper.value.mean for c in trained.cells if c.paper is not None}
    found: list[Change] = []
    for row in (c.row for c in of_cifar(trained)):
        name, _, space = row.rpartition(", ")
        values = [
            evidence.records.values(
                *(trained_as(name), REALIZATIONS[COLUMNS.index(column)], 0.0),
                path_of(space.lower()),
            )
            for column in (after, before)
        ]
        delta = round(known[row, after] - known[row, before], 2)
        found.append(Change(row, f"{after} - {before}", delta, paired(*values)))
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


SIGNS = (
    "every mean of the printed sign, which six settings have by chance with p = 1/32 (two-sided "
    "sign test); of fewer settings their mean over these with p < 0.05 too. Against it: six of the "
    "other sign, one of it by Holm's correction, or such a mean of it with p < 0.05"
)


def _apart(changes: list[Change]) -> bool | None:
    """Whether the signs of changes in settings that were trained apart are those printed; `SIGNS`
    is the rule. It asks for no more than a seed, and more of them do not take back what their
    means go on saying."""
    toward = [c.ours.mean * (c.paper or 0.0) for c in changes if c.ours is not None]
    # All of n signs alike, whichever they are, have p = 2 / 2^n.
    if 2.0 ** (1 - len(toward)) < SIGNIFICANCE and (min(toward) > 0 or max(toward) < 0):
        return min(toward) > 0
    return borne_out(changes)


def _mixed(changes: list[Change]) -> Claim:
    text = "Joint classifiers: Pure Angular better at CIFAR-100 IF10, 50 and CIFAR-10 IF50 only"
    known = [c for c in changes if c.ours is not None]
    if not known:
        return waiting("sec:joint-head-results", text, "3 of 6 positive", "joint")
    same = sum(c.ours.mean * (c.paper or 0.0) > 0 for c in known if c.ours is not None)
    ours = f"{same} of {len(known)} signs as printed; {_told(known)}"
    return judged(
        *("sec:joint-head-results", text, "3 of 6 positive", ours, _apart(known), SIGNS),
        tested=len(known),
        of=len(changes),
    )
