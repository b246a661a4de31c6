"""The training loop: repeated, killed and resumed, diverged and refused."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from plain_resnet import PlainResNet32
from programs import run_program
from resultant._core import tensor_files
from resultant._core.network_files import CHECKPOINT
from resultant._core.validation import DivergedError
from resultant.images.photo_views import normalize
from resultant.training.cifar import train_cifar
from resultant.training.config import Run
from resultant.training.job import Job
from resultant.training.stack import Stack
from tiny_job import DATA, TWO, config, joint_job, metrics, stop_after

# A job that is killed three times; after each, a copy of its folder is named after the moment.
KILLED = """
import os, shutil, signal, sys
from pathlib import Path

import shallow
from resultant.training import batches, log
from resultant.training.cifar import train_cifar
from tiny_job import DATA, joint_job

out = Path(sys.argv[1])


def train(moment, left):
    def kill_at(here):
        nonlocal left
        left -= here == moment
        if not left:
            if here == "line":
                os.truncate(out / "metrics.jsonl", os.path.getsize(out / "metrics.jsonl") - 20)
            os.kill(os.getpid(), signal.SIGKILL)

    def batch(self, inner=batches.CifarBatches.batch):
        kill_at("step")
        return inner(self)

    def write(self, epoch, rows, inner=log.MetricsLog.write):
        inner(self, epoch, rows)
        kill_at("line")

    def replace(source, target, inner=os.replace):
        if Path(target).name == "checkpoint.safetensors":
            kill_at("save")
        inner(source, target)

    batches.CifarBatches.batch, log.MetricsLog.write, os.replace = batch, write, replace
    train_cifar(joint_job(out), DATA)


