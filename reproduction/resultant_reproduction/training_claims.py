"""Claims about training: Pure Angular after contrastive and joint training, and the historical
power-temperature family."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import fmean

from resultant.training.config import preset
from resultant_reproduction.control_claims import (
    gradient_claim,
    intercept_claim,
    joint_claims,
    setting_claims,
    uniform_claims,
)
from resultant_reproduction.evaluate import (
    FACTOR,
    NO_IMAGES,
    POINT,
    SIGNS,
    Evaluation,
    conclude,
    signs,
    statement,
    toward_text,
    value,
)
from resultant_reproduction.evidence import Evidence, trained_as
from resultant_reproduction.formats import network_counts, span_of_means
from resultant_reproduction.historical_claims import historical_claims
from resultant_reproduction.records import probe_path
from resultant_reproduction.spec import Change, Claim, Outcome
from resultant_reproduction.stats import (
    Interval,
    by_network,
    over_settings,
    pooled_text,
    positive,
    setting_of,
    significant,
    toward,
)
from resultant_reproduction.summarize import SPACES
from resultant_reproduction.tables import (
    COLUMNS as REALIZATIONS,
)
from resultant_reproduction.tables import angular_training, columns_less, joint_fc, of_cifar

# Seeds of the printed means of tab:angular-training.
PRINTED_SEEDS = 3
SHARED = "; of the same runs as the other claims about tab:angular-training, no evidence apart"
STRONGER = (
    "asks for images of ImageNet-LT: resultant train imagenet-lt --objective contrastive "
    "--realization angular --beta 1.5 --data LISTS --images IMAGES --out out/imagenet, and the "
    "commands of tab:angular-training below"
)
RESNEXT = (
    "asks for images of ImageNet-LT; what the released classifier reaches is printed by resultant "
    "import-proco resnext50.pth.tar resnext50.safetensors, then resultant extract "
    "resnext50.safetensors --out test.safetensors --data LISTS --images IMAGES; here that of a "
    "network trained by the same recipe is read: resultant train imagenet-lt --architecture "
    "resnext50_32x4d --data LISTS --images IMAGES --out out/resnext, then resultant reproduce "
    "claims --records out/resnext/records.jsonl"
)


def training_claims(evidence: Evidence) -> Iterator[Claim]:
    """sec:new-learning, sec:learning-extensions and the historical family."""
    trained = angular_training(evidence)
    changes = columns_less(REALIZATIONS[-1], REALIZATIONS[0], evidence, trained)
    yield conclude(statement("all-positive"), _all_positive(changes, trained), "main")
    for name in ("CIFAR-10", "CIFAR-100"):
        own = [c for c in changes if c.row.startswith(f"{name} ")]
        claim = statement(f"size-{name.lower().replace('-', '')}")
        yield conclude(claim, _improvement(own, trained), "main")
    for name, column in zip(("temperature", "preserve"), REALIZATIONS[1:-1], strict=True):
        evaluation = _less_consistent(column, evidence, trained)
        yield conclude(statement(f"unlike-{name}"), evaluation, "main")
    yield from _imagenet(evidence)
    yield from uniform_claims(evidence)
    yield conclude(statement("joint-mixed"), _mixed(of_cifar(joint_fc(evidence))), "joint")
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
    for claim, ours in (
        (statement("resnext"), heads[:1]),
        (statement("resnext-groups"), heads[1:]),
    ):
        yield conclude(claim, value(claim, ours, POINT, 3), RESNEXT)


def _imagenet(evidence: Evidence) -> Iterator[Claim]:
    """sec:new-learning and sec:imagenet-strength-extension, Encoder and Projection. Effects of some
    tenths of a point are judged as differences, for an accuracy within a point allows any order."""
    config, claim = trained_as("ImageNet-LT"), statement("imagenet-proco")
    native, edited = (config, "native", 0.0), (config, "angular", 0.0)
    stronger = (config, "angular", 1.5)
    ours = [evidence.records.value(*native, probe_path(space)) for space in SPACES]
    yield conclude(claim, value(claim, ours, POINT, 2, single=False), NO_IMAGES)
    for name, after, before, missing in (
        ("imagenet-angular", edited, native, NO_IMAGES),
        ("imagenet-stronger", stronger, native, STRONGER),
        ("imagenet-best", stronger, edited, STRONGER),
    ):
        claim = statement(name)
        changes = [
            Change(
                *(f"ImageNet-LT, {space}", claim.text, paper),
                evidence.records.differences(after, before, probe_path(space)),
            )
            for space, paper in zip(SPACES, claim.numbers, strict=True)
        ]
        values = [v for c in changes if (v := c.ours) is not None]
        text = ""
        if values:
            text = " / ".join(v.text(2, sign=True) for v in values)
            text += f"; {network_counts(v.n for v in values)}"
        yield conclude(claim, signs(changes, text, len(changes)), missing)


def _all_positive(changes: list[Change], trained: Outcome) -> Evaluation | None:
    known = [c for c in changes if c.ours is not None]
    apart = _less_printed(known, trained)
    if apart is None:
        return None
    seen = [c.ours.mean > 0 for c in significant(known) if c.ours is not None]
    ours = f"{positive(known)} of {len(known)}, {_spanned(known)}; by Holm {seen.count(True)} up "
    ours += f"and {seen.count(False)} down; mean over settings {pooled_text(known)}; {_less(apart)}"
    note = " (Welch; the paper prints no such mean); the sizes are claims of their own"
    return signs(known, ours, len(changes), rule=SIGNS, note=note + SHARED)


def _improvement(changes: list[Change], trained: Outcome) -> Evaluation | None:
    """Size of the changes of a dataset."""
    known = [c for c in changes if c.differences]
    ours, apart = over_settings(by_network(known)), _less_printed(known, trained)
    if ours is None or apart is None:
        return None
    return Evaluation(
        f"{_spanned(known)}; mean over settings {ours.text_with_p()}; {_less(apart)}",
        False if apart.sign else True if apart.sign == 0 and ours.sign == 1 else None,
        "mean over settings positive with p < 0.05, and zero in the 95 % interval of ours less "
        f"printed, in which the printed spread counts; one without zero is against it{SHARED}",
        *(len(known), len(changes)),
    )


def _less_consistent(column: str, evidence: Evidence, trained: Outcome) -> Evaluation | None:
    """Another realization against Pure Angular: the numbers of positive readouts, and the
    difference over the seeds that both have."""
    best = REALIZATIONS[-1]
    counts = {
        name: [c for c in columns_less(name, REALIZATIONS[0], evidence, trained) if c.differences]
        for name in (column, best)
    }
    every = columns_less(best, column, evidence, trained)
    more = [c for c in every if c.differences]
    evaluation, apart = over_settings(by_network(more)), _less_printed(more, trained)
    half = _less_printed(more, trained, 1 / FACTOR)
    if evaluation is None or apart is None or half is None or not all(counts.values()):
        return None
    other, own = (positive(changes) for changes in counts.values())
    ours = ", ".join(f"{name} {positive(c)} of {len(c)}" for name, c in counts.items())
    ours += f"; {best} less {column} {evaluation.text_with_p()}, n = {evaluation.n}; "
    ours += f"{_less(apart)}, less "
    ours += f"half of it {half.text_with_p()}"
    return Evaluation(
        ours,
        True if own > other and evaluation.sign == 1 else False if half.sign == -1 else None,
        f"{best} positive in more, and larger with p < 0.05 (mean over settings). Against it: less "
        f"than half of the printed difference with p < 0.05{SHARED}",
        *(len(more), len(every)),
    )


def _less(apart: Interval) -> str:
    return f"ours less printed {apart.text_with_p()}"


def _spanned(changes: list[Change]) -> str:
    return span_of_means([c.ours for c in changes if c.ours is not None], 2, sign="+")


def _less_printed(changes: list[Change], trained: Outcome, share: float = 1.0) -> Interval | None:
    """Mean over settings of ours less a share of the printed change. Printed means have a spread
    over seeds too; Encoder and Projection are taken to vary together."""
    spread: dict[tuple[str, str], list[float]] = {}
    for cell in trained.cells:
        if cell.paper is not None and cell.paper.value.sd is not None:
            setting = cell.row.rpartition(", ")[0]
            spread.setdefault((setting, cell.column), []).append(cell.paper.value.sd)
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


def _mixed(changes: list[Change]) -> Evaluation | None:
    known = [c for c in changes if c.ours is not None]
    if not known:
        return None
    same = f"{positive(toward(known))} of {len(known)} signs as printed"
    ours = f"{same}; {_spanned(known)}; {toward_text(known)}"
    return signs(known, ours, len(changes))
