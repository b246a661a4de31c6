"""The shared step against a plain loop of one run, and the runs of a stack against each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from plain_resnet import PlainResNet32
from resultant._core.validation import DivergedError
from resultant.images.longtail import long_tail_indices
from resultant.losses.proco import ProCoLoss
from resultant.training.batches import CifarBatches
from resultant.training.cifar import train_cifar
from resultant.training.config import Run, TrainConfig, preset
from resultant.training.job import Job, Trained
from resultant.training.stack import Stack, build, side_by_side
from tiny_job import DATA, metrics, stop_after
from tiny_job import config as tiny_config

COUNTS, N = [6, 4, 2, 2], 6
CPU = torch.device("cpu")


def stacked(
    config: TrainConfig,
    runs: list[Run],
    dtype: torch.dtype = torch.float32,
    device: torch.device = CPU,
) -> Stack:
    """Build a stack on the tiny dataset; float64 keeps steps from magnifying roundings."""
    members = long_tail_indices(DATA.train_labels, 4, config.imbalance)
    images, labels = (a[members].to(device) for a in (DATA.train_images, DATA.train_labels))
    counts = torch.bincount(labels.cpu())
    assert counts.tolist() == COUNTS
    seeds = [run.seed for run in runs]
    third = config.classification_view
    batches = CifarBatches(images, labels, seeds, config.batch_size, third, dtype)
    stack = Stack(config, runs, batches, counts, device)
    stack.network.to(dtype)
    if stack.supervised is not None:
        stack.supervised.to(dtype)
    for state in stack.optimizer.state.values():
        state["momentum_buffer"] = state["momentum_buffer"].to(dtype)
    return stack


def trained(stack: Stack, epochs: int) -> Stack:
    for epoch in range(epochs):
        stack.start_epoch(epoch)
        stack.batches.load(stack.batches.draw(epoch))
        for _ in range(stack.batches.steps):
            stack.replay()
    return stack


def near(a: Tensor, b: Tensor, bar: float = 1e-9) -> None:
    """Compare in the root mean square, except tensors that are nearly zero."""
    a, b = a.detach().double(), b.detach().double()
    assert float((a - b).norm()) <= bar * float(b.norm()) + 1e-9 * b.numel() ** 0.5


PRIORS = {"prior": 0.5, "classifier_prior": 1.0, "contrastive_weight": 0.3}
THIRD = {"alpha": 0.7, "classification_view": True, "leave_out": True}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "run"),
    [
        ({"schedule": "step", "milestones": (0.5,)}, Run("native", seed=1)),
        ({"objective": "joint"} | PRIORS, Run("angular", seed=1)),
        ({"objective": "joint"} | THIRD, Run("preserve", 0.5, seed=2)),
        ({"objective": "joint", "classifier_views": 1}, Run("native", seed=3)),
    ],
)
def test_equals_a_plain_loop(changes: dict[str, Any], run: Run) -> None:
    config = tiny_config(**changes)
    stack = stacked(config, [run], torch.float64)
    network = PlainResNet32(config.dim, 4).double()
    joint = config.objective == "joint"
    state = stack.network.state_dict()
    tensors = network.named()
    for name, a in state.items():
        tensors[name].copy_(a[0])
    loss = ProCoLoss(
        *(4, config.dim, config.temperature, run.realization, run.beta),
        class_counts=COUNTS,
        prior=config.prior,
        leave_out=config.leave_out,
        seed=run.seed,
    )
    log_prior = torch.tensor(COUNTS, dtype=torch.float64).div(sum(COUNTS)).log()
    parameters = [p for n, p in network.named_parameters() if joint or not n.startswith("fc")]
    optimizer = torch.optim.SGD(parameters, 1.0, momentum=0.9, weight_decay=config.weight_decay)
    batches = stacked(config, [run], torch.float64).batches
    for epoch in range(2):
        optimizer.param_groups[0]["lr"] = float(torch.tensor(config.rate(epoch)))
        loss.start_epoch()
        batches.load(batches.draw(epoch))
        total = 0.0
        for _ in range(batches.steps):
            x, y = batches.batch()
            # The middle of each neighbourhood is the image.
            _, z, logits = network(x[:, 4:27:9])
            value = config.contrastive_weight * loss(torch.stack(z.split(N)[:2]), y[0])
            if joint:
                read = logits[2 * N :] if config.classification_view else logits
                read = read[:N] if config.classifier_views == 1 else read
                adjusted = read + (config.classifier_prior or config.prior) * log_prior
                y = y[0].repeat(len(read) // N)
                value = value + config.alpha * F.cross_entropy(adjusted, y)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            total += value.item()
        stack.start_epoch(epoch)
        stack.batches.load(stack.batches.draw(epoch))
        for _ in range(stack.batches.steps):
            stack.step()
        assert float(stack.total) == pytest.approx(total, rel=1e-6)
    start = stacked(config, [run], torch.float64).network.state_dict()
    tensors = network.named()
    for name, a in stack.network.state_dict().items():
        # The changes, without the initial weights.
        near(a[0] - start[name][0], tensors[name] - start[name][0])
    for name in ("old", "new"):
        near(stack.proco.bank.sums(bank=name)[0], getattr(loss.bank, name))


@pytest.mark.slow
@pytest.mark.parametrize("contrastive", ["proco", "supcon", "balanced"])
def test_runs_do_not_touch_one_another(contrastive: Any) -> None:
    """Three runs in a stack equal each run alone, with two runs of one seed and one of another."""
    config = tiny_config(objective="joint", contrastive=contrastive)
    runs = [Run("native", seed=0), Run("angular", 0.5, 0), Run("temperature", 0.5, 1)]
    if contrastive != "proco":
        runs = [Run(seed=0), Run(seed=1)]
    together = trained(stacked(config, runs, torch.float64), 1)
    for index, run in enumerate(runs):
        alone = trained(stacked(config, [run], torch.float64), 1)
        near(together.total[index], alone.total[0])
        tensors = together.tensors()
        for name, a in alone.tensors().items():
            if name != "proco.bank.epoch":
                near(tensors[name][index], a[0])


def test_state_of_another_stack_is_refused() -> None:
    small = stacked(tiny_config(), [Run()])
    with pytest.raises(ValueError, match=r"a difference in \['momentum\.classifier\.bias'"):
        small.load(stacked(tiny_config(objective="joint"), [Run()]).tensors())
    with pytest.raises(ValueError, match=r"of shape \(1, 16, 3, 3, 3\), got \(2, 16, 3, 3, 3\)"):
        small.load(stacked(tiny_config(), [Run(), Run("angular")]).tensors())
    with pytest.raises(ValueError, match="one run of resnet50 at a time, got 2"):
        build(preset("imagenet-lt"), [Run(), Run(seed=1)], 10)


@pytest.mark.gpu
def test_captured_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Capturing restores the runs, and the graph equals the step, also on the CPU."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    config = tiny_config(objective="joint", classification_view=True)
    runs = [Run("native"), Run("angular", 0.5), Run("temperature", 0.5, 1)]
    on_gpu = stacked(config, runs, device=torch.device("cuda"))
    on_gpu.batches.load(on_gpu.batches.draw(0))
    before = {name: a.clone() for name, a in on_gpu.tensors().items()}
    on_gpu.capture()
    for name, a in on_gpu.tensors().items():
        assert torch.equal(a, before[name]), name
    totals = []
    for stack in (
        on_gpu,
        stacked(config, runs, device=torch.device("cuda")),
        stacked(config, runs),
    ):
        stack.start_epoch(0)
        stack.batches.load(stack.batches.draw(0))
        with side_by_side([stack]):
            stack.replay()
        totals.append(stack.total.cpu())
    assert on_gpu.graph is not None
    torch.testing.assert_close(totals[0], totals[1], rtol=1e-4, atol=0)
    torch.testing.assert_close(totals[0], totals[2], rtol=1e-3, atol=0)
    # A zero projection in the graph: the next step raises, not the end of the epoch.
    with torch.no_grad():
        for weight in on_gpu.network.projector.parameters():
            weight.zero_()
    with side_by_side([on_gpu]):
        on_gpu.replay()
    torch.cuda.synchronize()
    with pytest.raises(DivergedError, match="got another length in run "):
        on_gpu.replay()


RUNS = (Run("native", seed=0), Run("angular", 0.5, 1), Run("temperature", 0.5, 2))


@pytest.fixture(autouse=True)
def _repeatable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the order in which the samples of a class are added may differ, in float64."""
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)


