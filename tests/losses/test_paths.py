"""Every path of a step against the plain path: modes, views, gradients, weights and labels."""

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from loss_batches import COUNTS, TAU, C, batch, play_graphs
from resultant._core import memory
from resultant.classes.rule import REALIZATIONS, Rule
from resultant.losses import ProCoLoss
from resultant.losses.step_streamed import should_stream, streamed_step
from resultant_reproduction.cifar.losses import StackedProCoLoss

# Expansions are short in this dimension, and quickly compiled.
P = 64
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
DTYPES = {"cpu": torch.float64, "cuda": torch.float32}
# Relative rounding by dtype.
BARS = {torch.float64: 1e-12, torch.float32: 2e-5}
PATHS = ["streamed", "graph", "sharded", "stacked", "compiled"]


class Stacked(StackedProCoLoss):
    """One run of the trainer's loss, called as `ProCoLoss`."""

    def forward(self, z: Tensor, y: Tensor) -> Tensor:
        z = torch.nn.functional.normalize(z if z.dim() == 3 else z.unsqueeze(0), dim=-1)
        return super().forward(z.unsqueeze(1), y).squeeze()


def made(realization: str = "native", leave_out: bool = False, **options: Any) -> ProCoLoss:
    # An epoch of ten batches.
    counts, options = 3 * COUNTS, {"cuda_graph": False, **options}
    return ProCoLoss(C, P, TAU, realization, 0.3, counts, 0.7, leave_out=leave_out, **options)


def other(path: str, realization: str, leave_out: bool, **options: Any) -> torch.nn.Module:
    if path == "stacked":
        rules = [Rule(TAU, realization, 0.3)]
        return Stacked(C, P, rules, COUNTS, 0.7, seeds=[0], leave_out=leave_out)
    options |= {"cuda_graph": path == "graph", "shard_classes": path == "sharded"}
    return made(realization, leave_out, **options)


