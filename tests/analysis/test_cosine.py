"""Agreement with cosine prototypes against direct calculation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from frozen_data import TAU, C, P, log_softmax, rows, score, scores, small_space
from resultant.analysis import FrozenSpace, compare_gradients, cosine_agreement
from resultant.classes.realization import class_scores


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
