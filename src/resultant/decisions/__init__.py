"""Decisions between classes, and how an edit of the gains changes them.

`margins` and `gradients` measure decisions and their losses, `boundaries` finds where two classes
meet, `changes` compares margins before and after an edit, `certificates` proves agreement with the
cosine rule (`rule_pair` scores by both), `pairs` chooses pairs of classes, `binary_model` and
`rates` hold the limits of two matched classes in high dimension.
"""

from resultant.decisions.binary_model import BinaryModel
from resultant.decisions.boundaries import displacement, posterior_thresholds, short_arc_roots
from resultant.decisions.certificates import (
    certificate,
    disagreement_bound,
    gradient_bound,
    loss_bound,
    residual_bound,
)
from resultant.decisions.changes import margin_change
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
from resultant.decisions.rates import projection_variance, rate_function

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
