"""Rules with a fitted scale or temperature, against stored numbers and plain computations."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from frozen_data import features
from resultant.classes.scores import class_scores
from resultant.classes.statistics import ClassStatistics
from resultant.classifiers.em import Components
from resultant.features.packaged import PACKAGED
from resultant_reproduction import Evidence
from resultant_reproduction.frozen.calibration import FITS, calibrate, halves, judge, over_queries
from resultant_reproduction.frozen.space import FrozenSpace
from resultant_reproduction.frozen.tuned import BOTH, SHARED, TEMPERATURES, tuned
from resultant_reproduction.runs.records import packaged_json


def test_a_class_without_concentration_has_no_temperature() -> None:
    """Held-out rows of one class point away from it: rules with a temperature are left out."""
    train, (q, labels) = features(torch.full((3,), 30)), features(torch.full((3,), 6), seed=1)
    q = torch.where((labels == 1)[:, None], -q, q)
    space = FrozenSpace.fit(*train, q, labels, dtype=torch.float64, estimator="proco")
    numbers = calibrate(space)
    assert set(numbers["held-out"]["rules"]) == {"native", "angular", "cosine"}
    assert "temperature" in numbers["proco"]["rules"]
    assert list(numbers) == list(FITS)
    spread = float(space.gain.std() / space.gain.mean())
    assert numbers["proco"]["spread"] == pytest.approx(spread)


@pytest.mark.slow
def test_stored_numbers(evidence: Evidence) -> None:
    """A part of the stored numbers, computed again."""
    own = packaged_json("calibration.json")["projection"]["proco"]
    space = evidence.space(PACKAGED, "projection")
    split, fit = halves(space), Components.single(space.state)
    judged = {rule: judge(space, fit, rule, split) for rule in ("native", "angular", "cosine")}
    for rule, (result, right, _) in judged.items():
        assert result == pytest.approx(own["rules"][rule], rel=1e-6)
        assert result["accuracy"] == float(right.double().mean())
    (_, *after), (_, *before) = judged["angular"], judged["native"]
    for name, change in (
        ("points", over_queries(after[0], before[0], 100.0)),
        ("nats", over_queries(after[1], before[1])),
    ):
        assert [*change[:3]] == pytest.approx(own[name], rel=1e-5)
    assert len(split[1]) == own["queries"] == 5000


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
