"""The training loop: repeated, killed and resumed, watched and refused."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from plain_resnet import PlainResNet32
from resultant._core import tensor_files
from resultant._core.validation import DivergedError
from resultant.images.augment import normalize
from resultant.networks.models import StackedResNet32
from resultant.training.cifar import train_cifar
from resultant.training.config import Run
from resultant.training.inference import outputs
from resultant.training.job import Job, Progress, Trained
from resultant.training.stack import Stack
from tiny_job import DATA, TWO, config, metrics

# A job that ends itself at a moment of its choice, as if killed from outside.
KILLED = """
import os, signal, sys
from pathlib import Path

import torch

torch.set_num_threads(1)
from torchvision_schemas import define_missing

define_missing()
import test_train
from resultant.training import batches
from resultant.training import log

out, moment, left = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])


def now():
    global left
    left -= 1
    return left == 0


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def batch(self, inner=batches.CifarBatches.batch):
    if moment == "step" and now():
        kill()
    return inner(self)


def write(self, epoch, seen, inner=log.MetricsLog.write):
    inner(self, epoch, seen)
    if moment == "line" and now():
        os.truncate(self.path, os.path.getsize(self.path) - 20)
        kill()


def replace(source, target, inner=os.replace):
    if moment == "save" and Path(target).name == "checkpoint.safetensors" and now():
        kill()
    inner(source, target)


batches.CifarBatches.batch, log.MetricsLog.write, os.replace = batch, write, replace
test_train.five_epochs(out)
"""


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Bit for bit means on as many threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def five_epochs(out: Path, **changes: Any) -> Trained:
    joint = config(objective="joint", classification_view=True, epochs=5, **changes)
    return train_cifar(Job(joint, TWO, out, checkpoint_every=2), DATA)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job that nobody disturbed."""
    out = tmp_path_factory.mktemp("whole")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    five_epochs(out)
    torch.set_num_threads(threads)
    return out


def same_files(a: Path, b: Path) -> None:
    names = sorted(path.name for path in a.iterdir())
    assert names == [
        *("angular-beta0.5-seed0.safetensors", "checkpoint.safetensors"),
        *("metrics.jsonl", "native-seed1.safetensors"),
    ]
    assert (a / "metrics.jsonl").read_text() == (b / "metrics.jsonl").read_text()
    for name in names:
        if name.endswith(".safetensors"):
            (left, about), (right, other) = (tensor_files.load(path / name) for path in (a, b))
            # The time it took is its own.
            about, other = ({**kept, "seconds": None} for kept in (about, other))
            assert about == other and left.keys() == right.keys()
            for key, value in left.items():
                assert torch.equal(value, right[key]), (name, key)


def test_same_seed_same_result(whole: Path, tmp_path: Path) -> None:
    torch.manual_seed(9)
    five_epochs(tmp_path)
    same_files(whole, tmp_path)


