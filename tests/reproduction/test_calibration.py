"""Frozen summaries, and rules with a fitted scale against plain loops and stored numbers."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch

from frozen_data import features, scores
from resultant.analysis import FrozenSpace, analyze_space
from resultant.classifiers.em import Components
from resultant.features.packaged import PACKAGED
from resultant_reproduction import Evidence
from resultant_reproduction.calibration import FITS, calibrate, halves, judge
from resultant_reproduction.records import packaged_json
from resultant_reproduction.summarize import BETAS, QUESTIONS, summaries, summarize


def naive(space: FrozenSpace, rule: str) -> dict[str, float]:
    """Accuracy, cross-entropies, scale and calibration error, row by row."""
    seen: dict[int, int] = {}
    fitting, judging = [], []
    for i, label in enumerate(space.test_labels.tolist()):
        (judging if seen.get(label, 0) % 2 else fitting).append(i)
        seen[label] = seen.get(label, 0) + 1
    s = scores(space, rule, 0.0, 0.0, space.test[:])
    labels = space.test_labels.tolist()

    def entropy(i: int, scale: float) -> float:
        top = max(scale * v for v in s[i])
        total = sum(math.exp(scale * v - top) for v in s[i])
        return math.log(total) + top - scale * s[i][labels[i]]

    def loss(scale: float) -> float:
        """Cross-entropy with a little of every class, as the fit has it."""
        smooth = 1 / (len(fitting) + 1)
        rows = []
        for i in fitting:
            own = entropy(i, scale)
            every = own + scale * (s[i][labels[i]] - sum(s[i]) / len(s[i]))
            rows.append((1 - smooth) * own + smooth * every)
        return sum(rows) / len(rows)

    # Golden section in the logarithm of the scale.
    low, high = math.log(1e-3), math.log(1e3)
    for _ in range(80):
        a, b = high - 0.618 * (high - low), low + 0.618 * (high - low)
        low, high = (low, b) if loss(math.exp(a)) < loss(math.exp(b)) else (a, high)
    scale = math.exp((low + high) / 2)
    right = [max(range(len(s[i])), key=lambda c: s[i][c]) == labels[i] for i in judging]
    bins: dict[int, float] = {}
    for i, hit in zip(judging, right, strict=True):
        top = max(scale * v for v in s[i])
        confidence = 1 / sum(math.exp(scale * v - top) for v in s[i])
        k = min(14, math.ceil(15 * confidence) - 1)
        bins[k] = bins.get(k, 0.0) + hit - confidence
    return {
        "accuracy": sum(right) / len(right),
        "nll": sum(entropy(i, scale) for i in judging) / len(judging),
        "raw_nll": sum(entropy(i, 1.0) for i in judging) / len(judging),
        "scale": scale,
        "error": sum(map(abs, bins.values())) / len(judging),
    }


@pytest.fixture(scope="module")
def space() -> FrozenSpace:
    """Six classes, two of them small."""
    counts = torch.tensor([60, 50, 40, 40, 9, 9])
    test = features(torch.full((6,), 9), seed=1)
    return FrozenSpace.fit(*features(counts), *test, dtype=torch.float64, estimator="proco")


def test_a_class_without_concentration_has_no_temperature() -> None:
    """Held-out rows of one class point away from it: rules with a temperature are left out."""
    (x, y), (q, labels) = (
        features(torch.tensor([30, 30, 30])),
        features(torch.full((3,), 6), seed=1),
    )
    q = torch.where((labels == 1)[:, None], -q, q)
    space = FrozenSpace.fit(x, y, q, labels, dtype=torch.float64, estimator="proco")
    numbers = calibrate(space)
    assert set(numbers["held-out"]["rules"]) == {"native", "angular", "cosine"}
    assert "temperature" in numbers["proco"]["rules"]


@pytest.fixture(scope="module")
def numbers(space: FrozenSpace) -> dict[str, dict[str, Any]]:
    return calibrate(space)


@pytest.mark.parametrize("rule", ["native", "angular", "cosine"])
def test_rules_by_plain_loops(
    rule: str, space: FrozenSpace, numbers: dict[str, dict[str, Any]]
) -> None:
    expected, actual = naive(space, rule), numbers["proco"]["rules"][rule]
    assert actual["accuracy"] == pytest.approx(expected["accuracy"])
    assert actual["raw_nll"] == pytest.approx(expected["raw_nll"], rel=1e-9)
    assert actual["nll"] == pytest.approx(expected["nll"], rel=1e-3)
    assert actual["scale"] == pytest.approx(expected["scale"], rel=1e-3)
    assert actual["error"] == pytest.approx(expected["error"], abs=2e-3)


def test_every_fit(space: FrozenSpace, numbers: dict[str, dict[str, Any]]) -> None:
    """Changes are between rules of one fit, and gains are compared with ProCo's."""
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


@pytest.mark.slow
def test_summaries() -> None:
    """The summary says what the analysis does, in types that JSON has."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(6, 12, generator=generator)
    labels, queries = torch.arange(240) % 6, torch.arange(90) % 6
    train, test = (
        centres[y] + 0.7 * torch.randn(len(y), 12, generator=generator) for y in (labels, queries)
    )
    result = summaries(train, labels, test, queries)["mle"]
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    space = FrozenSpace.fit(train, labels, test, queries, estimator="mle")
    a = analyze_space(space, QUESTIONS, betas=BETAS)
    assert a.grid and a.cosine and a.gradients and a.boundaries and a.margins
    assert result["accuracy"]["angular"] == a.grid.point("angular").accuracy
    assert result["grid"]["temperature 0.5 -1"] == a.grid.point("temperature", 0.5, -1).accuracy
    assert result["cosine"]["certified"] == a.cosine.certified
    assert result["gradients"]["gradient_error"] == a.gradients.gradient_error
    leading = a.boundaries.predicted["joint_leading"]
    assert result["boundaries"]["joint_leading"]["mae"] == leading.mean_absolute_degrees
    kept = result["boundaries"]["displacements"]
    errors = [abs(x - y) for x, y in zip(kept["exact"], kept["leading"], strict=True)]
    assert len(errors) == leading.comparable
    assert sum(errors) / len(errors) == pytest.approx(leading.mean_absolute_degrees, abs=1e-3)
    assert result["margins"]["coverage"] == a.margins.coverage
    assert set(summarize(analyze_space(space, ()))) == {"tau", "estimator"}
