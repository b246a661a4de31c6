"""Linear probes against a plain torch loop."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from resultant_reproduction.recipes.config import ProbeConfig
from resultant_reproduction.recipes.probes import linear_probes, main_encoder

F32, F64 = torch.float32, torch.float64
N, D, C = 75, 6, 4
CONFIG = ProbeConfig(epochs=7, batch_size=16, seed=3)


def sample(n: int, d: int = D, *, seed: int = 0, dtype: torch.dtype = F64) -> tuple[Tensor, Tensor]:
    """Features [n, d] around overlapping class centres, and labels [n]."""
    centres = torch.randn(C, d, dtype=F64, generator=torch.Generator().manual_seed(99))
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(C, (n,), generator=generator)
    return (centres[y] + torch.randn(n, d, dtype=F64, generator=generator)).to(dtype), y


def reference(x: Tensor, y: Tensor, config: ProbeConfig) -> tuple[Tensor, Tensor]:
    """Weight [d, C] and bias [C] by torch's layer, loss, optimizer and schedule."""
    layer = nn.Linear(x.shape[1], C, dtype=x.dtype)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    optimizer = torch.optim.SGD(
        layer.parameters(),
        config.learning_rate,
        momentum=config.momentum,
        weight_decay=config.weight_decay,
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, config.epochs)
    generator = torch.Generator().manual_seed(config.seed)
    for _ in range(config.epochs):
        for some in torch.randperm(len(x), generator=generator).split(config.batch_size):
            optimizer.zero_grad()
            F.cross_entropy(layer(x[some]), y[some]).backward()
            optimizer.step()
        schedule.step()
    return layer.weight.detach().T, layer.bias.detach()


@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
@pytest.mark.parametrize(("dtype", "tolerance"), [(F64, 1e-12), (F32, 2e-5)])
def test_equals_torch_loop(dtype: torch.dtype, tolerance: float, weight_decay: float) -> None:
    config = replace(CONFIG, weight_decay=weight_decay)
    x, y = sample(N, dtype=dtype)
    x_test, y_test = sample(40, seed=1, dtype=dtype)
    result = linear_probes(x[None], y, x_test[None], y_test, C, config)
    weight, bias = reference(x, y, config)
    assert result.weight.dtype == dtype
    torch.testing.assert_close(result.weight[0], weight, rtol=0, atol=tolerance)
    torch.testing.assert_close(result.bias[0], bias, rtol=0, atol=tolerance)
    guesses = (x_test @ weight + bias).argmax(-1)
    assert torch.equal(result.predictions[0], guesses)
    assert result.accuracy[0] == float((guesses == y_test).double().mean())


def test_accuracies_counted_one_by_one() -> None:
    counts = [500, 100, 20, 19]
    x, y = sample(N)
    x_test, y_test = sample(90, seed=1)
    keep = y_test != 2
    x_test, y_test = x_test[keep], y_test[keep]
    result = linear_probes(
        [x, x[:, :2]], y, [x_test, x_test[:, :2]], y_test, C, CONFIG, counts=counts
    )
    assert result.groups is not None
    assert 0 < result.accuracy[1] < result.accuracy[0] < 1
    for m, guesses in enumerate(result.predictions.tolist()):
        right = [
            [g == t for g, t in zip(guesses, y_test.tolist(), strict=True) if t == c]
            for c in range(C)
        ]
        shares = [sum(r) / len(r) if r else math.nan for r in right]
        assert result.per_class[m].tolist() == pytest.approx(shares, nan_ok=True)
        assert result.accuracy[m] == pytest.approx(sum(map(sum, right)) / len(y_test))
        assert result.groups["head"][m] == pytest.approx(shares[0])
        assert result.groups["medium"][m] == pytest.approx(shares[1])
        assert result.groups["tail"][m] == pytest.approx(shares[3])
    listed = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert listed["per_class"][0][2] is None
    assert listed["groups"]["tail"] == result.groups["tail"].tolist()
    # A group without classes has no accuracy; equal counts and none have no groups.
    head = linear_probes([x], y, [x], y, C, CONFIG, counts=[200, 300, 400, 500]).to_dict()
    assert isinstance(head["groups"], dict) and head["groups"]["tail"] == [None]
    for same in (None, [7] * C):
        assert linear_probes([x], y, [x], y, C, CONFIG, counts=same).groups is None


