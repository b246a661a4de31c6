"""Changes of margins, and the signs that are certified, against all scores."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from torch import Tensor

import resultant as rs
from decisions.certified_cases import F64, Case, cases, close, overlapping, some_pairs
from resultant._core.validation import DivergedError
from resultant.classes.rule import REALIZATIONS


def brute(case: Case, pairs: Tensor, realization: str, beta: float, z: Tensor) -> Tensor:
    """Compute every change from all scores in the dtype of z."""
    before, after = (
        rs.class_scores(z, case.state, case.tau, r, beta).double() for r in ("native", realization)
    )
    change = []
    for a, b in pairs.tolist():
        for c in (a, b):
            for i in (case.y == c).nonzero().squeeze(1).tolist():
                change.append((after[i, a] - after[i, b]) - (before[i, a] - before[i, b]))
    return torch.tensor([float(m) for m in change], dtype=F64)


@pytest.mark.slow
@pytest.mark.parametrize("realization", REALIZATIONS)
@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_margin_changes_are_the_brute_ones(realization: str, beta: float) -> None:
    z, y, state = overlapping(5, n=50)
    # A query at right angles to all classes, whose scores are the intercepts.
    across = torch.linalg.svd(state.mu).Vh[-1:]
    case, pairs = Case(z, y, state, 0.1, None), some_pairs(5)
    m = rs.margin_change(z, y, state, rs.Rule(0.1, realization, beta), pairs)
    close(m.exact, brute(case, pairs, realization, beta, z), atol=1e-11)
    assert len(m.exact) == 10 * 20
    assert (pairs[m.pair] == y[m.row].unsqueeze(1)).any(1).all()
    assert len(set(zip(m.row.tolist(), m.pair.tolist(), strict=True))) == 200
    g, rho = rs.angular_gain(state, 0.1), z @ state.mu.T
    target = {"native": g, "cosine": g.mean().expand(5)}.get(realization, rs.target_gain(g, beta))
    linear, (a, b) = (target - g) * rho, pairs[m.pair].T
    close(m.linear, linear[m.row, a] - linear[m.row, b], atol=1e-11)
    close(m.residual, m.exact - m.linear)
    h0, h1 = (rs.class_scores(across, state, 0.1, r, beta)[0] for r in ("native", realization))
    whole = rs.margin_change(z, y, state, rs.Rule(0.1, realization, beta), pairs, intercept=True)
    linear = linear + (h1 - h0)
    close(whole.linear, linear[m.row, a] - linear[m.row, b], atol=1e-11)
    assert torch.equal(whole.exact, m.exact)
    if realization == "temperature":
        assert whole.residual.abs().mean() < m.residual.abs().mean() / 2
    if realization == "angular":
        assert m.residual.abs().max() < 1e-12 and m.coverage == m.agreement == 1
    elif realization == "native":
        assert m.coverage == 0
    else:
        assert 0.5 < m.coverage <= m.agreement


@pytest.mark.slow
@given(cases(least_kappa=0.1), st.sampled_from(REALIZATIONS[1:]), st.floats(0, 1))
@settings(max_examples=70, deadline=None)
def test_certified_changes_have_their_sign_as_computed(
    case: Case, realization: str, beta: float
) -> None:
    pairs = some_pairs(case.state.num_classes)
    m = rs.margin_change(case.z, case.y, case.state, rs.Rule(case.tau, realization, beta), pairs)
    assert (m.correct | ~m.certified).all()
    if len(m.exact):
        try:
            computed = brute(case, pairs, realization, beta, case.z)
        except DivergedError:
            reject()  # a class temperature below those of float32
        assert torch.equal(computed.sign()[m.certified], m.linear.sign()[m.certified])
