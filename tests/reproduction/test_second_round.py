"""Groups 2 to 4 of the protocol: trained in miniature, and judged from made-up records."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import ttest_ind

from images.photos import write_folder
from paper_evidence import probed
from resultant.images.opening import open_images
from resultant.training.config import TrainConfig
from resultant.training.records import read_lines
from resultant_reproduction import Evidence, Records, run, summarize
from resultant_reproduction.beyond import listed
from resultant_reproduction.plan import PLANS, Plan, PlannedJob, stand_in
from tiny_cifar import tiny_cifar, tiny_config

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


def test_effects_that_the_document_lists() -> None:
    """Direction against the printed effect; of a network trained twice one record counts."""

    def two(*angular: float) -> list[dict[str, Any]]:
        rules = {"native": (0.30, 0.31, 0.305), "angular": angular}
        return [probed(stand_in(), r, s, v) for r, own in rules.items() for s, v in enumerate(own)]

    higher, lower = two(0.33, 0.34, 0.338), two(0.28, 0.281, 0.282)
    known = Evidence(Records(), second=Records([*lower, *higher]))
    encoder, projection = re.split(r"(?<=\)), ", listed("trained", known))
    arms = (
        [100 * r["probes"]["long_tail"]["encoder"]["accuracy"] for r in own]
        for own in (higher[3:], higher[:3])
    )
    low, high = ttest_ind(*arms, equal_var=False).confidence_interval()
    assert encoder == f"encoder +3.10 [{low:+.2f}, {high:+.2f}] [3 and 3] (same direction)"
    assert projection == encoder.replace("encoder", "projection")
    assert "(other direction)" in listed("trained", Evidence(Records(), second=Records(lower)))
    alone = listed("trained", Evidence(Records(), second=Records(higher[2:4])))
    assert alone.startswith("encoder +2.50 [1 and 1] (open), projection")
    assert listed("frozen", known) == ""
