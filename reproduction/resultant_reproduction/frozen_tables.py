"""Frozen decisions and their distance from cosine prototypes: four tables on the same networks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import fmean

from resultant_reproduction.artefact import Artefact, Cell, Change, Outcome, Value, printed, rows
from resultant_reproduction.evidence import Evidence, foreign, trained_as
from resultant_reproduction.networks import Reader, at_path, less, pooled
from resultant_reproduction.plan import wanted

VMF = """
CIFAR-10 / 10 | Encoder | 85.21 | 85.82 | 85.90 | 99.74
CIFAR-10 / 10 | Projection | 87.85 | 87.84 | 87.83 | 99.99
CIFAR-10 / 50 | Encoder | 81.47 | 80.76 | 80.72 | 99.46
CIFAR-10 / 50 | Projection | 80.72 | 80.58 | 80.58 | 99.95
CIFAR-10 / 100 | Encoder | 78.76 | 78.19 | 78.02 | 99.51
CIFAR-10 / 100 | Projection | 77.81 | 77.59 | 77.58 | 99.93
CIFAR-100 / 10 | Encoder | 48.87 | 52.48 | 52.50 | 98.76
CIFAR-100 / 10 | Projection | 54.38 | 55.06 | 55.15 | 99.32
CIFAR-100 / 50 | Encoder | 39.96 | 44.24 | 44.35 | 98.43
CIFAR-100 / 50 | Projection | 42.90 | 43.57 | 43.63 | 99.00
CIFAR-100 / 100 | Encoder | 36.77 | 41.53 | 41.59 | 98.52
CIFAR-100 / 100 | Projection | 39.80 | 40.84 | 40.90 | 98.65
ImageNet-LT | Encoder | 41.39 | 45.98 | 45.97 | 99.70
ImageNet-LT | Projection | 46.14 | 46.39 | 46.39 | 99.88
iNaturalist 2018 | Encoder | 57.61 | 64.75 | 64.76 | 99.89
iNaturalist 2018 | Projection | 63.07 | 65.40 | 65.42 | 99.84
"""

REALIZED = """
CIFAR-10 / 10 | Encoder | 85.21 | 85.92 | 85.84 | 85.90 | +0.69
CIFAR-10 / 10 | Projection | 87.85 | 87.83 | 87.83 | 87.83 | -0.02
CIFAR-10 / 50 | Encoder | 81.47 | 80.71 | 80.72 | 80.72 | -0.75
CIFAR-10 / 50 | Projection | 80.72 | 80.58 | 80.58 | 80.58 | -0.14
CIFAR-10 / 100 | Encoder | 78.76 | 78.00 | 78.12 | 78.02 | -0.74
CIFAR-10 / 100 | Projection | 77.81 | 77.58 | 77.59 | 77.58 | -0.23
CIFAR-100 / 10 | Encoder | 48.87 | 52.50 | 52.48 | 52.50 | +3.63
CIFAR-100 / 10 | Projection | 54.38 | 55.09 | 55.08 | 55.15 | +0.77
CIFAR-100 / 50 | Encoder | 39.96 | 44.35 | 44.31 | 44.35 | +4.39
CIFAR-100 / 50 | Projection | 42.90 | 43.65 | 43.61 | 43.63 | +0.73
CIFAR-100 / 100 | Encoder | 36.77 | 41.59 | 41.49 | 41.59 | +4.82
CIFAR-100 / 100 | Projection | 39.80 | 40.89 | 40.86 | 40.90 | +1.10
ImageNet-LT | Encoder | 41.39 | 45.94 | 45.98 | 45.97 | +4.58
ImageNet-LT | Projection | 46.14 | 46.40 | 46.39 | 46.39 | +0.25
iNaturalist 2018 | Encoder | 57.61 | 64.78 | 64.76 | 64.76 | +7.15
iNaturalist 2018 | Projection | 63.07 | 65.42 | 65.40 | 65.42 | +2.35
"""

DIAGNOSTICS = """
CIFAR-10 / 10 | Encoder | 26 | 26 | 9,763 / 10,000
CIFAR-10 / 10 | Projection | 1 | 1 | 9,982 / 10,000
CIFAR-10 / 50 | Encoder | 54 | 54 | 9,717 / 10,000
CIFAR-10 / 50 | Projection | 5 | 5 | 9,969 / 10,000
CIFAR-10 / 100 | Encoder | 49 | 49 | 9,655 / 10,000
CIFAR-10 / 100 | Projection | 7 | 7 | 9,960 / 10,000
CIFAR-100 / 10 | Encoder | 124 | 124 | 6,348 / 10,000
CIFAR-100 / 10 | Projection | 68 | 68 | 8,857 / 10,000
CIFAR-100 / 50 | Encoder | 157 | 155 | 5,874 / 10,000
CIFAR-100 / 50 | Projection | 100 | 100 | 8,501 / 10,000
CIFAR-100 / 100 | Encoder | 148 | 144 | 6,061 / 10,000
CIFAR-100 / 100 | Projection | 135 | 135 | 8,272 / 10,000
ImageNet-LT | Encoder | 151 | 151 | 47,832 / 50,000
ImageNet-LT | Projection | 60 | 60 | 48,427 / 50,000
iNaturalist 2018 | Encoder | 27 | 27 | 23,635 / 24,426
iNaturalist 2018 | Projection | 38 | 38 | 23,594 / 24,426
"""

GRADIENTS = """
CIFAR-100 / 10 | Encoder | 0.01141 | 1.555 | 0.99999712
CIFAR-100 / 10 | Projection | 0.01751 | 1.624 | 0.99996033
CIFAR-100 / 50 | Encoder | 0.00917 | 1.524 | 0.99999679
CIFAR-100 / 50 | Projection | 0.02206 | 1.592 | 0.99996161
CIFAR-100 / 100 | Encoder | 0.00832 | 1.448 | 0.99999724
CIFAR-100 / 100 | Projection | 0.02634 | 1.595 | 0.99995594
ImageNet-LT | Encoder | 0.00217 | 0.146 | 0.99999978
ImageNet-LT | Projection | 0.00232 | 0.122 | 0.99999967
iNaturalist 2018 | Encoder | 0.00362 | 0.132 | 0.99999975
iNaturalist 2018 | Projection | 0.00456 | 0.143 | 0.99999973
"""

STORES = (
    "resultant train imagenet-lt --objective contrastive --data LISTS --images IMAGES "
    "--out out/imagenet",
    "resultant extract out/imagenet/native-seed0/native-seed0.safetensors "
    "--out imagenet-lt.safetensors --data LISTS --images IMAGES",
    "resultant import-proco ckpt.pth.tar proco.safetensors",
    "resultant extract proco.safetensors --out inaturalist18.safetensors --data LISTS "
    "--images IMAGES",
    "resultant reproduce all --store imagenet-lt=imagenet-lt.safetensors "
    "inaturalist18=inaturalist18.safetensors",
)


CHANGE = less("accuracy.angular", "accuracy.native")


def _accuracy(rule: str) -> Reader:
    return at_path(f"accuracy.{rule}", 100)


TABLES: dict[str, tuple[str, dict[str, Reader]]] = {
    "frozen-vmf": (
        VMF,
        {
            "Original vMF": _accuracy("native"),
            "Cosine": _accuracy("cosine"),
            "Pure Angular": _accuracy("angular"),
            "Agreement": at_path("cosine.agreement", 100),
        },
    ),
    "frozen-vmf-realizations": (
        REALIZED,
        {
            "Original": _accuracy("native"),
            "temp": _accuracy("temperature"),
            "preserve": _accuracy("preserve"),
            "angular": _accuracy("angular"),
            "Δ": CHANGE,
        },
    ),
    "cosine-diagnostics": (
        DIAGNOSTICS,
        {
            "Disagree": at_path("cosine.disagreements"),
            "Low-margin": at_path("cosine.low_margin"),
            "Certified": at_path("cosine.certified"),
        },
    ),
    "cosine-gradients": (
        GRADIENTS,
        {
            "Mean |ΔL|": at_path("gradients.loss_mean"),
            "Grad. error (%)": at_path("gradients.gradient_error"),
            "Median grad. cosine": at_path("gradients.median_cosine"),
        },
    ),
}


def frozen_table(name: str, evidence: Evidence) -> Outcome:
    """One of the tables; kappa by ProCo's formula, and how far the MLE is from it in a note.

    A change that is printed is tested over networks.
    """
    text, columns = TABLES[name]
    cells, changes, apart = [], [], dict.fromkeys(columns, 0.0)
    for condition, space, *texts in rows(text):
        found = [evidence.frozen(condition, space.lower(), e) for e in ("proco", "mle")]
        row, seeds = f"{condition}, {space}", 0
        if not foreign(condition):
            seeds = wanted(trained_as(condition))
        for (column, read), shown in zip(columns.items(), texts, strict=True):
            own, others = (
                {seed: v for seed, s in by_seed.items() if (v := read(s)) is not None}
                for by_seed in found
            )
            ours, other = (Value.of([*by_seed.values()]) for by_seed in (own, others))
            paper = printed(shown)
            cells.append(Cell(row, column, paper, ours, foreign(condition), wanted=seeds))
            if read is CHANGE and own:
                changes.append(Change(row, "Pure Angular - native", float(shown), own))
            if ours is not None and other is not None:
                apart[column] = max(apart[column], abs(ours.mean - other.mean))
    said = ", ".join(f"{column} {gap:.2g}" for column, gap in apart.items())
    note = "kappa is p R / (1 - R^2); the maximum likelihood estimate differs from it by at most"
    headline = _in_short(evidence, changes) if changes else ""
    return Outcome(cells, changes, notes=[f"{note} {said}."], headline=headline)


def _in_short(evidence: Evidence, changes: Sequence[Change]) -> str:
    """What equalization does on a data set, its imbalances averaged, ours and printed."""
    parts = []
    for place, found in pooled(evidence, CHANGE).items():
        dataset, _, space = place.rpartition(" ")
        own = (c for c in changes if c.row.startswith((f"{dataset} /", f"{dataset},")))
        shown = [c.paper for c in own if c.paper is not None and c.row.endswith(space.capitalize())]
        parts.append(f"{place} {found.said()} (printed {fmean(shown):+.2f})")
    return (
        "Equalizing the gains of frozen features changes accuracy by, mean over imbalances "
        f"(points): {'; '.join(parts)}."
    )


TITLES = {
    "frozen-vmf": "Frozen classification after complete gain equalization",
    "frozen-vmf-realizations": "Frozen accuracy across score realizations",
    "cosine-diagnostics": "Prediction disagreements and margin certificates",
    "cosine-gradients": "Loss and gradient differences between Pure Angular and cosine",
}

ARTEFACTS = tuple(
    Artefact(
        name,
        f"tab:{name}",
        TITLES[name],
        partial(frozen_table, name),
        ("main",),
        "ImageNet-LT and iNaturalist 2018 images, the authors' checkpoint",
        STORES,
    )
    for name in TABLES
)
