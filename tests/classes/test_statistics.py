"""Class statistics against loops over the samples, refits from scratch and repeated samples; the
metric against naive covariances and inverse roots."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy.linalg import sqrtm
from torch import Tensor

import resultant as rs
from class_samples import F64, C, P, axis, close, fitted, naive_kappa, naive_mean, sample, unit
from programs import run_processes
from resultant._core import memory
from resultant.classes import statistics as classes
from resultant.classes.metric import Metric
from resultant.classes.statistics import ClassState, ClassStatistics
from resultant.vmf.estimators import ESTIMATORS


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("dtype", [F64, torch.float32, torch.bfloat16, torch.float16])
def test_state_is_the_naive_fit(estimator: str, dtype: torch.dtype) -> None:
    """Rounded features are normalized."""
    z, y = sample()
    z = z.to(dtype)
    statistics = fitted(z.requires_grad_(), y)
    assert not statistics.total.requires_grad
    state = statistics.update(z[:0], y[:0]).state(estimator)
    for c in range(C):
        mu, R = naive_mean(z.detach(), y, c)
        close(state.mu[c], mu)
        close(statistics.mean_length[c], R)
        close(state.kappa[c], naive_kappa(R, P, estimator, int((y == c).sum())), rtol=1e-9)
        assert int(state.count[c]) == int((y == c).sum())
    assert (state.num_classes, state.dim, state.mu.dtype) == (C, P, F64)
    if estimator == "mle":
        close(state.resultant, statistics.mean_length)
    low = state.to(dtype=torch.float32)
    assert low.mu.dtype == low.kappa.dtype == low.resultant.dtype == torch.float32
    assert low.count.dtype == torch.int64 and state.to("meta").mu.device.type == "meta"


def test_weights_repeat_samples_and_values_need_no_check() -> None:
    z, y = sample()
    times = torch.randint(0, 4, (len(y),))
    weighted = ClassStatistics(C, P).update(z, y, times.double())
    repeated = fitted(z.repeat_interleave(times, 0), y.repeat_interleave(times))
    for name in ("total", "weight", "mean_length"):
        close(getattr(weighted, name), getattr(repeated, name))
    assert torch.equal(weighted.count, torch.bincount(y, minlength=C))
    options: dict[str, Any] = {"weights": times.double(), "validate_args": False}
    assert torch.equal(ClassStatistics(C, P).update(z, y, **options).total, weighted.total)
    checked = weighted.leave_one_out(z, y, weights=times.double())
    assert all(map(torch.equal, weighted.leave_one_out(z, y, **options), checked))


@pytest.mark.slow
@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(0, 2**31), st.data())
@settings(max_examples=60, deadline=None)
def test_any_split_merges_to_the_whole(labels: list[int], seed: int, data: st.DataObject) -> None:
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
    rest, others = whole.without(pieces[0]), pieces[1].merge(pieces[2]).merge(pieces[3])
    for a, b in ((merged, whole), (rest, others)):
        assert torch.equal(a.count, b.count) and torch.equal(a.weight, b.weight)
        close(a.total, b.total)
    close(merged.mean_length, whole.mean_length)
    assert (rest.total[rest.count == 0] == 0).all()


def test_chunks_do_not_change_the_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    z, y = sample()
    whole = fitted(z, y)
    left = whole.leave_one_out(z, y)
    monkeypatch.setattr(memory, "FEATURE_BYTES", 8 * P * 7)
    seen, normalized = [], classes.normalized
    monkeypatch.setattr(classes, "normalized", lambda a: seen.append(len(a)) or normalized(a))
    close(fitted(z, y).total, whole.total)
    for a, b in zip(whole.leave_one_out(z, y), left, strict=True):
        close(a, b)
    assert max(seen) == 7 and sum(seen) == 2 * len(z)
    with pytest.raises(ValueError, match=r"expected z of length 1 within .* got 2 at index 23"):
        whole.update(z * torch.where(torch.arange(len(z)) == 23, 2.0, 1.0)[:, None], y)


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
    largest = naive_kappa(1.0, P, estimator, 7)
    assert state.kappa.tolist() == pytest.approx([0.0, largest, largest, 0.0, 0.0])
    assert state.count.tolist() == [0, 1, 7, 2, 8]
    assert (state.mu[[0, 3, 4]] == axis()).all()
    close(state.mu[1:3], torch.nn.functional.normalize(x[:2].double()))
    ClassState(state.mu, state.kappa, state.count)
    # The cap of the authors' code also holds for nearly equal samples, and for its estimator alone.
    near = torch.nn.functional.normalize(axis() + 1e-4 * axis(i=1), dim=0)
    two = fitted(torch.stack([axis(), near]), torch.zeros(2, dtype=torch.int64), 1)
    kappa = float(two.state(estimator).kappa)
    assert kappa == 1e5 if estimator == "proco" else kappa > 1e8


@pytest.mark.parametrize("p", [8, 512, 4096])
def test_mle_is_that_of_the_distribution(p: int) -> None:
    """Also where the concentration is far beyond p, and of one sample, whose kappa is finite."""
    for kappa in (0.5 * p, 70.0 * p, 1e3 * p, 1e6):
        x = rs.VonMisesFisher(axis(p), kappa).sample((50,))
        state = fitted(x, torch.zeros(50, dtype=torch.int64), 1).state()
        expected = float(rs.VonMisesFisher.fit(x).concentration)
        assert float(state.kappa) == pytest.approx(expected, rel=1e-7)
        assert float(state.resultant) == pytest.approx(float(x.mean(0).norm()), rel=1e-12)
    one = fitted(axis(p)[None], torch.zeros(1, dtype=torch.int64), 1).state()
    assert float(one.kappa) == pytest.approx((p - 1) * 2.0**45, rel=1e-3)
    assert rs.class_scores(axis(p)[None].float(), one.to(dtype=torch.float32), 0.1).isfinite().all()


def test_states_in_half_precision() -> None:
    """A kappa that float16 cannot hold is refused, not infinite, and numbers are no states."""
    one = fitted(axis()[None], torch.zeros(1, dtype=torch.int64), 1).state("proco")
    with pytest.raises(ValueError, match=r"kappa <= 65504 in torch.float16, got 100000 at index 0"):
        one.to(dtype=torch.float16)
    assert one.to(dtype=torch.bfloat16).kappa.isfinite().all()
    with pytest.raises(ValueError, match=r"expected a floating dtype, got torch.int64"):
        one.to(dtype=torch.int64)
    rule = r"expected dtype to be torch.float32 or torch.float64"
    for dtype in (torch.float16, torch.int64):
        with pytest.raises(ValueError, match=rule):
            rs.realize(one, rs.Rule(0.1), dtype=dtype)
        with pytest.raises(ValueError, match=rule):
            rs.target_temperature(one, 0.1, dtype=dtype)


def test_one_convention_for_weights() -> None:
    """Real, finite and not negative, of any dtype or a list, for statistics and distribution."""
    z, y = sample(20)
    numbers = torch.arange(20) % 3
    expected = ClassStatistics(C, P).update(z, y, numbers.double())
    law = rs.VonMisesFisher.fit(z, numbers.double())
    weights: Any
    for weights in (numbers, numbers.tolist(), numbers.float(), numbers.numpy()):
        close(ClassStatistics(C, P).update(z, y, weights).total, expected.total)
        close(rs.VonMisesFisher.fit(z, weights).concentration, law.concentration)
    close(
        ClassStatistics(C, P).update(z, y, numbers > 0).weight,
        ClassStatistics(C, P).update(z, y, (numbers > 0).double()).weight,
    )
    for bad, got in (
        (-numbers, "weights >= 0 and finite, got -1 at index 1"),
        (numbers * math.nan, "weights >= 0 and finite, got nan at index 0"),
        (numbers + 1j, "weights of real numbers, got torch.complex64"),
        (numbers[1:], r"weights \[.*20\], one per vector, got shape \(19,\)"),
    ):
        with pytest.raises(ValueError, match=got):
            ClassStatistics(C, P).update(z, y, bad)
        with pytest.raises(ValueError, match=got):
            rs.VonMisesFisher.fit(z, bad)


def test_one_convention_for_vectors_that_cancel() -> None:
    """The uniform law around e_1, with gradients that are numbers, also up to rounding."""
    x = torch.stack([unit(P)] * 2) * torch.tensor([[1.0], [-1 - 3e-16]], dtype=F64)
    x.requires_grad_()
    law, state = rs.VonMisesFisher.fit(x), fitted(x.detach(), torch.zeros(2).long(), 1).state()
    assert torch.equal(law.loc.detach(), state.mu[0]) and torch.equal(law.loc.detach(), axis())
    assert float(law.concentration.detach()) == float(state.kappa) == 0.0
    (gradient,) = torch.autograd.grad(law.loc.sum() + law.concentration, x)
    assert gradient.isfinite().all()


def test_scatter_is_the_sum_of_outer_products(monkeypatch: pytest.MonkeyPatch) -> None:
    z, y = sample()
    w = torch.rand(len(z), dtype=F64)
    monkeypatch.setattr(memory, "FEATURE_BYTES", 8 * P * 7)
    expected = sum(a * torch.outer(row, row) for a, row in zip(w, z, strict=True))
    parts = slice(None), slice(20), slice(20, None)
    empty = (ClassStatistics(C, P, scatter=True) for _ in parts)
    whole, part, rest = (s.update(z[i], y[i], w[i]) for s, i in zip(empty, parts, strict=True))
    close(whole.scatter, expected)
    close(whole.without(part).scatter, rest.scatter)
    close(part.to("cpu").merge(rest).scatter, expected)
    assert fitted(z, y).scatter is None


def test_a_vector_of_zeros_is_a_sample_of_length_zero() -> None:
    z, y = sample()
    twice = torch.cat([z, torch.zeros_like(z)])
    statistics = ClassStatistics(C, P, scatter=True).add(twice, y.repeat(2))
    close(statistics.mean_length, fitted(z, y).mean_length / 2)
    close(statistics.total, fitted(z, y).total)
    zero, one = torch.zeros(1, P, dtype=F64), torch.ones(1, dtype=F64)
    mu, kappa = statistics.left_out(zero, y[:1], one, "mle")
    close(mu[0], statistics.state().mu[y[0]])
    assert kappa.isfinite().all()


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


TWO = """
from resultant import ClassStatistics

