"""Sources of artefacts: computed once, used where available."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from resultant.classes.rule import REALIZATIONS
from resultant.features.store import write_store
from resultant.training.evaluation import FROZEN_FITS
from resultant.training.records import read_lines
from resultant_reproduction import ARTEFACTS, Evidence, Records
from resultant_reproduction.evidence import PACKAGED, trained_as
from resultant_reproduction.summarize import SPACES
from small_features import small_features
from training_records import record


@pytest.mark.parametrize(
    ("name", "feature", "dataset", "message"),
    [
        (
            *("inaturalist18", "projection", "cifar10"),
            r"of inaturalist18 in .*a.safetensors, got .* cifar10",
        ),
        (
            *("imagenet-lt-resnet50", "features", "imagenet-lt"),
            "expected train/encoder or train/projection in .*, got .*train/features",
        ),
        ("places", "projection", "places", r"expected stores named imagenet-lt.*, got places"),
    ],
)
def test_a_store_of_something_else_is_refused(
    name: str, feature: str, dataset: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.safetensors"
    write_store(path, small_features(names=(feature,)), {"dataset": dataset})
    with pytest.raises(ValueError, match=message):
        Evidence(Records(), {name: path})


class Quick(Evidence):
    """Evidence with summaries of accuracies alone."""

    def _summary(self, store: str, space: str, estimator: str) -> dict[str, Any]:
        assert self.has(store, space)
        return {"accuracy": dict.fromkeys(REALIZATIONS, 0.5)}


@pytest.mark.parametrize("space", ["encoder", "projection"])
def test_a_store_of_one_space(space: str, tmp_path: Path) -> None:
    """The store fills the cells of its space; the other space is read from records."""
    other = {"encoder": "projection", "projection": "encoder"}[space]
    path = tmp_path / "one.safetensors"
    write_store(path, small_features(names=(space,)), {"num_classes": 6})
    evidence = Quick(Records(), {"imagenet-lt": path})
    assert evidence.has("imagenet-lt") and not evidence.has("inaturalist18")
    assert evidence.has("imagenet-lt", space) and not evidence.has("imagenet-lt", other)
    summary = evidence.summary("imagenet-lt", space, FROZEN_FITS[0])
    assert evidence.frozen("ImageNet-LT", space) == {0: summary}
    assert evidence.frozen("ImageNet-LT", other) == {}
    for name in ("frozen-vmf-realizations", "cosine-diagnostics", "cosine-gradients"):
        assert ARTEFACTS[name].compute(evidence).cells
    cells = ARTEFACTS["frozen-vmf"].compute(evidence).cells
    result = {cell.row for cell in cells if cell.ours is not None and "ImageNet" in cell.row}
    assert result == {f"ImageNet-LT, {space.capitalize()}"}
    kept = {other: {FROZEN_FITS[0]: {"accuracy": {}}}}
    trained = record(trained_as("ImageNet-LT"), "native", 0.0, 3, analysis=kept)
    evidence = Quick(Records([trained]), {"imagenet-lt": path})
    assert evidence.frozen("ImageNet-LT", other) == {3: {"accuracy": {}}}
    assert evidence.frozen("ImageNet-LT", space) == {0: summary}


@pytest.mark.slow
def test_the_packaged_network_is_none_of_the_records() -> None:
    """As the report states: no record has its frozen accuracies."""
    own = {s: Evidence(Records()).summary(PACKAGED, s, "proco")["accuracy"] for s in SPACES}
    folder = Path(__file__).parents[2] / "reproduction" / "results"
    result = [
        {s: record["frozen"][s]["proco"] for s in SPACES}
        for path in sorted(folder.glob("*.jsonl"))
        for record in read_lines(path)
        if "frozen" in record
    ]
    assert len(result) > 100 and own not in result
    assert not any(own["encoder"]["native"] == other["encoder"]["native"] for other in result)
