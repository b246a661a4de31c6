"""Settings that are assigned after a loss is built, a temperature that is learned, and samples that
are in no batch: ignored, without weight, none; tensors without values."""

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from loss_batches import COUNTS, TAU, C, N, P, batch
from losses.test_paths import set_up
from resultant._core import memory
from resultant.classes.rule import REALIZATIONS
from resultant.losses import ProCoBank, ProCoLoss
from resultant.losses.loss import FIXED

# Another value of every argument of the constructor.
OTHERS: dict[str, Any] = {
    "num_classes": C + 1,
    "dim": P + 1,
    "temperature": 0.2,
    "realization": "cosine",
    "beta": 0.5,
    "class_counts": [3, 3, 3, 3, 3, 9],
    "prior": 0.25,
    "family": "power",
    "estimator": "mle",
    "leave_out": True,
    "seed": 7,
    "normalize": False,
    "reduction": "sum",
    "ignore_index": 2,
    "cuda_graph": False,
    "shard_classes": True,
    "process_group": None,
}


def test_every_argument_takes_effect_or_raises() -> None:
    z, y = batch(2)
    names = ProCoLoss.__init__.__annotations__.keys() - {"return"}
    assert OTHERS.keys() == names
    for name, value in OTHERS.items():
        loss = ProCoLoss(C, P, TAU, "angular", class_counts=COUNTS)
        before = loss(z, y)
        if name in FIXED:
            with pytest.raises(
                AttributeError, match=rf"expected {name} as it was .* build another"
            ):
                setattr(loss, name, value)
            continue
        setattr(loss, name, value)
        settings = {"temperature": TAU, "realization": "angular", "class_counts": COUNTS}
        expected = ProCoLoss(C, P, **{**settings, name: value})
        expected.load_state_dict(loss.state_dict())
        assert repr(expected) == repr(loss)
        # Vectors of another length are an error without normalization.
        if name == "normalize":
            with pytest.raises(ValueError, match=r"z of length 1 within .*, got 2 at index 0"):
                loss(2 * z, y)
            continue
        got = loss(z, y)
        assert torch.equal(got, expected(z, y)) and not torch.equal(got, before)
        assert loss.bank.samples_per_epoch == expected.bank.samples_per_epoch


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("temperature", torch.ones(C, 1), rf"\[\] or \[{C}\], got torch.float32 \({C}, 1\)"),
        ("temperature", nn.Parameter(torch.tensor(0.0)), "temperature > 0 and finite, got 0"),
        ("class_counts", [1, 2], r"class_counts \[6\], one per class, got 2"),
        ("reduction", "foo", "reduction to be one of .*, got 'foo'"),
        ("ignore_index", 0.5, "ignore_index to be an integer .* or None, got 0.5"),
    ],
)
def test_a_refused_setting_changes_nothing(name: str, value: Any, message: str) -> None:
    loss, z, y = ProCoLoss(C, P, TAU, class_counts=COUNTS), *batch()
    loss(z, y)
    before = loss.eval()(z, y)
    with pytest.raises(ValueError, match=f"expected .*{message}"):
        setattr(loss, name, value)
    assert torch.equal(loss(z, y), before)


@pytest.mark.parametrize("shape", [(), (C,)])
@pytest.mark.parametrize("realization", REALIZATIONS)
def test_a_learned_temperature_has_its_gradient(realization: str, shape: tuple[int, ...]) -> None:
    """Of finite differences, also where the own class is left out; and the loss is that of the
    number."""
    z, y = batch(2)
    tau = nn.Parameter(0.1 + 0.02 * torch.rand(shape).double())
    for leave_out in (False, True):
        loss = ProCoLoss(C, P, tau, realization, 0.4, COUNTS, leave_out=leave_out)
        assert dict(loss.named_parameters()).keys() == {"temperature"}
        loss(z, y)
        loss.train(leave_out)
        state = copy.deepcopy(loss.bank.state_dict())

        def at(value: Tensor, loss: ProCoLoss = loss, state: Any = state) -> Tensor:
            loss.bank.load_state_dict(state)
            loss.temperature = value
            return loss(z, y)

        assert torch.autograd.gradcheck(at, tau, rtol=1e-6, atol=1e-7)
        if not shape:
            torch.testing.assert_close(at(tau), at(tau.detach()), rtol=1e-12, atol=0)
            assert isinstance(loss.temperature, float) and not list(loss.parameters())


def test_a_temperature_is_trained() -> None:
    """As in CLIP: by its own optimizer, through exp, and beside a network of half precision."""
    z, y = batch(2, dtype=torch.float32)

    class Exp(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.exp()

        def right_inverse(self, tau: Tensor) -> Tensor:
            return tau.log()

    plain: Any = ProCoLoss(C, P, nn.Parameter(torch.tensor(0.5)), class_counts=COUNTS)
    logarithmic = ProCoLoss(C, P, nn.Parameter(torch.tensor(0.5)), class_counts=COUNTS)
    parametrize.register_parametrization(logarithmic, "temperature", Exp())
    for loss in (plain, logarithmic):
        optimizer = torch.optim.Adam(loss.parameters(), 0.02)
        values = []
        for _ in range(12):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                value = loss(z.bfloat16(), y)
            value.backward()
            optimizer.step()
            values.append(float(value.detach()))
        assert values[-1] < values[1] - 0.1 and 0 < float(loss.temperature) < 0.4
        assert "temperature" in " ".join(loss.state_dict()) and "tensor of shape ()" in repr(loss)
    # A step too far is an error on the CPU, and NaN where values are not read.
    with torch.no_grad():
        plain.temperature.fill_(-0.1)
    with pytest.raises(ValueError, match=r"temperature > 0 and finite, got -0\.1"):
        plain(z, y)


def test_temperatures_where_scores_are_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Temperatures per class without a gradient are streamed, those with one are refused."""
    z, y = batch(2)
    tau = torch.linspace(0.08, 0.2, C).double()
    for leave_out in (False, True):
        loss, stored = (
            ProCoLoss(C, P, tau, "temperature", 0.4, COUNTS, leave_out=leave_out) for _ in range(2)
        )
        expected = stored(z, y)
        with monkeypatch.context() as patch:
            patch.setattr(memory, "SCORE_BYTES", 8 * 2 * 24)
            torch.testing.assert_close(loss(z, y), expected, rtol=1e-12, atol=0)
            loss.temperature = nn.Parameter(tau)
            with pytest.raises(RuntimeError, match="a temperature without gradient where scores"):
                loss(z, y)
            with torch.no_grad():
                assert loss(z, y).isfinite()


def test_statistics_do_not_depend_on_the_temperature() -> None:
    losses = [ProCoLoss(C, P, tau) for tau in (0.05, nn.Parameter(torch.tensor(0.3)))]
    z, y = batch(2)
    for loss in losses:
        loss(z, y)
    assert torch.equal(losses[0].bank.old, losses[1].bank.old)


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
