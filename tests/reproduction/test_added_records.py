"""Sources: records, probes and stores that a user adds, the commands shown, and pairs of seeds."""

import json
import shlex
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from resultant.classes.rule import REALIZATIONS
from resultant.features.store import write_store
from resultant.training.config import Run
from resultant_reproduction import ITEMS, Evidence, Records
from resultant_reproduction.frozen.summarize import SPACES
from resultant_reproduction.pages.compute import in_text
from resultant_reproduction.recipes.config import PaperConfig, ProbeConfig, preset
from resultant_reproduction.recipes.evaluation import FROZEN_FITS
from resultant_reproduction.runs.evidence import ADDED_STORES, HEAD_STORE, trained_as
from resultant_reproduction.runs.records import read_added
from resultant_reproduction.studies import control_matrix as controls
from small_features import small_features
from training_records import record


@pytest.mark.parametrize("name", [name for name, a in ITEMS.items() if a.entry.commands])
def test_commands_follow_one_another(name: str) -> None:
    """A shell reads them, what a line reads an earlier one has written, and the last has names that
    are known."""
    *lines, last = ITEMS[name].entry.commands
    script = "\n".join((*lines, last))
    done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True)
    assert not done.returncode, done.stderr
    program, command, what, *words = shlex.split(last)
    assert (program, command) == ("resultant", "reproduce") and what in {"all", *ITEMS}
    for word in words:
        store, _, path = word.rpartition("=")
        path = path.replace("*", "$run").replace("records.jsonl", "").rstrip("/")
        assert word.startswith("--") or path in " ".join(lines), word
        assert store in {"", *ADDED_STORES, HEAD_STORE}


def probed(path: Path, config: PaperConfig, **changes: Any) -> Path:
    """Write the result of ``resultant probe --out`` on features of ``extract``, with changes of its
    metadata, or of the whole where it has them; None drops a part."""
    about = {"dataset": config.dataset, "imbalance": None, "run": asdict(Run()), "held_out": "test"}
    about |= {"config": asdict(config)}
    about |= {k: v for k, v in changes.items() if k in about}
    whole: dict[str, Any] = {"store": "s", "features": ["encoder", "projection"], "encoder": "unit"}
    whole |= {"probe": asdict(ProbeConfig()), "accuracy": [0.2, 0.3], "groups": {}}
    whole |= {"metadata": about} | {k: v for k, v in changes.items() if k not in about}
    path.write_text(json.dumps({k: v for k, v in whole.items() if v is not None}))
    return path


def test_probes_of_one_run_in_several_files(tmp_path: Path) -> None:
    """Each adds the features that it has; of two of the same features the later counts."""
    files = []
    for i, name in enumerate(("encoder", "projection", "encoder")):
        own = {"features": [name], "accuracy": [0.1 + 0.1 * i]}
        files.append(probed(tmp_path / f"{i}.json", trained_as("ImageNet-LT"), **own))
    for number, encoder in ((2, 0.1), (3, 0.3)):
        (result,) = read_added(files[:number])
        accuracy = {name: part["accuracy"] for name, part in result["probes"]["long_tail"].items()}
        assert accuracy == pytest.approx({"encoder": encoder, "projection": 0.2})


