"""Classes of several vMF components, against sums over components by loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from resultant.classes.rule import REALIZATIONS
from resultant.classifiers.cross_validated import VMFClassifierCV
from resultant.classifiers.vmf import VMFClassifier
from resultant.score.exact import vmf_score
from resultant.vmf.distribution import VonMisesFisher

TAU = 0.2


def opposite(n: int = 40, p: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two classes with two opposite components each, whose means cancel, and one plain class."""
    rng = np.random.default_rng(seed)
    centres = np.vstack([np.eye(p)[0], -np.eye(p)[0], np.eye(p)[1], -np.eye(p)[1], np.eye(p)[2]])
    part = np.arange(5 * n) % 5
    return centres[part] + 0.2 * rng.normal(size=(5 * n, p)), np.array([0, 0, 1, 1, 2])[part]


@pytest.mark.slow
@pytest.mark.parametrize("components", [2, "auto"])
@pytest.mark.parametrize("realization", ["native", "angular", "cosine"])
def test_components_separate_what_one_direction_cannot(components: Any, realization: str) -> None:
    (X, y), (Q, t) = opposite(), opposite(seed=1)
    one = VMFClassifier(TAU, realization).fit(X, y)
    many = VMFClassifier(TAU, realization, components=components).fit(X, y)
    assert one.score(Q, t) < 0.8 and many.score(Q, t) > 0.99 and many.components_ is not None
    assert many.components_.number.tolist() == ([2, 2, 2] if components == 2 else [2, 2, 1])


@pytest.mark.slow
def test_scores_and_densities_are_sums_over_components() -> None:
    X, y = opposite()
    fitted = VMFClassifier(TAU, "native", prior=0.5, components=3, scale=1.0).fit(X, y)
    many, z = fitted.components_, torch.nn.functional.normalize(torch.from_numpy(X[:7]), dim=1)
    assert many is not None and many.number.tolist() == [3, 3, 3]
    scores, density = np.zeros((7, 3)), torch.zeros(7, dtype=torch.float64)
    for m, c in enumerate(many.owner.tolist()):
        mu, kappa, share = many.state.mu[m], many.state.kappa[m], many.log_weight[m].exp()
        score = vmf_score(z @ mu, kappa, TAU, X.shape[1])
        scores[:, c] += (score.exp() * share).numpy()
        law = VonMisesFisher(mu, kappa)
        density += law.log_prob(z).exp() * share * float(fitted.class_prior_[c])
    expected = np.log(scores) + 0.5 * np.log(fitted.class_prior_)
    np.testing.assert_allclose(fitted.decision_function(X[:7]), expected, rtol=1e-9)
    np.testing.assert_allclose(fitted.log_marginal(X[:7]), density.log(), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("realization", REALIZATIONS)
def test_one_component_is_the_plain_classifier(realization: str) -> None:
    """Fitted by EM with ``auto``, on classes of one component."""
    torch.manual_seed(0)
    mu = torch.nn.functional.normalize(torch.randn(3, 8, dtype=torch.float64), dim=1)
    X = torch.cat([VonMisesFisher(m, 12.0).sample((30,)) for m in mu])
    y = np.repeat(np.arange(3), 30)
    plain, auto = (
        VMFClassifier(TAU, realization, components=k, scale=1.0).fit(X, y) for k in (1, "auto")
    )
    assert auto.components_ is not None and auto.components_.number.tolist() == [1, 1, 1]
    np.testing.assert_allclose(auto.predict_proba(X), plain.predict_proba(X), rtol=1e-8)


@pytest.mark.slow
def test_small_and_empty_classes() -> None:
    X, y = opposite(10)
    X, y = np.vstack([X, np.eye(6)[3:5]]), np.append(y, [3, 4])
    weight = np.ones(len(y))
    weight[y == 4] = 0.0
    fitted = VMFClassifier(TAU, components=3).fit(X, y, sample_weight=weight)
    assert fitted.components_ is not None
    assert fitted.components_.number.tolist() == [3, 3, 3, 1]
    proba = np.asarray(fitted.predict_proba(X))
    assert np.isfinite(proba).all() and (proba[:, 4] == 0).all()
    assert fitted.predict(X[-2:-1]).tolist() == [3]


def test_components_need_all_rows() -> None:
    X, y = opposite()
    with pytest.raises(AttributeError, match="partial_fit") as error:
        VMFClassifier(components=2).partial_fit(X, y, classes=[0, 1, 2])
    assert "components=2; use fit" in str(error.value.__cause__)


@pytest.mark.slow
def test_search_finds_the_number_of_components() -> None:
    (X, y), (Q, t) = opposite(), opposite(seed=1)
    settings: dict[str, Any] = {"realization": "native", "temperature": 0.1, "whiten": None}
    chosen = VMFClassifierCV(**settings).fit(X, y)
    assert chosen.best_params_["components"] > 1 and chosen.score(Q, t) > 0.99
    plain = VMFClassifierCV(components=1, **settings).fit(X, y)
    assert plain.best_params_["components"] == 1 and plain.score(Q, t) < 0.8