def losses(out: Path) -> dict[tuple[str, int], float]:
    return {(row["run"], row["epoch"]): row["loss"] for row in metrics(out)}


def learned(trained: Trained) -> dict[str, torch.Tensor]:
    """Change of the first layer's weights in training, for each run."""
    changes = {}
    for run, stack, index in trained.networks():
        start = build(stack.config, [run], None).state_dict()["encoder.conv1.weight"][0]
        changes[run.name] = stack.network.state_dict()["encoder.conv1.weight"][index].cpu() - start
    return changes


@pytest.mark.gpu
def test_stacks_at_once_equal_single_stacks(tmp_path: Path) -> None:
    """Graphs that shared memory by mistake would change each other's results."""
    setting = tiny_config(objective="joint", epochs=4)
    together = train_cifar(Job(setting, RUNS, tmp_path / "all", stack=1), DATA, "cuda")
    assert len({stack.stream for stack in together.stacks}) == len(RUNS)
    at_once, weights = losses(tmp_path / "all"), learned(together)
    assert len(at_once) == 4 * len(RUNS)
    for run in RUNS:
        out = tmp_path / run.name
        alone = learned(train_cifar(Job(setting, (run,), out), DATA, "cuda"))[run.name]
        for key, loss in losses(out).items():
            assert at_once[key] == pytest.approx(loss, rel=1e-4), key
        assert (weights[run.name] - alone).norm() <= 1e-2 * alone.norm() > 0


