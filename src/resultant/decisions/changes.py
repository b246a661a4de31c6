"""Changes of margins between two classes when their gains change, with certified signs
(sec:margin-change-protocol)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from resultant._core import chunks
from resultant._core.arrays import require_features, require_labels
from resultant._core.validation import Check
from resultant.classes.realization import realize
from resultant.classes.rule import Rule
from resultant.classes.statistics import ClassState
from resultant.decisions.certificates import score_error
from resultant.decisions.margins import require_pairs


@dataclass(frozen=True, eq=False)
class MarginChange:
    """Changes of margins s_a - s_b, one per pair and query [I], in float64."""

    exact: Tensor  # exact changes, linear + residual
    linear: Tensor  # changes of the linear scores: of the gains, or of gains and intercepts
    residual: Tensor
    certified: Tensor  # mask where linear outweighs residual and rounding
    correct: Tensor  # mask where linear and exact have the same sign
    row: Tensor  # indices of the queries
    pair: Tensor  # indices of the pairs

    @property
    def coverage(self) -> float:
        """Share of certified changes."""
        return float(self.certified.double().mean())

    @property
    def agreement(self) -> float:
        """Share of changes where linear and exact have the same sign."""
        return float(self.correct.double().mean())


@torch.no_grad()
def margin_change(
    z: Tensor,
    y: Tensor,
    state: ClassState,
    rule: Rule,
    pairs: Tensor,
    *,
    intercept: bool = False,
    validate_args: Check = None,
) -> MarginChange:
    r"""Compute the change of margins from the native score to a rule (sec:margin-change-protocol).

    For pairs of classes (a, b) and the queries of both, the change of :math:`s_a-s_b` is
    :math:`\Delta m=\Delta m_{lin}+r`, where :math:`\Delta m_{lin}` is that of `Realization.linear`,
    :math:`(g_a^\star-g_a)\rho_a-(g_b^\star-g_b)\rho_b` without the intercept, as in the paper.
    The sign is certified by :math:`|\Delta m_{lin}|>|r|` and a slack as in `certificate`.

    Args:
        z, y, state, rule, pairs: Vectors, labels, classes, rule and pairs.
        intercept: Include the change of :math:`q_c(0)` in the linear change.

    Returns:
        Changes [I], one per pair and query of its two classes.

    Example:
        >>> state = ClassState(torch.eye(3), torch.tensor([1.0, 2.0, 4.0]), torch.ones(3))
        >>> y, pairs = torch.tensor([0, 1, 2]), torch.tensor([[0, 1]])
        >>> margin_change(torch.eye(3), y, state, Rule(0.5, "angular"), pairs).exact
        tensor([0.4413, 0.0073], dtype=torch.float64)
    """
    device = state.mu.device
    require_features(z, state.dim, device, validate_args)
    require_labels(y, len(z), state.num_classes, device, validate_args)
    scores = native, edited = [
        realize(state, replace(rule, realization=name), validate_args=validate_args)
        for name in ("native", rule.realization)
    ]
    require_pairs(pairs, native, validate_args)
    raised, moved = edited.gain() - native.gain(), torch.zeros_like(native.kappa)
    if intercept:
        moved = edited.at(moved) - native.at(moved)
    errors = [score_error(s, z.dtype) + 2 * score_error(s, torch.float64) for s in scores]
    slack = errors[0] + errors[1]
    members = {c: (y == c).nonzero().squeeze(1) for c in pairs.unique().tolist()}
    rows = [torch.cat([members[a], members[b]]) for a, b in pairs.tolist()]
    row = torch.cat([y[:0], *rows])
    pair = torch.cat([y[:0], *(torch.full_like(r, i) for i, r in enumerate(rows))])
    columns, height = [], chunks.rows_per_chunk(8 * z.shape[1], chunks.FEATURE_BYTES)
    for at, index in zip(row.split(height), pair.split(height), strict=True):
        x, (a, b) = z[at].double(), pairs[index].T
        rho_a, rho_b = ((x * native.mu[c]).sum(1) for c in (a, b))
        before, after = (s.at(rho_a, a) - s.at(rho_b, b) for s in scores)
        linear = (raised[a] * rho_a + moved[a]) - (raised[b] * rho_b + moved[b])
        columns.append((after - before, linear, slack[a] + slack[b]))
    exact, linear, slack = map(torch.cat, zip(*columns, strict=True))
    residual = exact - linear
    certified = linear.abs() > residual.abs() + slack
    correct = linear.sign() == exact.sign()
    return MarginChange(exact, linear, residual, certified, correct, row, pair)
