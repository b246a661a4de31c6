"""Settings and batches that the losses refuse: the exception, and the fact in its message."""

# pyright: reportArgumentType=false
# Bad input is passed on purpose.

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from loss_batches import C, P, batch
from resultant.losses import LogitAdjustedCrossEntropy, ProCoBank, ProCoLoss

COUNTS = [5.0] * (C - 1) + [0.0]
Z, Y = torch.eye(P)[:3], torch.arange(3)
ADJUSTED = LogitAdjustedCrossEntropy(COUNTS)


@pytest.mark.parametrize(
    ("z", "y", "options", "message"),
    [
        (Z, Y + C, {}, r"expected y in \[0, 6\), got 6 at index 0"),
        (Z, Y[1:], {}, r"expected y \[3\], one per row of z, got shape \(2,\)"),
        (Z, Y + 3, {}, "class_counts has, got class 5, whose count is zero"),
        (Z, torch.eye(C)[Y], {}, r"class indices, got soft labels \(torch.float32"),
        (Z[:, 1:], Y, {}, r"expected z \[N, 16\] or \[V, N, 16\], got shape \(3, 15\)"),
        (Z[None][:0], Y, {}, r"expected z \[N, 16\] or \[V, N, 16\], got shape \(0, 3, 16\)"),
        (0 * Z, Y, {}, r"z of length 1 within .*, got 0 at index 0 .*zeros have no direction"),
        (2 * Z, Y, {"normalize": False}, r"z of length 1 within .*, got 2 at index 0"),
        (torch.stack([Z, Z], 1), Y, {}, r"views first, .* \(3, 2, 16\) with y \(3,\): use z.trans"),
        (Z, Y, {"weights": torch.ones(2)}, r"expected weights \[3\], one per sample, got"),
        (Z, Y, {"weights": torch.ones(3), "indices_tuple": (Y,)}, "indices_tuple or weights, got"),
    ],
)
@pytest.mark.parametrize("training", [True, False])
def test_batches(z: Tensor, y: Any, options: dict[str, Any], message: str, training: bool) -> None:
    """An error leaves the statistics as they are."""
    options = dict(options)
    normalize = options.pop("normalize", True)
    loss = ProCoLoss(C, P, class_counts=COUNTS, normalize=normalize).train(training)
    before = {name: a.clone() for name, a in loss.state_dict().items()}
    with pytest.raises(ValueError, match=message):
        loss(z, y, **options)
    assert all(torch.equal(a, before[name]) for name, a in loss.state_dict().items())


@pytest.mark.parametrize(
    ("call", "fact"),
    [
        (lambda: ProCoLoss(0, 4), "num_classes to be an integer >= 1, got 0"),
        (lambda: ProCoLoss(3, 1), "p to be an integer >= 2, got 1"),
        (lambda: ProCoLoss(3, 4, 0.0), "temperature > 0 and finite, got 0"),
        (lambda: ProCoLoss(3, 4, torch.tensor([0.1])), r"number, or .* \[3\], got .* \(1,\)"),
        (lambda: ProCoLoss(3, 4, 0.1, "linear"), "realization to be one of .*, got 'linear'"),
        (lambda: ProCoLoss(3, 4, class_counts=[1, -2, 1]), "class_counts >= 0 .*-2 at index 1"),
        (lambda: ProCoLoss(3, 4, class_counts=[1, 1]), r"class_counts \[3\], one per class, got 2"),
        (
            lambda: ProCoLoss(3, 4, prior=-1, class_counts=[1, 0, 1]),
            r"negative prior \(-1\), got 0 of class 1",
        ),
        (lambda: ProCoLoss(3, 4, estimator="sra"), "estimator to be one of .*'sra'"),
        (lambda: ProCoLoss(3, 4, reduction="max"), "reduction to be one of .*'max'"),
        (lambda: ProCoLoss(3, 4, cuda_graph="yes"), "cuda_graph to be 'auto' or a bool, got 'yes'"),
        (lambda: LogitAdjustedCrossEntropy([]), r"class_counts \[C\] of one class or more"),
        (lambda: ADJUSTED(torch.ones(3, 5), Y), r"logits \[N, 6\] or \[V, N, 6\], got shape"),
        (lambda: ADJUSTED(torch.ones(3, C), Y + 3), "has, got class 5, whose count is zero"),
        (lambda: ProCoBank(C, P).state(bank="mean"), "bank to be 'old' or 'new', got 'mean'"),
        (lambda: ProCoBank(C, P).start_epoch(-1), "epoch to be an integer >= 0, got -1"),
        (lambda: ProCoBank(C, P, samples_per_epoch=0), "samples_per_epoch to be an integer >= 1"),
    ],
)
def test_refused(call: Callable[[], object], fact: str) -> None:
    with pytest.raises(ValueError, match=f"expected .*{fact}"):
        call()


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_features_normalized_in_half_precision(half: torch.dtype) -> None:
    """They are not of unit length in float32: without `normalize` the error says what to do."""
    loss, z = ProCoLoss(C, P, normalize=False), nn.functional.normalize(batch()[0].to(half), dim=-1)
    y = torch.arange(len(z)) % C
    assert loss(z, y).isfinite() and ProCoLoss(C, P)(z.float(), y).isfinite()
    with pytest.raises(ValueError, match=r"index \d+ \(normalize after casting to float32; "):
        loss(z.float(), y)
