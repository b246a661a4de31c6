"""Settings of tab:training-hyperparameters, schedules, records of runs, and refused values."""

import json
import math
import os
import re
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from resultant.training.config import Run
from resultant_reproduction.cifar.job import CifarJob
from resultant_reproduction.recipes.config import PaperConfig, preset
from resultant_reproduction.recipes.records import append, identity, read_folder, read_lines


def test_schedules() -> None:
    config = preset("cifar-controlled")
    expected = [0.15 * (1 + math.cos(math.pi * epoch / 200)) for epoch in range(200)]
    assert [config.rate(epoch) for epoch in range(200)] == pytest.approx(expected, rel=1e-14)
    # As every training on photographs.
    rates = [preset("imagenet-lt").rate(epoch) for epoch in (0, 44, 89)]
    expected = [0.05 * (1 + math.cos(math.pi * (epoch + 1) / 91)) for epoch in (0, 44, 89)]
    assert rates == pytest.approx(expected, rel=1e-13)
    config = preset("cifar-official")
    warm = [0.06, 0.12, 0.18, 0.24, 0.3]
    rates = [config.rate(epoch) for epoch in range(200)]
    assert rates == pytest.approx(warm + [0.3] * 155 + [0.03] * 20 + [0.003] * 20)


CIFAR_RUN, IMAGES = partial(preset, "cifar-controlled"), partial(preset, "imagenet-lt")
JOB = partial(CifarJob, config=PaperConfig(), runs=(Run(),), out=Path("out"))
# Settings that are refused, and the fact in the message.
REFUSED: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (CIFAR_RUN, {"size": 24}, "size 32 for cifar10, got 24"),
    (CIFAR_RUN, {"alpha": "1"}, "alpha to be a finite number, got '1'"),
    (CIFAR_RUN, {"architecture": 32}, "architecture to be a name, got 32"),
    (CIFAR_RUN, {"dataset": "mnist"}, "dataset to be one of .* got 'mnist'"),
    (CIFAR_RUN, {"clip": 1.0}, "clip only for other datasets than CIFAR, got 1.0 for cifar10"),
    (CIFAR_RUN, {"rate": 1, "tau": 1}, "fields of PaperConfig, got rate, tau"),
    (IMAGES, {"imbalance": 10.0}, "imbalance only for CIFAR, got 10.0 for imagenet-lt"),
    (IMAGES, {"architecture": "resnet32"}, "a larger architecture for the other datasets"),
    (partial(preset, "cifar"), {}, r"one of cifar-controlled, .* got 'cifar'"),
    (JOB, {"stack": 0}, "stack >= 1, got 0"),
    (JOB, {"gradient_epochs": (1, 201)}, r"gradient epochs in \[1, 200\], got 201"),
    (
        JOB,
        {"config": PaperConfig(contrastive="supcon"), "runs": (Run("angular"),)},
        "native runs of supcon, which has no gains to edit, got angular-beta0",
    ),
]


@pytest.mark.parametrize(("make", "changes", "message"), REFUSED)
def test_refused(make: Callable[..., Any], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(**changes)


def test_runs_of_one_seed_are_neighbours(tmp_path: Path) -> None:
    runs = (Run(seed=1), Run("angular"), Run("angular", seed=1), Run())
    job = CifarJob(PaperConfig(), runs, tmp_path)
    assert [run.seed for run in job.runs] == [0, 0, 1, 1]


CONFIG = preset("cifar-controlled")


def record(seed: int, **more: Any) -> dict[str, Any]:
    return {**asdict(Run("native", seed=seed)), "config": asdict(CONFIG), **more}


def probes(value: object) -> dict[str, Any]:
    return {"long_tail": {"encoder": {"accuracy": value}}}


def of(config: PaperConfig) -> str:
    return identity(config, "native", 0.0)


def test_identity_ignores_settings_without_effect() -> None:
    power = replace(CONFIG, family="power")
    assert of(CONFIG) == identity(power, "native", 1.0)
    assert identity(CONFIG, "temperature", 0.0) != identity(power, "temperature", 0.0)
    stored = json.loads(json.dumps(asdict(CONFIG))) | {"imbalance": 100}
    # A file written before a setting has its default.
    for name in ("clip", "fuse", "leave_out"):
        del stored[name]
    assert identity(stored, "native", 0) == of(CONFIG)
    for same in ({"alpha": 0.5}, {"milestones": (0.5,)}, {"classifier_prior": 0.0}):
        assert of(replace(CONFIG, **same)) == of(CONFIG)
    joint, steps = replace(CONFIG, objective="joint"), replace(CONFIG, schedule="step")
    assert of(replace(joint, classifier_prior=joint.prior)) == of(joint)
    for other in ({"alpha": 0.5}, {"classifier_prior": 0.0}, {"classifier_views": 1}):
        assert of(replace(joint, **other)) != of(joint)
    assert of(replace(steps, milestones=(0.5,))) != of(steps)


def test_append_replaces_records_of_the_same_run(tmp_path: Path) -> None:
    path = tmp_path / "main.jsonl"
    append(path, [record(seed, loss=1.0) for seed in (0, 1)])
    append(path, [record(1, loss=2.0)])
    assert [r["loss"] for r in read_folder(tmp_path)] == [1.0, 2.0]
    # Records of the same training, by its seconds, are merged.
    same = {"loss": 2.0, "job_seconds": 7.5}
    append(path, [record(1, **same, probes=probes(0.5))])
    append(path, [record(1, **same)])
    assert read_lines(path)[1]["probes"] == probes(0.5)
    balanced = {"balanced": probes(0.6)["long_tail"]}
    append(path, [record(1, **same, probes=balanced)])
    projection = {"long_tail": {"projection": {"accuracy": 0.7}}}
    append(path, [record(1, **same, probes=projection)])
    long_tail = probes(0.5)["long_tail"] | projection["long_tail"]
    assert read_lines(path)[1]["probes"] == {"long_tail": long_tail, **balanced}
    # Another training of the same run replaces the record.
    append(path, [record(1, loss=2.0, job_seconds=7.6)])
    assert "probes" not in read_lines(path)[1]
    assert os.listdir(tmp_path) == ["main.jsonl"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ('{"run": 1}', "expected a record at {}:2, got"),
        ({"seed": "7"}, r"expected seed to be an integer, got '7' at {}:2"),
        ({"seed": -1}, r"expected seed >= 0, got -1 at {}:2"),
        ({"realization": "angulr"}, r"expected realization to be one of .*, got 'angulr' at {}:2"),
        (
            {"probes": probes(68.76)},
            r"expected probes.long_tail.encoder.accuracy in \[0, 1\] at {}:2, got 68.76",
        ),
        ({"probes": probes(True)}, r"encoder.accuracy in \[0, 1\] at {}:2, got True"),
        ({"frozen": {"encoder": {"mle": {"native": 51.0}}}}, r"encoder.mle.native in .*, got 51.0"),
    ],
)
def test_wrong_values_are_refused(tmp_path: Path, more: Any, message: str) -> None:
    path = tmp_path / "main.jsonl"
    good = record(0, probes=probes(0.6876))
    line = more if isinstance(more, str) else json.dumps({**good, "seed": 1} | more)
    path.write_text(f"{json.dumps(good)}\n{line}\n")
    with pytest.raises(ValueError, match=message.format(re.escape(str(path)))):
        read_folder(tmp_path)
    assert read_folder(tmp_path / "missing") == []
