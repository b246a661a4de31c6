"""Questions of the paper about frozen features, against their definitions."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import frozen_data
from frozen_data import COUNTS, TAU, C, P, features, log_softmax, ratio, rows, score, scores
from resultant.analysis.metrics import sample_rows
from resultant.classes.rule import REALIZATIONS
from resultant.classes.scores import class_scores
from resultant.theory.binary_model import BinaryModel
from resultant_reproduction.frozen.agreement import intercept_drift
from resultant_reproduction.frozen.boundaries import boundary_displacement, choose_pairs
from resultant_reproduction.frozen.decisions import (
    Policy,
    compare_gradients,
    decide,
    realization_grid,
)
from resultant_reproduction.frozen.pairs import margin_directions, typical_margins
from resultant_reproduction.frozen.same_state import same_state
from resultant_reproduction.frozen.space import FrozenSpace


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_same_state_against_definition(small: FrozenSpace, gamma: float) -> None:
    result = same_state(small, gamma=gamma, per_class=3)
    y = small.test_labels.numpy()
    first = np.sort(np.concatenate([np.flatnonzero(y == c)[:3] for c in range(C)]))
    assert result.queries == len(first) == 3 * C
    for row in result.rows:
        s = scores(small, row.realization, 0, gamma, small.test[first])
        guess = s.argmax(1)
        loss = np.log(np.exp(s).sum(1)) - s[np.arange(len(first)), y[first]]
        assert row.cross_entropy == pytest.approx(loss.mean(), rel=1e-9)
        assert row.accuracy == pytest.approx((guess == y[first]).mean())
        assert row.distinct == len(np.unique(guess))
    focus = result.focus
    assert focus is not None and focus.index == intercept_drift(small).worst_class
    step = 1e-5
    for name, tau in (("native", TAU), ("temperature", focus.target_temperature)):
        ends = [score(r, focus.kappa, tau) for r in (-step, 0.0, step)]
        assert focus.intercepts[name] == pytest.approx(ends[1], rel=1e-8)
        assert focus.slopes[name] == pytest.approx((ends[2] - ends[0]) / (2 * step), rel=1e-5)
    raised = focus.target_gain - focus.gain
    assert focus.slopes["angular"] == pytest.approx(focus.slopes["native"] + raised)
    assert focus.intercepts["preserve"] == pytest.approx(focus.intercepts["native"])


def test_a_class_of_noise_collapses_direct_temperature() -> None:
    """Preserving the intercept recovers it; a class without temperature leaves out answers."""
    (x, y), test = features(COUNTS), features(torch.full((C,), frozen_data.PER_CLASS), seed=1)
    x[y == 3] = torch.randn(x.shape, generator=torch.Generator().manual_seed(5))[y == 3]
    noisy = FrozenSpace.fit(x, y, *test, dtype=torch.float64)
    rows = {row.realization: row for row in same_state(noisy).rows}
    assert rows["temperature"].distinct < rows["preserve"].distinct
    assert rows["temperature"].cross_entropy > 3 * rows["preserve"].cross_entropy
    focus = same_state(noisy).focus
    assert focus is not None and focus.index == 3
    assert focus.intercepts["temperature"] > 10 * focus.intercepts["native"]
    state = same_state(noisy, 1.5)
    assert state.undefined == (3,) and state.focus is None
    assert [row.realization for row in state.rows] == ["native", "angular"]
    drift = intercept_drift(noisy, 1.5)
    assert drift.undefined == (3,) and drift.worst_class is None
    assert drift.temperature.isnan().all()
    boundaries = boundary_displacement(noisy, beta=1.5)
    assert boundaries.undefined == (3,) and boundaries.predicted == {} and not boundaries.change
    grid = realization_grid(noisy, (0.0, 1.5), (0.0,))
    for name in ("temperature", "preserve"):
        point = grid.point(name, 1.5)
        assert point.undefined == (3,) and point.accuracy is None
        assert grid.point(name, 0.0).undefined == ()
    assert grid.point("angular", 1.5).accuracy is not None
    assert point.to_dict()["undefined"] == [3]


@pytest.mark.slow
def test_grid_against_definition(small: FrozenSpace) -> None:
    grid = realization_grid(small)
    y = small.test_labels.numpy()
    for point in grid.points:
        s = scores(small, point.realization, point.beta, point.gamma, small.test[:])
        log_p = log_softmax(s)
        assert point.accuracy == pytest.approx((s.argmax(1) == y).mean())
        assert point.nll == pytest.approx(-log_p[np.arange(len(y)), y].mean(), rel=1e-9)
    assert len(grid.points) == 3 * (2 + 3 * 4)
    assert grid.point("native", 0.3, 1.0) is grid.point("native", 1.0, 1.0)
    assert {p.accuracy for p in grid.points if p.gamma == 0 and p.beta == 1} == {
        grid.point("native").accuracy
    }
    assert len({p.accuracy for p in grid.points}) > 3, "the policies must differ on this space"
    # Scores in float32 are close.
    policies = [Policy(name) for name in REALIZATIONS]
    wide, narrow = decide(small, policies), decide(frozen_data.small_space(torch.float32), policies)
    for policy in (p.canonical for p in policies):
        assert narrow.nll[policy].dtype == torch.float32
        torch.testing.assert_close(narrow.nll[policy].double(), wide.nll[policy], atol=2e-4, rtol=0)


def test_gradients_by_autograd(small: FrozenSpace) -> None:
    result = compare_gradients(small, queries=60, seed=2)
    queries = sample_rows(len(small.test), 60, 2)
    x = torch.as_tensor(rows(small.test[queries]))
    y = small.test_labels[queries]

    def loss_and_gradient(name: str) -> tuple[torch.Tensor, torch.Tensor]:
        z = x.clone().requires_grad_()
        s = class_scores(z, small.state, TAU, name, 0.0)
        loss = torch.nn.functional.cross_entropy(s, y, reduction="none")
        (g,) = torch.autograd.grad(loss.sum(), z)
        return loss.detach(), g - (g * x).sum(1, keepdim=True) * x

    losses, gradients = zip(*map(loss_and_gradient, ("angular", "cosine")), strict=True)
    difference = (losses[0] - losses[1]).abs()
    assert result.loss_mean == pytest.approx(float(difference.mean()), rel=1e-8)
    error = 100 * (gradients[0] - gradients[1]).norm() / gradients[0].norm()
    assert result.gradient_error == pytest.approx(float(error), rel=1e-8)
    cosines = torch.nn.functional.cosine_similarity(*gradients, dim=1, eps=1e-300)
    assert result.median_cosine == pytest.approx(float(cosines.median()), abs=1e-9)
    assert result.bounds_held
    A, kappa, mu = (a.numpy() for a in (small.state.resultant, small.state.kappa, small.state.mu))
    lam = kappa / (P / 2 - 1)
    native = loss_and_gradient("native")[1]
    for error, gain, intercept in (
        (result.linear_error, A / TAU, score(0.0, kappa, TAU)),
        (result.joint_error, lam / (1 + np.sqrt(1 + lam**2)) / TAU, 0.0),
    ):
        s = log_softmax((x.numpy() @ mu.T) * gain + intercept)
        G = torch.as_tensor(((np.exp(s) - np.eye(C)[y.numpy()]) * gain) @ mu)
        G = G - (G * x).sum(1, keepdim=True) * x
        assert error == pytest.approx(100 * float((native - G).norm() / native.norm()), rel=1e-8)
    split = frozen_data.small_space(fitting_share=0.8)
    calibration = split.calibration
    assert calibration is not None
    there = replace(split, test=split.train[calibration], test_labels=split.labels[calibration])
    there = replace(there, fitting=None)
    expected = pytest.approx(compare_gradients(there).loss_mean, rel=1e-12)
    assert compare_gradients(split).loss_mean == expected


def test_margin_directions_against_definition(small: FrozenSpace) -> None:
    result = margin_directions(small, choose_pairs(small, 2))
    before, after = (scores(small, name, 0, 0, small.test[:]) for name in ("native", "temperature"))
    y, rho = small.test_labels.numpy(), rows(small.test[:]) @ small.state.mu.numpy().T
    g = np.array([ratio(P, k) for k in small.state.kappa.tolist()]) / TAU
    same, covered, total = 0, 0, 0
    for a, b in result.pairs.tolist():
        for i in np.flatnonzero((y == a) | (y == b)):
            exact = (after[i, a] - after[i, b]) - (before[i, a] - before[i, b])
            linear = (g.mean() - g[a]) * rho[i, a] - (g.mean() - g[b]) * rho[i, b]
            same += np.sign(exact) == np.sign(linear)
            covered += abs(linear) > abs(exact - linear)
            total += 1
    assert result.incidences == total == 24 * 2 * frozen_data.PER_CLASS
    assert result.agreement == pytest.approx(same / total)
    assert result.coverage == pytest.approx(covered / total)
    assert 0.5 < covered / total < 1 and result.certified_wrong == 0
    # The intercepts explain more of the changes.
    whole = margin_directions(small, choose_pairs(small, 2), intercept=True)
    assert whole.coverage is not None and result.coverage is not None
    assert whole.coverage > result.coverage and not whole.certified_wrong


def test_typical_margins_against_definition(small: FrozenSpace) -> None:
    result = typical_margins(small, choose_pairs(small, 2))
    native, y = scores(small, "native", 1, 0, small.test[:]), small.test_labels.numpy()
    state, nu = small.state, P / 2 - 1
    for i, (a, b) in enumerate(result.pairs.tolist()):
        margin = native[:, a] - native[:, b]
        wrong = [(margin[y == a] < 0).mean(), (margin[y == b] >= 0).mean()]
        assert result.observed[i].tolist() == pytest.approx(wrong)
        cosine = float(state.mu[a] @ state.mu[b])
        ka, kb = float(state.kappa[a]), float(state.kappa[b])
        model = BinaryModel(ka / nu, kb / nu, cosine, TAU)
        assert result.typical[i].tolist() == pytest.approx(list(model.typical_margins))
        centre = score(1.0, ka, TAU) - score(cosine, kb, TAU)
        assert float(result.centre[i, 0]) == pytest.approx(centre, rel=1e-9)
    assert result.typical_correlation is not None and result.typical_correlation < -0.3
