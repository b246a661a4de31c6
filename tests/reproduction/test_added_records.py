"""Sources: records, probes and stores that a user adds, and the commands shown."""

from __future__ import annotations

import json
import shlex
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

from resultant.classes.rule import REALIZATIONS
from resultant.cli import main as cli
from resultant.features.store import write_store
from resultant.training.config import ProbeConfig, Run, TrainConfig, preset
from resultant.training.evaluation import FROZEN_FITS
from resultant.training.records import read_lines
from resultant_reproduction import ARTEFACTS, Evidence, Records
from resultant_reproduction.artefacts import Artefact, in_text
from resultant_reproduction.evidence import HEAD_STORE, PACKAGED, trained_as
from resultant_reproduction.plan import PLANS
from resultant_reproduction.records import read_added
from resultant_reproduction.summarize import SPACES
from small_features import small_features
from training_records import record

SHOWN = {
    command: artefact.entry.name
    for artefact in ARTEFACTS.values()
    for command in map(str.strip, artefact.entry.commands)
    if command.startswith("resultant ")
}
RUN_PLANS = [f"resultant reproduce run {name}" for name in PLANS]


def parsed(command: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the options with which the subcommand of a command line is called."""
    program, name, *arguments = shlex.split(command)
    assert program == "resultant"
    module, _, function = cli.find_command(name).target.partition(":")
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(f"{module}.{function}", lambda options: seen.append(vars(options)))
    assert cli.main([name, *arguments]) == 0, command
    (given,) = seen
    return given


@pytest.mark.slow
@pytest.mark.parametrize("command", [*SHOWN, *RUN_PLANS])
def test_commands_parse(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = parsed(command, monkeypatch)
    if "what" in given:
        named = [name for name in given["what"] if name not in ("all", "run", *PLANS)]
        assert set(named) <= set(ARTEFACTS)
        assert {text.partition("=")[0] for text in given["store"]} <= {
            *("imagenet-lt", "inaturalist18", "imagenet-lt-resnet50", "imagenet-lt-resnext50"),
            HEAD_STORE,
        }


@pytest.mark.parametrize("name", [name for name, a in ARTEFACTS.items() if a.entry.commands])
def test_commands_follow_one_another(name: str) -> None:
    """A shell reads them, and what a line reads an earlier one has written."""
    lines = ARTEFACTS[name].entry.commands
    done = subprocess.run(["bash", "-n"], input="\n".join(lines), text=True, capture_output=True)
    assert not done.returncode, done.stderr
    assert lines[-1].startswith("resultant reproduce")
    written = " ".join(lines[:-1])
    for word in shlex.split(lines[-1])[3:]:
        path = word.rpartition("=")[2].replace("*", "$run").replace("records.jsonl", "")
        assert word.startswith("--") or path.rstrip("/") in written, word


def trained(config: TrainConfig, run: Run, **more: Any) -> dict[str, Any]:
    """A record as ``resultant train`` writes it."""
    built = {"run": run.name, **asdict(run), "config": asdict(config), "last": {}, **more}
    return json.loads(json.dumps(built))


def probed(path: Path, config: TrainConfig, run: Run, *accuracy: float) -> Path:
    """Write the result of ``resultant probe --out`` on features of ``extract``."""
    about = {"dataset": config.dataset, "imbalance": None, "run": asdict(run), "held_out": "test"}
    about["config"] = asdict(config)
    message = {"store": "s", "metadata": about, "features": ["encoder", "projection"]}
    message |= {"encoder": "unit", "probe": asdict(ProbeConfig())}
    path.write_text(json.dumps({**message, "accuracy": list(accuracy), "groups": {}}))
    return path


def test_probes_of_one_run_in_several_files(tmp_path: Path) -> None:
    """Each adds the features that it has; of two of the same features the later counts."""
    config = trained_as("ImageNet-LT")
    files = []
    for i, name in enumerate(("encoder", "projection", "encoder")):
        files.append(probed(tmp_path / f"{i}.json", config, Run(), 0.0, 0.0))
        message = json.loads(files[-1].read_text())
        files[-1].write_text(
            json.dumps({**message, "features": [name], "accuracy": [0.1 + 0.1 * i]})
        )
    for number, encoder in ((2, 0.1), (3, 0.3)):
        (result,) = read_added(files[:number])
        accuracy = {name: part["accuracy"] for name, part in result["probes"]["long_tail"].items()}
        assert accuracy == pytest.approx({"encoder": encoder, "projection": 0.2})


def changed(message: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Change a file of probes: parts of its metadata, or of the whole where it has them."""
    whole = {k: v for k, v in changes.items() if k in message and v is not None}
    about = {k: v for k, v in changes.items() if k in message["metadata"]}
    dropped = {k for k, v in changes.items() if v is None}
    result = message | whole | {"metadata": message["metadata"] | about}
    return {k: v for k, v in result.items() if k not in dropped}


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
    path = probed(tmp_path / "p.json", trained_as(dataset), Run(), 0.2, 0.3)
    path.write_text(json.dumps(changed(json.loads(path.read_text()), **changes)))
    if isinstance(got, str):
        with pytest.raises(ValueError, match=rf"{got}.*p\.json"):
            read_added([path])
        return
    (result,) = read_added([path])
    assert result["probes"].keys() == got
    assert all(probes["projection"] == {"accuracy": 0.3} for probes in result["probes"].values())


def features(classes: int, each: int, dim: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(classes, dim, generator=generator)
    arrays = {}
    for split, n in (("train", each), ("test", each // 2)):
        y = torch.arange(classes * n) % classes
        arrays[f"{split}/labels"] = y
        for space in ("encoder", "projection"):
            noise = torch.randn(len(y), dim, generator=generator)
            arrays[f"{split}/{space}"] = centres[y] + 0.6 * noise
    return arrays


def compute(artefact: Artefact, evidence: Evidence) -> dict[tuple[str, str], Any]:
    return {(c.row, c.column): c.ours for c in artefact.compute(evidence).cells}


@pytest.mark.slow
def test_stores_and_analyzed_records(tmp_path: Path) -> None:
    """The grid of tab:cross-backbone from a store, and the same from a record that keeps it."""
    store = tmp_path / "s.safetensors"
    write_store(store, features(5, 40, 12), {"num_classes": 5})
    backbone = ARTEFACTS["cross-backbone"]
    evidence = Evidence(Records(), {"imagenet-lt-resnet50": store})
    result = compute(backbone, evidence)
    grid = evidence.analysis("imagenet-lt-resnet50", "projection").grid
    assert grid is not None
    for beta in (0.0, 1.5):
        for gamma in (-1.0, 1.0):
            change = grid.point("temperature", beta, gamma).change
            ours = result[f"β = {beta:g}, γ = {gamma:g}", "ResNet-50"]
            assert change is not None and ours.mean == pytest.approx(100 * change, abs=1e-12)
    assert result["β = 0, γ = 0", "ResNeXt-50"] is None
    kept = {"proco": evidence.summary("imagenet-lt-resnet50", "projection", "proco")}
    own, alone = preset("imagenet-lt"), trained_as("ImageNet-LT")
    records = [trained(c, Run(), analysis={"projection": kept}) for c in (own, alone)]
    again = Evidence(Records(records))
    assert compute(backbone, again) == result
    assert again.frozen("ImageNet-LT", "projection") == {0: kept["proco"]}
    # A store goes before a record, and other conditions have nothing.
    other = trained(alone, Run(), analysis={"projection": {"proco": {"accuracy": {}}}})
    both = Evidence(Records([other]), {"imagenet-lt": store})
    assert both.frozen("ImageNet-LT", "projection") == {0: kept["proco"]}
    assert again.frozen("iNaturalist 2018", "projection") == {}


@pytest.mark.slow
def test_backbones_are_asked_about_validation_images(tmp_path: Path) -> None:
    """app:cross-backbone: other stores are refused."""
    backbone = ARTEFACTS["cross-backbone"]
    result = {}
    for split in ("val", "test"):
        store = tmp_path / f"{split}.safetensors"
        write_store(store, features(5, 40, 12), {"num_classes": 5, "held_out": split})
        result[split] = Evidence(Records(), {"imagenet-lt-resnext50": store})
    assert compute(backbone, result["val"])["β = 0, γ = 0", "ResNeXt-50"] is not None
    message = (
        r"imagenet-lt-resnext50 of resultant extract --split val, got the split test in .*test"
    )
    with pytest.raises(ValueError, match=message):
        compute(backbone, result["test"])


def test_numbers_of_the_text_from_records() -> None:
    config, run = trained_as("ImageNet-LT"), Run("angular", 1.5)
    probes = {"encoder": {"accuracy": 0.24}, "projection": {"accuracy": 0.38}}
    records = Records([trained(config, run, probes={"long_tail": probes})])
    cells = in_text("angular-training", Evidence(records))
    assert [c.content() for c in cells] == ["23.56 / 24.00", "37.76 / 38.00"]
    none = in_text("angular-training", Evidence(Records()))
    assert [c.content() for c in none] == ["23.56 / not shipped", "37.76 / not shipped"]


def test_released_classifier(tmp_path: Path) -> None:
    """Its accuracies are those that extract writes, on the test images alone."""
    parts = {"accuracy": 0.58, "head": 0.68, "medium": 0.56, "tail": 0.39}
    arrays, path = features(5, 4, 12), tmp_path / "s.safetensors"

    def cells(**about: Any) -> list[str]:
        write_store(path, arrays, {"num_classes": 5, **about})
        evidence = Evidence(Records(), {HEAD_STORE: path})
        return [c.content() for c in in_text("cross-backbone", evidence)[2:]]

    shown = ["58.026 / 58.000", "67.787 / 68.000", "55.620 / 56.000", "38.868 / 39.000"]
    assert cells(held_out="test", classifier=parts) == shown
    for about, got in (({"held_out": "val"}, "the split val"), ({"held_out": "test"}, "none")):
        with pytest.raises(ValueError, match=f"--split test, with a classifier, got {got} in"):
            cells(**about, classifier=parts if about["held_out"] == "val" else {})


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
