"""Records of trainings: selection, and files."""

from __future__ import annotations

import json
import math
import os
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from resultant.training.config import TrainConfig
from resultant.training.records import append, identity, read_lines
from resultant_reproduction import Records
from resultant_reproduction.plan import controlled
from training_records import record


def of(config: TrainConfig) -> str:
    return identity(config, "native", 0.0)


def test_records_are_found_by_what_was_trained() -> None:
    config = controlled("cifar10", 100)
    old = record(config, "native", 0.0, 1, last={"accuracy": 0.5})
    for name in ("clip", "fuse", "leave_out"):
        del old["config"][name]
    short = record(controlled("cifar10", 100, epochs=3), "native", 0.0, 2)
    records = Records([old, short, record(config, "angular", 0.5, 1)])
    assert list(records.seeds(config)) == [1]
    assert records.values(config, "native", 1.0, "last.accuracy") == {1: 50.0}
    assert records.values(config, "native", 1.0, "last.loss") == {}
    # Native knows neither a strength nor a family, the others do.
    power = controlled("cifar10", 100, family="power")
    assert identity(config, "native", 0.0) == identity(power, "native", 1.0)
    assert identity(config, "temperature", 0.0) != identity(power, "temperature", 0.0)
    # Nor is there a weight of a classifier that is not there, or a milestone on a cosine.
    for same in ({"alpha": 0.5}, {"milestones": (0.5,)}, {"classifier_prior": 0.0}):
        assert identity(controlled("cifar10", 100, **same), "native", 0.0) == of(config)
    for other in ({"alpha": 0.5}, {"classifier_prior": 0.0}, {"classifier_views": 1}):
        joint = controlled("cifar10", 100, objective="joint")
        assert of(replace(joint, **other)) != of(joint)
    assert of(replace(config, schedule="step", milestones=(0.5,))) != of(
        replace(config, schedule="step")
    )
    assert not records.seeds(config, "angular", 0.0) and records.seeds(config, "angular", 0.5)
    for other in (controlled("cifar10", 50), controlled("cifar10", 100, prior=0.0)):
        assert not records.seeds(other)


def test_the_fuller_record_counts() -> None:
    config = controlled("cifar10", 100)
    full = record(config, "native", 0.0, 0, analysis={}, plan="main")
    bare = record(config, "native", 0.0, 0, probes={"long_tail": {}, "balanced": {}})
    for both in ([full, bare], [bare, full]):
        records = Records(both)
        assert records.seeds(config)[0]["plan"] == "main" and records.set_aside == [bare]
    followed = {**full, "trajectory": {}, "plan": "power"}
    for both in ([full, followed], [followed, full]):
        assert Records(both).seeds(config)[0]["plan"] == "power"
    # The rules at the last state count more than the analysis, and that than a trajectory.
    parts: list[dict[str, Any]] = [{"ended": {}}, {"analysis": {}}, {"trajectory": {}}, {}]
    for more, less in pairwise(parts):
        for both in ([more, less], [less, more]):
            built = [record(config, "native", 0.0, 0, **part) for part in both]
            assert more.keys() <= Records(built).seeds(config)[0].keys()
    twice = Records([bare, {**bare, "plan": "again"}])
    assert twice.seeds(config)[0]["plan"] == "again" and twice.set_aside == [bare]


def test_a_training_is_not_set_aside_by_itself() -> None:
    """A copy of a record, or a fuller record of the same training, is no second training."""
    config = controlled("cifar10", 100)
    first = record(config, "native", 0.0, 0, job_seconds=7.5)
    again = record(config, "native", 0.0, 0, job_seconds=8.5, analysis={})
    fuller = {**first, "analysis": {}, "trajectory": {}}
    both = Records([first, again, first, again])
    assert both.trainings(config) == [again, first]
    assert Records([first, again, fuller]).trainings(config) == [fuller, again]
    assert Records([first, fuller]).trainings(config) == [fuller]


