"""The matched binary model of two fitted classes, against draws from the classes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from resultant.classes.statistics import ClassState, ClassStatistics
from resultant.score.exact import vmf_score
from resultant.theory.binary_model import BinaryModel
from resultant.vmf.distribution import VonMisesFisher

# A frequency further than this from its exact value is a failure; the seeds are fixed.
STANDARD_ERRORS = 5.0


@pytest.fixture(scope="module")
def state() -> ClassState:
    """Three classes of different concentrations, in eight dimensions."""
    torch.manual_seed(3)
    mu = torch.nn.functional.normalize(torch.randn(3, 8, dtype=torch.float64) + 0.7, dim=1)
    kappa = torch.tensor([7.0, 4.0, 2.5], dtype=torch.float64)
    z = VonMisesFisher(mu, kappa).sample((200,)).flatten(0, 1)
    return ClassStatistics(3, 8).update(z, torch.arange(3).repeat(200)).state()


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b"), [(0, 1), (2, 0)])
def test_model_of_fitted_classes_against_their_draws(state: ClassState, a: int, b: int) -> None:
    """Draws from the two fitted classes, decided by their scores."""
    torch.manual_seed(4)
    p, n, tau, b_h, b_t = 8, 40_000, 0.2, 0.3, -0.1
    model = BinaryModel.of(state, a, b, tau, b_h=b_h, b_t=b_t)
    assert list(model.concentrations(p)) == pytest.approx(state.kappa[[a, b]].tolist(), rel=1e-14)
    assert model.cosine == pytest.approx(float(state.mu[a] @ state.mu[b]), abs=1e-14)
    r = [k / (3 + math.sqrt(9 + k * k)) for k in state.kappa[[a, b]].tolist()]
    w = r[0] * state.mu[a] - r[1] * state.mu[b]
    leading, exact = model.errors(p), model.errors(p, "exact")
    for side, (c, sign) in enumerate(((a, 1), (b, -1))):
        z = VonMisesFisher(state.mu[c], state.kappa[c]).sample((n,))
        q = vmf_score(z @ state.mu.T, state.kappa, tau, p)
        for error, D in (
            (leading[side], b_h - b_t + z @ w / tau),
            (exact[side], q[:, a] + b_h - q[:, b] - b_t),
        ):
            wrong = float((sign * D < 0).double().mean())
            assert 0.01 < error < 0.6
            assert abs(wrong - error) < STANDARD_ERRORS * math.sqrt(error * (1 - error) / n)


@pytest.mark.slow
def test_model_of_exchanged_classes(state: ClassState) -> None:
    model, other = (BinaryModel.of(state, *pair, 0.5) for pair in ((0, 2), (2, 0)))
    assert (model.lambda_h, model.lambda_t) == (other.lambda_t, other.lambda_h)
    assert list(model.errors(8)) == pytest.approx(list(other.errors(8))[::-1], rel=1e-12)


def test_model_of_rounded_and_of_equal_directions(state: ClassState) -> None:
    rounded = BinaryModel.of(state.to(dtype=torch.float32), 0, 1)
    assert rounded.cosine == pytest.approx(BinaryModel.of(state, 0, 1).cosine, abs=1e-6)
    mu = torch.stack([state.mu[0], state.mu[0], -state.mu[0]])
    kappa = torch.tensor([3.0, 6.0, 3.0], dtype=torch.float64)
    narrow = ClassState(mu, kappa, torch.ones(3))
    assert BinaryModel.of(narrow, np.int64(0), torch.tensor(1)) == BinaryModel(1.0, 2.0, 1.0)
    assert BinaryModel.of(narrow, 0, 2).cosine == pytest.approx(-1.0, abs=1e-15)