def set_up(path: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if path == "streamed":
        # Chunks of two classes of one view.
        for name in ("SCORE_BYTES", "DEVICE_BYTES"):
            monkeypatch.setattr(memory, name, 8 * 2 * 24)
    if path == "graph" and device == "cpu":
        play_graphs(monkeypatch)


def compare(
    plain: ProCoLoss, loss: Any, z: Tensor, y: Tensor, gradient: bool = True, training: bool = True
) -> None:
    """Take a step; compare losses, gradients of a weighted sum and banks, to the rounding."""
    bar, results = BARS[z.dtype], []
    with pytest.MonkeyPatch.context() as patch:
        for name in ("SCORE_BYTES", "DEVICE_BYTES"):
            patch.setattr(memory, name, 1 << 26)
        for one in (plain, loss):
            if one is loss:
                patch.undo()
            x = z.detach().clone().requires_grad_(gradient)
            value = one.train(training)(x, y)
            weights = torch.linspace(1, 2, value.numel(), device=z.device).view(value.shape)
            row = [value.detach()]
            if value.requires_grad:
                row.append(torch.autograd.grad((value * weights).sum(), x)[0])
            results.append(row)
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(b, a, rtol=bar, atol=bar * float(a.abs().max()))
    for name in ("old", "new", "epoch"):
        a, b = getattr(plain.bank, name), getattr(loss.bank, name)
        torch.testing.assert_close(b, a, rtol=1e-13, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("path", "realization", "leave_out"),
    [(path, name, i % 2 == 0) for i, name in enumerate(REALIZATIONS) for path in PATHS],
)
def test_equals_the_plain_path(
    path: str, realization: str, leave_out: bool, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up(path, device, monkeypatch)
    # Tracing takes long; `test_table` has the other modes of compiled steps.
    few = path == "compiled"
    modes = [(True, True), (False, False)] if few else [*product((True, False), repeat=2)]
    for views in ((), (2,)) if few and realization == "preserve" else ((), (1,), (2,))[2 * few :]:
        plain = made(realization, leave_out).to(device)
        loss: Any = other(path, realization, leave_out).to(device)
        called: Any = loss
        if path == "compiled":
            torch.compiler.reset()
            called = torch.compile(loss, backend="eager", fullgraph=True)
        for training, gradient in modes:
            z, y = (a.to(device) for a in batch(*views, p=P, dtype=DTYPES[device]))
            compare(plain, called, z, y, gradient, training)
            assert path != "streamed" or should_stream(loss.bank, z)
        assert path != "graph" or loss.graphs.recorded


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("path", ["plain", "streamed", "graph", "sharded"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_options(path: str, reduction: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reductions, weights, ignored samples and raw features, each against its definition."""
    set_up(path, device, monkeypatch)
    dtype, bar = DTYPES[device], BARS[DTYPES[device]]
    for leave_out, views in ((False, (2,)), (True, ())):
        z, y = batch(*views, p=P, dtype=dtype)
        kept = torch.arange(len(y)) % 5 != 0
        length, w = 0.1 + 5 * torch.rand(*z.shape[:-1], 1).to(dtype), torch.rand(len(y)).to(dtype)
        each = made("angular", leave_out, reduction="none").to(device)
        options: dict[str, Any] = {"reduction": reduction, "ignore_index": -1}
        loss: Any = other(path, "angular", leave_out, **options).to(device)
        z, y, w, length, kept = (a.to(device) for a in (z, y, w, length, kept))
        full = torch.zeros(z.shape[:-1], dtype=dtype, device=device)
        x = z.clone().requires_grad_()
        full[..., kept] = each(x[..., kept, :], y[kept]) * w[kept]
        total = (w * kept).sum() * (len(z) if views else 1)
        expected = {"none": full, "sum": full.sum(), "mean": full.sum() / total}[reduction]
        # Strided, as a network may give it.
        raw = torch.stack([z * length, z], -1)[..., 0].requires_grad_()
        got = loss(raw, y.masked_fill(~kept, -1), weights=w)
        torch.testing.assert_close(got, expected, rtol=bar, atol=bar)
        (grad,) = torch.autograd.grad(expected.sum(), x)
        (other_grad,) = torch.autograd.grad(got.sum(), raw)
        # A length has no effect, and divides the gradient.
        atol = bar * float(grad.abs().max())
        torch.testing.assert_close(other_grad * length, grad, rtol=0, atol=atol)
        for name in ("old", "new"):
            a, b = getattr(each.bank, name), getattr(loss.bank, name)
            torch.testing.assert_close(b, a, rtol=1e-13, atol=bar / 20)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("path", ["plain", "streamed", "graph", "sharded"])
def test_tensors_not_contiguous(path: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Views that are transposed, expanded or strided are read as they are."""
    set_up(path, device, monkeypatch)
    z, y = (a.to(device) for a in batch(2, p=P, dtype=DTYPES[device]))
    strided = torch.stack([y, y], -1)[:, 0]
    wide = torch.cat([z, z], -1)[..., :P]
    for x in (z.transpose(0, 1).contiguous().transpose(0, 1), z[:1].expand_as(z), wide):
        plain, loss = (
            one.to(device) for one in (made("angular", True), other(path, "angular", True))
        )
        for training, gradient in product((True, False), repeat=2):
            expected, got = (
                one.train(training)(a.detach().requires_grad_(gradient), labels)
                for one, a, labels in ((plain, x.contiguous(), y), (loss, x, strided))
            )
            torch.testing.assert_close(got, expected, rtol=BARS[z.dtype], atol=0)


def streamed(loss: ProCoLoss, z: Tensor, y: Tensor) -> Tensor:
    return streamed_step(loss, loss.bank.ranks.gather(z, y))


def test_one_class_and_classes_without_a_prior() -> None:
    """Without other classes the streamed loss is zero; a class of prior zero has no share."""
    z, y = batch(2, p=P)
    z.requires_grad_()
    alone = streamed(ProCoLoss(1, P), z, y * 0)
    assert (alone == 0).all() and torch.autograd.grad(alone.sum(), z)[0].abs().max() == 0
    counts = COUNTS.clone()
    counts[2:] = 0
    plain, other = (ProCoLoss(C, P, TAU, class_counts=counts) for _ in range(2))
    torch.testing.assert_close(streamed(other, z, y % 2).mean(), plain(z, y % 2))


def test_only_large_scores_are_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    loss, (z, y) = ProCoLoss(C, P, prior=0.0), batch(2, p=P)
    size = z.numel() // P * C * z.element_size()
    monkeypatch.setattr(memory, "SCORE_BYTES", size)
    assert not should_stream(loss.bank, z)
    monkeypatch.setattr(memory, "SCORE_BYTES", size - 1)
    assert should_stream(loss.bank, z)
    with pytest.raises(RuntimeError, match="expected first derivatives only"):
        torch.autograd.grad(loss(z.requires_grad_(), y), z, create_graph=True)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert not should_stream(loss.bank, z)


@pytest.mark.gpu
def test_many_classes_on_a_device() -> None:
    """Scores of 200,000 classes are streamed by kernels, in both modes, of one and two views."""
    classes, n = 200_000, 512
    y = torch.randint(classes, (n,), device="cuda")
    z = torch.nn.functional.normalize(torch.randn(2, n, P, device="cuda"), dim=-1)
    loss = ProCoLoss(classes, P, prior=0.0).cuda()
    for gradient in (True, False):
        assert loss(z.clone().requires_grad_(gradient), y).isfinite()
    loss.eval()
    parts = [
        torch.nn.functional.cross_entropy(loss.scores(view[rows]), y[rows])
        for view in z
        for rows in torch.arange(n, device="cuda").split(64)
    ]
    expected = torch.stack(parts).view(2, -1).mean(1)
    for gradient in (True, False):
        x = z.clone().requires_grad_(gradient)
        torch.testing.assert_close(loss(x, y), expected.mean(), rtol=1e-5, atol=0)
        for view, one in zip(x, expected, strict=True):
            torch.testing.assert_close(loss(view, y), one, rtol=1e-5, atol=0)


@pytest.mark.parametrize("device", DEVICES)
def test_second_derivatives_of_a_replayed_step(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are an error that says what to do; first derivatives go on."""
    set_up("graph", device, monkeypatch)
    z, y = (a.to(device) for a in batch(2, p=P, dtype=DTYPES[device]))
    loss, x = made("angular", cuda_graph=True).to(device), z.clone().requires_grad_()
    with pytest.raises(RuntimeError, match=r"first derivatives only: .* cuda_graph=False"):
        torch.autograd.grad(loss(x, y), x, create_graph=True)
    assert torch.autograd.grad(loss(x, y), x)[0].isfinite().all()
    (first,) = torch.autograd.grad(made("angular").to(device)(x, y), x, create_graph=True)
    assert torch.autograd.grad(first.square().sum(), x)[0].isfinite().all()
