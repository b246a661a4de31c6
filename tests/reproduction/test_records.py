"""Records of trainings: selection, and files."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from resultant_reproduction import Records
from resultant_reproduction.plan import controlled
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
    # The rules at the last state count more than the analysis, and that than a trajectory.
    parts: list[dict[str, Any]] = [{"ended": {}}, {"analysis": {}}, {"trajectory": {}}, {}]
    for more, less in pairwise(parts):
        for both in ([more, less], [less, more]):
            built = [record(config, "native", 0.0, 0, **part) for part in both]
            assert more.keys() <= Records(built).seeds(config)[0].keys()
    twice = Records([bare, {**bare, "plan": "again"}])
    assert twice.seeds(config)[0]["plan"] == "again" and twice.set_aside == [bare]

    # A copy of a record, or a fuller record of the same training, is no second training.
    first = record(config, "native", 0.0, 0, job_seconds=7.5)
    again = record(config, "native", 0.0, 0, job_seconds=8.5, analysis={})
    fuller = {**first, "analysis": {}, "trajectory": {}}
    assert Records([first, again, first, again]).trainings(config) == [again, first]
    assert Records([first, again, fuller]).trainings(config) == [fuller, again]
    assert Records([first, fuller]).trainings(config) == [fuller]


def test_bad_records_are_refused(tmp_path: Path) -> None:
    good = json.dumps(record(controlled("cifar10", 100), "native", 0.0, 0))
    (tmp_path / "main.jsonl").write_text(f'{good}\n{{"run": 1}}\n')
    with pytest.raises(ValueError, match=r"expected a record at .*main.jsonl:2, got"):
        Records.read(tmp_path)
