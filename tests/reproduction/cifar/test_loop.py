"""The training loop and its checkpoints: killed and resumed, diverged, continued and refused."""

import json
import os
import shutil
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from programs import run_program
from resultant._core import tensor_files
from resultant._core.termination import TerminatedError, terminable
from resultant._core.validation import DivergedError
from resultant.training import loop
from resultant.training.config import Run
from resultant.training.job import Progress
from resultant.training.network_files import CHECKPOINT
from resultant_reproduction.cifar.job import CifarJob
from resultant_reproduction.cifar.stack import Stack
from resultant_reproduction.cifar.train import train_cifar
from tiny_cifar import DATA, TWO, config, joint_job, metrics, stop_after

pytestmark = pytest.mark.slow

# A job that is killed three times; after each, a copy of its folder is named after the moment.
KILLED = """
import os, shutil, signal, sys
from pathlib import Path

import shallow
import torch._dynamo  # which optimizers load, once for all children
from resultant.training import log
from resultant_reproduction.cifar import batches
from resultant_reproduction.cifar.train import train_cifar
from resultant_reproduction.cifar.views import MEAN, STD
from tiny_cifar import DATA, joint_job

out = Path(sys.argv[1])


def train(moment, left):
    def kill_at(here):
        nonlocal left
        left -= here == moment
        if not left:
            if here == "line":
                os.truncate(out / "metrics.jsonl", os.path.getsize(out / "metrics.jsonl") - 20)
            os.kill(os.getpid(), signal.SIGKILL)

    def batch(self, inner=batches.Batches.batch):
        kill_at("step")
        return inner(self)

    def write(self, epoch, rows, inner=log.MetricsLog.write):
        inner(self, epoch, rows)
        kill_at("line")

    def replace(source, target, inner=os.replace):
        if Path(target).name == "checkpoint.safetensors":
            kill_at("save")
        inner(source, target)

    batches.Batches.batch, log.MetricsLog.write, os.replace = batch, write, replace
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


@pytest.mark.parametrize("rate", [1e12, 1e30])
def test_divergence_is_an_error(rate: float, tmp_path: Path) -> None:
    """Features that are not finite, and finite ones of infinite length."""
    message = r"expected features of finite length above zero \(a lower learning_rate may help\), "
    with pytest.raises(DivergedError, match=message + r"got others of \S+-seed\d in epoch 1$"):
        train_cifar(CifarJob(config(epochs=4, learning_rate=rate), TWO, tmp_path), DATA)


@pytest.mark.parametrize(
    ("last", "message"),
    [
        (False, r"expected unit vectors z in all steps so far, got another length in run 1 class"),
        (True, r"got others in 0\.network\.encoder\.conv1\.weight after epoch 2"),
    ],
)
def test_divergence_is_not_saved(
    last: bool, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without checks in the steps, as inside a graph, the epoch is checked; in its last step the
    loss is finite, and the weights after it are not."""
    taken: list[Stack] = []

    def step(self: Stack, inner: Any = Stack.step) -> None:
        taken.append(self)
        weight, steps = self.network.state_dict()["encoder.conv1.weight"], self.batches.steps
        if not last and len(taken) == steps + 1:
            weight[1] = torch.nan
        inner(self)
        if last and len(taken) == 2 * steps:
            weight[1, 0] = torch.inf

    monkeypatch.setattr(Stack, "step", step)
    if not last:
        monkeypatch.setattr("resultant._core.validation.should_validate", lambda *_: False)
    job = CifarJob(config(epochs=3), TWO, tmp_path, checkpoint_every=1)
    with pytest.raises(ValueError, match=message):
        train_cifar(job, DATA)
    tensors, about = tensor_files.load(tmp_path / CHECKPOINT)
    assert about["epoch"] == 1 and all(a.isfinite().all() for a in tensors.values())
    assert last or [row["epoch"] for row in metrics(tmp_path)] == [1, 1]
    assert not list(tmp_path.glob("*seed*"))