def test_killed_and_resumed(whole: Path, tmp_path: Path) -> None:
    """In an epoch, in a line of the metrics, in a checkpoint; it ends as if nothing had been."""
    folders = map(str, Path(__file__).parents[:2])

    path = os.pathsep.join([*folders, os.environ.get("PYTHONPATH", "")])

    def killed(moment: str, left: int) -> None:
        run = subprocess.run(
            [sys.executable, "-c", KILLED, str(tmp_path), moment, str(left)],
            env={**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == -signal.SIGKILL, run.stderr

    # In the second step of the third epoch.
    killed("step", 6)
    assert tensor_files.load(tmp_path / "checkpoint.safetensors")[1]["epoch"] == 2
    assert [row["epoch"] for row in metrics(tmp_path)] == [1, 1, 2, 2]
    # Between the metrics of the fourth epoch and its checkpoint.
    killed("line", 2)
    *_, last = (tmp_path / "metrics.jsonl").read_text().splitlines()
    with pytest.raises(ValueError, match=r"Expecting|Unterminated"):
        json.loads(last)
    assert '"epoch": 4' in last
    killed("save", 1)
    assert tensor_files.load(tmp_path / "checkpoint.safetensors")[1]["epoch"] == 2
    # Written, but not renamed.
    (temporary,) = tmp_path.glob(".checkpoint*")
    temporary.unlink()
    five_epochs(tmp_path)
    same_files(whole, tmp_path)


def test_finished_job_is_not_trained_again(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path.name: path.read_bytes() for path in whole.iterdir()}
    monkeypatch.setattr(
        "resultant.training.stack.Stack.step", lambda *_: pytest.fail("a step was taken")
    )
    trained = five_epochs(whole)
    assert {path.name: path.read_bytes() for path in whole.iterdir()} == before
    assert trained.metrics["native-seed1"]["epoch"] == 5


def test_checkpoint_from_before_a_setting(whole: Path, tmp_path: Path) -> None:
    """What it does not name had the value that is the default; another one is refused."""
    tensors, about = tensor_files.load(whole / "checkpoint.safetensors")
    del about["config"]["estimator"]
    tensor_files.save(tmp_path / "checkpoint.safetensors", tensors, about)
    shutil.copy(whole / "metrics.jsonl", tmp_path)
    assert five_epochs(tmp_path).metrics["native-seed1"]["epoch"] == 5
    with pytest.raises(ValueError, match=r"config \{'estimator': 'mle'\}, got .* 'proco'"):
        five_epochs(tmp_path, estimator="mle")


def test_checkpoint_of_another_job_is_refused(whole: Path) -> None:
    rule = r"expected the checkpoint of this job, config \{'learning_rate': 0\.5, 'prior': 0\.0\}"
    got = r"got \{'learning_rate': 0\.02, 'prior': 1\.0\} in .*checkpoint\.safetensors"
    with pytest.raises(ValueError, match=f"{rule}, {got}"):
        five_epochs(whole, learning_rate=0.5, prior=0.0)
    setting = config(objective="joint", classification_view=True, epochs=5)
    told = "this job, got one without angular-beta0.7-seed0 and with angular-beta0.5-seed0 in"
    with pytest.raises(ValueError, match=told):
        train_cifar(Job(setting, (Run("native", seed=1), Run("angular", 0.7, 0)), whole), DATA)
    with pytest.raises(ValueError, match="this job, got one without native-seed7 in"):
        train_cifar(Job(setting, (*TWO, Run(seed=7)), whole), DATA)
    with pytest.raises(ValueError, match="stack 1, got 12"):
        train_cifar(Job(setting, TWO, whole, stack=1), DATA)
    assert len(metrics(whole)) == 10


def test_run_file_is_the_network(whole: Path) -> None:
    """A plain network with its weights has the outputs, and the accuracy that was written."""
    for run in TWO:
        tensors, about = tensor_files.load(whole / f"{run.name}.safetensors")
        assert about["run"] == {"realization": run.realization, "beta": run.beta, "seed": run.seed}
        assert about["num_classes"] == 4 and about["config"]["dim"] == 8
        network = PlainResNet32(8, 4).eval()
        mine = network.named()
        for name, a in mine.items():
            a.copy_(tensors.pop(name))
        assert {name: a.shape for name, a in tensors.items()} == {
            "bank.old": (4, 9),
            "bank.new": (4, 9),
        }
        # Two views of the last epoch in one bank, and of the epoch before too in the other.
        assert [int(tensors[f"bank.{n}"][:, -1].sum()) for n in ("old", "new")] == [48, 24]
        _, _, logits = network(normalize(DATA.test_images.float()))
        accuracy = (logits.argmax(-1) == DATA.test_labels).double().mean().item()
        rows = [row for row in metrics(whole) if row["run"] == run.name]
        assert [row["epoch"] for row in rows] == [1, 2, 3, 4, 5]
        assert rows[-1]["accuracy"] == accuracy
        best = [max(r["accuracy"] for r in rows[: i + 1]) for i in range(5)]
        assert [row.get("best_accuracy", 0.0) for row in rows] == best
        cosine = [0.01 * (1 + np.cos(np.pi * e / 5)) for e in range(5)]
        assert [row["rate"] for row in rows] == pytest.approx(cosine)


def test_progress(tmp_path: Path) -> None:
    seen: list[Progress] = []
    job = Job(config(epochs=3), TWO, tmp_path)
    trained = train_cifar(job, DATA, on_progress=seen.append)
    assert [progress.epoch for progress in seen] == [1, 2, 3]
    for progress in seen:
        assert progress.epochs == 3 and progress.seconds > 0
        # Two runs, two steps, two views of six images.
        views = progress.epoch * 48
        assert progress.views_per_second == pytest.approx(views / progress.seconds)
        left = progress.seconds / progress.epoch * (3 - progress.epoch)
        assert progress.seconds_left == pytest.approx(left)
    assert seen[-1].loss == {name: row["loss"] for name, row in trained.metrics.items()}


def test_jobs(tmp_path: Path) -> None:
    job = Job(config(), (Run(seed=1), Run("angular"), Run("angular", seed=1), Run()), tmp_path)
    assert [run.seed for run in job.runs] == [0, 0, 1, 1]
    changes: list[tuple[dict[str, Any], str]] = [
        ({"runs": ()}, "one run or more, got none"),
        ({"runs": (Run(), Run("angular"), Run())}, "different runs, got native-seed0 twice"),
        ({"checkpoint_every": 0}, "checkpoint_every >= 1, got 0"),
        ({"test_every": 0}, "test_every >= 1, got 0"),
        ({"stack": 0}, "stack >= 1, got 0"),
        ({"gradient_epochs": (1, 3)}, r"gradient epochs in \[1, 2\], got 3"),
        ({"gradient_epochs": (0,)}, r"gradient epochs in \[1, 2\], got 0"),
    ]
    usual: dict[str, Any] = {"config": config(), "runs": TWO, "out": tmp_path}
    for bad, message in changes:
        with pytest.raises(ValueError, match=message):
            Job(**(usual | bad))


def test_without_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="expected tensorboard: pip install tensorboard"):
        Job(config(), TWO, tmp_path / "out", tensorboard=True)
    assert not (tmp_path / "out").exists()


def test_classifier_is_tested_now_and_then(tmp_path: Path) -> None:
    job = Job(config(objective="joint", epochs=3), (Run(),), tmp_path, test_every=2)
    train_cifar(job, DATA)
    assert ["accuracy" in row for row in metrics(tmp_path)] == [False, True, True]


def test_divergence_inside_a_graph_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no step looks at its values: told after the epoch, and nothing of it is saved."""
    monkeypatch.setattr("resultant._core.validation.should_validate", lambda *_: False)

    def start_epoch(self: Stack, epoch: int, inner: Any = Stack.start_epoch) -> None:
        inner(self, epoch)
        if epoch == 2:
            with torch.no_grad():
                self.network.state_dict()["encoder.conv1.weight"][1] = torch.nan

    monkeypatch.setattr(Stack, "start_epoch", start_epoch)
    job = Job(config(epochs=4), TWO, tmp_path, checkpoint_every=1)
    message = r"expected a finite loss \(.*\), got nan of native-seed1 in epoch 3$"
    with pytest.raises(ValueError, match=message):
        train_cifar(job, DATA)
    tensors, about = tensor_files.load(tmp_path / "checkpoint.safetensors")
    assert about["epoch"] == 2 and all(a.isfinite().all() for a in tensors.values())
    assert [row["epoch"] for row in metrics(tmp_path)] == [1, 1, 2, 2]


@pytest.mark.parametrize("rate", [1e12, 1e30])
def test_divergence_is_an_error(rate: float, tmp_path: Path) -> None:
    """Of features that are not finite, and of finite ones whose length is not."""
    message = r"expected features of finite length above zero \(a lower learning_rate may help\), "
    with pytest.raises(DivergedError, match=message + r"got others of \S+-seed\d in epoch 1$"):
        train_cifar(Job(config(epochs=4, learning_rate=rate), TWO, tmp_path), DATA)


def test_checkpoint_of_other_images_is_refused(whole: Path) -> None:
    turned = replace(DATA, held_images=255 - DATA.held_images)
    setting = config(objective="joint", classification_view=True, epochs=5)
    with pytest.raises(
        ValueError, match=r"on the same images \(\w{12}\), got one on others \(\w{12}\) in"
    ):
        train_cifar(Job(setting, TWO, whole, checkpoint_every=2), turned)


def test_images_of_another_data_set_are_refused(tmp_path: Path) -> None:
    job = Job(config(dataset="cifar100"), TWO, tmp_path)
    with pytest.raises(ValueError, match="expected images of cifar100, got those of cifar10"):
        train_cifar(job, DATA)
    # One's own have no name to be held against.
    own = replace(DATA, dataset=None)
    assert train_cifar(replace(job, config=config(dataset="cifar100", epochs=1)), own).metrics


def test_gradients_of_epochs_that_are_past(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were asked for are there again; others cannot be had any more."""
    job = Job(config(epochs=3), TWO, tmp_path, checkpoint_every=1, gradient_epochs=(2,))

    def stop(progress: Progress) -> None:
        if progress.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_cifar(job, DATA, on_progress=stop)
    message = "expected gradient_error of all runs after epoch 1 in .*metrics.jsonl, got a job"
    with pytest.raises(ValueError, match=message + ".*request later epochs, or start again"):
        train_cifar(replace(job, gradient_epochs=(1, 2, 3)), DATA)
    train_cifar(replace(job, gradient_epochs=(2, 3)), DATA)
    assert ["gradient_error" in row for row in metrics(tmp_path)] == [False] * 2 + [True] * 4
    monkeypatch.setattr(
        "resultant.training.stack.Stack.step", lambda *_: pytest.fail("a step was taken")
    )
    assert "gradient_error" in train_cifar(job, DATA).metrics["native-seed1"]
    with pytest.raises(ValueError, match="of all runs after epoch 1 in"):
        train_cifar(replace(job, gradient_epochs=(1,)), DATA)


@pytest.mark.parametrize("left", [0, 1])
def test_a_job_that_is_done_without_its_metrics(left: int, tmp_path: Path) -> None:
    """Nothing would ever say how it ended."""
    job = Job(config(epochs=1), TWO, tmp_path)
    train_cifar(job, DATA)
    path = tmp_path / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:left]))
    if not left:
        path.unlink()
    message = "expected loss of all runs after epoch 1 in .*metrics.jsonl.*; restore the file"
    with pytest.raises(ValueError, match=message):
        train_cifar(job, DATA)
    path.write_text("".join(lines))
    assert set(train_cifar(job, DATA).metrics) == {run.name for run in TWO}


