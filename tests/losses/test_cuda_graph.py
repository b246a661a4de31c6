"""Replayed steps of the loss: which steps are recorded, and what a replay must not change. On the
CPU a stand-in computes the step again in place of a graph."""

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import loss_batches
from loss_batches import C, play_graphs
from losses.test_paths import P, compare, made
from resultant.losses import ProCoLoss


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "cpu":
        play_graphs(monkeypatch)
    return request.param


def twins(device: str) -> tuple[ProCoLoss, ProCoLoss]:
    return made().to(device), made(cuda_graph=True).to(device)


def batch(device: str, n: int = 20) -> tuple[Tensor, Tensor]:
    z, y = loss_batches.batch(2, n=n, p=P)
    return z.to(device).requires_grad_(), y.to(device)


def graphs(loss: ProCoLoss) -> int:
    assert loss.graphs is not None
    return len(loss.graphs.recorded)


def test_recorded_at_the_third_call_of_a_shape(device: str) -> None:
    """The last batch of an epoch is smaller; ever new shapes are not recorded, and four at most."""
    plain, loss = made().to(device), made(cuda_graph="auto").to(device)
    assert loss.graphs is not None and plain.graphs is None
    for epoch in range(3):
        for n in (20, 20, 13):
            compare(plain, loss, *batch(device, n))
        assert graphs(loss) == (epoch > 0) + (epoch > 1)
    for n in (*range(100, 170), *(5, 6, 7) * 3):
        compare(plain, loss, *batch(device, n))
    assert len(loss.graphs.met) <= 65
    assert [key[0][1] for key in loss.graphs.recorded] == [20, 13, 5, 6]  # type: ignore[index]


@pytest.mark.parametrize(
    "context", [torch.no_grad, torch.inference_mode, torch.enable_grad], ids=lambda c: c.__name__
)
def test_modes_between_replays(device: str, context: Callable[..., Any]) -> None:
    """Steps without a gradient, and evaluations, are not replayed, and leave the graph valid."""
    plain, loss = twins(device)
    z, y = batch(device)
    for training in (True, False):
        compare(plain, loss, z, y)
        with context():
            for gradient in (True, False):
                compare(plain, loss, z, y, gradient, training)
    compare(plain, loss, z, y)
    assert graphs(loss) == 1


def test_states_and_moves_between_replays(device: str) -> None:
    """A step reads the state after it is loaded, aged or reset, and after a move and back; graphs
    of another temperature or other buffers are dropped."""
    plain, loss = twins(device)
    z, y = batch(device)
    changes: list[Callable[[ProCoLoss], object]] = [
        lambda one: one.load_state_dict(made().to(device).state_dict()),
        lambda one: one.load_state_dict(made().to(device).state_dict(), assign=True),
        lambda one: one.start_epoch(),
        lambda one: one.bank.reset(),
        lambda one: setattr(one, "temperature", 0.2),
        lambda one: one.to("cpu").to(device),
        lambda one: nn.ModuleList([one]).double().half().float(),
    ]
    for change in changes:
        compare(plain, loss, z, y)
        change(plain)
        change(loss)
        compare(plain, loss, z, y)
        assert graphs(loss) == 1


def test_results_stay_valid_after_the_next_call(device: str) -> None:
    plain, loss = twins(device)
    results, batches = [], [batch(device, n) for n in (20, 20, 13)]
    for one in (plain, loss):
        values = [one(z, y) for z, y in batches]
        grads = torch.autograd.grad(torch.stack(values).sum(), [z for z, _ in batches])
        results.append((*values, *grads))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-9, atol=1e-13)


def test_copies_begin_without_graphs(device: str) -> None:
    loss = made(cuda_graph=True).to(device)
    z, y = batch(device)
    loss(z, y)
    for other in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        assert graphs(other) == 0 and graphs(loss) == 1
        compare(copy.deepcopy(loss), other, z, y)


