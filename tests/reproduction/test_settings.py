"""Our settings compared with the printed ones: all rows, and reasons for rows not compared."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from frozen_data import features
from resultant.features.store import write_store
from resultant_reproduction import ITEMS, Evidence, Records
from resultant_reproduction.cells.cells import Outcome
from resultant_reproduction.studies import settings

# On the worker of these records the packaged features are analyzed.
pytestmark = pytest.mark.usefixtures("evidence")
TRAINING, FROZEN = (ITEMS[f"{name}-hyperparameters"] for name in ("training", "frozen"))
USUAL = Evidence(Records())
NAMES = ("encoder", "projection", "labels")


def rows_of(outcome: Outcome) -> dict[str, list[str]]:
    result: dict[str, list[str]] = {}
    for cell in outcome.cells:
        result.setdefault(cell.row, []).append(cell.content())
    return result


@pytest.mark.parametrize(
    ("row", "change"),
    [
        ("Training epochs", {"epochs": 100}),
        ("Encoder", {"architecture": "resnet101", "dataset": "imagenet-lt"}),
        ("Contrastive loss weight", {"contrastive_weight": 2.0}),
        ("Forward views", {"classification_view": True}),
        ("Classification weight (pure / joint)", {"alpha": 0.5}),
        ("Schedule (stated below the table)", {"schedule": "step"}),
    ],
)
def test_other_presets_are_reported(
    row: str, change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = settings.trained_as

    def changed(condition: str) -> Any:
        config = real(condition)
        listed = config.dataset == "imagenet-lt"
        return config if listed != ("dataset" in change) else replace(config, **change)

    monkeypatch.setattr(settings, "trained_as", changed)
    (note,) = TRAINING.compute(USUAL).notes
    apart = note.partition("as printed, but for ")[2].partition(". Not compared")[0]
    assert apart.startswith(f"{row}, ") and "; " not in apart


def test_stores_add_their_numbers(tmp_path: Path) -> None:
    """Widths and numbers of images of added stores."""
    path, arrays = tmp_path / "s.safetensors", {}
    for split, n in (("train", 10), ("test", 4)):
        x, y = features(torch.full((5,), n), 7)
        arrays |= {f"{split}/{name}": a for name, a in zip(NAMES, (x, x, y), strict=True)}
    write_store(path, arrays, {"num_classes": 5})
    evidence = Evidence(Records(), {"imagenet-lt": path, "inaturalist18": path})
    assert rows_of(TRAINING.compute(evidence))["Encoder dimension"] == ["64 / 64", "2048 / 7"]
    outcome = FROZEN.compute(evidence)
    result = rows_of(outcome)
    assert result["Main linear fitting pool: ImageNet"] == ["115,846 / 50"]
    # Four fifths of each class.
    assert result["Frozen vMF fitting pool: iNaturalist"] == ["353,237 / 40"]
    assert result["Held-out classification images: ImageNet"] == ["50,000 / 20"]
    (note,) = outcome.notes
    assert "not shipped" not in note and "Held-out classification images, ImageNet (50,000" in note
