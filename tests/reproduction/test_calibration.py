"""Frozen summaries, and rules with a fitted scale or temperature against plain computations."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.optimize import minimize_scalar
from torch import Tensor

from frozen_data import features, log_softmax, scores
from resultant.classes.scores import class_scores
from resultant.classes.statistics import ClassStatistics
from resultant.classifiers.em import Components
from resultant.features.packaged import PACKAGED
from resultant_reproduction import Evidence
from resultant_reproduction.frozen.calibration import FITS, calibrate, halves, judge
from resultant_reproduction.frozen.space import FrozenSpace
from resultant_reproduction.frozen.tuned import BOTH, SHARED, TEMPERATURES, tuned
from resultant_reproduction.runs.records import packaged_json


def naive(space: FrozenSpace, rule: str) -> dict[str, float]:
    """Accuracy, cross-entropies, scale and calibration error of every other query of a class, the
    scale from the others."""
    s, labels = scores(space, rule, 0.0, 0.0, space.test[:]), space.test_labels.numpy()
    half = np.array([(labels[:i] == label).sum() % 2 for i, label in enumerate(labels)])

    def entropies(scale: float, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Those of the labels, and the means over all classes, of a half."""
        losses = -log_softmax(scale * s)
        return losses[np.arange(len(labels)), labels][half == k], losses.mean(1)[half == k]

    def loss(log_scale: float) -> float:
        """Cross-entropy with a little of every class, as the fit has it."""
        own, every = entropies(math.exp(log_scale), 0)
        return float(np.mean(own + (every - own) / (len(own) + 1)))

    best: Any = minimize_scalar(loss, bounds=(math.log(1e-3), math.log(1e3)))
    scale = math.exp(best.x)
    right = (s.argmax(1) == labels)[half == 1]
    confidence = np.exp(log_softmax(scale * s).max(1))[half == 1]
    bins = np.bincount(np.ceil(15 * confidence).astype(int) - 1, right - confidence)
    return {
        "accuracy": right.mean(),
        "nll": entropies(scale, 1)[0].mean(),
        "raw_nll": entropies(1.0, 1)[0].mean(),
        "scale": scale,
        "error": abs(bins).sum() / len(right),
    }


def test_a_class_without_concentration_has_no_temperature() -> None:
    """Held-out rows of one class point away from it: rules with a temperature are left out."""
    train, (q, labels) = features(torch.full((3,), 30)), features(torch.full((3,), 6), seed=1)
    q = torch.where((labels == 1)[:, None], -q, q)
    space = FrozenSpace.fit(*train, q, labels, dtype=torch.float64, estimator="proco")
    numbers = calibrate(space)
    assert set(numbers["held-out"]["rules"]) == {"native", "angular", "cosine"}
    assert "temperature" in numbers["proco"]["rules"]


def test_rules_of_every_fit() -> None:
    """Rules by a plain computation, in six classes, two of them small. Changes are between rules of
    one fit, and gains are compared with ProCo's."""
    train = features(torch.tensor([60, 50, 40, 40, 9, 9]))
    test = features(torch.full((6,), 9), seed=1)
    space = FrozenSpace.fit(*train, *test, dtype=torch.float64, estimator="proco")
    numbers = calibrate(space)
    close: dict[str, Any] = {"accuracy": {}, "raw_nll": {"rel": 1e-9}, "nll": {"rel": 1e-3}}
    close |= {"scale": {"rel": 1e-3}, "error": {"abs": 2e-3}}
    for rule, (name, tolerance) in product(("native", "angular", "cosine"), close.items()):
        actual, expected = numbers["proco"]["rules"][rule], naive(space, rule)
        assert actual[name] == pytest.approx(expected[name], **tolerance), (rule, name)
    assert list(numbers) == list(FITS)
    for own in numbers.values():
        rules = own["rules"]
        points = 100 * (rules["angular"]["accuracy"] - rules["native"]["accuracy"])
        assert own["points"][0] == pytest.approx(points, abs=1e-9)
        assert own["nats"][0] == pytest.approx(rules["angular"]["nll"] - rules["native"]["nll"])
    gain = space.gain
    assert numbers["proco"]["spread"] == pytest.approx(float(gain.std() / gain.mean()))
    assert numbers["proco"]["correlation"] == pytest.approx(1)


