"""Search of settings, and the temperature that a classifier chooses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss

from resultant import CosinePrototypeClassifier, VMFClassifier
from resultant.classifiers.calibration import fit_scale, log_losses
from resultant.classifiers.choice import LIMITS, Choice, Point, Search, departures, simplified
from resultant.classifiers.left_out import Part


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(n_class=5, return_X_y=True)
    return np.asarray(X)[:400], np.asarray(y)[:400]


def test_scale_is_the_minimum_of_the_smoothed_loss() -> None:
    generator = torch.Generator().manual_seed(0)
    s = torch.randn(200, 7, dtype=torch.float64, generator=generator)
    y = (3 * s + 2 * torch.randn(200, 7, dtype=torch.float64, generator=generator)).argmax(1)
    w = torch.rand(200, dtype=torch.float64, generator=generator)
    smooth = 1 / 201

    def loss(log_scale: float) -> float:
        logp = (np.exp(log_scale) * s).log_softmax(1)
        row = (1 - smooth) * logp.gather(1, y[:, None])[:, 0] + smooth * logp.mean(1)
        return float(-(w * row).sum())

    found: Any = minimize_scalar(loss, bounds=(-5, 5), method="bounded")
    expected = np.exp(found.x)
    assert fit_scale(s, y, w) == pytest.approx(expected, rel=2e-3)
    assert fit_scale(s, y, w, start=300.0) == pytest.approx(expected, rel=2e-3)
    # The scale is in inverse proportion to the scores.
    assert fit_scale(50 * s, y, w) == pytest.approx(expected / 50, rel=2e-3)


def test_scale_is_finite_for_separated_rows_and_absent_classes() -> None:
    s = 4 * torch.eye(3)[torch.arange(30) % 3]
    assert 0.5 < fit_scale(s, torch.arange(30) % 3) < 10
    s[:, 2] = -torch.inf
    keep = torch.arange(30) % 3 < 2
    assert 0.5 < fit_scale(s[keep], (torch.arange(30) % 3)[keep]) < 10
    assert fit_scale(torch.zeros(4, 2), torch.tensor([0, 1, 0, 1])) == 1.0


def test_separable_rows_do_not_move_the_temperature() -> None:
    """Their loss falls with the temperature for ever, by nothing that matters."""

    class Separable(Search):
        size = 1e-3

        def _evaluate(self, point: Point, start: float | None) -> Choice:
            none = torch.zeros(60)
            return Choice(point, 1.0, self.size * point.temperature, none, 1.0, none)

    y, one = torch.arange(60) % 3, torch.ones(1, 3).double()
    part = Part(torch.eye(3).double()[y], y, one, one, 16)
    for size, temperature in ((1e-3, 0.1), (1.0, LIMITS["temperature"][0])):
        search = Separable(part, torch.ones(60).double())
        search.size = size
        choice = search.best("native")
        assert choice is not None
        assert temperature <= choice.point.temperature < 8 * temperature


def test_losses_are_those_of_scikit_learn() -> None:
    s, y = torch.randn(40, 4).double(), torch.arange(40) % 4
    expected = log_loss(y.numpy(), (2.5 * s).softmax(1).numpy())
    assert float(log_losses(s, y, 2.5).mean()) == pytest.approx(expected)


def part(states: bool = False) -> Part:
    generator = torch.Generator().manual_seed(1)
    rho = torch.rand(60, 4, dtype=torch.float64, generator=generator)
    y = torch.arange(60) % 4
    rho[torch.arange(60), y] += 0.1
    kappa = torch.tensor([[5.0, 20.0, 50.0, 9.0]], dtype=torch.float64)
    weight = torch.tensor([[15.0, 15.0, 15.0, 15.0]], dtype=torch.float64)
    if not states:
        return Part(rho.clamp_max(1), y, kappa, weight, 16)
    two = torch.cat([kappa, 2 * kappa]), torch.cat([weight, weight])
    return Part(rho.clamp_max(1), y, *two, 16, torch.arange(60) % 2)


@pytest.mark.parametrize("realization", ["native", "temperature", "preserve", "angular", "cosine"])
def test_rows_of_several_states_are_scored_by_their_own(realization: str) -> None:
    whole = part(states=True)
    (s,) = whole.realized(0.1, [(realization, 0.5)])
    assert whole.states is not None
    for k in range(2):
        at = whole.states == k
        one = Part(whole.rho[at], whole.y[at], whole.kappa[k : k + 1], whole.weight[:1], 16)
        (expected,) = one.realized(0.1, [(realization, 0.5)])
        torch.testing.assert_close(s[at], expected, rtol=1e-12, atol=1e-12)


def test_search_extends_the_grid_beyond_its_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best of a loss with its minimum far outside the grid is found."""
    search = Search(part(), torch.ones(60, dtype=torch.float64))
    true = search.at

    def shifted(point: Point, start: float | None = None):
        choice = true(point._replace(temperature=0.1, prior=0.0))
        assert choice is not None
        far = abs(np.log(point.temperature / 0.0009)) + abs(point.prior - 1.7)
        object.__setattr__(choice, "loss", 1.0 + far)
        object.__setattr__(choice, "point", point)
        return type(choice)(point, 1.0, 1.0 + far, choice.losses, choice.accuracy, choice.hits)

    monkeypatch.setattr(search, "at", shifted)
    best = search.best("native")
    assert best is not None
    assert 0.00045 <= best.point.temperature <= 0.0018 and best.point.prior in (1.5, 2.0)
    low, high = LIMITS["temperature"]
    assert low <= best.point.temperature <= high


