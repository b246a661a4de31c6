"""The step of stacked runs against a plain loop, and the runs of a stack against each other."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from loss_batches import TAU, C, P, batch, cancelling
from plain_resnet import PlainResNet32
from resultant._core import validation
from resultant._core.validation import DivergedError
from resultant.classes.rule import REALIZATIONS, TEMPERED, Rule
from resultant.images.longtail import long_tail_indices
from resultant.losses import ProCoLoss
from resultant.training.config import Run
from resultant.training.job import Trained
from resultant_reproduction.cifar.batches import Batches as CifarBatches
from resultant_reproduction.cifar.job import CifarJob
from resultant_reproduction.cifar.losses import StackedProCoLoss
from resultant_reproduction.cifar.network import StackedResNet32
from resultant_reproduction.cifar.stack import Stack, Stacks, side_by_side
from resultant_reproduction.cifar.train import train_cifar
from resultant_reproduction.recipes.config import PaperConfig
from tiny_cifar import DATA, config as tiny_config, metrics, stop_after

COUNTS, N = [6, 4, 2, 2], 6
CPU = torch.device("cpu")


def stacked(
    config: PaperConfig, runs: list[Run], dtype: Any = torch.float32, device: torch.device = CPU
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


def train_epoch(stack: Stack, epoch: int = 0) -> Stack:
    stack.start_epoch(epoch)
    stack.batches.load(stack.batches.draw(epoch))
    for _ in range(stack.batches.steps):
        stack.replay()
    return stack


def near(a: Tensor, b: Tensor) -> None:
    """Compare in the root mean square, except tensors that are nearly zero."""
    a, b = a.detach().double(), b.detach().double()
    assert float((a - b).norm()) <= 1e-9 * (float(b.norm()) + b.numel() ** 0.5)


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
    untrained = stacked(config, [run], torch.float64)
    batches = untrained.batches
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
        assert float(train_epoch(stack, epoch).total) == pytest.approx(total, rel=1e-6)
    start = untrained.network.state_dict()
    tensors = network.named()
    for name, a in stack.network.state_dict().items():
        # The changes, without the initial weights.
        near(a[0] - start[name][0], tensors[name] - start[name][0])
    for name in ("old", "new"):
        near(stack.proco.bank.sums(bank=name)[0], getattr(loss.bank, name))


@pytest.mark.slow
@pytest.mark.parametrize("contrastive", ["proco", "supcon", "balanced"])
def test_runs_do_not_touch_one_another(contrastive: Any) -> None:
    """Runs of all realizations in a stack equal each run alone, with other numbers of runs of a
    seed; `losses/test_paths` compares the loss of one run with `ProCoLoss`."""
    config = tiny_config(objective="joint", contrastive=contrastive)
    betas = (0.0, 0.5, 0.2, 1.5, 0.0)
    runs = [
        Run(name, beta, i // 3)
        for i, (name, beta) in enumerate(zip(REALIZATIONS, betas, strict=True))
    ]
    if contrastive != "proco":
        runs = [Run(seed=0), Run(seed=1)]
    together = train_epoch(stacked(config, runs, torch.float64))
    for index, run in enumerate(runs):
        alone = train_epoch(stacked(config, [run], torch.float64))
        near(together.total[index], alone.total[0])
        tensors = together.tensors()
        for name, a in alone.tensors().items():
            if name != "proco.bank.epoch":
                near(tensors[name][index], a[0])


def test_other_states_and_runs_are_refused() -> None:
    small = stacked(tiny_config(), [Run()])
    with pytest.raises(ValueError, match=r"a difference in \['momentum\.classifier\.bias'"):
        small.load(stacked(tiny_config(objective="joint"), [Run()]).tensors())
    with pytest.raises(ValueError, match=r"of shape \(1, 16, 3, 3, 3\), got \(2, 16, 3, 3, 3\)"):
        small.load(stacked(tiny_config(), [Run(), Run("angular")]).tensors())
    for rules, seeds, message in (
        ([Rule(TAU)], [0, 1], "a rule and a seed per run, .* got 1 rules and 2 seeds"),
        ([], [], "of one run or more, got 0 rules and 0 seeds"),
        ([Rule(0.1), Rule(0.2)], [0, 1], "expected one temperature and family of all runs, got"),
    ):
        with pytest.raises(ValueError, match=message):
            StackedProCoLoss(C, P, rules, seeds=seeds)


@pytest.mark.gpu
def test_captured_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Capturing restores the runs, and the graph equals the step, also on the CPU."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    config = tiny_config(objective="joint", classification_view=True)
    runs = [Run("native"), Run("angular", 0.5), Run("temperature", 0.5, 1)]
    on_gpu = stacked(config, runs, device=torch.device("cuda"))
    on_gpu.batches.load(on_gpu.batches.draw(0))
    before = {name: a.clone() for name, a in on_gpu.tensors().items()}
    on_gpu.record()
    for name, a in on_gpu.tensors().items():
        assert torch.equal(a, before[name]), name
    totals, plain = [], stacked(config, runs, device=torch.device("cuda"))
    for stack in (on_gpu, plain, stacked(config, runs)):
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


def learned(trained: Trained[Stacks]) -> dict[str, torch.Tensor]:
    """Change of the first layer's weights in training, for each run."""
    changes = {}
    for run, stack, index in trained.trainee.networks():
        start = StackedResNet32([run.seed], stack.config.dim).encoder.conv1.weight[0].detach()
        learnt = stack.network.encoder.conv1.weight[index].detach().cpu()
        changes[run.name] = learnt - start
    return changes


