"""tab:cross-backbone: frozen gain interventions on the authors' ImageNet-LT networks."""

from __future__ import annotations

from resultant.paper.artefact import Artefact, Cell, Outcome, Value, printed, rows
from resultant.paper.evidence import Evidence

CHANGES = """
0 | -1 | -1.665 | -1.465
0 | 0 | +0.195 | +0.315
0 | 1 | +0.175 | -0.175
0.5 | -1 | -0.635 | -0.610
0.5 | 0 | +0.260 | +0.240
0.5 | 1 | +0.055 | -0.040
1 | -1 | +0.000 | +0.000
1 | 0 | +0.000 | +0.000
1 | 1 | +0.000 | +0.000
1.5 | -1 | +0.650 | +0.625
1.5 | 0 | -0.395 | -0.280
1.5 | 1 | -0.095 | -0.050
"""

STORES = {"ResNet-50": "imagenet-lt-resnet50", "ResNeXt-50": "imagenet-lt-resnext50"}

COMMANDS = (
    "resultant import-proco ckpt.pth.tar resnet50.safetensors",
    "resultant extract resnet50.safetensors --out imagenet-lt-resnet50.safetensors --data LISTS "
    "--images IMAGES",
    "resultant reproduce cross-backbone --store imagenet-lt-resnet50=imagenet-lt-resnet50."
    "safetensors imagenet-lt-resnext50=imagenet-lt-resnext50.safetensors",
)


def cross_backbone(evidence: Evidence) -> Outcome:
    """Changes of accuracy by direct temperature, from native at the same prior."""
    cells = []
    for beta, gamma, *texts in rows(CHANGES):
        for (column, store), text in zip(STORES.items(), texts, strict=True):
            ours = None
            if evidence.has(store):
                grid = evidence.analysis(store, "projection").grid
                point = (
                    None if grid is None else grid.point("temperature", *map(float, (beta, gamma)))
                )
                if point is not None and point.change is not None:
                    ours = Value(100 * point.change)
            row = f"β = {beta}, γ = {gamma}"
            cells.append(Cell(row, column, printed(text), ours, foreign=True))
    notes = ["The realization of this grid is unsaid; ours is direct temperature."]
    return Outcome(cells, notes=notes)


ARTEFACTS = (
    Artefact(
        "cross-backbone",
        "tab:cross-backbone",
        "Frozen gain interventions across backbones",
        cross_backbone,
        (),
        "ImageNet-LT images and the authors' checkpoints",
        COMMANDS,
    ),
)
