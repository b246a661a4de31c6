"""Numbers and features in whatever form a user has them, and what is said of the others."""

# pyright: reportArgumentType=false
# Bad input is passed on purpose.

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from loss_batches import TAU, C, P, batch
from loss_batches import seeded as seeded
from resultant import LogitAdjustedCrossEntropy, ProCoLoss
from resultant._core.validation import integer
from resultant.classes.realization import class_scores
from resultant.classes.statistics import ClassState
from resultant.losses.bank import ProCoBank


def test_numbers_of_any_kind() -> None:
    """A tensor or an array without dimensions is a number."""
    z, y = batch()
    plain = ProCoLoss(C, P, 0.25, "angular", 0.5, prior=0.5)(z, y)
    for number in (torch.tensor, np.float32, np.array):
        loss = ProCoLoss(C, P, number(0.25), "angular", number(0.5), prior=number(0.5))
        assert torch.equal(loss(z, y), plain)
    for betas in (torch.tensor([0.5, 1.0]), np.array([0.5, 1.0]), [torch.tensor(0.5), 1]):
        loss = ProCoLoss(C, P, beta=betas, runs=(2,))
        assert loss.beta.flatten().tolist() == [0.5, 1.0]
    for odd, said in (("0.1", "'0.1'"), (torch.tensor([[0.1]]), r"\[0"), (torch.tensor(True), "T")):
        with pytest.raises(ValueError, match=rf"expected temperature to be .*, got {said}"):
            ProCoLoss(C, P, odd)
    with pytest.raises(ValueError, match=r"temperature to be a number, or one a run \(1\), got 2"):
        ProCoLoss(C, P, torch.tensor([0.1, 0.2]))


@pytest.mark.parametrize("kind", [np.int64, np.uint8, torch.tensor])
def test_integers_of_any_kind(kind: Any) -> None:
    z, y = batch()
    plain = ProCoLoss(C, P, seed=3)
    loss = ProCoLoss(kind(C), kind(P), seed=kind(3))
    assert torch.equal(loss(z, y), plain(z, y))
    stack = ProCoBank(kind(C), P, runs=(kind(2),), seed=[kind(3), 4])
    assert stack.runs == (2,) and stack.seeds == (3, 4)
    assert torch.equal(stack.state(kind(1)).mu, stack.state((1,)).mu)
    state = ClassState(torch.eye(2, P), torch.ones(2), torch.ones(2))
    assert class_scores(z.float(), state, 0.1, chunk=kind(5)).shape == (len(z), 2)


def test_what_is_no_integer() -> None:
    for value in (True, 2.0, "2", None, np.float64(2), np.bool_(True), 0):
        with pytest.raises(ValueError, match=r"expected n to be an integer >= 1, got"):
            integer("n", value, 1)
    for seed in (2.0, True, None, "ab", [1.5]):
        with pytest.raises(ValueError, match=r"expected seed >= 0, a number or one a run \(1\)"):
            ProCoLoss(C, P, seed=seed)


def test_logits_of_integers() -> None:
    y = torch.zeros(4, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"expected logits of a floating dtype, got torch.int64"):
        LogitAdjustedCrossEntropy([1, 2, 3])(torch.ones(4, 3).long(), y)


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_features_normalized_in_half_precision(half: torch.dtype) -> None:
    """Of unit length to their own rounding: not so in float32, and the error says what to do."""
    h = torch.randn(24, P).to(half)
    y = torch.arange(24) % C
    loss = ProCoLoss(C, P)
    z = nn.functional.normalize(h, dim=-1)
    assert loss(z, y).isfinite()
    remedy = r"of zero, got .* at index \d+ \(normalize after casting to float32\)$"
    with pytest.raises(ValueError, match=r"expected \|z\| - 1 within .*" + remedy):
        loss(z.float(), y)
    assert loss(nn.functional.normalize(h.float(), dim=-1), y).isfinite()


def test_checkpointing_enters_the_statistics_twice() -> None:
    """As the docstring warns."""
    z, y = batch()
    loss = ProCoLoss(C, P)
    z.requires_grad_()
    value: Any = checkpoint(loss, z, y, use_reentrant=False)
    value.backward()
    assert math.isclose(float(loss.bank.old[..., -1].sum()), 2 * len(y))


def test_settings_between_steps() -> None:
    """A temperature is that of the next step, checked as at the start; the others stay, and another
    loss goes on from the statistics."""
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
    assert loss.temperature == 2 * TAU and loss.realization == ("native",)
    # A parameter is a number that is not learned.
    given = ProCoLoss(C, P, nn.Parameter(torch.tensor(0.25)))  # type: ignore[arg-type]
    assert given.temperature == 0.25 and not list(given.parameters())
    with pytest.raises(ValueError, match="temperature"):
        ProCoLoss(C, P, nn.Parameter(torch.tensor(-1.0)))  # type: ignore[arg-type]
