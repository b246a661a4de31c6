"""Groups 2 to 4 of the protocol: trained in miniature, and judged from made-up records."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from images.photos import write_folder
from paper_evidence import probed
from resultant.images.opening import open_images
from resultant.training.config import TrainConfig
from resultant.training.records import read_lines
from resultant_reproduction import Evidence, Records, run, summarize
from resultant_reproduction.plan import PHOTO_ARMS, PLANS, Plan, PlannedJob, stand_in
from resultant_reproduction.stand_in import (
    contrasts,
    equal_gain,
    frozen_effects,
    frozen_numbers,
    headline,
    listed,
    photographs,
    printed_effect,
    repeated_note,
)
from tiny_cifar import tiny_cifar, tiny_config
from training_records import record

DATA = tiny_cifar(size=4)
QUIET: dict[str, Any] = {"say": lambda text: None, "checkpoint_every": 1}
# Settings that a test makes small.
SMALL = ("dim", "batch_size", "epochs", "imbalance", "learning_rate", "precision", "dataset")


def smaller(config: TrainConfig) -> TrainConfig:
    return replace(config, **{name: getattr(tiny_config(epochs=1), name) for name in SMALL})


def run_small(
    patch: pytest.MonkeyPatch, folder: Path, jobs: list[PlannedJob], **options: Any
) -> int:
    """Run jobs in the place of the plan losses."""

    def make(seeds: Any) -> Iterator[PlannedJob]:
        return iter(jobs)

    patch.setattr(summarize, "QUESTIONS", ("grid", "gains"))
    patch.setattr(summarize, "BETAS", (0.0, 1.0))
    patch.setattr(run, "plan", lambda name: Plan("losses", "", (0,), make))
    patch.setattr(run, "load_cifar", lambda name, root: DATA)
    return run.run_plan("losses", folder, folder / "out", folder, "cpu", **QUIET, **options)


@pytest.mark.slow
def test_other_losses_and_dimensions_in_miniature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each loss of the plan trains, is analysed and calibrated; records are of the second round."""
    jobs = [replace(job, config=smaller(job.config)) for job in PLANS["losses"].jobs((0,))]
    # Another dimension too; mixtures take time, and one calibration is enough.
    wide = replace(jobs[0].config, dim=2 * jobs[0].config.dim)
    jobs = [replace(jobs[0], config=wide), *(replace(j, calibrated=False) for j in jobs[1:])]
    assert run_small(monkeypatch, tmp_path, jobs) == 0
    path = tmp_path / "second-round" / "losses.jsonl"
    records = read_lines(path)
    assert [r["config"]["contrastive"] for r in records] == ["supcon", "balanced", "proco"]
    assert records[2]["config"]["contrastive_weight"] == 0 and "accuracy" in records[2]["last"]
    assert [r["config"]["dim"] for r in records] == [16, 8, 8]
    for space in ("encoder", "projection"):
        half = records[0]["calibration"][space]["proco"]
        assert half["queries"] == 8 and set(half["rules"]) >= {"native", "angular", "cosine"}
        assert all(r["analysis"][space]["proco"]["gains"]["mean"] > 0 for r in records)
    before = path.read_bytes()
    assert run_small(monkeypatch, tmp_path, jobs) == 0 and path.read_bytes() == before


