"""Decisions between classes, and how an edit of the gains changes them.

`margins` chooses pairs of classes and measures their margins, `gradients` those of losses,
`boundaries` finds where two classes meet, `certificates` proves agreement with the cosine rule and
signs of changed margins. Conventions are those of `resultant.classes`.
"""

from resultant.decisions.boundaries import displacement, short_arc_roots
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
    pairwise_margins,
    select_pairs,
)

__all__ = [
    "centre_margins",
    "certificate",
    "disagreement_bound",
    "displacement",
    "effective_competitors",
    "gradient_bound",
    "gradient_coordinates",
    "gradient_cosines",
    "intercept_gradient_difference",
    "loss_bound",
    "loss_gradient",
    "margin_change",
    "mean_relative_error",
    "pairwise_margins",
    "residual_bound",
    "select_pairs",
    "short_arc_roots",
    "stacked_relative_error",
]
