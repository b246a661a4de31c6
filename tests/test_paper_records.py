"""Records of trainings: how they are found, and files of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from resultant.paper import Records
from resultant.paper.plan import controlled
from resultant.records import append, identity, read_lines
from training_records import record


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
    twice = Records([bare, {**bare, "plan": "again"}])
    assert twice.seeds(config)[0]["plan"] == "again" and twice.set_aside == [bare]


def test_append_replaces_and_refuses(tmp_path: Path) -> None:
    config, path = controlled("cifar10", 100), tmp_path / "main.jsonl"
    append(path, [record(config, "native", 0.0, seed, loss=1.0) for seed in (0, 1)])
    append(path, [record(config, "native", 0.0, 1, loss=2.0)])
    assert [r["loss"] for r in read_lines(path)] == [1.0, 2.0]
    assert os.listdir(tmp_path) == ["main.jsonl"]
    path.write_text(path.read_text() + '{"run": 1}\n')
    with pytest.raises(ValueError, match=r"expected a record at .*main.jsonl:3, got"):
        Records.read(tmp_path)
