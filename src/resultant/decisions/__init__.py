"""Margins, boundaries, gradients of decisions, and certificates."""

from resultant.decisions.binary_model import BinaryModel, projection_variance, rate_function
from resultant.decisions.boundaries import displacement, posterior_thresholds, short_arc_roots
from resultant.decisions.certificates import (
    certificate,
    disagreement_bound,
    gradient_bound,
    loss_bound,
    margin_change,
    residual_bound,
)
from resultant.decisions.gradients import (
    gradient_coordinates,
    gradient_cosines,
    intercept_gradient_difference,
    loss_gradient,
    mean_relative_error,
    stacked_relative_error,
)
from resultant.decisions.margins import (
    centre_margins,
    effective_competitors,
    joint_leading,
    pairwise_margins,
)
from resultant.decisions.pairs import select_pairs

__all__ = [
    "BinaryModel",
    "centre_margins",
    "certificate",
    "disagreement_bound",
    "displacement",
    "effective_competitors",
    "gradient_bound",
    "gradient_coordinates",
    "gradient_cosines",
    "intercept_gradient_difference",
    "joint_leading",
    "loss_bound",
    "loss_gradient",
    "margin_change",
    "mean_relative_error",
    "pairwise_margins",
    "posterior_thresholds",
    "projection_variance",
    "rate_function",
    "residual_bound",
    "select_pairs",
    "short_arc_roots",
    "stacked_relative_error",
]