@pytest.mark.slow
def test_photographs_in_miniature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run on photographs stops at its time limit, goes on, and leaves one whole record."""
    sizes = {"a": 12, "b": 6, "c": 4}
    write_folder(tmp_path / "data" / "train", sizes)
    write_folder(tmp_path / "data" / "test", dict.fromkeys(sizes, 4), first=60)
    splits = open_images(tmp_path / "data")
    monkeypatch.setattr(run, "open_dataset", lambda config, root: splits)
    own = {"architecture": "test_resnet", "dim": 8, "size": 32, "batch_size": 4, "epochs": 2}
    jobs = [
        replace(job, config=replace(job.config, learning_rate=0.02, **own))
        for job in PLANS["tiny"].jobs((0,))[:1]
    ]
    calls = [run_small(monkeypatch, tmp_path, jobs, minutes=m) for m in (1e-9, None)]
    assert calls == [1, 0]
    (result,) = read_lines(tmp_path / "second-round" / "losses.jsonl")
    assert result["run"] == "native-seed0" and result["config"]["mean"] is None
    assert {"encoder", "projection"} == set(result["calibration"]) == set(result["analysis"])
    assert result["probes"]["long_tail"]["encoder"]["accuracy"] <= 1
    native = result["analysis"]["projection"]["proco"]["accuracy"]["native"]
    assert native == pytest.approx(result["frozen"]["projection"]["proco"]["native"])


def test_order_of_the_plans() -> None:
    """The order that protocol.md fixes."""
    jobs = PLANS["tiny"].jobs()
    assert [len(job.runs) for job in jobs] == [1] * 36
    assert [job.runs[0].seed for job in jobs] == [0] * 5 + [1] * 5 + [0, 0, 1, 1] * 2 + [
        *([2] * 5 + [3] * 5),
        *([2, 2, 3, 3] * 2),
    ]
    assert all(job.config.epochs == 100 and job.config.temperature == 0.07 for job in jobs)
    assert [job.config.views for job in jobs[:18]] == [2] * 10 + [3] * 4 + [2] * 4
    assert {job.config.architecture for job in jobs[14:18]} == {"resnext50_32x4d"}
    dims = [job.config.dim for job in PLANS["dimension"].jobs()]
    assert dims[:2] == [128, 512] and sorted(dims) == [2**k for k in range(5, 12)]
    kinds = [(c.contrastive, c.contrastive_weight, c.classifier_prior) for c in losses_of()]
    assert kinds == [("supcon", 1, None), ("balanced", 1, None), ("proco", 0, 0)]


def losses_of() -> list[TrainConfig]:
    return [job.config for job in PLANS["losses"].jobs()]


def analysed(
    config: TrainConfig, seed: int, changes: dict[str, float], cv: float = 0.1
) -> dict[str, Any]:
    """A record with a frozen summary: accuracies by rule, and numbers of dimensions."""
    summary = {
        "tau": 0.1,
        "accuracy": {"native": 0.4} | {k: 0.4 + v for k, v in changes.items()},
        "gains": {"mean": 8.0, "standard_deviation": 8.0 * cv},
        "cosine": {"queries": 1000, "disagreements": 0, "certified": 900, "agreement": 0.99},
        "boundaries": {"joint_leading": {"mae": 1.0}},
        "gradients": {"gradient_error": 1.0},
    }
    spaces = {space: {"proco": summary} for space in ("encoder", "projection")}
    return record(config, "native", 0.0, seed, analysis=spaces)


def test_contrasts_of_the_stand_in() -> None:
    """Welch's interval by hand, beside the printed effect of ImageNet-LT."""
    native, angular = (0.30, 0.31, 0.305), (0.33, 0.34, 0.338)
    records = [
        probed(stand_in(), rule, seed, accuracy)
        for rule, own in (("native", native), ("angular", angular))
        for seed, accuracy in enumerate(own)
    ]
    encoder, projection = contrasts(Records(records))
    assert encoder.title == "ResNet-50: Pure Angular less ProCo, encoder"
    assert encoder.networks == (3, 3) and encoder.ours.n == 6
    assert encoder.printed == pytest.approx(23.22 - 23.05)
    assert projection.printed == pytest.approx(37.07 - 36.86)
    difference = 100 * (statistics.fmean(angular) - statistics.fmean(native))
    error = 100 * math.sqrt(sum(statistics.variance(v) / 3 for v in (native, angular)))
    assert encoder.ours.mean == pytest.approx(difference)
    assert encoder.ours.error == pytest.approx(error) and encoder.direction == "same direction"
    lower = [probed(stand_in(), "angular", seed, 0.28 + 0.001 * seed) for seed in range(3)]
    assert next(contrasts(Records(records[:3] + lower))).direction == "other direction"
    outcome = photographs(Evidence(Records(), second=Records(records)))
    assert outcome.done == (6, 36)
    reached = outcome.sections["Accuracy after training (Tables 1 and 15)"]
    assert "| ResNet-50: ProCo | 23.05 ± 0.12 / 30.50 ± 0.50 [3 of 4] |" in reached
    assert "| ResNet-50, joint: ProCo |  |  | 57.26 / no run |" in reached
    text = f"encoder {encoder.ours.text(2)} [3 and 3] (same direction), projection "
    assert listed(equal_gain(Records(records))).startswith(text)
    assert headline(Records(records)).endswith("(same direction) points [networks].")
    (alone,) = {c.direction for c in contrasts(Records(records[2:4]))}
    assert alone == "open"