@pytest.mark.gpu
def test_resumes(tmp_path: Path) -> None:
    """Stopped after its second epoch and continued, a job on a GPU ends as an undisturbed one."""
    jobs = [
        Job(tiny_config(epochs=4), RUNS, tmp_path / name, checkpoint_every=2, stack=2)
        for name in ("whole", "stopped")
    ]
    with pytest.raises(KeyboardInterrupt):
        train_cifar(jobs[1], DATA, "cuda", on_progress=stop_after(2))
    whole, resumed = (learned(train_cifar(job, DATA, "cuda")) for job in jobs)
    expected = losses(jobs[0].out)
    assert len(expected) == 4 * len(RUNS)
    assert losses(jobs[1].out) == pytest.approx(expected, rel=1e-4)
    for name, a in whole.items():
        assert (resumed[name] - a).norm() <= 1e-2 * a.norm() > 0


@pytest.mark.slow
@pytest.mark.parametrize("contrastive", ["proco", "balanced"])
def test_state_is_all_there_is(contrastive: Any) -> None:
    """Copied in the middle of training, the state continues bit for bit."""
    first = Run("angular", 0.5, 0) if contrastive == "proco" else Run(seed=0)
    config, runs = tiny_config(epochs=3, contrastive=contrastive), [first, Run("native", seed=1)]
    one, other = trained(stacked(config, runs), 2), stacked(config, runs)
    kept = {name: a.clone() for name, a in one.tensors().items()}
    assert any(name.startswith("momentum.") for name in kept)
    other.load(kept)
    results = []
    for stack in (one, other):
        stack.start_epoch(2)
        stack.batches.load(stack.batches.draw(2))
        stack.replay()
        stack.replay()
        results.append(stack.tensors())
    for name, a in results[0].items():
        assert torch.equal(a, results[1][name]), name
    assert not torch.equal(
        results[0]["network.encoder.conv1.weight"], kept["network.encoder.conv1.weight"]
    )