@pytest.mark.parametrize(
    ("dataset", "changes", "got"),
    [
        ("ImageNet-LT", {"probe": {**asdict(ProbeConfig()), "seed": 7}}, {"long_tail"}),
        # Without an Encoder its form does not matter; that of CIFAR is raw, also if unstated.
        ("ImageNet-LT", {"features": ["projection"], "accuracy": [0.3]}, {"long_tail"}),
        ("CIFAR-10 / 100", {"encoder": None, "probe": None}, {"long_tail"}),
        ("CIFAR-10 / 100", {"encoder": "raw", "imbalance": 1.0}, {"balanced"}),
        ("ImageNet-LT", {"accuracy": [0.2]}, "what resultant probe --out writes"),
        ("ImageNet-LT", {"metadata": None}, "what resultant probe --out writes"),
        ("ImageNet-LT", {"encoder": "raw"}, "of imagenet-lt with encoder unit, got raw"),
        ("ImageNet-LT", {"encoder": None}, "of imagenet-lt with encoder unit, got raw"),
        ("ImageNet-LT", {"held_out": "val"}, "with held_out test, got val"),
        ("ImageNet-LT", {"probe": {**asdict(ProbeConfig()), "epochs": 3}}, "epochs 100, got 3"),
        ("CIFAR-10 / 100", {}, "of cifar10 with encoder raw, got unit"),
        ("CIFAR-10 / 100", {"encoder": "raw", "imbalance": 50.0}, "imbalance 100.0, got 50.0"),
    ],
)
def test_probes_are_of_the_protocol(
    dataset: str, changes: dict[str, Any], got: str | set[str], tmp_path: Path
) -> None:
    """tab:frozen-hyperparameters: unit Encoder features of the test images, and the settings."""
    path = probed(tmp_path / "p.json", trained_as(dataset), **changes)
    if isinstance(got, str):
        with pytest.raises(ValueError, match=rf"{got}.*p\.json"):
            read_added([path])
        return
    (result,) = read_added([path])
    assert result["probes"].keys() == got
    assert all(probes["projection"] == {"accuracy": 0.3} for probes in result["probes"].values())


def added(folder: Path, name: str, *spaces: str, **about: Any) -> Evidence:
    """Evidence of a small store alone."""
    path = folder / "a.safetensors"
    write_store(path, small_features(names=spaces or SPACES), {"num_classes": 6, **about})
    return Evidence(Records(), {name: path})


def compute(evidence: Evidence) -> dict[tuple[str, str], Any]:
    cells = ITEMS["cross-backbone"].compute(evidence).cells
    return {(c.row, c.column): c.ours for c in cells}


@pytest.mark.slow
def test_stores_and_analyzed_records(tmp_path: Path) -> None:
    """The cells of tab:cross-backbone from a store of validation images (`test_chain` has their
    numbers), and the same from a record that keeps the grid."""
    store, none = "imagenet-lt-resnet50", ("β = 0, γ = 0", "ResNeXt-50")
    evidence = added(tmp_path, store, held_out="val")
    result = compute(evidence)
    assert result[none] is None
    unstated = compute(added(tmp_path, "imagenet-lt-resnext50"))
    assert unstated[none] == result[none[0], "ResNet-50"]
    kept = {"proco": evidence.summary(store, "projection", "proco")}
    own, alone = preset("imagenet-lt"), trained_as("ImageNet-LT")
    records = [record(c, "native", 0.0, 0, analysis={"projection": kept}) for c in (own, alone)]
    again = Evidence(Records(records))
    assert compute(again) == result
    assert again.frozen("ImageNet-LT", "projection") == {0: kept["proco"]}
    # A store goes before a record, and other conditions have nothing.
    other = record(alone, "native", 0.0, 0, analysis={"projection": {"proco": {"accuracy": {}}}})
    both = Evidence(Records([other]), {"imagenet-lt": evidence.stores[store]})
    assert both.frozen("ImageNet-LT", "projection") == {0: kept["proco"]}
    assert again.frozen("iNaturalist 2018", "projection") == {}


PARTS = {"accuracy": 0.58, "head": 0.68, "medium": 0.56, "tail": 0.39}


def test_numbers_of_the_text(tmp_path: Path) -> None:
    """Probes of records, and the accuracies of the released classifier that extract writes."""
    probes = {"encoder": {"accuracy": 0.24}, "projection": {"accuracy": 0.38}}
    own = record(trained_as("ImageNet-LT"), "angular", 1.5, 0, probes={"long_tail": probes})
    cells = in_text("angular-training", Evidence(Records([own])))
    assert [c.content() for c in cells] == ["23.56 / 24.00", "37.76 / 38.00"]
    none = in_text("angular-training", Evidence(Records()))
    assert [c.content() for c in none] == ["23.56 / not shipped", "37.76 / not shipped"]
    released = added(tmp_path, HEAD_STORE, held_out="test", classifier=PARTS)
    shown = ["58.026 / 58.000", "67.787 / 68.000", "55.620 / 56.000", "38.868 / 39.000"]
    assert [c.content() for c in in_text("cross-backbone", released)[2:]] == shown


