"""Realizations over temperatures, betas and priors, on some of the queries."""

from __future__ import annotations

import pytest

from resultant.analysis import FrozenSpace, Policy
from resultant.analysis.decisions import decide
from resultant.analysis.response import response


def test_few_scores_are_of_as_many_queries_per_class(small: FrozenSpace) -> None:
    """Accuracies per class are those of two queries each."""
    C = small.num_classes
    found = response(small, taus=(small.tau,), betas=(0.0,), gammas=(0.0,), scores=2 * C * C)
    assert (found.rows, found.held_out) == (2 * C, len(small.test))
    (grid,) = found.grids
    per_class = grid.point("native").per_class
    assert per_class is not None and set(per_class.tolist()) <= {0.0, 0.5, 1.0}
    whole = response(small, taus=(small.tau,), betas=(0.0,), gammas=(0.0,))
    (prediction,) = decide(small, [Policy("native")]).prediction.values()
    right = (prediction == small.test_labels).double()
    assert whole.rows == whole.held_out
    assert whole.grids[0].point("native").accuracy == pytest.approx(float(right.mean()))