def test_a_network_that_fails_goes_back_to_training(monkeypatch: pytest.MonkeyPatch) -> None:
    network = StackedResNet32([0], 8)
    monkeypatch.setattr(StackedResNet32, "forward", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        outputs(network, DATA.test_images, torch.float32)
    assert network.training


def test_divergence_in_the_last_step_is_not_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss of the step was finite, the weights after it are not."""

    def step(self: Stack, inner: Any = Stack.step) -> None:
        inner(self)
        steps.append(self)
        if len(steps) == 2 * self.batches.steps:
            self.network.state_dict()["encoder.conv1.weight"][0, 0] = torch.inf

    steps: list[Stack] = []
    monkeypatch.setattr(Stack, "step", step)
    job = Job(config(epochs=2), (Run(),), tmp_path, checkpoint_every=1)
    message = r"got others in 0\.network\.encoder\.conv1\.weight after epoch 2"
    with pytest.raises(ValueError, match=message):
        train_cifar(job, DATA)
    assert tensor_files.load(tmp_path / "checkpoint.safetensors")[1]["epoch"] == 1
    assert not list(tmp_path.glob("native*"))


def test_a_target_without_temperature_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not as a loss that is lost, which it is too where no step looks at its values."""
    monkeypatch.setattr("resultant._core.validation.should_validate", lambda *_: False)
    job = Job(config(epochs=2), (Run("temperature", 30.0),), tmp_path)
    with pytest.raises(ValueError, match="expected target gains > 0"):
        train_cifar(job, DATA)
