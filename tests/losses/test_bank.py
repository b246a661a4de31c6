"""Banks of the ProCo loss: starts, estimators, checkpoints, and epochs begun by themselves, by the
caller, and after a resume."""

import io
import math
import warnings

import pytest
import torch
from safetensors.torch import load, save

from loss_batches import COUNTS, C, P, batch
from resultant.classes.statistics import ClassStatistics
from resultant.losses import ProCoBank, ProCoLoss
from resultant.losses.bank import START_LENGTH


def test_single_absent_and_cancelling_samples() -> None:
    """Neither the start of a class nor roundings are a direction next to samples."""
    bank, e = ProCoBank(C, P), torch.eye(P, dtype=torch.float64)
    before, z = bank.snapshot(torch.float64), e[[0, 0, 1, 2]]
    torch.testing.assert_close(before.R, torch.full((1, C), START_LENGTH).double())
    torch.testing.assert_close(before.mu.norm(dim=-1), torch.ones(1, C).double())
    z[1] *= -(1 + 1e-15)
    z[3] *= 1 + 5e-7  # a mean that is longer than one
    bank.update(z, torch.tensor([0, 0, 1, 2]))
    state, after = bank.state(), bank.snapshot(torch.float64)
    assert torch.equal(after.mu[0, 0], e[0])
    torch.testing.assert_close(after.mu[0, 1:3], e[1:3], rtol=0, atol=1e-15)
    assert state.kappa[:3].tolist() == [0.0, 1e5, 1e5]
    assert state.count.tolist() == [2, 1, 1, 0, 0, 0]
    for a, b in zip(after[:2], before[:2], strict=True):
        assert torch.equal(a[:, 3:], b[:, 3:])
    # One convention, as in ClassStatistics.
    statistics = bank.statistics().state("proco")
    torch.testing.assert_close(statistics.mu, state.mu)
    torch.testing.assert_close(statistics.kappa, state.kappa)
    x = torch.cat([e[:1], -e[:1]])
    assert ProCoLoss(C, P)(x, torch.tensor([1, 1])).isfinite()
    bank.old[1, 3] = math.nan  # NaN stays NaN and does not count as zero
    after = bank.snapshot()
    assert after.R[0, 1].isnan() and after.mu[0, 1].isnan().any()


def test_starts_do_not_depend_on_the_default_dtype() -> None:
    before = ProCoBank(C, P).old
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.equal(ProCoBank(C, P).old, before)
    finally:
        torch.set_default_dtype(torch.float32)


def test_on_the_meta_device() -> None:
    """A loss made on the meta device is whole after `to_empty`."""
    with torch.device("meta"):
        loss = ProCoLoss(C, P, realization="temperature", beta=0.5, class_counts=COUNTS, seed=3)
    assert loss.bank.old.is_meta and "beta=0.5" in repr(loss)
    plain = ProCoLoss(C, P, realization="temperature", beta=0.5, class_counts=COUNTS, seed=3)
    loss.to_empty(device="cpu")
    z, y = batch(2)
    assert torch.equal(loss(z, y), plain(z, y))
    assert all(map(torch.equal, loss.buffers(), plain.buffers()))
    with torch.device("meta"):
        loaded = ProCoLoss(C, P, class_counts=COUNTS)
    # The kernels read contiguous banks.
    strided = {name: a.T.contiguous().T if a.dim() else a for name, a in plain.state_dict().items()}
    loaded.load_state_dict(strided, assign=True)
    assert torch.equal(loaded.state().kappa, plain.state().kappa)
    assert loaded.bank.old.is_contiguous() and not strided["bank.old"].is_contiguous()


@pytest.mark.parametrize("estimator", ["proco", "mle", "banerjee"])
def test_classes_are_those_of_class_statistics(estimator: str) -> None:
    bank, plain = ProCoBank(C, P, estimator=estimator), ClassStatistics(C, P)
    for _ in range(4):
        z, y = batch()
        bank.update(z, y)
        plain.update(z, y)
    seen = plain.count > 0
    for name in ("old", "new"):
        state, copied = bank.state(bank=name), bank.statistics(bank=name)
        for expected in (plain.state(estimator), copied.state(estimator)):
            torch.testing.assert_close(state.mu[seen], expected.mu[seen])
            torch.testing.assert_close(state.kappa[seen], expected.kappa[seen])
            assert torch.equal(state.count, expected.count)
        copied.update(*batch())
        assert torch.equal(bank.state(bank=name).count, state.count)


SIZES = [40, 20, 10, 5, 3, 2]
TOTAL = sum(SIZES)
Z = torch.randn(TOTAL, P, generator=torch.Generator().manual_seed(0))
Y = torch.arange(TOTAL) % C


def samples(bank: ProCoBank) -> tuple[int, int]:
    """Return the samples in both banks."""
    return tuple(int(bank.state(bank=name).count.sum()) for name in ("old", "new"))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("size", "drop_last", "views"), [(7, False, 1), (7, True, 2), (24, False, 2), (80, True, 1)]
)
def test_a_loop_without_start_epoch(size: int, drop_last: bool, views: int) -> None:
    """Epochs begin where those of the loop do: both banks are those of a loop that says so."""
    automatic, explicit = (ProCoLoss(C, P, class_counts=SIZES) for _ in range(2))
    seen = TOTAL - TOTAL % size if drop_last else TOTAL
    for number in range(4):
        if number:
            explicit.start_epoch(number - 1)
        for rows in torch.arange(seen).split(size):
            for loss in (automatic, explicit):
                loss(Z[rows].expand(views, -1, -1), Y[rows])
        assert torch.equal(automatic.bank.old, explicit.bank.old)
        assert torch.equal(automatic.bank.new, explicit.bank.new)
    assert samples(automatic.bank) == (2 * views * seen, views * seen)


def test_resume_in_the_middle_of_an_epoch() -> None:
    whole, first = (ProCoLoss(C, P, class_counts=SIZES) for _ in range(2))
    parts = torch.arange(2 * TOTAL).remainder(TOTAL).split(24)
    for i, rows in enumerate(parts):
        whole(Z[rows], Y[rows])
        if i == 4:
            second = ProCoLoss(C, P, class_counts=SIZES, seed=9)
            second.load_state_dict(load(save(first.state_dict())))
            second.bank.seed, first = 0, second
        first(Z[rows], Y[rows])
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
    plain, numbered = (ProCoLoss(C, P, class_counts=SIZES) for _ in range(2))
    for number in range(3):
        plain.start_epoch()
        numbered.start_epoch(number)
        for _ in range(6):  # longer than the counts say
            z, y = batch(2)
            plain(z, y)
            numbered(z, y)
            state, numbered = numbered.state_dict(), ProCoLoss(C, P, class_counts=SIZES)
            numbered.load_state_dict(state)
            numbered.start_epoch(number)
            assert all(map(torch.equal, plain.bank.buffers(), numbered.bank.buffers()))


def test_reset() -> None:
    loss = ProCoLoss(C, P, class_counts=SIZES)
    loss(Z[:60], Y[:60])
    loss.bank.reset()
    assert samples(loss.bank) == (0, 0) and loss.bank.seen == 0
    for rows in torch.arange(TOTAL).split(30):
        loss.bank.update(torch.nn.functional.normalize(Z[rows], dim=-1), Y[rows])
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
