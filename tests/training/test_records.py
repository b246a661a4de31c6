"""Records of training runs: identity, files, and refused values."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from resultant.training.config import Run, TrainConfig, preset
from resultant.training.records import append, identity, read_folder, read_lines

CONFIG = preset("cifar-controlled")


def record(seed: int, **more: Any) -> dict[str, Any]:
    return {**asdict(Run("native", seed=seed)), "config": asdict(CONFIG), **more}


def probes(value: object) -> dict[str, Any]:
    return {"long_tail": {"encoder": {"accuracy": value}}}


def of(config: TrainConfig) -> str:
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


def test_a_line_that_is_no_record_is_named(tmp_path: Path) -> None:
    path = tmp_path / "main.jsonl"
    append(path, [record(0)])
    path.write_text(path.read_text() + '{"run": 1}\n')
    with pytest.raises(ValueError, match=r"expected a record at .*main.jsonl:2, got"):
        read_folder(tmp_path)
    assert read_folder(tmp_path / "missing") == []


@pytest.mark.parametrize(
    ("more", "message"),
    [
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
def test_wrong_values_are_refused(tmp_path: Path, more: dict[str, Any], message: str) -> None:
    path = tmp_path / "main.jsonl"
    good = record(0, probes=probes(0.6876))
    path.write_text(f"{json.dumps(good)}\n{json.dumps({**good, 'seed': 1} | more)}\n")
    with pytest.raises(ValueError, match=message.format(re.escape(str(path)))):
        read_lines(path)