def test_frozen_rows_of_the_stand_in() -> None:
    """Effects have Student's interval over networks, and numbers the digits of the printed ones."""
    changes = (0.010, 0.012, 0.011)
    records = [analysed(stand_in(), seed, {"angular": c}) for seed, c in enumerate(changes)]
    encoder, projection = frozen_effects(Records(records))
    reach = 4.302652729911275 * statistics.stdev(changes) / math.sqrt(3)
    assert encoder.ours.mean == pytest.approx(1.1) and encoder.direction == "same direction"
    assert encoder.ours.high == pytest.approx(100 * (statistics.fmean(changes) + reach))
    assert (encoder.printed, projection.printed, projection.networks) == (4.58, 0.25, (3,))
    rows = {title: ours for title, _, ours in frozen_numbers(Records(records))}
    assert rows["projection: boundary error (degrees)"] == "1.00000 ± 0.00000 [3]"
    assert rows["encoder: certified queries"] == "900 ± 0 of 1,000 [3]"
    assert "equal gains change frozen features by encoder +1.10 [" in headline(Records(records))
    (alone,) = {e.direction for e in frozen_effects(Records(records[:1]))}
    assert alone == "open"


def test_repetitions_count_in_no_contrast() -> None:
    """Networks that were trained again are named with their change, and count nowhere else."""

    def two(at: int) -> list[dict[str, Any]]:
        own = [(0.18, 0.182), (0.181, 0.182), (0.18, 0.183), (0.19, 0.184)]
        pairs = zip(PHOTO_ARMS, own, strict=False)
        return [probed(stand_in(), rule, 0, pair[at]) for (rule, _), pair in pairs]

    others = [probed(stand_in(), rule, 1, v) for rule, v in (("native", 0.18), ("angular", 0.191))]
    # The network of the file that is read last counts.
    evidence = Evidence(Records(), second=Records([*two(1), *two(0), *others]))
    note = repeated_note(evidence.every)
    assert "ProCo +0.20 / +0.20, Direct temperature +0.10 / +0.10, " in note
    effect = equal_gain(evidence.every)[0]
    assert effect.ours.mean == pytest.approx(1.05) and effect.networks == (2, 2)
    assert repeated_note(Records(others)) == ""


def test_printed_effects_of_imagenet() -> None:
    for arm, beta, readout, effect in (
        ("temperature", 0.0, "encoder", 22.93 - 23.05),
        ("angular", 1.5, "projection", 37.76 - 36.86),
        ("angular", 0.0, "classifier", 57.35 - 57.26),
    ):
        assert printed_effect("ResNet-50", arm, beta, readout) == pytest.approx(effect)
        assert printed_effect("ResNeXt-50", arm, beta, readout) is None
    outcome = photographs(Evidence(Records()))
    assert outcome.done[0] == 0 and outcome.draw is None
