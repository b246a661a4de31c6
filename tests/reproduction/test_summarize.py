"""Frozen summaries of records, and what the sweep of beta reads from them."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from paper_evidence import OfSpaces
from resultant.analysis import FrozenSpace, analyze_space
from resultant.classes.realization import class_scores
from resultant_reproduction.contrasts import sweep
from resultant_reproduction.plan import controlled
from resultant_reproduction.summarize import BETAS, QUESTIONS, SPACES, summaries, summarize
from training_records import record


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


def small(estimator: str) -> FrozenSpace:
    generator = torch.Generator().manual_seed(2)
    centres, labels = torch.randn(3, 6, generator=generator), torch.arange(60) % 3
    train, test = centres[labels] + 0.5 * torch.randn(2, 60, 6, generator=generator)
    return FrozenSpace.fit(train, labels, test, labels, estimator=estimator)


def native(seed: int, changes: dict[float, float]) -> dict[str, Any]:
    """Return a network with Pure Angular at some beta, at given differences from native
    (points)."""
    grid = {"native 1 0": 0.4} | {f"angular {b:g} 0": 0.4 + c / 100 for b, c in changes.items()}
    both = {space: {"proco": {"grid": grid, "cosine": {}}} for space in SPACES}
    return record(controlled("cifar100", 100), "native", 0.0, seed, analysis=both)


def test_the_frozen_sweep_shows_what_records_have() -> None:
    """Old summaries have fewer strengths: others are of the networks that have them."""
    old = [native(seed, {0.0: 0.1 * seed}) for seed in (0, 1)]
    new = [native(seed, {0.0: 0.2, -0.5: 1.0 + seed, 2.0: -2.0 - seed}) for seed in (2, 3)]

    def column(records: list[dict[str, Any]]) -> dict[str, str]:
        cells = sweep(OfSpaces(small, records)).cells
        return {c.row: c.content() for c in cells if c.column == "frozen, encoder, records"}

    shown = column(old + new)
    assert list(shown) == [f"beta {b}" for b in ("-0.5", "0", "0.5", "1 (native)", "1.5", "2")]
    assert shown["beta -0.5"].startswith("+3.50 ") and shown["beta -0.5"].endswith("[2]")
    assert shown["beta 2"].startswith("-4.50 ") and shown["beta 2"].endswith("[2]")
    assert shown["beta 0"].endswith("[4]") and shown["beta 0.5"] == shown["beta 1.5"] == "–"
    assert column(old)["beta 2"] == column(old + new[:1])["beta 2"] == "–"
