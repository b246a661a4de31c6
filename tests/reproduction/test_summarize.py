"""Frozen summaries of records."""

from __future__ import annotations

import json

import pytest
import torch

from resultant.analysis import FrozenSpace, analyze_space
from resultant.classes.realization import class_scores
from resultant_reproduction.summarize import BETAS, QUESTIONS, summaries, summarize


@pytest.mark.slow
def test_summaries() -> None:
    """The summary says what the analysis does, in types that JSON has."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(6, 12, generator=generator)
    labels, queries = torch.arange(240) % 6, torch.arange(90) % 6
    train, test = (
        centres[y] + 0.7 * torch.randn(len(y), 12, generator=generator) for y in (labels, queries)
    )
    result = summaries({"encoder": train}, labels, {"encoder": test}, queries)["encoder"]["mle"]
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


@pytest.mark.slow
def test_summaries_have_all_strengths() -> None:
    """Pure Angular at every beta of the sweep by the scores of each query, and no direct
    temperature where a target gain is not positive."""
    generator = torch.Generator().manual_seed(1)
    centres, counts = torch.randn(5, 12, generator=generator), torch.tensor([160, 100, 60, 50, 30])
    centres[4] *= 0.15
    labels = torch.arange(5).repeat_interleave(counts)
    noise = 0.7 * torch.randn(2, len(labels), 12, generator=generator)
    train, test = centres[labels] + noise
    result = summaries({"projection": train}, labels, {"projection": test}, labels)
    grid = result["projection"]["proco"]["grid"]
    space = FrozenSpace.fit(train, labels, test, labels, estimator="proco")
    z = torch.nn.functional.normalize(test.double())
    log_prior = (counts / 400).double().log()
    for beta in (-0.5, 0.0, 0.5, 1.0, 1.5, 2.0):
        for gamma in (-1.0, 0.0, 1.0):
            offset = gamma * log_prior
            s = class_scores(z, space.state, 0.1, "angular", beta, offset=offset)
            right = float((s.argmax(1) == labels).double().mean())
            assert grid[f"angular {beta:g} {gamma:g}"] == pytest.approx(right)
    assert len({grid[f"angular {beta:g} 0"] for beta in BETAS}) > 3
    assert "temperature 1.5 0" in grid and "temperature 2 0" not in grid
    assert None not in grid.values()
