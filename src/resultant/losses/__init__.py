"""Losses for training: `contrastive` is the ProCo loss step by step, and `proco` the loss of a
user's loop, which may be streamed, sharded or replayed; `bank` holds the running statistics.
`logit_adjusted` has the class prior and the loss of a classifier."""

from resultant.losses.bank import ProCoBank as ProCoBank
from resultant.losses.logit_adjusted import LogitAdjustedCrossEntropy as LogitAdjustedCrossEntropy
from resultant.losses.proco import ProCoLoss as ProCoLoss