@pytest.mark.slow
def test_stored_numbers(evidence: Evidence) -> None:
    """A part of the stored numbers, computed again."""
    own = packaged_json("calibration.json")["projection"]["proco"]
    space = evidence.space(PACKAGED, "projection")
    fitting, judging = halves(space)
    for rule in ("native", "angular"):
        result, right, _ = judge(space, Components.single(space.state), rule, (fitting, judging))
        assert result["accuracy"] == own["rules"][rule]["accuracy"] == float(right.double().mean())
        assert result["scale"] == pytest.approx(own["rules"][rule]["scale"], rel=1e-6)
    assert len(judging) == own["queries"] == 5000


def by_temperature(x: Tensor, y: Tensor, queries: Tensor, labels: Tensor, rule: str) -> Any:
    """Accuracies of both halves and folds by temperature, with a fit per decision."""

    def decide(keep: Tensor, z: Tensor) -> list[Tensor]:
        """Classes of queries by temperature, of a fit to some rows."""
        statistics = ClassStatistics(int(y.max()) + 1, x.shape[1])
        statistics.update(x[keep], y[keep])
        state = statistics.state("proco")
        return [class_scores(z, state, tau, rule).argmax(1) for tau in TEMPERATURES]

    place = torch.tensor([int((labels[:i] == labels[i]).sum()) % 2 for i in range(len(labels))])
    fold = torch.tensor([int((y[:i] == y[i]).sum()) % 5 for i in range(len(y))])
    counts, every = torch.bincount(y), torch.ones(len(y), dtype=torch.bool)
    right = [(decided == labels).double() for decided in decide(every, queries)]
    halves = [[float(own[place == k].mean()) for own in right] for k in (0, 1)]
    own_class = torch.zeros(len(y), len(TEMPERATURES), dtype=torch.float64)
    for i in range(len(y)):
        decided = decide((fold != fold[i]) | (counts[y] == 1), x[i : i + 1])
        own_class[i] = torch.tensor([bool(a == y[i]) for a in decided])
    several = [c for c in range(len(counts)) if counts[c] > 1]
    folds = torch.stack([own_class[y == c].mean(0) for c in several]).mean(0)
    return halves, folds.tolist()


def test_temperatures_are_chosen_as_the_protocol_says() -> None:
    torch.manual_seed(0)
    y = torch.tensor([0] * 12 + [1] * 7 + [2] * 6 + [3])
    labels = torch.arange(4).repeat_interleave(7)
    centres = F.normalize(torch.randn(4, 5, dtype=torch.float64), dim=1)
    x, queries = (F.normalize(centres[c] + 0.5 * torch.randn(len(c), 5)) for c in (y, labels))
    found = tuned(x, y, queries, labels)
    for rule in BOTH:
        (first, second), folds = by_temperature(x, y, queries, labels, rule)
        for name, curve in (("first", first), ("second", second), ("folds", folds)):
            assert np.allclose(found[rule]["curves"][name], curve, rtol=0, atol=1e-12)
        a, b, c = (int(np.argmax(np.round(own, 12))) for own in (first, second, folds))
        assert found[rule]["temperatures"] == [TEMPERATURES[i] for i in (a, b, c)]
        assert np.isclose(found[rule]["halves"], (first[b] + second[a]) / 2)
        assert np.isclose(found[rule]["folds"], (first[c] + second[c]) / 2)
        shared = TEMPERATURES.index(SHARED)
        assert np.isclose(found[rule]["shared"], (first[shared] + second[shared]) / 2)
