"""Questions to a frozen space about cosines, pairs, intercepts and samples, naively recomputed."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.optimize import brentq

from frozen_data import (
    PER_CLASS,
    TAU,
    C,
    P,
    features,
    log_softmax,
    noisy_space,
    ratio,
    rows,
    score,
    scores,
)
from frozen_data import small_space as make_space
from resultant.analysis import (
    FrozenSpace,
    boundary_displacement,
    compare_gradients,
    cosine_agreement,
    decide,
    intercept_drift,
    margin_directions,
    same_state,
    typical_margins,
)
from resultant.analysis.decisions import grid_policies
from resultant.classes.realization import class_scores
from resultant.decisions.binary_model import BinaryModel
from resultant.decisions.pairs import select_pairs

F64 = torch.float64


@pytest.fixture(scope="module")
def small() -> FrozenSpace:
    return make_space()


@pytest.fixture(scope="module")
def noisy() -> FrozenSpace:
    return noisy_space()


# Gains


def test_cosine_agreement(small: FrozenSpace) -> None:
    found = cosine_agreement(small)
    cosine, angular = (scores(small, name, 0, 0, small.test[:]) for name in ("cosine", "angular"))
    differ = cosine.argmax(1) != angular.argmax(1)
    assert found.disagreements == differ.sum() > 0
    assert found.agreement == pytest.approx(1 - differ.mean())
    y = small.test_labels.numpy()
    assert found.cosine_accuracy == pytest.approx((cosine.argmax(1) == y).mean())
    assert found.angular_accuracy == pytest.approx((angular.argmax(1) == y).mean())
    top = np.sort(cosine, axis=1)
    margin, D = top[:, -1] - top[:, -2], np.ptp(angular - cosine, axis=1)
    assert found.certified == (margin > D).sum()
    assert found.certified_disagreements == 0
    gbar = found.mean_gain
    edges = nearest(margin / gbar, 11)
    np.testing.assert_allclose(found.decile_edges.numpy(), edges, rtol=1e-9)
    place = np.argsort(np.argsort(margin)) * 10 // len(margin)
    assert found.decile_disagreements.tolist() == np.bincount(place[differ], minlength=10).tolist()
    assert found.low_margin == found.decile_disagreements[0]
    np.testing.assert_allclose(found.margin_quantiles.numpy(), nearest(margin, 101), rtol=1e-9)
    np.testing.assert_allclose(found.residual_quantiles.numpy(), nearest(D, 101), rtol=1e-9)
    pieces = cosine_agreement(small, chunk=37).to_dict()
    assert pieces["certified"] == found.certified
    assert pieces["margin_quantiles"] == pytest.approx(found.margin_quantiles.tolist(), rel=1e-10)


def nearest(values: np.ndarray, number: int) -> np.ndarray:
    """Evenly spaced quantiles that are values; of two as near, that of the even place."""
    places = [round(i * (len(values) - 1) / (number - 1)) for i in range(number)]
    return np.sort(values)[places]


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_gradients_by_autograd(small: FrozenSpace, gamma: float) -> None:
    found = compare_gradients(small, queries=60, gamma=gamma, seed=2)
    assert found.source == "held-out" and len(found.rows.unique()) == found.queries == 60
    x = torch.as_tensor(rows(small.test[found.rows]))
    y, offset = small.test_labels[found.rows], small.offset(gamma)

    def loss_and_gradient(name: str) -> tuple[torch.Tensor, torch.Tensor]:
        z = x.clone().requires_grad_()
        s = class_scores(z, small.state, TAU, name, 0.0, offset=offset)
        loss = torch.nn.functional.cross_entropy(s, y, reduction="none")
        (g,) = torch.autograd.grad(loss.sum(), z)
        return loss.detach(), g - (g * x).sum(1, keepdim=True) * x

    losses, gradients = zip(*map(loss_and_gradient, ("angular", "cosine")), strict=True)
    difference = (losses[0] - losses[1]).abs()
    assert found.loss_mean == pytest.approx(float(difference.mean()), rel=1e-8)
    assert found.loss_largest == pytest.approx(float(difference.max()), rel=1e-8)
    error = 100 * (gradients[0] - gradients[1]).norm() / gradients[0].norm()
    assert found.gradient_error == pytest.approx(float(error), rel=1e-8)
    cosines = torch.nn.functional.cosine_similarity(*gradients, dim=1, eps=1e-300)
    torch.testing.assert_close(found.cosines, cosines, rtol=0, atol=1e-9)
    assert found.median_cosine == pytest.approx(float(cosines.median()), abs=1e-9)
    assert found.bounds_held and found.loss_mean < found.loss_bound_mean
    A, kappa, mu = (a.numpy() for a in (small.state.resultant, small.state.kappa, small.state.mu))
    lam = kappa / (P / 2 - 1)
    shift = 0.0 if offset is None else offset.numpy()
    native = loss_and_gradient("native")[1]
    for error, gain, intercept in (
        (found.linear_error, A / TAU, score(0.0, kappa, TAU)),
        (found.joint_error, lam / (1 + np.sqrt(1 + lam**2)) / TAU, 0.0),
    ):
        s = log_softmax((x.numpy() @ mu.T) * gain + intercept + shift)
        G = torch.as_tensor(((np.exp(s) - np.eye(C)[y.numpy()]) * gain) @ mu)
        G = G - (G * x).sum(1, keepdim=True) * x
        assert error == pytest.approx(100 * float((native - G).norm() / native.norm()), rel=1e-8)


def test_gradients_of_calibration_rows() -> None:
    split = make_space(fitting_share=0.8)
    found = compare_gradients(split, queries=20)
    assert found.source == "calibration" and split.fitting is not None
    assert not split.fitting[found.rows].any() and found.queries == 20


# Pairs


def arc_root(f, theta: float) -> tuple[int, float]:
    u = np.linspace(0, theta, 2001)
    D = f(u)
    crossings = np.flatnonzero(np.sign(D[:-1]) != np.sign(D[1:]))
    if len(crossings) != 1:
        return len(crossings), math.nan
    root = brentq(f, u[crossings[0]], u[crossings[0] + 1], xtol=1e-14)
    return 1, float(root)  # type: ignore[arg-type]


def test_boundaries_by_brent(small: FrozenSpace) -> None:
    found = boundary_displacement(small, per_type=2)
    chosen = select_pairs(small.state, small.groups, 2, 0)
    assert torch.equal(found.pairs, chosen.pairs) and len(found.pairs) == 24
    assert found.kind == tuple(k for k in ("HH", "HM", "HT", "MM", "MT", "TT") for _ in range(4))
    kappa, mu = small.state.kappa.numpy(), small.state.mu.numpy()
    A = np.array([ratio(P, k) for k in kappa])
    g = A / TAU
    names = {(1, 1): "displaced", (0, 1): "created", (1, 0): "vanished", (0, 0): "absent"}

    def exact_root(a: int, b: int, theta: float, tau: np.ndarray) -> tuple[int, float]:
        def margin(u):
            own, other = np.cos(u), np.cos(theta - u)
            return score(own, kappa[a], tau[a]) - score(other, kappa[b], tau[b])

        return arc_root(margin, theta)

    def linear_root(a: int, b: int, theta: float) -> tuple[int, float]:
        return arc_root(lambda u: g[a] * np.cos(u) - g[b] * np.cos(theta - u), theta)

    errors = []
    for i, (a, b) in enumerate(found.pairs.tolist()):
        theta = math.acos(mu[a] @ mu[b])
        assert float(found.cosine[i]) == pytest.approx(math.cos(theta))
        assert float(found.theta_degrees[i]) == pytest.approx(math.degrees(theta))
        before, after = (exact_root(a, b, theta, t) for t in (np.full(C, TAU), A / g.mean()))
        assert found.change[i] == names[before[0], after[0]]
        for degrees, root in ((found.before_degrees, before[1]), (found.after_degrees, after[1])):
            assert float(degrees[i]) == pytest.approx(math.degrees(root), abs=1e-8, nan_ok=True)
        # After equalization the linear mean has its boundary in the middle.
        linear = linear_root(a, b, theta)
        if linear[0] == before[0] == after[0] == 1:
            shift = math.degrees(theta / 2 - linear[1])
            assert float(found.predicted["linear_mean"].shift_degrees[i]) == pytest.approx(shift)
            errors.append(abs(shift - float(found.shift_degrees[i])))
    linear = found.predicted["linear_mean"]
    assert linear.comparable == len(errors) > 5
    assert linear.mean_absolute_degrees == pytest.approx(np.mean(errors))
    assert sum(found.tally.values()) == 24 and found.tally["displaced"] >= len(errors)
    finer = found.predicted["linear_intercept"].mean_absolute_degrees
    assert finer < linear.mean_absolute_degrees
    assert set(found.predicted) == {"linear_mean", "linear_intercept", "joint_leading"}


def test_all_pairs_of_few_classes() -> None:
    counts = torch.tensor([60, 50, 40, 30, 25, 20, 15, 12, 10, 8])
    space = FrozenSpace.fit(*features(counts), *features(torch.full((10,), 4), seed=1))
    assert len(boundary_displacement(space).pairs) == 45
    assert space.summary().groups == {"head": 3, "medium": 4, "tail": 3}


def test_margin_directions(small: FrozenSpace) -> None:
    found = margin_directions(small, per_type=2)
    before, after = (scores(small, name, 0, 0, small.test[:]) for name in ("native", "temperature"))
    y, rho = small.test_labels.numpy(), rows(small.test[:]) @ small.state.mu.numpy().T
    g = np.array([ratio(P, k) for k in small.state.kappa.tolist()]) / TAU
    same, covered, total = 0, 0, 0
    for a, b in found.pairs.tolist():
        for i in np.flatnonzero((y == a) | (y == b)):
            exact = (after[i, a] - after[i, b]) - (before[i, a] - before[i, b])
            linear = (g.mean() - g[a]) * rho[i, a] - (g.mean() - g[b]) * rho[i, b]
            same += np.sign(exact) == np.sign(linear)
            covered += abs(linear) > abs(exact - linear)
            total += 1
    assert found.incidences == total == 24 * 2 * PER_CLASS
    assert found.agreement == pytest.approx(same / total)
    assert found.coverage == pytest.approx(covered / total)
    assert 0.5 < covered / total < 1 and found.certified_wrong == 0
    assert sum(kind["incidences"] or 0 for kind in found.by_kind.values()) == total
    assert len(found.linear) == len(found.exact) == total
    pieces = margin_directions(small, per_type=2, chunk=31)
    assert (pieces.agreement, pieces.coverage) == (found.agreement, found.coverage)


def test_typical_margins(small: FrozenSpace) -> None:
    found = typical_margins(small, per_type=2)
    native, y = scores(small, "native", 1, 0, small.test[:]), small.test_labels.numpy()
    state, nu = small.state, P / 2 - 1
    for i, (a, b) in enumerate(found.pairs.tolist()):
        margin = native[:, a] - native[:, b]
        wrong = [(margin[y == a] < 0).mean(), (margin[y == b] >= 0).mean()]
        assert found.observed[i].tolist() == pytest.approx(wrong)
        cosine = float(state.mu[a] @ state.mu[b])
        ka, kb = float(state.kappa[a]), float(state.kappa[b])
        model = BinaryModel(ka / nu, kb / nu, cosine, TAU)
        assert found.typical[i].tolist() == pytest.approx(list(model.typical_margins))
        assert found.gaussian[i].tolist() == pytest.approx(list(model.gaussian_errors(P)))
        if i < 6:
            assert found.model[i].tolist() == pytest.approx(list(model.errors(P)), rel=1e-8)
        centre = score(1.0, ka, TAU) - score(cosine, kb, TAU)
        assert float(found.centre[i, 0]) == pytest.approx(centre, rel=1e-9)
    assert found.queries.unique().tolist() == [PER_CLASS]
    assert found.model_correlation is not None and found.model_correlation > 0.3
    assert found.typical_correlation is not None and found.typical_correlation < -0.3
    pieces = typical_margins(small, per_type=2, chunk=31)
    assert torch.equal(pieces.observed, found.observed)


# Intercepts


def test_intercepts(small: FrozenSpace) -> None:
    found = intercept_drift(small)
    kappa = small.state.kappa.numpy()
    A = np.array([ratio(P, k) for k in kappa])
    tau = A / (A / TAU).mean()
    h0, h1 = score(0.0, kappa, TAU), score(0.0, kappa, tau)
    np.testing.assert_allclose(found.native.numpy(), h0, rtol=1e-9)
    np.testing.assert_allclose(found.temperature.numpy(), h1, rtol=1e-9)
    np.testing.assert_allclose(found.temperatures.numpy(), tau, rtol=1e-9)
    assert found.largest["temperature"] == pytest.approx(np.abs(h1 - h0).max())
    assert found.mean["temperature"] == pytest.approx(np.abs(h1 - h0).mean())
    assert found.worst_class == np.abs(h1 - h0).argmax()
    assert found.largest["preserve"] < 1e-12 and found.largest["angular"] == 0.0


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_same_state(small: FrozenSpace, gamma: float) -> None:
    found = same_state(small, gamma=gamma, per_class=3)
    y = small.test_labels.numpy()
    first = np.sort(np.concatenate([np.flatnonzero(y == c)[:3] for c in range(C)]))
    assert found.queries == len(first) == 3 * C
    for row in found.rows:
        s = scores(small, row.realization, 0, gamma, small.test[first])
        guess = s.argmax(1)
        loss = np.log(np.exp(s).sum(1)) - s[np.arange(len(first)), y[first]]
        assert row.cross_entropy == pytest.approx(loss.mean(), rel=1e-9)
        assert row.accuracy == pytest.approx((guess == y[first]).mean())
        counts = np.bincount(guess)
        assert (row.distinct, row.top_class) == ((counts > 0).sum(), counts.argmax())
        assert row.top_share == pytest.approx(counts.max() / len(first), rel=1e-6)
    focus = found.focus
    assert focus is not None and focus.index == intercept_drift(small).worst_class
    step = 1e-5
    for name, tau in (("native", TAU), ("temperature", focus.target_temperature)):
        ends = [score(r, focus.kappa, tau) for r in (-step, 0.0, step)]
        assert focus.intercepts[name] == pytest.approx(ends[1], rel=1e-8)
        assert focus.slopes[name] == pytest.approx((ends[2] - ends[0]) / (2 * step), rel=1e-5)
    raised = focus.target_gain - focus.gain
    assert focus.slopes["angular"] == pytest.approx(focus.slopes["native"] + raised)
    assert focus.intercepts["preserve"] == pytest.approx(focus.intercepts["native"])


@pytest.mark.parametrize("beta", [0.0, 1.5])
def test_same_state_of_decisions(noisy: FrozenSpace, beta: float) -> None:
    """What was decided of all queries is not scored again; what was not is."""
    decisions = decide(noisy, grid_policies())
    fresh, again = (
        same_state(noisy, beta, gamma=1.0, per_class=3, decisions=given).to_dict()
        for given in (None, decisions)
    )
    for row, other in zip(fresh["rows"], again["rows"], strict=True):
        assert other.pop("cross_entropy") == pytest.approx(row.pop("cross_entropy"), rel=1e-12)
    assert again == fresh
    decisions.nll.clear()
    with pytest.raises(KeyError):
        same_state(noisy, beta, gamma=1.0, decisions=decisions)
    other = same_state(noisy, beta, gamma=0.5, decisions=decisions)
    assert len(other.rows) == (4 if beta == 0 else 2)


def test_temperature_failure_is_seen(noisy: FrozenSpace) -> None:
    """A class of noise collapses direct temperature, and preserving the intercept recovers it."""
    rows = {row.realization: row for row in same_state(noisy).rows}
    assert rows["temperature"].top_class == 3
    assert rows["temperature"].cross_entropy > 3 * rows["preserve"].cross_entropy
    focus = same_state(noisy).focus
    assert focus is not None and focus.index == 3
    assert focus.intercepts["temperature"] > 10 * focus.intercepts["native"]


def test_undefined(noisy: FrozenSpace) -> None:
    state = same_state(noisy, 1.5)
    assert state.undefined == (3,) and state.focus is None
    assert [row.realization for row in state.rows] == ["native", "angular"]
    drift = intercept_drift(noisy, 1.5)
    assert drift.undefined == (3,) and drift.worst_class is None
    assert drift.temperature.isnan().all()
    boundaries = boundary_displacement(noisy, beta=1.5)
    assert boundaries.undefined == (3,) and boundaries.predicted == {} and not boundaries.change
    margins = margin_directions(noisy, beta=1.5)
    assert margins.undefined == (3,) and margins.incidences == 0 and margins.agreement is None
    angular = margin_directions(noisy, beta=1.5, realization="angular")
    assert angular.undefined == () and angular.incidences > 0
