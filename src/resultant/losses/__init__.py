"""Losses for training.

`loss` is ProCo in a loop: check, gather, update, score, reduce. `bank` holds the running
statistics, and `contrastive` scores queries against them. A step has two forms of one signature:
`step_stored`, as the paper writes it, and `step_streamed`, which stores no scores; `graph` records
steps. `batch` checks and reduces, `ranks` holds what processes exchange, `late_errors` what a step
cannot raise at once. `prior` has the class prior and the loss of a classifier, `module` their base.
"""

from resultant.losses.bank import ProCoBank as ProCoBank
from resultant.losses.loss import ProCoLoss as ProCoLoss
from resultant.losses.prior import LogitAdjustedCrossEntropy as LogitAdjustedCrossEntropy