@pytest.mark.parametrize(
    ("accuracy", "loss", "advised"),
    [
        (0.8, 1.0, "native"),
        (0.796, 1.009, "native"),
        # Worse by more than the margins: the next plainest point.
        (0.79, 1.0, "cosine"),
        (0.8, 1.02, "cosine"),
    ],
)
def test_the_plainest_tie_is_advised(accuracy: float, loss: float, advised: str) -> None:
    search = Search(part(), torch.ones(60, dtype=torch.float64))
    values = {
        Point("native", 0.1, 1.0, 0.0): (accuracy, loss),
        Point("native", 0.005, 1.0, 0.0): (0.8, 1.0),
        Point("cosine", 0.1, 0.0, 0.0): (0.8, 1.0),
        Point("angular", 0.005, 0.5, -1.5): (0.8, 1.0 - 1e-9),
    }
    for point, (hits, mean) in values.items():
        losses, right = (torch.full((60,), value).double() for value in (mean, hits))
        search._choices[point] = Choice(point, 1.0, mean, losses, hits, right)
    choices = {p.realization: choice for p, choice in search._choices.items() if choice}
    plain, choice, best = simplified(search, choices)
    assert choice.point.realization == advised and best.point.realization == "angular"
    assert plain["angular"] is best


def test_plainness_is_counted_in_steps_of_the_search() -> None:
    order = [
        Point("native", 0.1, 1.0, 0.0),
        Point("native", 0.1, 1.0, 1.0),
        Point("angular", 0.1, 0.0, 1.0),
        Point("angular", 0.05, 0.5, 0.0),
        Point("angular", 0.005, 0.5, -1.5),
    ]
    assert sorted(order, key=departures) == order
    assert departures(order[0]) == 0 and departures(Point("cosine", 0.1, 0.0, 0.0)) == 1


def test_differences_within_two_standard_errors_are_ties() -> None:
    search = Search(part(), torch.ones(60, dtype=torch.float64))
    best, plain = Point("angular", 0.1, 0.0, 0.0), Point("native", 0.1, 1.0, 0.0)
    worse = torch.arange(60).double() - 29.5
    for shift, expected in ((0.0, plain), (4.4, plain), (4.6, best)):
        # The standard error of the mean of these differences is 2.24.
        none = torch.zeros(60).double()
        for at in (0, 1):
            # Losses differ, or accuracies.
            for point, lost in ((best, none), (plain, worse + shift)):
                measured = (lost, -none) if at == 0 else (none, -lost)
                means = [float(values.mean()) for values in measured]
                choice = Choice(point, 1.0, means[0], measured[0], means[1], measured[1])
                search._choices[point] = choice
            first = search._choices[best]
            assert first is not None and search.plainest(first).point == expected


def test_a_class_without_other_rows_is_left_out() -> None:
    p = part()
    p.weight[0, 2] = 0
    search = Search(p, torch.ones(60, dtype=torch.float64))
    assert (search.part.y != 2).all() and len(search.weights) == 45
    p = part()
    p.weight[:] = 0
    with pytest.raises(ValueError, match="expected a row of a class with other rows"):
        Search(p, torch.ones(60, dtype=torch.float64))


def test_automatic_temperature_calibrates(digits: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = digits
    auto = VMFClassifier("auto", "native").fit(X[:300], y[:300])
    fixed = VMFClassifier(0.1, "native").fit(X[:300], y[:300])
    losses = [log_loss(y[300:], c.predict_proba(X[300:])) for c in (auto, fixed)]
    assert losses[0] < 0.5 * losses[1]
    assert auto.scale_ is not None
    same = VMFClassifier(auto.temperature_, "native", scale=auto.scale_).fit(X[:300], y[:300])
    np.testing.assert_allclose(same.predict_proba(X), auto.predict_proba(X), rtol=1e-12)
    with pytest.raises(ValueError, match="expected a number as temperature in partial_fit"):
        VMFClassifier("auto").partial_fit(X, y, classes=range(5))


def test_scale_changes_probabilities_alone(digits: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = digits
    one, ten = (VMFClassifier(scale=scale).fit(X, y) for scale in (1.0, 10.0))
    assert (one.predict(X) == ten.predict(X)).all()
    np.testing.assert_allclose(ten.decision_function(X), 10 * one.decision_function(X))
    with pytest.raises(ValueError, match="expected scale > 0, got -1"):
        VMFClassifier(scale=-1.0).fit(X, y)
    with pytest.raises(
        ValueError, match="expected a rule that some temperature realizes, got none"
    ):
        VMFClassifier("auto", realization="temperature", beta=60.0).fit(X, y)


@pytest.mark.slow
@pytest.mark.parametrize("labels", [[3, 5, 9], ["cat", "dog", "eel"], [True, False]])
def test_saved_classifiers_continue(labels: list, tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(60, 6, generator=generator)
    y = np.array(labels)[np.arange(60) % len(labels)]
    for made in (VMFClassifier("auto", beta=0.5), CosinePrototypeClassifier(0.2)):
        made.fit(X, y)
        made.save(tmp_path / "c.safetensors")
        loaded = type(made).load(tmp_path / "c.safetensors")
        assert (loaded.predict(X) == made.predict(X)).all()
        assert loaded.classes_.dtype == made.classes_.dtype
        np.testing.assert_array_equal(loaded.predict_proba(X), made.predict_proba(X))
    with pytest.raises(ValueError, match=r"expected .* a file of VMFClassifier\.save, got format"):
        VMFClassifier.load(tmp_path / "c.safetensors")
    made.classes_ = made.classes_.astype(bytes)
    with pytest.raises(ValueError, match="expected labels of strings or numbers, got "):
        made.save(tmp_path / "c.safetensors")
    (tmp_path / "c.safetensors").write_bytes(b"no")
    with pytest.raises(ValueError, match="got a file that cannot be read"):
        VMFClassifier.load(tmp_path / "c.safetensors")
