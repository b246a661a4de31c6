"""Class statistics against loops over the samples, refits from scratch and draws."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor

from class_samples import (
    F64,
    C,
    P,
    axis,
    changed,
    close,
    fitted,
    naive_kappa,
    naive_mean,
    sample,
    unit,
)
from resultant._core import chunks
from resultant.classes import statistics as classes
from resultant.classes.statistics import MAX_KAPPA, ClassState, ClassStatistics
from resultant.vmf.estimators import ESTIMATORS, concentration


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(20240601)


# Statistics and states


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_state_is_the_naive_fit(estimator: str) -> None:
    z, y = sample()
    statistics = fitted(z, y)
    state = statistics.state(estimator)
    for c in range(C):
        mu, R = naive_mean(z, y, c)
        close(state.mu[c], mu)
        close(statistics.mean_length[c], R)
        close(state.kappa[c], naive_kappa(R, P, estimator, int((y == c).sum())), rtol=1e-9)
        assert int(state.count[c]) == int((y == c).sum())
    assert (state.num_classes, state.dim) == (C, P)
    if estimator == "mle":
        close(state.resultant, statistics.mean_length)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_rounded_features_are_normalized(dtype: torch.dtype) -> None:
    z, y = sample()
    z = z.to(dtype)
    state = fitted(z, y).state()
    for c in range(C):
        close(state.mu[c], naive_mean(z, y, c)[0])
    assert state.mu.dtype == F64


def test_values_that_are_not_checked() -> None:
    z, y = sample()
    weights = 1 + torch.rand(len(y), dtype=F64)
    fits = []
    for validate in (None, False):
        statistics = ClassStatistics(C, P).update(z, y, weights, validate_args=validate)
        left_out = statistics.leave_one_out(z, y, weights=weights, validate_args=validate)
        fits.append((statistics.total, *left_out))
    for a, b in zip(*fits, strict=True):
        assert torch.equal(a, b)


def test_weights_repeat_samples() -> None:
    z, y = sample()
    times = torch.randint(0, 4, (len(y),))
    weighted = ClassStatistics(C, P).update(z, y, times.double())
    repeated = fitted(z.repeat_interleave(times, 0), y.repeat_interleave(times))
    close(weighted.total, repeated.total)
    close(weighted.weight, repeated.weight)
    close(weighted.mean_length, repeated.mean_length)
    assert torch.equal(weighted.count, torch.bincount(y, minlength=C))


@pytest.mark.slow
@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(0, 2**31), st.data())
@settings(max_examples=60, deadline=None)
def test_any_split_and_order_merges_to_the_whole(
    labels: list[int], seed: int, data: st.DataObject
) -> None:
    torch.manual_seed(seed)
    y = torch.tensor(labels)
    z = unit(len(y), P)
    order = torch.randperm(len(y))
    part = torch.tensor(data.draw(st.lists(st.integers(0, 3), min_size=len(y), max_size=len(y))))
    pieces = [fitted(z[order][part == k], y[order][part == k], 4) for k in range(4)]
    whole = fitted(z, y, 4)
    merged = ClassStatistics(4, P)
    for k in torch.randperm(4).tolist():
        assert merged.merge(pieces[k]) is merged
    assert torch.equal(merged.count, whole.count)
    close(merged.total, whole.total)
    close(merged.mean_length, whole.mean_length)
    rest = whole.without(pieces[0])
    others = pieces[1].merge(pieces[2]).merge(pieces[3])
    assert torch.equal(rest.count, others.count)
    assert torch.equal(rest.weight, others.weight)
    close(rest.total, others.total)
    assert (rest.total[rest.count == 0] == 0).all()


def test_chunks_do_not_change_the_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    z, y = sample()
    whole = fitted(z, y)
    left = whole.leave_one_out(z, y)
    monkeypatch.setattr(chunks, "FEATURE_BYTES", 8 * P * 7)
    seen = []
    normalized = classes._normalized
    monkeypatch.setattr(classes, "_normalized", lambda a: seen.append(len(a)) or normalized(a))
    close(fitted(z, y).total, whole.total)
    for a, b in zip(whole.leave_one_out(z, y), left, strict=True):
        close(a, b)
    assert max(seen) == 7 and sum(seen) == 2 * len(z)
    with pytest.raises(ValueError, match=r"expected \|z\| - 1 within .* got 1 at index 23"):
        whole.update(z * torch.where(torch.arange(len(z)) == 23, 2.0, 1.0)[:, None], y)


def test_update_takes_no_gradient_and_an_empty_batch() -> None:
    z, y = sample()
    statistics = fitted(z.requires_grad_(), y)
    assert not statistics.total.requires_grad
    before = statistics.total.clone()
    statistics.update(z[:0], y[:0])
    assert torch.equal(statistics.total, before)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("dtype", [F64, torch.float32, torch.bfloat16])
def test_degenerate_classes(estimator: str, dtype: torch.dtype) -> None:
    x = unit(4, P, dtype=dtype)
    # Class 0 none, 1 one sample, 2 seven equal samples, 3 opposite samples, 4 cancelling sums.
    z = torch.cat([x[:1], x[1:2].expand(7, P), x[2:3], -x[2:3], x, -x])
    y = torch.tensor([1] + [2] * 7 + [3] * 2 + [4] * 8)
    statistics = fitted(z, y)
    close(statistics.mean_length, [0.0, 1.0, 1.0, 0.0, 0.0])
    assert (statistics.mean_length <= 1).all()
    state = statistics.state(estimator)
    assert state.kappa.tolist() == [0.0, MAX_KAPPA, MAX_KAPPA, 0.0, 0.0]
    assert state.count.tolist() == [0, 1, 7, 2, 8]
    for c in (0, 3, 4):
        assert torch.equal(state.mu[c], axis())
    close(state.mu[1], classes._normalized(x[:1])[0])
    close(state.mu[2], classes._normalized(x[1:2])[0])
    ClassState(state.mu, state.kappa, state.count)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_cap_holds_for_nearly_equal_samples(estimator: str) -> None:
    near = torch.nn.functional.normalize(axis() + 1e-4 * axis(i=1), dim=0)
    state = fitted(torch.stack([axis(), near]), torch.zeros(2, dtype=torch.int64)).state(estimator)
    assert float(concentration(P, 1 - 1e-9, estimator, n=2)) > MAX_KAPPA
    assert float(state.kappa[0]) == MAX_KAPPA


# Scatter


def test_scatter_is_the_sum_of_outer_products(monkeypatch: pytest.MonkeyPatch) -> None:
    z, y = sample()
    w = torch.rand(len(z), dtype=F64)
    monkeypatch.setattr(chunks, "FEATURE_BYTES", 8 * P * 7)
    expected = sum(a * torch.outer(row, row) for a, row in zip(w, z, strict=True))
    whole = ClassStatistics(C, P, scatter=True).update(z, y, w)
    close(whole.scatter, expected)
    part = ClassStatistics(C, P, scatter=True).update(z[:20], y[:20], w[:20])
    rest = ClassStatistics(C, P, scatter=True).update(z[20:], y[20:], w[20:])
    close(whole.without(part).scatter, rest.scatter)
    close(part.to("cpu").merge(rest).scatter, expected)
    assert ClassStatistics(C, P).update(z, y).scatter is None
    with pytest.raises(ValueError, match="expected statistics without scatter"):
        fitted(z, y).merge(rest)


def test_a_vector_of_zeros_is_a_sample_of_length_zero() -> None:
    z, y = sample()
    twice = torch.cat([z, torch.zeros_like(z)])
    statistics = ClassStatistics(C, P, scatter=True).add(twice, y.repeat(2))
    close(statistics.mean_length, fitted(z, y).mean_length / 2)
    close(statistics.total, fitted(z, y).total)
    mu, kappa = statistics.left_out(
        torch.zeros(1, P).double(), y[:1], torch.ones(1).double(), "mle"
    )
    close(mu[0], statistics.state().mu[y[0]])
    assert kappa.isfinite().all()


# Files


@pytest.mark.parametrize("scatter", [False, True])
def test_save_and_load(tmp_path: Path, scatter: bool) -> None:
    z, y = sample()
    statistics = ClassStatistics(C, P, scatter=scatter).update(z, y)
    path = tmp_path / "bank.safetensors"
    ClassStatistics(2, 3).save(path)
    statistics.save(path)
    loaded = ClassStatistics.load(str(path))
    for name, a in statistics._sums().items():
        b = getattr(loaded, name)
        assert torch.equal(a, b) and a.dtype == b.dtype
    loaded.update(z, y)  # not a view of the file
    assert loaded.device == torch.device("cpu")
    assert ClassStatistics.load(path, device="meta").device == torch.device("meta")
    assert [f.name for f in tmp_path.iterdir()] == ["bank.safetensors"]


def test_bad_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "bank.safetensors"
    z, y = sample()
    fitted(z, y).save(path)
    whole = path.read_bytes()
    rule = r"expected .*bank\.safetensors to be a whole safetensors file of ClassStatistics"
    for content in (b"", whole[:7], whole[:60], whole[:-1], whole + b"x", b"\xff" * 64):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=rule + ", got a file that cannot be read"):
            ClassStatistics.load(path)
    good: dict[str, Tensor] = {n: getattr(fitted(z, y), n) for n in ("count", "weight", "total")}
    mark = {"format": classes.FORMAT}
    others: list[tuple[dict[str, Tensor], dict[str, str] | None, str]] = [
        (good, None, "got format None with tensors"),
        ({"count": good["count"]}, mark, r"with tensors \['count'\]"),
        ({**good, "count": good["count"].int()}, mark, r"count torch.int32 \(5,\)"),
        ({**good, "total": good["total"][:3].clone()}, mark, r"total torch.float64 \(3, 6\)"),
        ({**good, "total": good["total"] * math.nan}, mark, "negative, infinite or undefined"),
        ({**good, "total": good["total"] * 40}, mark, "a mean longer than one"),
        ({**good, "count": -good["count"]}, mark, "negative, infinite or undefined"),
    ]
    for tensors, metadata, message in others:
        save_file(tensors, path, metadata)
        with pytest.raises(ValueError, match=rule + ".*" + message):
            ClassStatistics.load(path)
    with pytest.raises(FileNotFoundError):
        ClassStatistics.load(tmp_path / "none")


# Errors and the snapshot


def test_state_moves_between_dtypes() -> None:
    state = fitted(*sample()).state()
    low = state.to(dtype=torch.float32)
    assert low.mu.dtype == low.kappa.dtype == low.resultant.dtype == torch.float32
    assert low.count.dtype == torch.int64
    assert state.to("meta").mu.device.type == "meta"


torch.manual_seed(1)
MU, KAPPA, COUNT = unit(C, P), torch.ones(C, dtype=F64), torch.ones(C, dtype=torch.int64)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0], KAPPA, COUNT), "expected mu to be a tensor, got list"),
        ((MU[0], KAPPA, COUNT), r"expected mu \[C, p\] with p >= 2, .* got \(6,\), \(5,\) and"),
        ((MU[:, :1], KAPPA, COUNT), r"with p >= 2, .* got \(5, 1\)"),
        ((MU, KAPPA[:2], COUNT), r"kappa \[C\] and count \[C\], got \(5, 6\), \(2,\) and \(5,\)"),
        ((MU, KAPPA.float(), COUNT), "of one floating dtype, got torch.float64 and torch.float32"),
        ((MU.long(), KAPPA, COUNT), "of one floating dtype, got torch.int64"),
        ((MU, KAPPA.to("meta"), COUNT), "on one device, got cpu, meta and cpu"),
        ((MU * 1.1, KAPPA, COUNT), r"expected \|mu\| - 1 within .* got 0.1 at index 0"),
        ((MU, -KAPPA, COUNT), "expected kappa >= 0 and finite, got -1 at index 0"),
        ((MU, KAPPA * math.nan, COUNT), "expected kappa >= 0 and finite, got nan at index 0"),
        (
            (MU, KAPPA * 1e20, COUNT),
            r"expected kappa <= 1.15292e\+18, the largest of scores in float32, got 1e\+20",
        ),
        ((MU, KAPPA, -COUNT), "expected count >= 0 and finite, got -1 at index 0"),
    ],
)
def test_state_errors(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ClassState(*arguments)


Z, Y = sample(20)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((Z[:, :3], Y), r"expected z \[N, 6\], got shape \(20, 3\)"),
        (("z", Y), r"expected z \[N, 6\], got str"),
        ((Z.long(), Y), "expected z of a floating dtype, got torch.int64"),
        ((Z.to("meta"), Y), "expected z on cpu, got z on meta"),
        ((Z * 1.5, Y), r"expected \|z\| - 1 within .* got 0.5 at index 0"),
        ((changed(Z, 3, math.nan), Y), r"expected \|z\| - 1 within .* got nan at index 3"),
        ((Z, Y[:4]), r"expected y \[20\], one per row of z, got shape \(4,\)"),
        ((Z, Y.int()), "expected y of dtype torch.int64, got torch.int32"),
        ((Z, Y.to("meta")), "expected y on cpu, got y on meta"),
        ((Z, changed(Y, 7, 5)), r"expected y in \[0, 5\), got 5 at index 7"),
        ((Z, changed(Y, 8, -1)), r"expected y in \[0, 5\), got -1 at index 8"),
        ((Z, Y, torch.ones(3)), r"expected weights \[20\] on cpu, got \(3,\) on cpu"),
        ((Z, Y, -torch.ones(20)), "expected weights >= 0 and finite, got -1 at index 0"),
        ((Z, Y, Y), "expected weights of a floating dtype, got torch.int64"),
    ],
)
def test_update_errors_come_before_any_work(arguments: Any, message: str) -> None:
    statistics = ClassStatistics(C, P)
    with pytest.raises(ValueError, match=message):
        statistics.update(*arguments)
    assert not statistics.count.any() and not statistics.total.any()


def test_other_errors() -> None:
    for number in (0, 2.0, True):
        with pytest.raises(ValueError, match="expected num_classes to be an integer >= 1, got"):
            ClassStatistics(number, P)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected p >= 2, got 1"):
        ClassStatistics(C, 1)
    statistics = fitted(Z, Y)
    with pytest.raises(ValueError, match=r"of the shape of .*num_classes=5, dim=6.*got .*dim=3\)"):
        statistics.merge(ClassStatistics(C, 3))
    with pytest.raises(ValueError, match="expected ClassStatistics, got str"):
        statistics.merge("x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"a part of these, got \d+ samples of 0 in class 0"):
        ClassStatistics(C, P).without(statistics)
    with pytest.raises(ValueError, match=r"expected estimator to be one of .* got 'map'"):
        statistics.state("map")
    with pytest.raises(ValueError, match="one of class 0, which has no sample, at index 0"):
        ClassStatistics(C, P).leave_one_out(Z, Y)


@pytest.mark.gpu
def test_gpu_statistics_agree_without_synchronising() -> None:
    z, y = sample()
    statistics = ClassStatistics(C, P, device="cuda")
    on_gpu = z.cuda(), y.cuda()
    torch.cuda.set_sync_debug_mode("error")
    try:
        statistics.update(*on_gpu)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    close(statistics.total.cpu(), fitted(z, y).total)
    close(statistics.state().kappa.cpu(), fitted(z, y).state().kappa, rtol=1e-10)
    with pytest.raises(ValueError, match="got nan at index 3"):
        statistics.update(changed(on_gpu[0], 3, math.nan), on_gpu[1], validate_args=True)