X, Y = sample(N)
WITH_NAN = X.clone()
WITH_NAN[4, 2] = math.nan
# Arguments that are refused, and the fact in the message.
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"train": [X, WITH_NAN]}, r"train\[1\] finite, got nan at row 4, column 2"),
    ({"train_labels": Y + 1}, r"train_labels in \[0, 4\), got 4 at index \d"),
    ({"train_labels": Y[:-1]}, r"train_labels \[75\].*got shape \(74,\)"),
    ({"train": [X, X.to("meta")]}, r"train\[1\] of device cpu, got meta"),
    ({"train": [X, X[:-2]]}, r"train\[1\] of rows 75, got 73"),
    ({"test": [X, X[:, :2]]}, r"widths \[6, 6\], got \[6, 2\]"),
    ({"train": X}, r"\[M, n, d\] or a list"),
    ({"train": []}, r"train \[M, n, d\] or a list of one \[n, d_i\] or more, got none"),
    ({"train": [X[:0], X[:0]]}, "one row or more"),
    ({"train": [X, X.long()]}, r"train\[1\] of a floating dtype"),
    ({"train": [X, X.float()]}, "all of float64 or none"),
    ({"num_classes": 1}, "num_classes to be an integer >= 2, got 1"),
    ({"counts": [1, 2]}, r"counts \[4\], got \[2\]"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_refused(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"train": [X, X], "train_labels": Y, "test": [X, X]}
    arguments |= {"test_labels": Y, "num_classes": C, "progress": pytest.fail}
    with pytest.raises(ValueError, match=message):
        linear_probes(**(arguments | change), config=CONFIG)


def test_divergence_is_an_error() -> None:
    message = "expected logits below 4.5e.15 after training .*, got "
    with pytest.raises(ValueError, match=message + "weights that are not finite in probe 1$"):
        linear_probes([X, X * 1e200], Y, [X, X], Y, C, CONFIG)
    # Finite, but without a correct digit.
    with pytest.raises(ValueError, match=message + r"\d\.\de\+\d\d in probe b$"):
        linear_probes([X, X * 1e15], Y, [X, X * 1e15], Y, C, CONFIG, names=("a", "b"))


@pytest.mark.gpu
@pytest.mark.parametrize(("dtype", "tolerance"), [(F64, 1e-11), (F32, 5e-5)])
def test_devices_agree(dtype: torch.dtype, tolerance: float) -> None:
    """Without TF32, which the caller has allowed."""
    x, y = sample(1000, 64, dtype=dtype)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        cpu, gpu = (
            linear_probes([a, a[:, :40]], b, [a, a[:, :40]], b, C, CONFIG)
            for a, b in ((x, y), (x.cuda(), y.cuda()))
        )
    finally:
        torch.set_float32_matmul_precision(before)
    torch.testing.assert_close(gpu.weight.cpu(), cpu.weight, rtol=0, atol=tolerance)
    torch.testing.assert_close(gpu.bias.cpu(), cpu.bias, rtol=0, atol=tolerance)


def test_encoder_of_the_main_comparison() -> None:
    """As in tab:frozen-hyperparameters; features of other datasets are left as they are."""
    assert {main_encoder(name) for name in ("cifar10", "cifar100", None, "mine", ["x"])} == {"raw"}
    assert {main_encoder(name) for name in ("imagenet-lt", "inaturalist18", "places-lt")} == {
        "unit"
    }
