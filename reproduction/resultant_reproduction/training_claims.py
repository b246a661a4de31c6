"""Sentences of the paper with a number in them, of training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import fmean

from resultant.training.config import preset
from resultant_reproduction.artefact import (
    Change,
    Claim,
    Outcome,
    Value,
    judged,
    untestable,
    waiting,
)
from resultant_reproduction.control_claims import joint_claims, setting_claims, uniform_claims
from resultant_reproduction.evidence import Evidence, trained_as
from resultant_reproduction.historical_claims import historical_claims
from resultant_reproduction.intervals import Interval, over_settings
from resultant_reproduction.mechanism_claims import gradient_claim, intercept_claim
from resultant_reproduction.plan import RULES
from resultant_reproduction.records import paired, path_of
from resultant_reproduction.rules import (
    BORNE_OUT,
    FACTOR,
    NO_IMAGES,
    POINT,
    borne_out,
    by_network,
    counted,
    positive,
    said_toward,
    seen,
    setting_of,
    sized,
    span,
    spanned,
    toward,
    whole,
    with_p,
)
from resultant_reproduction.spread import PRINTED_SEEDS
from resultant_reproduction.summarize import SPACES
from resultant_reproduction.training import (
    COLUMNS,
    angular_training,
    joint_fc,
    of_cifar,
)


def training_claims(evidence: Evidence) -> Iterator[Claim]:
    """sec:new-learning, sec:learning-extensions and the historical family."""
    trained = angular_training(evidence)
    changes = columns_less(COLUMNS[-1], COLUMNS[0], evidence, trained)
    yield _raised(changes, trained)
    for name in ("CIFAR-10", "CIFAR-100"):
        yield _sized(name, [c for c in changes if c.row.startswith(f"{name} ")], trained)
    for column in COLUMNS[1:-1]:
        yield _unlike(column, evidence, trained)
    yield from _imagenet(evidence, trained)
    yield from uniform_claims(evidence)
    yield _mixed(of_cifar(joint_fc(evidence)))
    yield from setting_claims(evidence)
    yield from joint_claims(evidence)
    yield intercept_claim(evidence.records)
    yield gradient_claim(evidence)
    yield from historical_claims(evidence)
    config = preset("imagenet-lt", architecture="resnext50_32x4d")
    heads = [
        evidence.records.value(config, "native", 0.0, f"last.{name}")
        for name in ("accuracy", "head", "medium", "tail")
    ]
    for text, printed, ours in (
        ("test (%)", ("58.026",), heads[:1]),
        ("test, head / medium / tail (%)", ("67.787", "55.620", "38.868"), heads[1:]),
    ):
        text = f"ResNeXt-50 classifier, ImageNet-LT {text}"
        yield sized("sec:backbone-control", text, printed, ours, POINT, 3, lost=RESNEXT)


# What somebody who has the images would enter.
STRONGER = (
    "asks for images of ImageNet-LT: resultant train imagenet-lt --objective contrastive "
    "--realization angular --beta 1.5 --data LISTS --images IMAGES --out out/imagenet, and the "
    "commands of tab:angular-training below"
)
RESNEXT = (
    "asks for images of ImageNet-LT; what the released classifier reaches is said by resultant "
    "import-proco resnext50.pth.tar resnext50.safetensors, then resultant extract "
    "resnext50.safetensors --out test.safetensors --data LISTS --images IMAGES; here that of a "
    "network trained by the same recipe is read: resultant train imagenet-lt --architecture "
    "resnext50_32x4d --data LISTS --images IMAGES --out out/resnext, then resultant reproduce "
    "claims --records out/resnext/records.jsonl"
)
# sec:imagenet-strength-extension, a single run: Encoder and Projection (%).
BETA_1_5 = (23.56, 37.76)


def _imagenet(evidence: Evidence, trained: Outcome) -> Iterator[Claim]:
    """sec:new-learning and sec:imagenet-strength-extension: Encoder and Projection. Effects of some
    tenths of a point are judged as differences, for an accuracy within a point allows any order."""
    label, config = "sec:new-learning", trained_as("ImageNet-LT")
    paths = [path_of(space) for space in SPACES]
    printed = {
        name: tuple(
            c.paper.value.mean
            for c in trained.cells
            if c.paper and c.row.startswith("ImageNet-LT") and c.column == name
        )
        for name in (COLUMNS[0], COLUMNS[-1])
    } | {"beta = 1.5": BETA_1_5}
    kinds = zip(printed, (("native", 0.0), ("angular", 0.0), ("angular", 1.5)), strict=True)
    known = {
        name: [evidence.records.values(config, *kind, path) for path in paths]
        for name, kind in kinds
    }
    native = [Value.of(list(values.values())) for values in known["ProCo"]]
    text = "ImageNet-LT: ProCo, encoder / projection (%)"
    shown = [f"{value:.2f}" for value in printed["ProCo"]]
    yield sized(label, text, shown, native, POINT, 2, single=False)
    strength = "sec:imagenet-strength-extension"
    for where, after, before, why, more in (
        (label, "Pure Angular", "ProCo", NO_IMAGES, ""),
        (label, "beta = 1.5", "ProCo", STRONGER, ""),
        (strength, "beta = 1.5", "Pure Angular", STRONGER, ": equalization is not the best tested"),
    ):
        text = f"ImageNet-LT: {after} less {before}, E / P (points){more}"
        changes = [
            Change(f"ImageNet-LT, {space}", text, round(a - b, 2), paired(later, sooner))
            for space, a, b, later, sooner in zip(
                *(SPACES, printed[after], printed[before], known[after], known[before]), strict=True
            )
        ]
        accuracies = (" / ".join(f"{v:.2f}" for v in printed[name]) for name in (after, before))
        paper = f"{' / '.join(f'{c.paper:+.2f}' for c in changes)}, of {' for '.join(accuracies)}"
        found = [c for c in changes if c.differences]
        ours = [v for c in found if (v := c.ours) is not None]
        if not ours:
            yield untestable(where, text, paper, why)
            continue
        said = " / ".join(v.said(2, sign=True) for v in ours)
        yield judged(
            *(where, text, paper, f"{said}; {counted(v.n for v in ours)}"),
            *(borne_out(found), BORNE_OUT),
            tested=len(found),
            of=len(changes),
        )


# The claims of sec:new-learning about CIFAR.
SHARED = "; of the same runs as the other claims about tab:angular-training, no evidence apart"


def _raised(changes: list[Change], trained: Outcome) -> Claim:
    """That all twelve readouts rise, counted once. The mean over settings is ours."""
    label = "sec:new-learning"
    text = "Pure Angular less ProCo: all twelve CIFAR readouts are positive (points)"
    rising = sum((c.paper or 0.0) > 0 for c in changes)
    paper = f"{_of(rising, changes)}, {_range(changes)}"
    known = [c for c in changes if c.ours is not None]
    apart = _apart_from(known, trained)
    if apart is None:
        return waiting(label, text, paper, "main")
    up, down = seen(known)
    ours = f"{_of(positive(known), known)}, {_told(known)}; by Holm {up} up and {down} down; "
    ours += f"mean over settings {whole(known)}; {_less(apart)}"
    return judged(
        *(label, text, paper, ours, borne_out(known)),
        f"{BORNE_OUT} (Welch; the paper prints no such mean); the sizes are claims of their own"
        f"{SHARED}",
        tested=len(known),
        of=len(changes),
    )


def _sized(name: str, changes: list[Change], trained: Outcome) -> Claim:
    """Whether the changes of a data set are as large as printed."""
    label, paper = "sec:new-learning", _range(changes)
    text = f"{name}: how much Pure Angular improves six readouts (points)"
    known = [c for c in changes if c.differences]
    ours, apart = over_settings(by_network(known)), _apart_from(known, trained)
    if ours is None or apart is None:
        return waiting(label, text, paper, "main")
    return judged(
        *(label, text, paper, f"{_told(known)}; mean over settings {with_p(ours)}; {_less(apart)}"),
        False if apart.sign else True if apart.sign == 0 and ours.sign == 1 else None,
        "mean over settings positive with p < 0.05, and zero in the 95 % interval of ours less "
        f"printed, in which the printed spread counts; one without zero is against it{SHARED}",
        tested=len(known),
        of=len(changes),
    )


def _unlike(column: str, evidence: Evidence, trained: Outcome) -> Claim:
    """That another realization improves less consistently than Pure Angular: in how many readouts,
    and what that has more, over the seeds that both have."""
    label, best = "sec:new-learning", COLUMNS[-1]
    text = f"{column} lacks the consistent improvement of {best}: positive readouts"
    counts = {name: columns_less(name, COLUMNS[0], evidence, trained) for name in (column, best)}
    printed = {name: sum((c.paper or 0.0) > 0 for c in own) for name, own in counts.items()}
    paper = ", ".join(f"{name} {_of(printed[name], own)}" for name, own in counts.items())
    every = columns_less(best, column, evidence, trained)
    more = [c for c in every if c.differences]
    known = {name: [c for c in own if c.differences] for name, own in counts.items()}
    found, apart = over_settings(by_network(more)), _apart_from(more, trained)
    half = _apart_from(more, trained, 1 / FACTOR)
    if found is None or apart is None or half is None or not all(known.values()):
        return waiting(label, text, paper, "main")
    other, own = (positive(changes) for changes in known.values())
    ours = ", ".join(f"{name} {_of(positive(known[name]), known[name])}" for name in known)
    ours += f"; {best} less {column} {with_p(found)}, n = {found.n}; {_less(apart)}, less half of "
    ours += f"it {with_p(half)}"
    return judged(
        *(label, text, paper, ours),
        True if own > other and found.sign == 1 else False if half.sign == -1 else None,
        f"{best} positive in more, and larger with p < 0.05 (mean over settings). Against it: less "
        f"than half of the printed difference with p < 0.05{SHARED}",
        tested=len(more),
        of=len(every),
    )


def _of(n: int, changes: list[Change]) -> str:
    return f"{n} of {len(changes)}"


def _range(changes: list[Change]) -> str:
    return span([c.paper or 0.0 for c in changes], 2, sign="+")


def _less(apart: Interval) -> str:
    return f"ours less printed {with_p(apart)}"


def _apart_from(changes: list[Change], trained: Outcome, share: float = 1.0) -> Interval | None:
    """The mean over settings of ours less a share of the printed. The printed means have a spread
    over seeds too; Encoder and Projection are taken to vary together."""
    spread: dict[tuple[str, str], list[float]] = {}
    for cell in trained.cells:
        if cell.paper is not None and cell.paper.value.sd is not None:
            spread.setdefault((cell.row.rpartition(", ")[0], cell.column), []).append(
                cell.paper.value.sd
            )
    less = [
        replace(c, by_seed={seed: d - share * (c.paper or 0.0) for seed, d in c.by_seed.items()})
        for c in changes
    ]
    printed = [
        (
            sum((share * fmean(spread[at, column])) ** 2 for column in what.split(" - "))
            / PRINTED_SEEDS,
            2.0 * (PRINTED_SEEDS - 1),
        )
        for at, what in dict.fromkeys((setting_of(c), c.what) for c in changes)
    ]
    return over_settings(by_network(less), printed=printed)


def _told(changes: list[Change]) -> str:
    return spanned([c.ours for c in changes if c.ours is not None], 2, sign="+")


def columns_less(after: str, before: str, evidence: Evidence, trained: Outcome) -> list[Change]:
    """A column of tab:angular-training less another, by readout in the settings of CIFAR."""
    known = {(c.row, c.column): c.paper.value.mean for c in trained.cells if c.paper is not None}
    found: list[Change] = []
    for row in (c.row for c in of_cifar(trained)):
        name, _, space = row.rpartition(", ")
        values = [
            evidence.records.values(
                *(trained_as(name), RULES[COLUMNS.index(column)], 0.0),
                path_of(space.lower()),
            )
            for column in (after, before)
        ]
        delta = round(known[row, after] - known[row, before], 2)
        found.append(Change(row, f"{after} - {before}", delta, paired(*values)))
    return found


def _mixed(changes: list[Change]) -> Claim:
    text = "Joint classifiers: Pure Angular better at CIFAR-100 IF10, 50 and CIFAR-10 IF50 only"
    known = [c for c in changes if c.ours is not None]
    if not known:
        return waiting("sec:joint-head-results", text, "3 of 6 positive", "joint")
    same = f"{_of(positive(toward(known)), known)} signs as printed"
    ours = f"{same}; {_told(known)}; {said_toward(known)}"
    return judged(
        *("sec:joint-head-results", text, "3 of 6 positive", ours, borne_out(known), BORNE_OUT),
        tested=len(known),
        of=len(changes),
    )