@pytest.mark.gpu
def test_stacks_at_once_equal_single_stacks(tmp_path: Path) -> None:
    """Graphs that shared memory by mistake would change each other's results."""
    setting = tiny_config(objective="joint", epochs=4)
    together = train_cifar(CifarJob(setting, RUNS, tmp_path / "all", stack=1), DATA, "cuda")
    assert len({stack.stream for stack in together.trainee.stacks}) == len(RUNS)
    at_once, weights = losses(tmp_path / "all"), learned(together)
    assert len(at_once) == 4 * len(RUNS)
    for run in RUNS:
        out = tmp_path / run.name
        alone = learned(train_cifar(CifarJob(setting, (run,), out), DATA, "cuda"))[run.name]
        for key, loss in losses(out).items():
            assert at_once[key] == pytest.approx(loss, rel=1e-4), key
        assert (weights[run.name] - alone).norm() <= 1e-2 * alone.norm() > 0


@pytest.mark.gpu
def test_resumes(tmp_path: Path) -> None:
    """Stopped after its second epoch and continued, a job on a GPU ends as an undisturbed one."""
    jobs = [
        CifarJob(tiny_config(epochs=4), RUNS, tmp_path / name, checkpoint_every=2, stack=2)
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


def stacked_loss(dim: int = P, beta: float = 0.0, **options: Any) -> StackedProCoLoss:
    rules = [Rule(TAU, name, beta) for name in REALIZATIONS]
    return StackedProCoLoss(C, dim, rules, seeds=range(len(rules)), **options)


@pytest.mark.parametrize("leave_out", [False, True])
def test_check_names_runs_and_classes_without_a_gain(
    leave_out: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on a GPU, values are not read.
    monkeypatch.setattr(validation, "should_validate", lambda validate, *_: bool(validate))
    loss = stacked_loss(leave_out=leave_out)
    z, y = cancelling(2, 5)
    if leave_out:
        # Only the class without its third sample has no gain.
        y[2] = 2
        z[1] = z[0]
    assert loss(z, y).isnan().tolist() == [name in TEMPERED for name in REALIZATIONS]
    with pytest.raises(ValueError, match=r"got 2 of 30 not: run 1 class 2 \(0\), run 2 class 2 "):
        loss.check()
    loss.check()
    z, y = batch(2, 5)
    loss.bank.reset()
    assert loss(z, y).isfinite().all()
    loss.check()


@pytest.mark.gpu
@pytest.mark.parametrize("leave_out", [False, True])
def test_devices_agree(leave_out: bool) -> None:
    here = stacked_loss(dim=128, beta=0.3, leave_out=leave_out)
    there = copy.deepcopy(here).cuda()
    for _ in range(3):
        z, y = batch(2, 5, p=128, dtype=torch.float32)
        x = z.cuda().requires_grad_()
        a, b = here(z.requires_grad_(), y), there(x, y.cuda())
        torch.testing.assert_close(b.cpu(), a, rtol=2e-5, atol=0)
        (a,), (b,) = torch.autograd.grad(a.sum(), z), torch.autograd.grad(b.sum(), x)
        torch.testing.assert_close(b.cpu(), a, rtol=1e-3, atol=1e-5)
        here.start_epoch()
        there.start_epoch()
    for a, b in zip(here.bank.buffers(), there.bank.buffers(), strict=True):
        torch.testing.assert_close(b.cpu(), a, rtol=1e-14, atol=1e-14)
