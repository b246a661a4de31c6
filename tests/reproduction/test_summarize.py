"""Frozen summaries of records."""

from __future__ import annotations

import json

import pytest
import torch

from resultant.analysis import FrozenSpace, analyze_space
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
