"""Questions to a frozen space about its samples and their law, naively recomputed."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import kstest
from torch import Tensor

from frozen_data import (
    TAU,
    C,
    P,
    features,
    fitted,
    rows,
    score,
    small_space,
)
from resultant.analysis import FrozenSpace, goodness_of_fit, self_inclusion, support_curve
from resultant.analysis import finite_sample as samples
from resultant.analysis.goodness import _law, _simulated_law
from resultant.classes.statistics import capped_concentration, fit_direction
from resultant.vmf.distribution import VonMisesFisher
from resultant.vmf.tails import log_projection_tail

F64 = torch.float64


@pytest.fixture(scope="module")
def small() -> FrozenSpace:
    return small_space()


# Samples


@pytest.mark.parametrize("most", [500, 25])
def test_support_by_definition(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every draw by itself, of classes as large as asked for and of those cut to some rows."""
    monkeypatch.setattr(samples, "MOST_ROWS", most)
    x, y = features(torch.tensor([60, 30, 45, 20]))
    space = FrozenSpace.fit(x, y, *features(torch.full((4,), 2), seed=1))
    sizes, draws = (4, 9, 15), 6
    found = support_curve(space, sizes, draws=draws, seed=3)
    assert found.classes.tolist() == [0, 1, 2], "the last has fewer than 30 rows"
    cut = max(most, 30)
    assert found.reference_rows.tolist() == [min(n, cut) - 15 for n in (60, 30, 45)]
    generator, unit = torch.Generator().manual_seed(3), rows(x)
    torch.randperm(3, generator=generator)  # which classes: all of them
    values = np.zeros((3, draws, len(sizes), 5))
    for c in range(3):
        own = np.flatnonzero((y == c).numpy())
        own = np.sort(own[torch.randperm(len(own), generator=generator).numpy()[:cut]])
        for d in range(draws):
            drawn = own[torch.randperm(len(own), generator=generator).numpy()]
            A, mu = unbiased_length(unit[drawn[15:]])
            for k, n in enumerate(sizes):
                R = np.linalg.norm(unit[drawn[:n]].mean(0))
                corrected, direction = unbiased_length(unit[drawn[:n]])
                angle = math.degrees(math.acos(direction @ mu))
                expected = math.sqrt(A**2 + (1 - A**2) / n) - A
                values[c, d, k] = abs(R - A), R - A, expected, abs(corrected - A), angle
    error, bias, expected, corrected, angle = values.mean((0, 1)).T
    np.testing.assert_allclose(found.error, error, rtol=1e-9)
    np.testing.assert_allclose(found.error_sd, values[..., 0].mean(1).std(0, ddof=1), rtol=1e-9)
    np.testing.assert_allclose(found.bias, bias, rtol=1e-9)
    np.testing.assert_allclose(found.predicted_bias, expected, rtol=1e-9)
    np.testing.assert_allclose(found.corrected_error, corrected, rtol=1e-9)
    np.testing.assert_allclose(found.direction_degrees, angle, rtol=1e-9)


def unbiased_length(x: np.ndarray) -> tuple[float, np.ndarray]:
    """sqrt(max(U, 0)) of unit rows, U the mean cosine of two of them, and their direction."""
    cosines = (x @ x.T)[~np.eye(len(x), dtype=bool)]
    mean = x.mean(0)
    return math.sqrt(max(cosines.mean(), 0)), mean / np.linalg.norm(mean)


def test_support_bias_is_the_predicted_one() -> None:
    counts = torch.full((12,), 400)
    space = FrozenSpace.fit(*features(counts), *features(torch.full((12,), 2), seed=1))
    found = support_curve(space, (100, 5, 20), draws=40)
    assert found.sizes == (5, 20, 100) and len(found.classes) == 12
    assert found.reference_rows.tolist() == [300] * 12
    torch.testing.assert_close(found.bias[0], found.predicted_bias[0], rtol=0.1, atol=0)
    assert (found.error.diff() < 0).all() and (found.direction_degrees.diff() < 0).all()
    assert found.error[0] > 2 * found.error[2]
    assert (found.error_sd > 0).all()


def test_support_of_equal_rows_has_no_error() -> None:
    x = torch.eye(3).repeat_interleave(30, 0)
    y = torch.arange(3).repeat_interleave(30)
    found = support_curve(FrozenSpace.fit(x, y, x, y), (5, 10, 20), draws=2)
    assert found.sizes == (5, 10), "three classes of 30 rows allow for 15 at most"
    for values in (found.error, found.bias, found.corrected_error, found.direction_degrees):
        torch.testing.assert_close(values, torch.zeros_like(values), atol=1e-6, rtol=0)
    with pytest.raises(ValueError, match="expected two classes of 4 rows or more"):
        support_curve(FrozenSpace.fit(x[::15], y[::15], x, y), (5, 2))