for moment, left in (("step", 6), ("line", 2), ("save", 1)):
    process = os.fork()
    if not process:
        train(moment, left)
        os._exit(0)
    _, status = os.waitpid(process, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, (moment, status)
    shutil.copytree(out, out.with_name(moment))
"""


def same_files(a: Path, b: Path) -> None:
    names = sorted(path.name for path in a.iterdir())
    assert names == [
        *("angular-beta0.5-seed0.safetensors", CHECKPOINT),
        *("metrics.jsonl", "native-seed1.safetensors"),
    ]
    assert (a / "metrics.jsonl").read_text() == (b / "metrics.jsonl").read_text()
    for name in names:
        if name.endswith(".safetensors"):
            (left, about), (right, other) = (tensor_files.load(path / name) for path in (a, b))
            # The seconds may differ.
            about, other = ({**facts, "seconds": None} for facts in (about, other))
            assert about == other and left.keys() == right.keys()
            for key, value in left.items():
                assert torch.equal(value, right[key]), (name, key)


@pytest.mark.slow
def test_killed_and_resumed(whole: Path, tmp_path: Path) -> None:
    """Killed in a step, a line of metrics and a checkpoint, a job ends as an undisturbed one."""
    out = tmp_path / "out"
    run_program(KILLED, out)
    # In the second step of the third epoch.
    assert tensor_files.load(tmp_path / "step" / CHECKPOINT)[1]["epoch"] == 2
    assert [row["epoch"] for row in metrics(tmp_path / "step")] == [1, 1, 2, 2]
    # Between the metrics of the fourth epoch and its checkpoint.
    *_, last = (tmp_path / "line" / "metrics.jsonl").read_text().splitlines()
    with pytest.raises(ValueError, match=r"Expecting|Unterminated"):
        json.loads(last)
    assert '"epoch": 4' in last
    # Written, but not renamed.
    assert tensor_files.load(out / CHECKPOINT)[1]["epoch"] == 2
    (temporary,) = out.glob(".checkpoint*")
    shutil.rmtree(temporary)
    # The state of the global generator makes no difference.
    torch.manual_seed(9)
    train_cifar(joint_job(out), DATA)
    same_files(whole, out)


def test_run_file_is_the_network(whole: Path) -> None:
    """A plain network with the stored weights has the logged accuracy."""
    for run in TWO:
        tensors, about = tensor_files.load(whole / f"{run.name}.safetensors")
        assert about["run"] == {"realization": run.realization, "beta": run.beta, "seed": run.seed}
        assert about["num_classes"] == 4 and about["config"]["dim"] == 8
        network = PlainResNet32(8, 4).eval()
        for name, a in network.named().items():
            a.copy_(tensors.pop(name))
        assert {name: a.shape for name, a in tensors.items()} == {
            "bank.old": (4, 9),
            "bank.new": (4, 9),
        }
        # The new bank has two views of the last epoch, the old one those of two epochs.
        assert [int(tensors[f"bank.{n}"][:, -1].sum()) for n in ("old", "new")] == [48, 24]
        _, _, logits = network(normalize(DATA.test_images.float()))
        accuracy = (logits.argmax(-1) == DATA.test_labels).double().mean().item()
        rows = [row for row in metrics(whole) if row["run"] == run.name]
        assert [row["epoch"] for row in rows] == [1, 2, 3, 4]
        assert rows[-1]["accuracy"] == accuracy
        best = [max(r["accuracy"] for r in rows[: i + 1]) for i in range(4)]
        assert [row.get("best_accuracy", 0.0) for row in rows] == best
        cosine = [0.01 * (1 + np.cos(np.pi * e / 4)) for e in range(4)]
        assert [row["rate"] for row in rows] == pytest.approx(cosine)


@pytest.mark.slow
def test_divergence_inside_a_graph_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without checks in the steps, the epoch is checked, and is not saved."""
    monkeypatch.setattr("resultant._core.validation.should_validate", lambda *_: False)

    def start_epoch(self: Stack, epoch: int, inner: Any = Stack.start_epoch) -> None:
        inner(self, epoch)
        if epoch == 1:
            with torch.no_grad():
                self.network.state_dict()["encoder.conv1.weight"][1] = torch.nan

    monkeypatch.setattr(Stack, "start_epoch", start_epoch)
    job = Job(config(epochs=3), TWO, tmp_path, checkpoint_every=1)
    message = r"expected a finite loss \(.*\), got nan of native-seed1 in epoch 2$"
    with pytest.raises(ValueError, match=message):
        train_cifar(job, DATA)
    tensors, about = tensor_files.load(tmp_path / CHECKPOINT)
    assert about["epoch"] == 1 and all(a.isfinite().all() for a in tensors.values())
    assert [row["epoch"] for row in metrics(tmp_path)] == [1, 1]


@pytest.mark.slow
@pytest.mark.parametrize("rate", [1e12, 1e30])
def test_divergence_is_an_error(rate: float, tmp_path: Path) -> None:
    """Features that are not finite, and finite ones of infinite length."""
    message = r"expected features of finite length above zero \(a lower learning_rate may help\), "
    with pytest.raises(DivergedError, match=message + r"got others of \S+-seed\d in epoch 1$"):
        train_cifar(Job(config(epochs=4, learning_rate=rate), TWO, tmp_path), DATA)


@pytest.mark.slow
def test_divergence_in_the_last_step_is_not_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss of the step is finite, the weights after it are not."""

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
    assert tensor_files.load(tmp_path / CHECKPOINT)[1]["epoch"] == 1
    assert not list(tmp_path.glob("native*"))


@pytest.mark.slow
def test_gradients_of_past_epochs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of past epochs are read from the log; others cannot be computed any more."""
    job = Job(config(epochs=3), TWO, tmp_path, checkpoint_every=1, gradient_epochs=(2,))
    with pytest.raises(KeyboardInterrupt):
        train_cifar(job, DATA, on_progress=stop_after(2))
    message = "expected gradient_error of all runs after epoch 1 in .*metrics.jsonl, got a job"
    with pytest.raises(ValueError, match=message + ".*request later epochs, or start again"):
        train_cifar(replace(job, gradient_epochs=(1, 2, 3)), DATA)
    train_cifar(replace(job, gradient_epochs=(2, 3)), DATA)
    assert ["gradient_error" in row for row in metrics(tmp_path)] == [False] * 2 + [True] * 4
    monkeypatch.setattr(Stack, "step", lambda *_: pytest.fail("a step was taken"))
    assert "gradient_error" in train_cifar(job, DATA).metrics["native-seed1"]
    with pytest.raises(ValueError, match="of all runs after epoch 1 in"):
        train_cifar(replace(job, gradient_epochs=(1,)), DATA)


def test_images_of_another_dataset_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected images of cifar100, got those of cifar10"):
        train_cifar(Job(config(dataset="cifar100"), TWO, tmp_path), DATA)
