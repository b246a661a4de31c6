"""Arguments of the ProCo loss, settings between steps, and batches that it refuses."""

# pyright: reportArgumentType=false
# Bad input is passed on purpose.

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from loss_batches import COUNTS, TAU, C, N, P, batch, cancelling, wrong_length
from loss_batches import seeded as seeded
from resultant._core import validation
from resultant.classes.realization import class_scores
from resultant.classes.rule import REALIZATIONS, TEMPERED
from resultant.losses import ProCoLoss


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_classes": 0}, r"expected num_classes to be an integer >= 1, got 0"),
        ({"num_classes": True}, r"expected num_classes to be an integer >= 1, got True"),
        ({"dim": 1}, r"expected p >= 2, got 1"),
        ({"temperature": 0.0}, r"expected temperature > 0 and finite, got 0"),
        ({"temperature": None}, r"expected temperature to be a finite number, got None"),
        ({"temperature": math.nan}, r"expected temperature to be a finite number, got nan"),
        ({"temperature": "0.1"}, r"expected temperature to be a finite number, got '0.1'"),
        ({"temperature": torch.tensor(True)}, r"temperature to be a finite number, got True"),
        ({"temperature": torch.tensor([0.1])}, r"temperature to be a finite number, got tensor"),
        ({"temperature": nn.Parameter(torch.tensor(-1.0))}, r"temperature > 0 and finite, got -1"),
        ({"realization": "linear"}, r"expected realization to be one of .*, got 'linear'"),
        ({"beta": (0.0, 1.0)}, r"expected beta to be a finite number, got \(0.0, 1.0\)"),
        ({"beta": math.inf}, r"expected beta to be a finite number, got inf"),
        ({"class_counts": [1.0, math.nan, 1.0]}, r"expected class_counts >= 0 .*at index 1"),
        ({"class_counts": [1.0, -2.0, 1.0]}, r"expected class_counts >= 0 .*-2 at index 1"),
        ({"class_counts": [0.0, 0.0, 0.0]}, r"the sum of class_counts > 0 and finite, got 0"),
        ({"class_counts": [1.0, 1.0]}, r"expected class_counts \[3\], one per class, got 2"),
        ({"family": "cubic"}, r"expected family to be one of .*'cubic'"),
        ({"estimator": "sra"}, r"expected estimator to be one of .*'sra'"),
        ({"reduction": "max"}, r"expected reduction to be one of .*'max'"),
        ({"cuda_graph": "yes"}, r"expected cuda_graph to be 'auto' or a bool, got 'yes'"),
        (
            {"class_counts": [1.0, 0.0, 1.0], "prior": -1.0},
            r"class_counts > 0 for a negative prior \(-1\), got 0 of class 1",
        ),
        *(
            ({"seed": seed}, r"expected seed to be an integer >= 0, got")
            for seed in (-1, (1, 2), 2.0, True, None, "ab")
        ),
    ],
)
def test_bad_settings(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ProCoLoss(**{"num_classes": 3, "dim": 4, **arguments})


def test_numbers_of_any_kind() -> None:
    """A tensor or an array without dimensions is a number, and a parameter is not learned."""
    z, y = batch()
    plain = ProCoLoss(C, P, 0.25, "angular", 0.5, prior=0.5, seed=3)(z, y)
    for number in (torch.tensor, np.float32, np.array):
        settings = (number(0.25), "angular", number(0.5))
        assert torch.equal(ProCoLoss(C, P, *settings, prior=number(0.5), seed=3)(z, y), plain)
    for integer in (np.int64, np.uint8, torch.tensor):
        loss = ProCoLoss(integer(C), integer(P), 0.25, "angular", 0.5, prior=0.5, seed=integer(3))
        assert torch.equal(loss(z, y), plain)
    learned = ProCoLoss(C, P, nn.Parameter(torch.tensor(0.25)))
    assert learned.temperature == 0.25 and not list(learned.parameters())


def test_bad_batches() -> None:
    loss = ProCoLoss(C, P, normalize=False)
    z, y = batch()
    before = loss.bank.old.clone()
    cases: list[tuple[Tensor, Any, str]] = [
        (z, y + C, r"expected y in \[0, 6\), got \d+ at index 0"),
        (z, y[1:], r"expected y \[24\], one per row of z, got shape \(23,\)"),
        (z, y.int(), r"expected y of dtype torch.int64, got torch.int32"),
        (z, None, r"expected y \[24\], one per row of z, got NoneType"),
        (z[:, 1:], y, r"expected z \[N, 16\] or \[V, N, 16\], got shape \(24, 15\)"),
        (z[0], y, r"expected z \[N, 16\] or \[V, N, 16\], got shape \(16,\)"),
        (2 * z, y, r"expected \|z\| - 1 within .* of zero, got 1 at index 0"),
        (z * math.nan, y, r"expected \|z\| - 1 within .*, got nan"),
        (z.long(), y, r"expected z of a floating dtype, got torch.int64"),
        (
            torch.stack([z, z], 1),
            *(
                y,
                r"views first, z \[V, N, p\], got z \(24, 2, 16\) with y \(24,\): use z.transpose",
            ),
        ),
        (z, torch.eye(C)[y], r"expected y \[N\] of class indices, got soft labels \(torch.float32"),
    ]
    for z, y, message in cases:
        with pytest.raises(ValueError, match=message):
            loss(z, y)
    for weights in (torch.ones(3), 1.0):
        with pytest.raises(ValueError, match=r"expected weights \[24\], one per sample, got"):
            loss(*batch(), weights=weights)
    with pytest.raises(ValueError, match="expected indices_tuple or weights, got both"):
        loss(*batch(), (torch.arange(3),), weights=torch.ones(24))
    assert torch.equal(loss.bank.old, before)


def test_empty_batches_and_zero_rows_are_refused() -> None:
    loss = ProCoLoss(C, P)
    before = loss.bank.old.clone()
    y = torch.zeros(0, dtype=torch.int64)
    for views in ((), (2,)):
        z = torch.zeros(*views, 0, P)
        for mode in (loss.train(), loss.eval()):
            with pytest.raises(ValueError, match="one sample or more, got an empty batch"):
                mode(z, y)
        assert loss.scores(z).shape == (*views, 0, C)
    for normalize in (True, False):
        strict = ProCoLoss(C, P, normalize=normalize)
        with pytest.raises(ValueError, match=r"expected \|z\| - 1 within .* got -1 at index 0"):
            strict(torch.zeros(1, P), torch.tensor([0]))
        assert torch.equal(strict.bank.old, before)
    assert torch.equal(loss.bank.old, before)


@pytest.mark.slow
@pytest.mark.parametrize("leave_out", [False, True])
@pytest.mark.parametrize("realization", REALIZATIONS)
def test_eval_leaves_the_statistics(realization: str, leave_out: bool) -> None:
    """The loss of held-out features is that of `scores` and the prior."""
    options: dict[str, Any] = {"realization": realization, "leave_out": leave_out}
    loss = ProCoLoss(C, P, TAU, class_counts=COUNTS, **options)
    loss(*batch())
    before = {name: a.clone() for name, a in loss.state_dict().items()}
    z, y = batch(2)
    got = loss.eval()(z, y)
    assert all(torch.equal(a, before[name]) for name, a in loss.state_dict().items())
    logits = loss.scores(z) + loss.log_prior
    expected = nn.functional.cross_entropy(logits.flatten(0, 1), y.repeat(2))
    torch.testing.assert_close(got, expected, check_dtype=False)
    loss.train()(z, y)
    assert not torch.equal(loss.bank.old, before["bank.old"])


def test_labels_of_a_class_without_a_count() -> None:
    """The log prior is -inf: an error names the class before the batch enters the statistics."""
    z, _ = batch()
    y = torch.arange(len(z)) % C
    counts = [5.0] * (C - 1) + [0.0]
    loss = ProCoLoss(C, P, TAU, class_counts=counts)
    before = loss.bank.old.clone()
    with pytest.raises(ValueError, match=rf"got class {C - 1}, whose count is zero"):
        loss(z, y)
    assert torch.equal(loss.bank.old, before)
    assert ProCoLoss(C, P, TAU, class_counts=counts, prior=0.0)(z, y).isfinite()
    assert loss(z, y % (C - 1)).isfinite()


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_features_normalized_in_half_precision(half: torch.dtype) -> None:
    """Unit vectors of half precision are not of unit length in float32: the error says what to
    do."""
    h = torch.randn(24, P).to(half)
    y = torch.arange(24) % C
    loss = ProCoLoss(C, P, normalize=False)
    z = nn.functional.normalize(h, dim=-1)
    assert loss(z, y).isfinite() and ProCoLoss(C, P)(z.float(), y).isfinite()
    remedy = r"of zero, got .* at index \d+ \(normalize after casting to float32\)$"
    with pytest.raises(ValueError, match=r"expected \|z\| - 1 within .*" + remedy):
        loss(z.float(), y)
    assert loss(nn.functional.normalize(h.float(), dim=-1), y).isfinite()


def test_inference_mode_leaves_nothing_behind() -> None:
    """A loss evaluated in inference mode has no part in the gradient of another one."""
    z, y = torch.randn(4, 8), torch.tensor([0, 1, 0, 1])
    for realization in REALIZATIONS:
        with torch.inference_mode():
            ProCoLoss(2, 8, 0.07, realization).eval()(z, y)
        x = z.clone().requires_grad_()
        ProCoLoss(2, 8, 0.07, realization)(x, y).backward()
        assert x.grad is not None and x.grad.isfinite().all()


def test_per_sample_gradients_by_vmap() -> None:
    loss = ProCoLoss(C, P, TAU, "angular", class_counts=COUNTS)
    loss(*batch())
    loss.eval()
    z, y = batch()

    def one(z: Tensor, y: Tensor) -> Tensor:
        return loss(z.unsqueeze(0), y.unsqueeze(0))

    got = torch.func.vmap(torch.func.grad(one))(z, y)
    x = z.clone().requires_grad_()
    (expected,) = torch.autograd.grad(loss(x, y), x)
    torch.testing.assert_close(got, N * expected)
    with pytest.raises(ValueError, match=r"expected y in \[0, 6\), got 6"):
        torch.func.vmap(torch.func.grad(one))(z, y.masked_fill(y == 2, C))


def test_checkpointing_enters_the_statistics_twice() -> None:
    """The docstring warns of this."""
    z, y = batch()
    loss = ProCoLoss(C, P)
    z.requires_grad_()
    value: Any = checkpoint(loss, z, y, use_reentrant=False)
    value.backward()
    assert math.isclose(float(loss.bank.old[..., -1].sum()), 2 * len(y))


def test_settings_between_steps() -> None:
    """A temperature takes effect at the next step; other settings need another loss, which
    continues from the same statistics."""
    z, y = batch()
    loss, other = ProCoLoss(C, P, TAU), ProCoLoss(C, P, 2 * TAU)
    loss.temperature = 2 * TAU
    assert torch.equal(loss(z, y), other(z, y))
    edited = ProCoLoss(C, P, TAU, "temperature", 0.5)
    edited(z, y)
    linear = edited.eval()(z, y)
    power = ProCoLoss(C, P, TAU, "temperature", 0.5, family="power").eval()
    power.load_state_dict(edited.state_dict())
    assert not torch.equal(power(z, y), linear)
    with pytest.raises(ValueError, match="temperature > 0 and finite, got -1"):
        loss.temperature = -1
    for name, value in (("realization", "angular"), ("family", "power")):
        with pytest.raises(AttributeError, match=name):
            setattr(loss, name, value)
    assert loss.temperature == 2 * TAU and loss.realization == "native"
    assert "temperature=0.2, realization='native'" in repr(loss)


def test_negative_targets_name_their_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU a step raises; elsewhere `check` raises, once."""
    z, y = batch()
    message = r"expected target gains > 0 .* of 6 not: class \d \(-"
    loss = ProCoLoss(C, P, realization="temperature", beta=60.0)
    with pytest.raises(ValueError, match=message):
        loss(z, y)
    loss.check()
    power = ProCoLoss(C, P, realization="preserve", beta=60.0, family="power")
    power(z, y)
    power.check()
    # As on a GPU, where values are not read.
    monkeypatch.setattr(validation, "should_validate", lambda validate, *_: bool(validate))
    assert loss(z, y).isnan()
    with pytest.raises(ValueError, match=message):
        loss.check()
    loss.check()


@pytest.mark.parametrize("realization", REALIZATIONS)
def test_class_without_a_gain(realization: str) -> None:
    """A class without temperature is an error, as in class_scores; others have their loss."""
    loss = ProCoLoss(C, P, TAU, realization)
    z, y = cancelling()
    if realization in TEMPERED:
        with pytest.raises(ValueError, match=r"and gains > 0 .*got 1 of 6 not: class 2 \(0\)$"):
            loss(z, y)
        with pytest.raises(ValueError, match=r"A > 0 .*got 1 of 6 not: class 2 \(0\)$"):
            class_scores(z, loss.state(), TAU, realization)
        return
    got = loss(z, y)
    scores = class_scores(z, loss.state(), TAU, realization)
    torch.testing.assert_close(got, nn.functional.cross_entropy(scores, y))
    loss.check()


def test_check_ignores_batches_that_are_not_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    """NaN of a batch is not a class without a gain."""
    monkeypatch.setattr(validation, "should_validate", lambda validate, *_: bool(validate))
    loss = ProCoLoss(C, P, TAU, "temperature", leave_out=True)
    z, y = batch()
    z[5, 2] = math.nan
    assert loss(z, y).isnan()
    loss.check()


def test_lengths_that_are_noticed_later() -> None:
    """As on a GPU, which writes a wrong length: the next step or `check` raises, once."""
    loss = ProCoLoss(C, P)
    message = r"in all steps so far, got a length that is 1 away from one in class 2 \(a vector"
    for late in (lambda: loss(*batch()), loss.check):
        wrong_length(loss.bank, 2)
        with pytest.raises(validation.DivergedError, match=message):
            late()
        loss.check()
    wrong_length(loss.bank, -1)
    copy.deepcopy(loss).check()
    pickle.loads(pickle.dumps(loss)).check()
    with pytest.raises(validation.DivergedError, match=r"1 away from one \(a vector"):
        loss.check()


@pytest.mark.gpu
@pytest.mark.parametrize("cuda_graph", [False, True])
def test_zero_rows_on_a_device(cuda_graph: bool) -> None:
    loss = ProCoLoss(C, P, cuda_graph=cuda_graph).cuda()
    z, y = (a.cuda().float() if a.is_floating_point() else a.cuda() for a in batch(2))
    loss(z.requires_grad_(), y)
    zeros = z.detach().clone()
    zeros[1, 3] = 0
    torch.cuda.set_sync_debug_mode("error")
    loss(zeros.requires_grad_(), y)
    torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()
    with pytest.raises(
        validation.DivergedError, match=f"a length that is 1 away from one in class {int(y[3])} "
    ):
        loss(z, y)
    loss(z, y)