def main(rank):
    torch.manual_seed(0)
    z, y = torch.nn.functional.normalize(torch.randn(12, 4), dim=1), torch.arange(12) % 3
    whole, mine = (ClassStatistics(3, 4, scatter=True) for _ in range(2))
    whole.update(z, y)
    part = slice(7) if rank == 0 else slice(7, 12)
    mine.update(z[part], y[part]).all_reduce()
    for name in ("count", "weight", "total", "scatter"):
        torch.testing.assert_close(getattr(mine, name), getattr(whole, name))
"""


@pytest.mark.slow
def test_two_processes_add_up_to_one(tmp_path: Path) -> None:
    run_processes(TWO, 2, tmp_path)
    z, y = sample()
    close(fitted(z, y).all_reduce().total, fitted(z, y).total)


@pytest.mark.gpu
def test_gpu_statistics_agree_without_synchronising() -> None:
    z, y = sample(200)
    statistics = ClassStatistics(C, P, device="cuda")
    on_gpu = z.cuda(), y.cuda()
    torch.cuda.set_sync_debug_mode("error")
    try:
        statistics.update(*on_gpu)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    close(statistics.total.cpu(), fitted(z, y).total)
    close(statistics.state().kappa.cpu(), fitted(z, y).state().kappa, rtol=1e-10)
    a, b = fit(z, y).transform(z), fit(*on_gpu).transform(on_gpu[0]).cpu()
    torch.testing.assert_close(b @ b.T, a @ a.T, atol=1e-10, rtol=0)
    on_gpu[0][3] = torch.nan
    with pytest.raises(ValueError, match="got nan at index 3"):
        statistics.update(*on_gpu, validate_args=True)


def fit(z: Tensor, y: Tensor) -> Metric:
    statistics = ClassStatistics(int(y.max()) + 1, z.shape[1], scatter=True).to(z.device)
    return Metric.fit(statistics.update(z, y))


def naive(z: Tensor, y: Tensor, shrinkage: float, w: Tensor, q: Tensor) -> np.ndarray:
    """Whitened unit vectors q by loops over the classes and a matrix square root."""
    p = z.shape[1]
    means = {c: (w[y == c, None] * z[y == c]).sum(0) / w[y == c].sum() for c in y.unique().tolist()}
    covariance = torch.zeros(p, p, dtype=F64)
    for row, c, a in zip(z, y.tolist(), w, strict=True):
        covariance += a * torch.outer(row - means[c], row - means[c])
    covariance /= w.sum()
    mean = covariance.trace() / p * torch.eye(p, dtype=F64)
    covariance = (1 - shrinkage) * covariance + shrinkage * mean
    x = (q - sum(means.values()) / len(means)).numpy() @ np.linalg.inv(sqrtm(covariance.numpy()))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.parametrize(("n", "p"), [(60, 6), (20, 40), (19, 40), (12, 40)])
@pytest.mark.parametrize("shrinkage", [0.05, 1.0])
def test_cosines_are_those_of_the_naive_whitening(n: int, p: int, shrinkage: float) -> None:
    z, y = sample(n, p=p)
    w = torch.rand(n, dtype=F64) + 0.1
    # Also of rows outside the span of few fitted ones.
    q = torch.cat([z, sample(60, p=p)[0][:9].flip(1)])
    expected = naive(z, y, shrinkage, w, q)
    statistics = ClassStatistics(int(y.max()) + 1, p, scatter=True).update(z, y, w)
    with torch.device("meta"):  # the default device has no part in it
        metric = Metric.fit(statistics, 0.9)
    # One eigendecomposition serves all shrinkages.
    x = metric.with_shrinkage(shrinkage).transform(q).numpy()
    np.testing.assert_allclose(x @ x.T, expected @ expected.T, atol=1e-10)


def test_degenerate_samples() -> None:
    z, y = sample()[0][:5], torch.arange(5)
    metric = fit(z, y)
    # One sample per class: no variance, the metric only centres.
    x, centred = metric.transform(z), torch.nn.functional.normalize(z - z.mean(0))
    torch.testing.assert_close(x @ x.T, centred @ centred.T)
    assert (metric.transform(0 * z) == 0).all()
    equal = fit(z[:1].repeat(3, 1), torch.zeros(3).long())
    assert (equal.transform(z[:1]) == 0).all()
    alone = ClassStatistics(2, 6).update(z, y % 2)
    centred = Metric.fit(alone, whiten=False).transform(z)
    means = (z[::2].mean(0) + z[1::2].mean(0)) / 2
    torch.testing.assert_close(centred, torch.nn.functional.normalize(z - means))
