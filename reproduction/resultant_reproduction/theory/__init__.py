"""Numerical checks of the paper's theorems, propositions and figures.

A check is a function without required arguments that returns a `Check`. The reference is the exact
score of the library, which the library's tests compare with Arb.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from resultant_reproduction.theory.check import Check
from resultant_reproduction.theory.decisions import (
    boundary_factors,
    boundary_motion,
    margin_certificate,
    stability_bounds,
)
from resultant_reproduction.theory.expansions import (
    centered_remainder,
    fixed_orders,
    fixed_regime,
    regime_map,
    residual_orders,
    second_order_error,
    slope_orders,
)
from resultant_reproduction.theory.limits import (
    exponent_equality,
    head_transition,
    projection_limit,
)
from resultant_reproduction.theory.linear import (
    free_energy,
    growing_temperature,
    leading_gradient,
    linear_softmax,
)
from resultant_reproduction.theory.ratio import leading_gain, ratio_remainder
from resultant_reproduction.theory.realizations import (
    bregman_identities,
    failure_state,
    intercept_gradients,
    realization_differences,
)
from resultant_reproduction.theory.samples import cross_fitting, finite_sample
from resultant_reproduction.theory.softmax import softmax_coupling, softmax_probabilities
from resultant_reproduction.theory.transition import (
    error_exponents,
    error_transition,
    exponent_order,
    prior_reversal,
    rule_agreement,
)

# In the order of the paper; the key is the name of the check.
CHECKS: dict[str, Callable[[], Check]] = {
    "leading-gain": leading_gain,
    "centered-remainder": centered_remainder,
    "bregman-identities": bregman_identities,
    "fixed-orders": fixed_orders,
    "residual-orders": residual_orders,
    "slope-orders": slope_orders,
    "second-order-error": second_order_error,
    "regime-map": regime_map,
    "fixed-regime": fixed_regime,
    "growing-temperature": growing_temperature,
    "free-energy": free_energy,
    "linear-softmax": linear_softmax,
    "ratio-remainder": ratio_remainder,
    "softmax-coupling": softmax_coupling,
    "softmax-probabilities": softmax_probabilities,
    "boundary-motion": boundary_motion,
    "boundary-factors": boundary_factors,
    "leading-gradient": leading_gradient,
    "error-transition": error_transition,
    "head-transition": head_transition,
    "projection-limit": projection_limit,
    "rule-agreement": rule_agreement,
    "error-exponents": error_exponents,
    "exponent-order": exponent_order,
    "exponent-equality": exponent_equality,
    "prior-reversal": prior_reversal,
    "realization-differences": realization_differences,
    "intercept-gradients": intercept_gradients,
    "failure-state": failure_state,
    "margin-certificate": margin_certificate,
    "stability-bounds": stability_bounds,
    "finite-sample": finite_sample,
    "cross-fitting": cross_fitting,
}


def selected(only: Sequence[str] = ()) -> list[str]:
    """Return the names of the checks to run in the order of the paper, all if ``only`` is empty."""
    for name in only:
        if name not in CHECKS:
            raise ValueError(f"expected names of checks ({', '.join(CHECKS)}), got {name!r}")
    return [name for name in CHECKS if not only or name in only]


__all__ = ["CHECKS", "Check", "selected"]