def test_gradients_of_past_epochs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of past epochs are read from the log; others cannot be computed any more."""
    job = CifarJob(config(epochs=3), TWO, tmp_path, checkpoint_every=1, gradient_epochs=(2,))
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


def test_saved_after_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow epochs are saved early; stopped there, a job ends as an undisturbed one."""
    now = 0.0

    def start_epoch(self: Stack, epoch: int, inner: Any = Stack.start_epoch) -> None:
        nonlocal now
        now += 40.0
        inner(self, epoch)

    monkeypatch.setattr(Stack, "start_epoch", start_epoch)
    monkeypatch.setattr(loop, "time", SimpleNamespace(perf_counter=lambda: now))
    # The class centres of this loss are trained and saved too.
    settings = config(epochs=6, contrastive="balanced")
    whole, broken = (CifarJob(settings, (Run(),), tmp_path / name, 5) for name in "ab")
    seen: list[tuple[int, bool]] = []

    def note(progress: Progress) -> None:
        seen.append((progress.epoch, progress.saved))
        path = whole.out / CHECKPOINT
        epoch = tensor_files.load(path)[1]["epoch"] if path.exists() else 0
        assert (epoch == progress.epoch) == progress.saved

    train_cifar(whole, DATA, on_progress=note)
    # After 80 s, after 160 s, the fifth epoch, and the last.
    assert [epoch for epoch, saved in seen if saved] == [2, 4, 5, 6] and len(seen) == 6
    with pytest.raises(KeyboardInterrupt):
        train_cifar(broken, DATA, on_progress=stop_after(3))
    assert tensor_files.load(broken.out / CHECKPOINT)[1]["epoch"] == 2
    resumed: list[Progress] = []
    train_cifar(broken, DATA, on_progress=resumed.append)
    assert [progress.epoch for progress in resumed] == [0, 1, 2, 3, 4]
    assert resumed[0].resumed == "continues after epoch 2/6" and not resumed[0].saved
    # The seconds of the earlier call do not count towards the minute.
    assert [progress.before + progress.epoch for progress in resumed if progress.saved] == [4, 5, 6]
    assert metrics(broken.out) == metrics(whole.out)
    again: list[Progress] = []
    train_cifar(broken, DATA, on_progress=again.append)
    assert [progress.resumed for progress in again] == ["already trained to epoch 6/6"]


def test_other_checkpoints_are_refused(whole: Path, tmp_path: Path) -> None:
    """But a setting that a checkpoint lacks had the value that is the default."""
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    path, job = tmp_path / CHECKPOINT, joint_job(tmp_path)
    tensors, about = tensor_files.load(path)
    del about["config"]["estimator"]
    tensor_files.save(path, tensors, about)
    assert train_cifar(job, DATA).metrics["native-seed1"]["epoch"] == 4
    images = replace(DATA, train_images=255 - DATA.train_images)
    others: list[tuple[CifarJob, Any, str]] = [
        (joint_job(tmp_path, estimator="mle"), DATA, "its config: estimator proco"),
        (joint_job(tmp_path, learning_rate=0.5), DATA, r"its config: learning_rate 0\.02; choose"),
        (replace(job, runs=(*TWO, Run(seed=7))), DATA, r"its runs: .*'beta': 0\.5"),
        (replace(job, stack=1), DATA, "its stack: 12"),
    ]
    for other, data, got in others:
        rule = r"expected the checkpoint of this job in .*checkpoint\.safetensors, got another in "
        with pytest.raises(ValueError, match=rule + got):
            train_cifar(other, data)
    with pytest.raises(ValueError, match="got other training images: some were added, removed or"):
        train_cifar(job, images)
    assert len(metrics(tmp_path)) == 8
    for facts in ({"epoch": 0}, {"epoch": 5}, {"seconds": -1.0}):
        tensor_files.save(path, tensors, about | facts)
        with pytest.raises(ValueError, match=r"expected epochs in \(0, 4\] and their seconds in "):
            train_cifar(job, DATA)
    # Empty, cut off, or with a flipped bit.
    content = (whole / CHECKPOINT).read_bytes()
    flipped = content[:-100] + bytes([content[-100] ^ 1]) + content[-99:]
    for broken in (b"", content[: len(content) // 2], flipped):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=r"; choose another folder to start again$"):
            train_cifar(job, DATA)


def test_sigterm_saves_the_epoch(whole: Path, tmp_path: Path) -> None:
    """The epoch is finished and saved; a second signal does not wait; the job ends as another."""

    def terminate(progress: Progress, times: int = 1) -> None:
        for _ in range(times if progress.epoch == 1 and not progress.before else 0):
            os.kill(os.getpid(), signal.SIGTERM)

    job = replace(joint_job(tmp_path), checkpoint_every=100)
    with terminable():
        with pytest.raises(TerminatedError, match=r"^$"):
            train_cifar(job, DATA, on_progress=partial(terminate, times=2))
        assert not (tmp_path / CHECKPOINT).exists()
    with terminable(), pytest.raises(TerminatedError, match="saved after epoch 2/4"):
        train_cifar(job, DATA, on_progress=terminate)
    assert tensor_files.load(tmp_path / CHECKPOINT)[1]["epoch"] == 2
    train_cifar(job, DATA)
    assert metrics(tmp_path) == metrics(whole)