def test_two_losses_of_one_network(device: str) -> None:
    """Each loss has its own banks and graphs; gradients add up, also scaled as for float16."""
    x, y = batch(device)
    scaler = torch.amp.GradScaler(device, init_scale=2.0**10)
    layer = nn.Linear(x.shape[-1], x.shape[-1]).to(device)
    optimizer = torch.optim.SGD(layer.parameters(), 0.0)
    grads = []
    for graph in (False, True):
        losses = [
            made(name, cuda_graph=graph, seed=seed).to(device)
            for seed, name in enumerate(("native", "angular"))
        ]
        for _ in range(3):
            optimizer.zero_grad(set_to_none=True)
            z = layer(x.detach().float()).bfloat16()
            with torch.autocast(device, torch.bfloat16):
                total = torch.stack([loss(z, y) for loss in losses]).sum()
            scaler.scale(total).backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
        assert layer.weight.grad is not None
        grads.append(layer.weight.grad.clone())
    bar = 2e-2 * float(grads[0].abs().max())
    torch.testing.assert_close(grads[1], grads[0], rtol=0, atol=bar)


def test_a_step_that_cannot_be_recorded(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hooks of a checkpoint, or no memory: a warning, and the plain step."""
    plain, loss = twins(device)
    z, y = batch(device)
    with pytest.warns(UserWarning, match="no CUDA graph of the loss could be recorded"):
        value: Any = checkpoint(loss, z, y, use_reentrant=False)
    torch.testing.assert_close(value, plain(z, y))
    assert graphs(loss) == 0
    compare(plain, loss, z, y)


@pytest.mark.gpu
def test_no_synchronisation() -> None:
    loss = made(leave_out=True, cuda_graph="auto", ignore_index=-1).cuda()
    z, y = batch("cuda")
    for _ in range(3):
        loss(z, y, weights=torch.ones(len(y), device="cuda")).backward()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for graphs in (loss.graphs, None):
            loss.graphs = graphs
            loss(z, y, weights=torch.ones(len(y), device="cuda")).backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.gpu
def test_labels_that_are_no_class() -> None:
    """The loss is NaN, and the banks and the device go on."""
    z, y = batch("cuda")
    for graph in (False, True):
        loss = made(leave_out=True, cuda_graph=graph).cuda()
        for label in (-1, C, 10**6):
            wrong = y.clone()
            wrong[3] = label
            assert loss(z, wrong).isnan()
        assert loss(z, y).isfinite() and int(loss.state().count.sum()) == 2 * (4 * len(y) - 3)


@pytest.mark.gpu
@pytest.mark.parametrize("graph", [False, True])
def test_inside_a_graph_of_the_caller(graph: bool) -> None:
    plain, loss = made().cuda(), made(cuda_graph=graph).cuda()
    z, y = batch("cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for one in (plain, loss):
            torch.autograd.grad(one(z, y), z)
    torch.cuda.current_stream().wait_stream(side)
    outer = torch.cuda.CUDAGraph()
    with torch.cuda.graph(outer):
        value = loss(z, y)
        (gradient,) = torch.autograd.grad(value, z)
    outer.replay()
    expected = plain(z, y)
    torch.testing.assert_close(value, expected, rtol=1e-11, atol=0)
    (first,) = torch.autograd.grad(expected, z)
    torch.testing.assert_close(gradient, first, rtol=1e-9, atol=1e-13)


FIRST = """
import torch
from resultant import ProCoLoss

z = torch.nn.functional.normalize(torch.randn(8, 32, device="cuda"), dim=-1).requires_grad_()
y = torch.randint(7, (8,), device="cuda")
loss = ProCoLoss(7, 32, realization="angular", cuda_graph=True, prior=0.0).cuda()
(gradient,) = torch.autograd.grad(loss(z, y), z)
assert gradient.isfinite().all() and len(loss.graphs.recorded) == 1
"""


@pytest.mark.gpu
def test_graphs_in_a_process_without_other_products() -> None:
    """No backward pass has used cuBLAS before the capture."""
    subprocess.run([sys.executable, "-c", FIRST], check=True, timeout=120)
