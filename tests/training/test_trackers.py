"""Metrics of a training in TensorBoard, MLflow and Weights & Biases."""

# pyright: reportMissingImports=false

import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock, Mock, call as called

import pytest

from cli.conftest import Shown, call
from images.photos import write_folder
from resultant.cli.progress import EpochProgress
from resultant.training.config import Run, TrainConfig
from resultant.training.job import Job
from resultant.training.trackers import TRACKERS
from tiny_cifar import metrics

COMMAND = (
    "train images --architecture test_resnet --size 32 --dim 8 --epochs 2 --batch-size 8 "
    "--device cpu --workers 0 --checkpoint-every 1 --data data --out out"
)
TUNE = (
    "tune --model test_resnet --no-pretrained --size 32 --validation 0.3 --device cpu --data data"
)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_folder(tmp_path / "data", {"a": 14})
    return write_folder(tmp_path / "data", {"b": 12}, first=100)


def stub(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module that records what is called."""
    module: Any = MagicMock(spec=ModuleType, __spec__=object())
    for function in ("start_run", "log_params", "log_metrics", "end_run", "init"):
        setattr(module, function, MagicMock())
    module.start_run.return_value.info.run_id = "run-1"
    module.init.return_value.id = "run-1"
    monkeypatch.setitem(sys.modules, name, module)
    return module


def logged() -> list[dict[str, float]]:
    return [
        {f"{k}/native-seed0": v for k, v in line.items() if isinstance(v, float)}
        for line in metrics(Path("out/native-seed0"))
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("data")
def test_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted after the first epoch, a job continues its run."""
    mlflow = stub("mlflow", monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(EpochProgress, "__call__", Mock(side_effect=KeyboardInterrupt))
        assert call(f"{COMMAND} --log mlflow") == 130
    assert mlflow.start_run.call_args == called(run_id=None, run_name="native-seed0")
    (settings,) = mlflow.log_params.call_args.args
    assert settings["architecture"] == "test_resnet" and settings["realization"] == "native"
    assert call(f"{COMMAND} --log mlflow") == 0
    assert mlflow.start_run.call_args == called(run_id="run-1", run_name=None)
    assert mlflow.log_params.call_count == 1
    expected = [called(line, step=k + 1) for k, line in enumerate(logged())]
    assert mlflow.log_metrics.call_args_list == expected and len(expected) == 2
    assert "accuracy/native-seed0" in expected[0].args[0]
    # A finished job begins no run.
    assert call(f"{COMMAND} --log mlflow") == 0
    assert mlflow.start_run.call_count == mlflow.end_run.call_count == 2


def test_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = stub("wandb", monkeypatch)
    tracker = TRACKERS["wandb"](tmp_path, {"dim": 8}, 0)
    options = wandb.init.call_args.kwargs
    assert options["name"] == tmp_path.name and options["id"] is None
    assert options["config"] == {"dim": 8}
    tracker.write({"loss/native-seed0": 2.0}, 1)
    tracker.close()
    run = wandb.init.return_value
    assert run.log.call_args_list == [called({"loss/native-seed0": 2.0}, step=1)]
    assert run.finish.call_count == 1
    TRACKERS["wandb"](tmp_path, {}, 1)
    assert wandb.init.call_args.kwargs["id"] == "run-1"


def test_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values after the checkpoint of a resumed job are removed."""
    board = MagicMock()
    stub_of_torch = MagicMock(SummaryWriter=board)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", stub_of_torch)
    TRACKERS["tensorboard"](tmp_path, {}, 3).write({"loss": 2.0, "rate": 0.1}, 4)
    assert board.call_args == called(tmp_path, purge_step=4)
    assert board().add_scalar.call_args_list == [called("loss", 2.0, 4), called("rate", 0.1, 4)]


@pytest.mark.slow
@pytest.mark.usefixtures("data")
def test_tensorboard_itself() -> None:
    """Read again by its own reader."""
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert call(f"{COMMAND} --tensorboard") == 0
    events = EventAccumulator("out/native-seed0")
    events.Reload()
    for name, values in logged()[0].items():
        got = [(event.step, event.value) for event in events.Scalars(name)]
        assert got[0] == (1, pytest.approx(values)) and len(got) == 2


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize("name", TRACKERS)
def test_an_absent_package(name: str, monkeypatch: pytest.MonkeyPatch, capsys: Shown) -> None:
    """Refused before any image is read, with the command that installs it."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for command in (COMMAND, f"{TUNE} --out {name}"):
        assert call(f"{command} --log {name}") == 2
        assert f"expected {name}: pip install {name}" in capsys.readouterr().err
    assert not Path("out/store").exists() and not Path(name, "frozen.safetensors").exists()
    with pytest.raises(ValueError, match="log to be one of tensorboard, mlflow, wandb, got 'x'"):
        Job(TrainConfig(), (Run(),), Path("out"), log="x")
