"""Decisions between classes, and how an edit of the gains changes them.

`margins` chooses pairs of classes and measures their margins, `gradients` those of losses,
`boundaries` finds where two classes meet, `certificates` proves agreement with the cosine rule and
signs of changed margins. Conventions are those of `resultant.classes`.
"""

from resultant.decisions.boundaries import (
    displacement as displacement,
    short_arc_roots as short_arc_roots,
)
from resultant.decisions.certificates import (
    certificate as certificate,
    disagreement_bound as disagreement_bound,
    gradient_bound as gradient_bound,
    loss_bound as loss_bound,
    margin_change as margin_change,
    residual_bound as residual_bound,
)
from resultant.decisions.gradients import (
    gradient_coordinates as gradient_coordinates,
    gradient_cosines as gradient_cosines,
    intercept_gradient_difference as intercept_gradient_difference,
    loss_gradient as loss_gradient,
    mean_relative_error as mean_relative_error,
    stacked_relative_error as stacked_relative_error,
)
from resultant.decisions.margins import (
    centre_margins as centre_margins,
    effective_competitors as effective_competitors,
    pairwise_margins as pairwise_margins,
    select_pairs as select_pairs,
)
