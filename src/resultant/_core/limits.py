"""The ranges of arguments by precision: one table, of which the checks and the docs are made."""

from typing import NamedTuple

import torch


class Limits(NamedTuple):
    """The ends of the ranges in one precision."""

    kappa: float  # largest kappa of a score; beyond it squares overflow
    least_tau: float  # smallest tau of a score; below it reciprocals overflow
    most_tau: float  # largest tau
    # Smallest tau at which scores can be compared: their difference has an error of up to 12 eps
    # over tau, which is 0.2 there.
    least_compared_tau: float
    order: float  # largest order and dimension: the ratio is one where squares of x overflow
    first_derivative: float  # largest x of a derivative of a Bessel function
    second_derivative: float  # and of its second derivative
    concentration: float  # largest concentration of a distribution, in any precision


SINGLE = Limits(2.0**60, 2.0**-27, 2.0**100, 2.0**-17, 1e11, 1e17, 1e9, 1e140)
DOUBLE = Limits(2.0**499, 2.0**-54, 2.0**499, 2.0**-46, 1e30, 1e140, 1e75, 1e140)
LIMITS = {torch.float32: SINGLE, torch.float64: DOUBLE}


def limits(dtype: torch.dtype) -> Limits:
    """Return the limits in float64, or those in float32, in which half precisions are computed."""
    # Written out: torch.compile may turn a table lookup into a symbol.
    return DOUBLE if dtype == torch.float64 else SINGLE
