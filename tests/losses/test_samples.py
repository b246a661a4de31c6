"""Samples that are in no batch: ignored, without weight, none; and tensors without values."""

import math
from typing import Any

import pytest
import torch

from loss_batches import COUNTS, TAU, C, N, P, batch
from losses.test_paths import set_up
from resultant.losses import ProCoBank, ProCoLoss

PATHS = ["plain", "streamed", "graph", "sharded"]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("label", [-1, 0])
def test_epochs_count_samples_that_are_not_ignored(label: int, device: str) -> None:
    """With half of the data ignored, also where a step has more rows than an epoch has samples."""
    loss = ProCoLoss(3, 8, class_counts=[4, 4, 4], ignore_index=label).to(device)
    z = torch.nn.functional.normalize(torch.randn(24, 8), dim=-1).to(device)
    y = torch.arange(24) % 2 + 1
    y[::2] = label
    y = y.to(device)
    epochs = []
    for rows in torch.arange(8 * 24).remainder(24).split(6):
        loss(z[rows], y[rows])
        epochs.append(int(loss.bank.epoch))
    assert epochs == [i // 4 for i in range(32)]
    state = loss.state_dict()
    assert state["bank.seen"] == 12
    large = ProCoLoss(3, 8, class_counts=[4, 4, 4], ignore_index=label).to(device)
    for epoch in range(3):
        large(z, y)
        assert int(large.bank.epoch) == epoch and large.state_dict()["bank.seen"] == 12


def test_weights() -> None:
    """Integers and booleans are weights; ignored samples may have any."""
    z, y = batch()
    weights = torch.arange(N) % 3
    results = [
        ProCoLoss(C, P)(z, y, weights=w) for w in (weights, weights.double(), weights.float())
    ]
    torch.testing.assert_close(results[0], results[1])
    torch.testing.assert_close(results[0], results[2])
    mask = weights > 0
    torch.testing.assert_close(
        ProCoLoss(C, P)(z, y, weights=mask), ProCoLoss(C, P)(z, y, weights=mask.double())
    )
    loss = ProCoLoss(C, P, ignore_index=2)
    some = torch.ones(N).double().masked_fill(y == 2, math.nan)
    torch.testing.assert_close(loss(z, y, weights=some), ProCoLoss(C, P, ignore_index=2)(z, y))
    for wrong, message in (
        (-weights, r"weights >= 0 and finite, got -1 at index 1"),
        (weights / 0, "weights >= 0 and finite, got nan at index 0"),
        (weights + 1j, "weights of real numbers, got torch.complex64"),
    ):
        with pytest.raises(ValueError, match=message):
            loss(z, y, weights=wrong)


@pytest.mark.parametrize("path", [*PATHS, "compiled"])
def test_the_loss_of_no_samples_is_zero(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an empty batch, of one whose samples are all ignored, and of weights that are zero."""
    set_up(path, "cpu", monkeypatch)
    options: dict[str, Any] = {"class_counts": COUNTS, "ignore_index": -1}
    options |= {"shard_classes": path == "sharded", "cuda_graph": path == "graph"}
    loss: Any = ProCoLoss(C, P, TAU, "angular", leave_out=True, **options)
    loss(*batch(2))
    before = loss.bank.old.clone()
    called = torch.compile(loss, backend="eager") if path == "compiled" else loss
    # Every shape is traced anew.
    for n in (0,) if path == "compiled" else (0, 5):
        for views in ((), (2,))[path == "compiled" :]:
            x = torch.randn(*views, n, P).double().requires_grad_()
            value = called(x, torch.full((n,), -1))
            value.backward()
            assert value == 0 and x.grad is not None and not x.grad.any()
    assert torch.equal(loss.bank.old, before)
    for reduction in () if path == "compiled" else ("sum", "none"):
        loss.reduction = reduction
        assert called(torch.randn(0, P).double(), torch.zeros(0).long()).sum() == 0
    loss.reduction = "mean"
    z, y = batch(2)
    assert called(z, y, weights=torch.zeros(N)) == 0


def test_no_values() -> None:
    """On the meta device and of fake tensors a step has its shapes and its effects."""
    with torch.device("meta"):
        meta = ProCoLoss(C, P, TAU, "temperature", class_counts=COUNTS, ignore_index=0)
        z, y = torch.randn(2, N, P, requires_grad=True), torch.zeros(N).long()
    value = meta(z, y)
    value.backward()
    assert value.is_meta and value.shape == () and z.grad is not None and z.grad.is_meta
    assert meta.scores(z).shape == (2, N, C)


def test_states_in_float32_are_assigned_in_float64() -> None:
    plain, loss = ProCoLoss(C, P), ProCoLoss(C, P)
    z, y = batch()
    plain(z, y)
    state = {
        name: a.float() if a.is_floating_point() else a for name, a in plain.state_dict().items()
    }
    loss.load_state_dict(state, assign=True)
    torch.testing.assert_close(loss(z, y), plain(z, y), rtol=1e-5, atol=0)


def test_built_in_inference_mode() -> None:
    with torch.inference_mode():
        loss, bank = ProCoLoss(C, P, class_counts=COUNTS), ProCoBank(C, P)
    z, y = batch()
    loss(z.requires_grad_(), y).backward()
    bank.update(z.detach(), y)
    assert loss.state().count.sum() == bank.state().count.sum() == N
