"""Frozen features on a Ray cluster of two workers, one of which may die: the same numbers."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from frozen_data import COUNTS, PER_CLASS, P, features
from resultant._core import chunks
from resultant._core.termination import TerminatedError
from resultant.analysis import QUESTIONS, FrozenSpace, analyze_space, load_space
from resultant.analysis import ray as ray_engine
from resultant.analysis.decisions import decide, grid_policies
from resultant.cli import main as cli
from resultant.features import partition as pieces
from resultant.features.partition import open_store
from resultant.features.prepare import prepare
from resultant.features.store import FeatureStore

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
# Imported by the fixture: the import takes seconds.
pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="needs ray")


@pytest.fixture(scope="module")
def workers() -> Iterator[None]:
    """A cluster of two workers that the engine connects to."""
    import ray

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        # By default Ray's workers give way to other processes: the other tests would starve them.
        patch.setenv("RAY_worker_niceness", "0")
        patch.delenv("RAY_ADDRESS", raising=False)
        quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
        # A new one, even if another runs on this machine.
        ray.init("local", num_cpus=2, **quiet)
        with ray_engine.cluster():
            yield
        # The engine leaves a cluster that it did not start.
        assert ray.is_initialized()
        ray.shutdown()


def write(path: Path, z: Any, y: Any, group: int = 64) -> None:
    path.parent.mkdir(exist_ok=True)
    table = pa.table({"features": pa.array([list(row) for row in np.asarray(z)]), "label": y})
    pq.write_table(table, path, row_group_size=group)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    """Three shards of training rows and two of held-out rows, each with several row groups."""
    folder = tmp_path_factory.mktemp("shards")
    held = torch.full_like(COUNTS, PER_CLASS)
    for split, rows, number in (
        ("train", features(COUNTS), 3),
        ("test", features(held, seed=1), 2),
    ):
        z, y = (a.chunk(number) for a in (rows[0].float(), rows[1]))
        for i in range(number):
            write(folder / f"{split}-{i:05d}.parquet", z[i].numpy(), y[i].numpy())
    return folder


@pytest.fixture(scope="module")
def local(folder: Path) -> FrozenSpace:
    return load_space(FeatureStore.open(folder), "features")


@pytest.fixture
def small_pieces(monkeypatch: Any) -> None:
    """One row group per piece: 70 rows do not fit."""
    monkeypatch.setattr(chunks, "TASK_BYTES", 70 * 4 * P)


@pytest.fixture
def tasks(monkeypatch: Any) -> None:
    """Several tasks per split, but few: tasks of a cluster take long to start."""
    monkeypatch.setattr(chunks, "TASK_BYTES", 400 * 4 * P)


def alike(actual: Any, expected: Any, where: str = "") -> None:
    """Compare results: floats up to rounding of float32 scores, everything else exactly."""
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys(), where
        for key in expected:
            alike(actual[key], expected[key], f"{where}.{key}")
    elif isinstance(expected, list):
        assert len(actual) == len(expected), where
        for i, (a, b) in enumerate(zip(actual, expected, strict=True)):
            alike(a, b, f"{where}[{i}]")
    elif isinstance(expected, float):
        assert actual == pytest.approx(expected, rel=2e-6, abs=2e-6, nan_ok=True), where
    else:
        assert actual == expected, where


def plain(analysis: Any) -> dict[str, Any]:
    return {k: v for k, v in analysis.to_dict().items() if k != "seconds"}


def test_pieces_are_row_groups_in_order(folder: Path, small_pieces: None) -> None:
    store = open_store(folder / "*.parquet")
    y, z = store["train/labels"], FeatureStore.open(folder)["train/features"]
    whole = sum(-(-len(part) // 64) for part in y.chunk(3))
    # The first and the third row group of the first file.
    few = torch.tensor([3, 60, 130, 131])
    for chosen, number in ((None, whole), (torch.arange(0, len(y), 3), whole), (few, 2)):
        result = pieces.divide(store.rows("train/features"), y, chosen)
        assert len(result) == number
        read = [part for piece in result for part in piece.read()]
        at, rows, labels = map(torch.cat, zip(*read, strict=True))
        chosen = torch.arange(len(y)) if chosen is None else chosen
        assert torch.equal(at, torch.arange(len(chosen)))
        assert torch.equal(rows, z[chosen]) and torch.equal(labels, y[chosen])


def test_files_of_a_url(folder: Path, small_pieces: None) -> None:
    store = open_store(f"{folder.as_uri()}/train-*.parquet")
    result = pieces.divide(store.rows("train/features"), store["train/labels"])
    result = torch.cat([z for piece in result for _, z, _ in piece.read()])
    assert torch.equal(result, FeatureStore.open(folder)["train/features"])


def test_small_files_share_a_piece(folder: Path) -> None:
    store = open_store(str(folder))
    (piece,) = pieces.divide(store.rows("train/features"), store["train/labels"])
    assert len(piece.labels) == int(COUNTS.sum()) and piece.first == 0
    assert [len(places) for _, places in piece.parts] == [len(p) for p in piece.labels.chunk(3)]


def test_one_split_is_held_out_as_locally(folder: Path, small_pieces: None) -> None:
    """Selected rows of files stay selected in the pieces."""
    stores = (open_store(folder / "train-*.parquet"), FeatureStore.open(folder))
    there = prepare(stores[0]).store
    rows = torch.cat([stores[1]["train/features"]])
    here = FeatureStore("here", {"features": rows, "labels": stores[1]["train/labels"]})
    for split in ("train", "test"):
        expected = prepare(here).store[f"{split}/features"]
        actual = pieces.divide(there.rows(f"{split}/features"), there[f"{split}/labels"])
        assert torch.equal(torch.cat([z for p in actual for _, z, _ in p.read()]), expected)


def dies_once(flag: Path, original: Any) -> Any:
    """A function that kills the first worker that calls it."""

    def dying(*arguments: Any, **options: Any) -> Any:
        try:
            with open(flag, "x") as file:
                file.write(str(os.getpid()))
        except FileExistsError:
            return original(*arguments, **options)
        return os.kill(os.getpid(), signal.SIGKILL)

    return dying


def victim(flag: Path) -> int:
    pid = int(flag.read_text())
    assert pid != os.getpid()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    return pid


@pytest.mark.slow
def test_a_killed_worker_is_survived(
    folder: Path,
    local: FrozenSpace,
    workers: None,
    tasks: None,
    tmp_path: Path,
    monkeypatch: Any,
) -> None:
    for name in ("_sums", "_apply"):
        monkeypatch.setattr(ray_engine, name, dies_once(tmp_path / name, getattr(ray_engine, name)))
    steps: dict[str, float] = {}
    space = ray_engine.fit_space(open_store(folder), "features", progress=steps.__setitem__)
    assert torch.equal(space.statistics.count, local.statistics.count)
    torch.testing.assert_close(space.statistics.total, local.statistics.total, rtol=0, atol=1e-12)
    torch.testing.assert_close(space.state.kappa, local.state.kappa, rtol=1e-11, atol=0)
    policies = grid_policies()
    result = ray_engine.decide_all(space, policies, progress=steps.__setitem__)
    expected = decide(local, policies)
    assert result.prediction.keys() == expected.prediction.keys()
    for policy in expected.prediction:
        assert torch.equal(result.prediction[policy], expected.prediction[policy])
        torch.testing.assert_close(result.nll[policy], expected.nll[policy])
        torch.testing.assert_close(result.confidence[policy], expected.confidence[policy])
    assert steps == {"statistics": 1, "decisions": 1}
    assert victim(tmp_path / "_sums") != victim(tmp_path / "_apply")


@pytest.mark.slow
def test_questions_whose_samples_do_not_fit_are_left_out(
    folder: Path, local: FrozenSpace, workers: None, monkeypatch: Any
) -> None:
    questions = ("gradients", "same_state", "typical")
    space = ray_engine.fit_space(open_store(folder), "features")
    held = 5 * len(COUNTS)
    monkeypatch.setattr(chunks, "SAMPLE_BYTES", 4 * P * held)
    result = ray_engine.analyze_on_cluster(space, questions)
    assert set(result.notes or {}) == {"gradients", "typical"}
    assert f"fit in {4 * P * held:,} bytes" in (result.notes or {})["typical"]
    alike(plain(result)["same_state"], plain(analyze_space(local, questions))["same_state"])


@pytest.mark.slow
def test_all_questions_have_the_local_answers(
    folder: Path, workers: None, tasks: None, tmp_path: Path, capsys: Any
) -> None:
    pytest.importorskip("bokeh")
    pytest.importorskip("tyro")
    results = []
    for path, engine in ((folder / "*.parquet", "ray"), (folder, "local")):
        out = tmp_path / engine
        words = ["analyze", str(path), "--engine", engine, "--out", str(out)]
        words += ["--temperature", "0.1", "--references", "none"]
        assert cli.main(words) == 0, capsys.readouterr().err
        results.append(json.loads((out / "results.json").read_text())["features"]["features"])
        results[-1].pop("seconds")
        # The advice is local, and its rule may add betas and priors to the grid.
        results[-1].pop("advice")
    assert results[0]["notes"] == {} and all(results[0][name] for name in QUESTIONS)
    alike(*results)


def refused(capsys: Any, where: Path, out: Path) -> str:
    assert cli.main(["analyze", str(where), "--engine", "ray", "--out", str(out)]) == 2
    # After the lines of progress.
    *steps, line = capsys.readouterr().err.splitlines()
    assert all(" s  " in step for step in steps) and not out.exists()
    return line


@pytest.mark.slow
def test_errors_take_one_line(workers: None, tmp_path: Path, capsys: Any) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("tyro")
    out, y = tmp_path / "out", [0, 0, 1, 1]
    z = np.random.default_rng(0).normal(size=(4, 5))
    unseen = tmp_path / "unseen"
    write(unseen / "train.parquet", z, y)
    write(unseen / "test.parquet", z, [0, 0, 1, 3])
    assert "got class 3 at row 3" in refused(capsys, unseen / "*.parquet", out)
    mixed = tmp_path / "mixed"
    write(mixed / "train-0.parquet", z, y)
    write(mixed / "train-1.parquet", z[:, :4], y)
    line = refused(capsys, mixed / "*.parquet", out)
    assert "[N, 5]" in line and "[N, 4]" in line and "train-1.parquet" in line
    # Errors of workers.
    for split, row in (("train", 2), ("test", 1)):
        zero = tmp_path / f"zero-{split}"
        for name in ("train", "test"):
            vectors = z.copy()
            vectors[row] *= name != split
            write(zero / f"{name}.parquet", vectors, y)
        line = refused(capsys, zero / "*.parquet", out)
        rule = f"features of {zero / split}.parquet without zero vectors"
        assert line.endswith(f"expected {rule}, got one in row {row}")
    nothing = refused(capsys, tmp_path / "nothing" / "*.parquet", out)
    assert "expected Parquet files at" in nothing
    (tmp_path / "a.npy").write_bytes(b"")
    assert "got a.npy" in refused(capsys, tmp_path / "a.npy", out)


def test_splits_in_names_of_folders(tmp_path: Path) -> None:
    z, y = np.eye(4), [0, 0, 1, 1]
    for split in ("train", "test"):
        write(tmp_path / split / "0.parquet", z, y)
    store = open_store(tmp_path / "*" / "*.parquet")
    assert store.splits == ("test", "train")
    assert open_store(tmp_path / "test" / "*.parquet").splits == ("train",)


@pytest.mark.slow
def test_ray_does_not_take_sigterm(monkeypatch: Any) -> None:
    """Ray ends the process with a stack of C++ instead of the line of the command."""
    fake = Mock()
    fake.is_initialized.return_value = False
    fake.init.side_effect = lambda **_: signal.signal(signal.SIGTERM, signal.SIG_IGN)
    monkeypatch.setattr(ray_engine, "_ray", lambda: fake)
    before = signal.getsignal(signal.SIGTERM)
    with ray_engine.cluster():
        assert signal.getsignal(signal.SIGTERM) is before
    assert fake.shutdown.called
    # While Ray starts, its own handler ends the process.
    fake.init.side_effect = SystemExit(15)
    with pytest.raises(TerminatedError), ray_engine.cluster():
        pass


def test_without_ray(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(ValueError, match=r"^expected ray: pip install resultant\[ray\]$"),
        ray_engine.cluster(),
    ):
        pass
