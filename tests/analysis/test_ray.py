"""Passes over all rows on a Ray cluster of two workers, one of which is killed: the same result."""

import importlib
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

from embedding_files import write_parquet
from resultant._core import memory
from resultant._core.termination import TerminatedError
from resultant.analysis import candidate, ray as ray_engine
from resultant.classes.rule import REALIZATIONS
from resultant.cli import main as cli
from resultant.features import FeatureStore
from small_features import COUNTS, alike, small_features

pytest.importorskip("pyarrow")
DIM, ROWS = 8, sum(COUNTS)
# Imported by the fixture: the import takes seconds.
pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="needs ray")

fit = importlib.import_module("resultant.analysis.fit")


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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    """Two shards of training rows and two of held-out rows, each with several row groups."""
    folder, arrays = tmp_path_factory.mktemp("shards"), small_features(dim=DIM, noise=0.6)
    for split in ("train", "test"):
        z, y = (arrays[f"{split}/{name}"].chunk(2) for name in ("projection", "labels"))
        for i in range(2):
            columns = {"features": list(z[i].numpy()), "label": y[i].numpy()}
            write_parquet(folder / f"{split}-{i:05d}.parquet", columns, row_group_size=16)
    return folder


def dies_once(flag: Path, original: Any) -> Any:
    """A function that kills the first worker that calls it."""

    def dying(*arguments: Any) -> Any:
        try:
            with open(flag, "x") as file:
                file.write(str(os.getpid()))
        except FileExistsError:
            return original(*arguments)
        return os.kill(os.getpid(), signal.SIGKILL)

    return dying


@pytest.mark.slow
@pytest.mark.usefixtures("one_precision")
def test_the_command_gives_the_result_of_one_machine(
    folder: Path, workers: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """With sums per class on the cluster, and a worker that is killed while it predicts."""
    # Several tasks per pass; training rows do not fit in the memory of a search.
    monkeypatch.setattr(memory, "DEVICE_BYTES", 4 * DIM * ROWS // 2)
    monkeypatch.setattr(fit, "SEARCH_BYTES", 4 * DIM * ROWS // 2)
    results = []
    for engine in ("local", "ray"):
        if engine == "ray":
            dying = dies_once(tmp_path / "victim", candidate._predict)
            monkeypatch.setattr(candidate, "_predict", dying)
        out = tmp_path / "out"
        words = [str(folder / "*.parquet"), "--engine", engine, "--out", str(out)]
        words += ["--references", "none", "--temperature", "0.1"]
        assert cli.main(["analyze", *words]) == 0, capsys.readouterr().err
        results.append(json.loads((out / "results.json").read_text()))
        results[-1].pop("options")
    victim = int((tmp_path / "victim").read_text())
    assert victim != os.getpid()
    with pytest.raises(ProcessLookupError):
        os.kill(victim, 0)
    found = results[0]["features"][0]["methods"]
    assert {m["rows"] for m in found if m["key"] in REALIZATIONS} == {ROWS}
    assert "refined" in {m["key"] for m in found}
    alike(results[1], results[0], 1e-5, 1e-6)


@pytest.mark.slow
def test_rows_of_the_cluster(
    folder: Path, workers: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "DEVICE_BYTES", 20 * 4 * DIM)
    store = FeatureStore.open(folder)
    rows, x = ray_engine.ClusterRows(store.rows("train/features"), "x"), store["train/features"]
    for key in (slice(3, 9), slice(0, 0), torch.tensor([40, 3, 3]), slice(25, 30)):
        assert torch.equal(rows[key], x[key])
    assert rows.first == 25 and len(rows.held) == 20
    # Errors of workers take one line.
    z, y = np.random.default_rng(0).normal(size=(6, 5)), np.arange(6) % 2
    z[4, 2] = np.nan
    write_parquet(tmp_path / "train.parquet", {"x": list(z), "label": y}, row_group_size=2)
    rows = FeatureStore.open(tmp_path / "train.parquet").rows("train/x")
    with pytest.raises(ValueError, match=r"^expected x finite, got nan in row 4$"):
        ray_engine.ClusterRows(rows, "x")[torch.tensor([5, 4])]
    (tmp_path / "train.parquet").write_bytes(b"")
    with pytest.raises(ValueError, match=r"train\.parquet to be a whole .* got: [^\n]*$"):
        ray_engine.ClusterRows(rows, "x")[:3]


@pytest.mark.slow
def test_ray_does_not_take_sigterm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray ends the process with a stack of C++ instead of one line; and Ray may be missing."""
    missing = r"^expected ray: pip install 'resultant\[ray\]'$"
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "ray", None)
        with pytest.raises(ValueError, match=missing):
            ray_engine.cluster().__enter__()
    fake = Mock()
    fake.is_initialized.return_value = False
    fake.init.side_effect = lambda *_, **__: signal.signal(signal.SIGTERM, signal.SIG_IGN)
    monkeypatch.setattr(ray_engine, "_ray", lambda: fake)
    before = signal.getsignal(signal.SIGTERM)
    with ray_engine.cluster():
        assert signal.getsignal(signal.SIGTERM) is before
    assert fake.shutdown.called
    # While Ray starts, its own handler ends the process.
    fake.init.side_effect = SystemExit(15)
    with pytest.raises(TerminatedError), ray_engine.cluster():
        pass