def test_append_replaces_and_refuses(tmp_path: Path) -> None:
    config, path = controlled("cifar10", 100), tmp_path / "main.jsonl"
    append(path, [record(config, "native", 0.0, seed, loss=1.0) for seed in (0, 1)])
    append(path, [record(config, "native", 0.0, 1, loss=2.0)])
    assert [r["loss"] for r in read_lines(path)] == [1.0, 2.0]
    config_of = json.loads(path.read_text().splitlines()[0])["config"]
    assert identity({**config_of, "imbalance": 100}, "native", 0) == identity(config, "native", 0.0)
    # Two records of the same training, and another training of the same run.
    message = {"loss": 2.0, "job_seconds": 7.5}
    append(path, [record(config, "native", 0.0, 1, **message, probes=spaces(0.5))])
    append(path, [record(config, "native", 0.0, 1, **message)])
    assert read_lines(path)[1]["probes"] == spaces(0.5)
    more = {"balanced": spaces(0.6)["long_tail"]}
    append(path, [record(config, "native", 0.0, 1, **message, probes=more)])
    assert read_lines(path)[1]["probes"] == spaces(0.5) | more
    other = {"long_tail": {"projection": {"accuracy": 0.7}}}
    append(path, [record(config, "native", 0.0, 1, **message, probes=other)])
    both = spaces(0.5)["long_tail"] | other["long_tail"]
    assert read_lines(path)[1]["probes"] == {"long_tail": both, **more}
    append(path, [record(config, "native", 0.0, 1, loss=2.0, job_seconds=7.6)])
    assert "probes" not in read_lines(path)[1]
    assert os.listdir(tmp_path) == ["main.jsonl"]
    path.write_text(path.read_text() + '{"run": 1}\n')
    with pytest.raises(ValueError, match=r"expected a record at .*main.jsonl:3, got"):
        Records.read(tmp_path)


def spaces(value: object) -> dict[str, Any]:
    return {"long_tail": {"encoder": {"accuracy": value}}}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"seed": "7"}, r"expected seed to be an integer >= 0, got '7' at {}:2"),
        ({"seed": 7.0}, r"expected seed to be an integer >= 0, got 7.0 at {}:2"),
        ({"seed": True}, r"expected seed to be an integer >= 0, got True at {}:2"),
        ({"seed": -1}, r"expected seed >= 0, got -1 at {}:2"),
        ({"realization": "angulr"}, r"expected realization to be one of .*, got 'angulr' at {}:2"),
        ({"beta": "0.5"}, r"expected beta to be a finite number, got '0.5' at {}:2"),
        (
            {"probes": spaces(68.76)},
            r"expected probes.long_tail.encoder.accuracy in \[0, 1\] at {}:2, got 68.76",
        ),
        ({"probes": spaces(math.nan)}, r"encoder.accuracy in \[0, 1\] at {}:2, got nan"),
        ({"probes": spaces(math.inf)}, r"encoder.accuracy in \[0, 1\] at {}:2, got inf"),
        ({"probes": spaces("0.6876")}, r"encoder.accuracy in \[0, 1\] at {}:2, got '0.6876'"),
        ({"probes": spaces(True)}, r"encoder.accuracy in \[0, 1\] at {}:2, got True"),
        ({"last": {"best_accuracy": -0.1}}, r"last.best_accuracy in \[0, 1\] at {}:2, got -0.1"),
        ({"frozen": {"encoder": {"mle": {"native": 51.0}}}}, r"encoder.mle.native in .*, got 51.0"),
        (
            {"analysis": {"encoder": {"mle": {"grid": {"angular 0 1": 2}}}}},
            r"expected analysis.encoder.mle.grid.angular 0 1 in \[0, 1\] at {}:2, got 2",
        ),
    ],
)
def test_bad_records_are_refused(tmp_path: Path, more: dict[str, Any], message: str) -> None:
    """With the place, what was expected there, and what arrived."""
    path = tmp_path / "main.jsonl"
    good = record(controlled("cifar10", 100), "native", 0.0, 0, probes=spaces(0.6876))
    path.write_text(f"{json.dumps(good)}\n{json.dumps({**good, 'seed': 1} | more)}\n")
    with pytest.raises(ValueError, match=message.format(re.escape(str(path)))):
        Records.read(tmp_path)


def test_numbers_at_the_edge_are_read(tmp_path: Path) -> None:
    """Accuracies of 0 and 1 and unknown ones, and other numbers of any size."""
    config, path = controlled("cifar10", 100), tmp_path / "main.jsonl"
    last = {"accuracy": 0, "best_accuracy": 1.0, "loss": 71.5, "kappa_max": math.inf}
    append(path, [record(config, "native", 0.0, 0, last=last, probes=spaces(None))])
    records = Records.read(tmp_path)
    assert records.values(config, "native", 0.0, "last.best_accuracy") == {0: 100.0}
    assert records.values(config, "native", 0.0, "last.accuracy") == {0: 0.0}
    assert records.values(config, "native", 0.0, "probes.long_tail.encoder.accuracy") == {}
    # What is not finite has no mean and no spread.
    assert records.values(config, "native", 0.0, "last.kappa_max") == {}