def test_self_inclusion_by_refitting() -> None:
    counts = torch.tensor([20, 12, 6, 1])
    x, y = features(counts)
    identities = torch.arange(len(y))
    identities[(y == 1).nonzero().squeeze(1)] = torch.arange(12) // 2
    test = features(torch.full((4,), 2), seed=1)
    space = FrozenSpace.fit(x, y, *test, identities=identities)
    found = self_inclusion(space)
    assert found.classes.tolist() == [0, 1, 2] and found.queries.tolist() == [20, 12, 6]
    unit = rows(x)
    for place, c in enumerate((0, 1, 2)):
        own = np.flatnonzero((y == c).numpy())
        n = len(own)
        mu, kappa = fitted(unit[own])
        exact, leading, history = [], [], []
        for i in own:
            rest = own[own != i]
            included = score(unit[i] @ mu, kappa, TAU)
            other, k = fitted(unit[rest])
            exact.append(included - score(unit[i] @ other, k, TAU))
            means = unit[own].mean(0) - unit[rest].mean(0)
            leading.append(unit[i] @ means / TAU)
            others = own[identities[own].numpy() != int(identities[i])]
            other, k = fitted(unit[others])
            history.append(included - score(unit[i] @ other, k, TAU))
        assert float(found.exact[place]) == pytest.approx(np.mean(exact), rel=1e-6)
        assert float(found.exact_sd[place]) == pytest.approx(np.std(exact, ddof=1), rel=1e-6)
        assert float(found.leading[place]) == pytest.approx(np.mean(leading), rel=1e-9)
        assert float(found.leading_sd[place]) == pytest.approx(np.std(leading, ddof=1), rel=1e-9)
        # With the unbiased A the mean over a whole class is the prediction, exactly.
        assert float(found.predicted[place]) == pytest.approx(np.mean(leading), rel=1e-9)
        assert n == int(found.count[place]) and found.history is not None
        assert float(found.history[place]) == pytest.approx(np.mean(history), rel=1e-6)
    assert found.history is not None
    torch.testing.assert_close(found.history[[0, 2]], found.exact[[0, 2]])
    assert float(found.history[1]) != pytest.approx(float(found.exact[1]), rel=1e-3)
    assert self_inclusion(FrozenSpace.fit(x, y, *test)).history is None
    few = self_inclusion(space, most=9)
    assert few.queries.tolist() == [3, 3, 3]


# Goodness of fit


@pytest.mark.parametrize("p", [3, 16, 1024])
@pytest.mark.parametrize("kappa", [0.0, 0.7, 40.0, 1e5])
def test_law_of_the_cosine(p: int, kappa: float) -> None:
    peak = 2 * kappa / (p - 1 + math.hypot(p - 1, 2 * kappa))
    width = math.sqrt((1 - peak**2) / (p + kappa))
    rho = (peak + 4 * width * torch.linspace(-1, 1, 41, dtype=F64)).clamp(-1, 1)
    one, k = torch.ones((), dtype=F64), torch.tensor(kappa, dtype=F64)
    expected = log_projection_tail(rho, one, k, p, upper=False).exp()
    found = _law(rho, torch.zeros(41, dtype=torch.int64), k.reshape(1), p)
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-5)


def test_goodness_of_fit(small: FrozenSpace) -> None:
    found = goodness_of_fit(small)
    x, y = torch.as_tensor(rows(small.test[:])), small.test_labels
    assert found.classes.tolist() == list(range(C))
    assert int(found.histogram.sum()) == len(small.test)
    one = torch.ones((), dtype=F64)
    for c in (0, 11, C - 1):
        mu, kappa = small.state.mu[c], small.state.kappa[c]
        mine = x[y == c]
        rho = mine @ mu
        law = log_projection_tail(rho, one, kappa, P, upper=False).exp()
        expected = kstest(law.numpy(), "uniform")
        assert float(found.kolmogorov[c]) == pytest.approx(expected.statistic, abs=1e-4)
        assert float(found.p_value[c]) == pytest.approx(expected.pvalue, abs=2e-3)
        assert float(found.mean_cosine[c]) == pytest.approx(float(rho.mean()))
        across = mine - rho[:, None] * mu
        across = across / across.norm(dim=1, keepdim=True)
        squares = [
            float(across[i] @ across[j]) ** 2
            for i in range(len(mine))
            for j in range(len(mine))
            if i != j
        ]
        assert float(found.anisotropy[c]) == pytest.approx((P - 1) * np.mean(squares))
    assert found.rejected == pytest.approx(float((found.p_value < 0.05).double().mean()))


