"""tab:cross-backbone: frozen gain interventions on the authors' ImageNet-LT networks."""

from __future__ import annotations

from resultant.features.store import FeatureStore
from resultant.training.config import preset
from resultant_reproduction.artefact import Artefact, Cell, Outcome, Value, printed, rows
from resultant_reproduction.evidence import Evidence

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
ARCHITECTURES = {"ResNet-50": "resnet50", "ResNeXt-50": "resnext50_32x4d"}

# app:cross-backbone: the queries are all validation images.
HELD_OUT = "val"

COMMANDS = (
    *(
        command.format(name=name, split=HELD_OUT)
        for name in ("resnet50", "resnext50")
        for command in (
            "resultant import-proco {name}.pth.tar {name}.safetensors",
            "resultant extract {name}.safetensors --out imagenet-lt-{name}.safetensors "
            "--split {split} --data LISTS --images IMAGES",
        )
    ),
    "resultant reproduce cross-backbone --store imagenet-lt-resnet50=imagenet-lt-resnet50."
    "safetensors imagenet-lt-resnext50=imagenet-lt-resnext50.safetensors",
)


def cross_backbone(evidence: Evidence) -> Outcome:
    """Changes of accuracy by direct temperature, from native at the same prior."""
    found = {title: _grid(evidence, title) for title in STORES}
    cells = []
    for beta, gamma, *texts in rows(CHANGES):
        for column, text in zip(STORES, texts, strict=True):
            after, before = (
                found[column].get(key)
                for key in (f"temperature {beta} {gamma}", f"native 1 {gamma}")
            )
            ours = None
            if after is not None and before is not None:
                ours = Value(100 * (after - before))
            row = f"β = {beta}, γ = {gamma}"
            cells.append(Cell(row, column, printed(text), ours, foreign=True))
    notes = ["The realization of this grid is unsaid; ours is direct temperature."]
    return Outcome(cells, notes=notes)


def _grid(evidence: Evidence, backbone: str) -> dict[str, float]:
    """The accuracies of the grid on projection features of a store that was brought, or of a
    network trained by ProCo's recipe whose record has them."""
    store = STORES[backbone]
    if evidence.has(store, "projection"):
        path = evidence.stores[store]
        split = FeatureStore.open(path).metadata.get("held_out", HELD_OUT)
        if split != HELD_OUT:
            rule = f"expected {store} of resultant extract --split {HELD_OUT}"
            raise ValueError(f"{rule}, got the split {split} in {path}")
        return evidence.summary(store, "projection", "proco")["grid"]
    config = preset("imagenet-lt", architecture=ARCHITECTURES[backbone])
    for record in evidence.records.seeds(config).values():
        if "analysis" in record:
            return record["analysis"]["projection"]["proco"]["grid"]
    return {}


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
