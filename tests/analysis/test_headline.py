"""Sentences of the advice about single rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from resultant.analysis import FrozenSpace, advise, analyze_space
from resultant.analysis.advice import Difference
from resultant.analysis.headline import headline, rule_text


@pytest.mark.slow
def test_another_rule_is_better_than_the_advised_one(small: FrozenSpace) -> None:
    """And as good as the reference."""
    advice, space = advise(small, references="none", temperature=0.1)
    row = advice.row(advice.advised)
    better = Difference(0.05, 0.04, 0.06, "better")
    cosine = replace(row, key="cosine", name="Cosine", difference=better)
    knn = replace(row, key="knn", name="kNN", kind="reference", difference=better)
    options = {"metric": "accuracy", "margin": 0.005, "judged": 100, "how": "", "whom": ""}
    near = Difference(0.001, -0.002, 0.004, "equivalent")
    result, sentences = headline((row, cosine, knn), row, cosine, knn, near, **options)
    assert result == "tie" and "it ties with the best vMF rule, Cosine" in sentences[0]
    assert sentences[1].startswith("For accuracy alone use kNN; among vMF rules use ")
    unsure = replace(near, low=-0.01, verdict="undecided")
    _, (found, *_) = headline((row, cosine, knn), row, cosine, knn, unsure, **options)
    assert "its lead over the best vMF rule, Cosine" in found
    assert "on the held-out rows Cosine has +5.00 points" in sentences[1]
    assert "temperature" not in rule_text(cosine)
    # The settings of the advised rule are on the grid.
    grid = analyze_space(space, ["grid"], advice=advice).grid
    assert grid is not None and row.settings["beta"] in grid.betas
    assert row.settings["prior"] in grid.gammas