def vmf_rows(kappa: float, p: int, counts: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """As many rows of each class as said, of vMFs about the same directions for every seed."""
    shared = torch.Generator().manual_seed(99)
    mu = torch.randn(len(counts), p, generator=shared, dtype=F64)
    y = torch.arange(len(counts)).repeat_interleave(counts)
    torch.manual_seed(seed)
    return VonMisesFisher(torch.nn.functional.normalize(mu, dim=1)[y], kappa).sample(), y


def test_true_vmf_of_many_rows_is_not_rejected() -> None:
    rows, few = torch.full((30,), 2000), torch.full((30,), 60)
    space = FrozenSpace.fit(*vmf_rows(30.0, 10, rows, 3), *vmf_rows(30.0, 10, few, 4))
    found = goodness_of_fit(space)
    assert found.rejected < 0.2 and found.expected < 0.1
    assert float(found.anisotropy.mean()) == pytest.approx(1, abs=0.05)
    # Within four standard deviations of flat.
    assert (found.histogram - 90).abs().max() < 4 * math.sqrt(90)
    assert (found.expected_histogram - 90).abs().max() < 4 * math.sqrt(90 * 30 / 1000)


# Of rows from 5 to 300.
SIZES = torch.logspace(math.log10(5), math.log10(300), 150).round().long()
QUERIES = torch.full((150,), 60)


@pytest.mark.parametrize(("kappa", "estimator"), [(550.0, "mle"), (15.0, "proco")])
def test_true_vmf_is_rejected_as_often_as_expected(kappa: float, estimator: str) -> None:
    """The fit of few rows is rejected although all is vMF, and that is foreseen."""
    train, test = vmf_rows(kappa, 32, SIZES, 5), vmf_rows(kappa, 32, QUERIES, 6)
    found = goodness_of_fit(FrozenSpace.fit(*train, *test, estimator=estimator))
    spread = math.sqrt(found.expected * (1 - found.expected) * (1 / 150 + 1 / 1000))
    assert abs(found.rejected - found.expected) < 3 * spread
    assert found.rejected > 0.05 + 5 * math.sqrt(0.05 * 0.95 / 150)
    # So is how far the histogram is from flat.
    observed, expected = (h / 9000 * 20 for h in (found.histogram, found.expected_histogram))
    assert (observed - 1).abs().max() > 1
    torch.testing.assert_close(observed[0].double(), expected[0], rtol=0.15, atol=0)


def test_what_is_not_vmf_is_rejected_more_than_expected() -> None:
    """Classes of two narrow directions each."""
    train, test = (vmf_rows(500.0, 16, torch.full((80,), 100), seed) for seed in (7, 8))
    found = goodness_of_fit(FrozenSpace.fit(train[0], train[1] // 2, test[0], test[1] // 2))
    assert found.queries.tolist() == [200] * 40
    assert found.rejected == 1 and found.expected < 0.4


@pytest.mark.parametrize(("p", "kappa", "n"), [(3, 4.0, 7), (16, 0.0, 2), (40, 90.0, 6)])
def test_simulated_law_by_vectors(p: int, kappa: float, n: int) -> None:
    """Without a vector it has the law that vectors have: sum, fit and queries."""
    number = 2000
    torch.manual_seed(11)
    own, counts = torch.arange(number), torch.full((number,), n)
    found = _simulated_law(counts, torch.full((number,), kappa, dtype=F64), own, p, "mle")
    vmf = VonMisesFisher(torch.eye(1, p, dtype=F64)[0], kappa)
    x, z = vmf.sample((n, number)), vmf.sample((number,))
    mu, R = fit_direction(x.sum(0), torch.tensor(float(n), dtype=F64).expand(number))
    expected = _law((z * mu).sum(1), own, capped_concentration(p, R, "mle"), p)
    assert kstest(found.numpy(), expected.numpy()).pvalue > 1e-3


def test_fit_is_simulated_with_a_seed(small: FrozenSpace) -> None:
    """The same each time, whatever was drawn before; and what is drawn next is left alone."""
    torch.manual_seed(1)
    first, after = goodness_of_fit(small, seed=4), torch.rand(3)
    torch.manual_seed(1)
    assert torch.equal(after, torch.rand(3))
    again, other = goodness_of_fit(small, seed=4), goodness_of_fit(small, seed=5)
    assert first.to_dict() == again.to_dict()
    assert not torch.equal(first.expected_histogram, other.expected_histogram)
    assert torch.equal(first.p_value, other.p_value)
    assert float(first.expected_histogram.sum()) == pytest.approx(float(first.histogram.sum()))


def test_fit_of_single_rows() -> None:
    """A direction of one row is told apart, vMF or not."""
    few = torch.ones(5, dtype=torch.int64)
    train, test = vmf_rows(50.0, 8, few, 1), vmf_rows(50.0, 8, 40 * few, 2)
    found = goodness_of_fit(FrozenSpace.fit(*train, *test))
    assert found.rejected == 1 and found.expected > 0.9