@pytest.mark.parametrize(
    ("name", "space", "about", "message"),
    [
        (
            "inaturalist18",
            "encoder",
            {"dataset": "cifar10"},
            "of inaturalist18 in .*a.saf.*cifar10",
        ),
        (
            *("imagenet-lt-resnet50", "features", {}),
            "expected train/encoder or train/projection in .*, got .*train/features",
        ),
        ("places", "projection", {}, r"expected stores named imagenet-lt.*, got places"),
        # app:cross-backbone: all validation images, and the classifier on the test images.
        (
            *("imagenet-lt-resnext50", "projection", {"held_out": "test"}),
            "imagenet-lt-resnext50 of resultant extract --split val, got the split test in .*a.saf",
        ),
        *(
            (HEAD_STORE, "projection", about, f"--split test, with a classifier, got {got} in")
            for about, got in (
                ({"held_out": "val", "classifier": PARTS}, "the split val"),
                ({"held_out": "test", "classifier": {}}, "none"),
            )
        ),
    ],
)
def test_a_store_of_something_else_is_refused(
    name: str, space: str, about: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        ITEMS["cross-backbone"].compute(added(tmp_path, name, space, **about))


class Quick(Evidence):
    """Evidence with summaries of accuracies alone."""

    def _summary(self, store: str, space: str, estimator: str) -> dict[str, Any]:
        assert self.has(store, space)
        return {"accuracy": dict.fromkeys(REALIZATIONS, 0.5)}


@pytest.mark.parametrize(("space", "other"), [SPACES, SPACES[::-1]])
def test_a_store_of_one_space(space: str, other: str, tmp_path: Path) -> None:
    """The store fills the cells of its space; the other space is read from records."""
    stores = added(tmp_path, "imagenet-lt", space).stores
    evidence = Quick(Records(), stores)
    assert evidence.has("imagenet-lt") and not evidence.has("inaturalist18")
    assert evidence.has("imagenet-lt", space) and not evidence.has("imagenet-lt", other)
    summary = evidence.summary("imagenet-lt", space, FROZEN_FITS[0])
    assert evidence.frozen("ImageNet-LT", space) == {0: summary}
    assert evidence.frozen("ImageNet-LT", other) == {}
    for name in ("frozen-vmf-realizations", "cosine-diagnostics", "cosine-gradients"):
        assert ITEMS[name].compute(evidence).cells
    cells = ITEMS["frozen-vmf"].compute(evidence).cells
    result = {cell.row for cell in cells if cell.ours is not None and "ImageNet" in cell.row}
    assert result == {f"ImageNet-LT, {space.capitalize()}"}
    kept = {other: {FROZEN_FITS[0]: {"accuracy": {}}}}
    trained = record(trained_as("ImageNet-LT"), "native", 0.0, 3, analysis=kept)
    evidence = Quick(Records([trained]), stores)
    assert evidence.frozen("ImageNet-LT", other) == {3: {"accuracy": {}}}
    assert evidence.frozen("ImageNet-LT", space) == {0: summary}


def test_maps_pair_seeds() -> None:
    """A policy of one seed is compared with the native run of that seed, not with all of them."""
    config, records = controls.control_config("c10-if100-f", "contrastive"), []
    for rule, beta, seed, value in (
        ("native", 0.0, 0, 0.8),
        ("native", 0.0, 1, 0.9),
        ("angular", 0.5, 0, 0.81),
    ):
        spaces = {space: {"accuracy": value} for space in ("encoder", "projection")}
        records.append(record(config, rule, beta, seed, probes={"balanced": spaces}))
    item = ITEMS["c10-pure-complete"]
    outcome = item.compute(Evidence(Records(records)))
    cells = {(c.row, c.column): c.content() for c in outcome.cells}
    assert outcome.notes == [
        "2 of 84 changes have records, of 1 seed each; 2 of 2 have the printed sign. Mean and sd "
        "over these 2 changes, which share their ProCo networks: +1.00 ± 0.00 points, +0.26 ± 0.16 "
        "printed."
    ]
    assert item.compute(Evidence(Records())).notes == []
    assert len(cells) == 84 and {k: v for k, v in cells.items() if "no record" not in v} == {
        ("IF100-F E", "Pure Angular 0.5"): "+0.37 / +1.00 [1]",
        ("IF100-F P", "Pure Angular 0.5"): "+0.14 / +1.00 [1]",
    }
    assert item.status(outcome) == "partly rerun (2 of 84)"
