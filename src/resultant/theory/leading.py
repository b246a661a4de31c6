r"""Leading scores of fitted classes in high dimension."""

from __future__ import annotations

import torch

from resultant.classes.realization import Realization, realize
from resultant.classes.rule import Rule
from resultant.classes.statistics import ClassState
from resultant.theory.ratio_expansion import ratio_terms
from resultant.theory.score_expansion import joint_order


@torch.no_grad()
def joint_leading(
    state: ClassState, rule: Rule, *, validate_args: bool | None = None
) -> Realization:
    r"""Build the leading logits :math:`\ell_c^0=b_c+g_c^0\rho_c` of sec:softmax-geometry.

    The gain is :math:`g_c^0=r_0(\kappa_c/\nu)/\tau_c`. An edited score keeps its temperatures or
    its added slope: exact and leading scores undergo the same intervention. Intercepts, of order
    :math:`1/\nu`, are left out.

    Args:
        state, rule: Classes in p >= 3 dimensions, and the rule, whose offset is :math:`b_c`.

    Returns:
        Linear scores in float64.

    Example:
        >>> state = ClassState(torch.eye(3), torch.tensor([1.0, 2.0, 4.0]), torch.ones(3))
        >>> joint_leading(state, Rule(0.1)).gain()
        tensor([6.1803, 7.8078, 8.8278], dtype=torch.float64)
    """
    nu = joint_order(state.dim)
    exact = realize(state, rule, validate_args=validate_args)
    if exact.tau is None:
        return exact
    g0 = ratio_terms(exact.kappa / nu).r0 / exact.tau
    g0 = g0 if exact.slope is None else g0 + exact.slope
    return Realization(exact.mu, exact.kappa, None, g0, exact.offset, exact.offset)
