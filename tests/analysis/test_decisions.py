"""Decisions over the grid of policies, and agreement with cosine prototypes, by definition."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from frozen_data import COUNTS, TAU, C, P, log_softmax, rows, score, scores, small_space
from resultant.analysis import (
    FrozenSpace,
    Policy,
    compare_gradients,
    cosine_agreement,
    decide,
    realization_grid,
)
from resultant.classes.groups import GROUPS, group_masks
from resultant.classes.realization import class_scores
from resultant.classes.rule import REALIZATIONS


@pytest.mark.slow
def test_grid_against_definition(small: FrozenSpace) -> None:
    grid = realization_grid(small)
    y = small.test_labels.numpy()
    masks = {name: m.numpy() for name, m in group_masks(COUNTS).items()}
    for point in grid.points:
        s = scores(small, point.realization, point.beta, point.gamma, small.test[:])
        log_p = log_softmax(s)
        guess = s.argmax(1)
        right = guess == y
        assert point.accuracy == pytest.approx(right.mean())
        assert point.nll == pytest.approx(-log_p[np.arange(len(y)), y].mean(), rel=1e-9)
        per_class = np.array([right[y == c].mean() for c in range(C)])
        assert point.per_class is not None and point.groups is not None
        np.testing.assert_allclose(point.per_class.numpy(), per_class)
        assert point.balanced == pytest.approx(per_class.mean())
        for name in GROUPS:
            assert point.groups[name] == pytest.approx(per_class[masks[name]].mean())
        top, error = np.exp(log_p.max(1)), 0.0
        for k in range(15):
            inside = (np.floor(top * 15) == k) | ((k == 14) & (top == 1))
            if inside.any():
                error += inside.mean() * abs(right[inside].mean() - top[inside].mean())
        assert point.ece == pytest.approx(error, abs=1e-9)
        cosine = scores(small, "cosine", 0, point.gamma, small.test[:]).argmax(1)
        native = scores(small, "native", 1, point.gamma, small.test[:]).argmax(1)
        assert point.agreement == pytest.approx((guess == cosine).mean())
        assert point.change == pytest.approx(right.mean() - (native == y).mean())
    assert len(grid.points) == 3 * (2 + 3 * 4)
    assert grid.point("native", 0.3, 1.0) is grid.point("native", 1.0, 1.0)
    assert {p.accuracy for p in grid.points if p.gamma == 0 and p.beta == 1} == {
        grid.point("native").accuracy
    }
    assert len({p.accuracy for p in grid.points}) > 3, "the policies must differ on this space"


def test_undefined_temperatures(noisy: FrozenSpace) -> None:
    grid = realization_grid(noisy, (0.0, 1.5), (0.0,))
    for name in ("temperature", "preserve"):
        point = grid.point(name, 1.5)
        assert point.undefined == (3,) and point.accuracy is None
        assert grid.point(name, 0.0).undefined == ()
    assert grid.point("angular", 1.5).accuracy is not None
    assert point.to_dict()["undefined"] == [3]


def test_float32_is_close_to_float64(small: FrozenSpace) -> None:
    policies = [Policy(name) for name in REALIZATIONS]
    wide, narrow = decide(small, policies), decide(small_space(torch.float32), policies)
    for policy in (p.canonical for p in policies):
        assert narrow.nll[policy].dtype == torch.float32
        torch.testing.assert_close(narrow.nll[policy].double(), wide.nll[policy], atol=2e-4, rtol=0)


def test_agreement_against_definition(small: FrozenSpace) -> None:
    result = cosine_agreement(small)
    cosine, angular = (scores(small, name, 0, 0, small.test[:]) for name in ("cosine", "angular"))
    differ = cosine.argmax(1) != angular.argmax(1)
    assert result.disagreements == differ.sum() > 0
    assert result.agreement == pytest.approx(1 - differ.mean())
    top = np.sort(cosine, axis=1)
    margin, D = top[:, -1] - top[:, -2], np.ptp(angular - cosine, axis=1)
    assert result.certified == (margin > D).sum()
    assert result.certified_disagreements == 0
    place = np.argsort(np.argsort(margin)) * 10 // len(margin)
    assert result.low_margin == differ[place == 0].sum()
    np.testing.assert_allclose(result.margin_quantiles.numpy(), nearest(margin, 101), rtol=1e-9)
    np.testing.assert_allclose(result.residual_quantiles.numpy(), nearest(D, 101), rtol=1e-9)


def nearest(values: np.ndarray, number: int) -> np.ndarray:
    """Evenly spaced quantiles that are values; of two as near, that of the even place."""
    places = [round(i * (len(values) - 1) / (number - 1)) for i in range(number)]
    return np.sort(values)[places]


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_gradients_by_autograd(small: FrozenSpace, gamma: float) -> None:
    result = compare_gradients(small, queries=60, gamma=gamma, seed=2)
    assert result.source == "held-out" and len(result.rows.unique()) == result.queries == 60
    x = torch.as_tensor(rows(small.test[result.rows]))
    y, offset = small.test_labels[result.rows], small.offset(gamma)

    def loss_and_gradient(name: str) -> tuple[torch.Tensor, torch.Tensor]:
        z = x.clone().requires_grad_()
        s = class_scores(z, small.state, TAU, name, 0.0, offset=offset)
        loss = torch.nn.functional.cross_entropy(s, y, reduction="none")
        (g,) = torch.autograd.grad(loss.sum(), z)
        return loss.detach(), g - (g * x).sum(1, keepdim=True) * x

    losses, gradients = zip(*map(loss_and_gradient, ("angular", "cosine")), strict=True)
    difference = (losses[0] - losses[1]).abs()
    assert result.loss_mean == pytest.approx(float(difference.mean()), rel=1e-8)
    error = 100 * (gradients[0] - gradients[1]).norm() / gradients[0].norm()
    assert result.gradient_error == pytest.approx(float(error), rel=1e-8)
    cosines = torch.nn.functional.cosine_similarity(*gradients, dim=1, eps=1e-300)
    torch.testing.assert_close(result.cosines, cosines, rtol=0, atol=1e-9)
    assert result.median_cosine == pytest.approx(float(cosines.median()), abs=1e-9)
    assert result.bounds_held
    A, kappa, mu = (a.numpy() for a in (small.state.resultant, small.state.kappa, small.state.mu))
    lam = kappa / (P / 2 - 1)
    shift = 0.0 if offset is None else offset.numpy()
    native = loss_and_gradient("native")[1]
    for error, gain, intercept in (
        (result.linear_error, A / TAU, score(0.0, kappa, TAU)),
        (result.joint_error, lam / (1 + np.sqrt(1 + lam**2)) / TAU, 0.0),
    ):
        s = log_softmax((x.numpy() @ mu.T) * gain + intercept + shift)
        G = torch.as_tensor(((np.exp(s) - np.eye(C)[y.numpy()]) * gain) @ mu)
        G = G - (G * x).sum(1, keepdim=True) * x
        assert error == pytest.approx(100 * float((native - G).norm() / native.norm()), rel=1e-8)


def test_gradients_use_calibration_rows() -> None:
    split = small_space(fitting_share=0.8)
    result = compare_gradients(split, queries=20)
    assert result.source == "calibration" and split.fitting is not None
    assert not split.fitting[result.rows].any() and result.queries == 20
