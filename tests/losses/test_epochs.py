"""Epochs of the banks: begun by themselves, by the caller, and after a resume."""

from __future__ import annotations

import io
import warnings

import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor

from loss_batches import C, P, batch
from loss_batches import seeded as seeded
from resultant._core import distributed
from resultant.losses import ProCoBank, ProCoLoss

COUNTS = [40, 20, 10, 5, 3, 2]
TOTAL = sum(COUNTS)


def samples(bank: ProCoBank) -> tuple[int, int]:
    """Return the samples in both banks."""
    return tuple(int(bank.state(bank=name).count.sum()) for name in ("old", "new"))  # type: ignore[return-value]


def epoch(n: int = TOTAL) -> tuple[Tensor, Tensor]:
    return torch.randn(n, P), torch.arange(n) % C


@pytest.mark.parametrize(
    ("size", "drop_last", "views"), [(7, False, 1), (7, True, 2), (24, False, 2), (80, True, 1)]
)
def test_a_loop_without_start_epoch(size: int, drop_last: bool, views: int) -> None:
    """Epochs begin where those of the loop do: both banks are those of a loop that says so."""
    automatic, explicit = (ProCoLoss(C, P, class_counts=COUNTS) for _ in range(2))
    z, y = epoch()
    for number in range(4):
        if number:
            explicit.start_epoch(number - 1)
        for rows in torch.arange(TOTAL).split(size):
            if drop_last and len(rows) < size:
                continue
            for loss in (automatic, explicit):
                loss(z[rows].expand(views, -1, -1), y[rows])
        assert torch.equal(automatic.bank.old, explicit.bank.old)
        assert torch.equal(automatic.bank.new, explicit.bank.new)
    per_epoch = views * (TOTAL - TOTAL % size if drop_last else TOTAL)
    assert samples(automatic.bank) == (2 * per_epoch, per_epoch)


def test_padded_epochs_of_several_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sampler gives each of three ranks 27 samples, 81 together; all ranks count all."""
    monkeypatch.setattr(distributed, "world_size", lambda: 3)
    bank = ProCoBank(C, P, samples_per_epoch=TOTAL)
    for number in range(3):
        for n in (30, 30, 21):
            bank.advance(n)
            assert int(bank.epoch) == number


def test_resume_in_the_middle_of_an_epoch() -> None:
    z, y = epoch()
    whole, first = (ProCoLoss(C, P, class_counts=COUNTS) for _ in range(2))
    parts = torch.arange(2 * TOTAL).remainder(TOTAL).split(24)
    for i, rows in enumerate(parts):
        whole(z[rows], y[rows])
        if i == 4:
            second = ProCoLoss(C, P, class_counts=COUNTS, seed=9)
            second.load_state_dict(load(save(first.state_dict())))
            second.bank.seed, first = 0, second
        first(z[rows], y[rows])
    for name, a in whole.state_dict().items():
        assert torch.equal(first.state_dict()[name], a), name
    torch.save(whole, io.BytesIO())
    # A state of a version that did not count.
    state = whole.state_dict()
    del state["bank.seen"]
    first.load_state_dict(state)
    assert first.bank.seen == -1


def test_start_epoch_of_a_number_is_idempotent() -> None:
    """A resume calls it again in the middle of the epoch, and loses nothing."""
    plain, numbered = (ProCoLoss(C, P, class_counts=COUNTS) for _ in range(2))
    for number in range(3):
        plain.start_epoch()
        numbered.start_epoch(number)
        for _ in range(6):  # longer than the counts say
            z, y = batch(2)
            plain(z, y)
            numbered(z, y)
            state, numbered = numbered.state_dict(), ProCoLoss(C, P, class_counts=COUNTS)
            numbered.load_state_dict(state)
            numbered.start_epoch(number)
            assert all(map(torch.equal, plain.bank.buffers(), numbered.bank.buffers()))


def test_evaluation_and_reset() -> None:
    loss = ProCoLoss(C, P, class_counts=COUNTS)
    z, y = epoch()
    loss(z[:60], y[:60])
    loss.eval()(z, y)
    assert samples(loss.bank) == (60, 60)
    loss.bank.reset()
    assert samples(loss.bank) == (0, 0) and loss.bank.seen == 0
    for rows in torch.arange(TOTAL).split(30):
        loss.bank.update(torch.nn.functional.normalize(z[rows], dim=-1), y[rows])
    assert samples(loss.bank) == (TOTAL, TOTAL)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "the prior is uniform, .* and the statistics keep the samples of all epochs"),
        ({"prior": 0.0}, "got none: the statistics keep the samples of all epochs; pass"),
        ({"class_counts": [0.5, 0.3, 0.2]}, "an epoch of 1 samples, got a batch of 9"),
    ],
)
def test_warns_once_where_epochs_are_not_known(options: dict, message: str) -> None:
    loss = ProCoLoss(3, 4, **options)
    z, y = torch.randn(9, 4), torch.arange(9) % 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss.eval()(z, y)
        loss.train()
    with pytest.warns(UserWarning, match=message) as caught:
        loss(z, y)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss(z, y)
        said = ProCoLoss(3, 4, prior=0.0)
        said.start_epoch()
        said(z, y)
