"""Losses for training: the ProCo loss with its running class statistics, and logit adjustment.

`proco` is the loss of one run, on `contrastive`, which a stack of runs shares; `bank` holds the
running statistics, `logit_adjusted` the loss of a classifier, `supervised` the losses to compare
with. CUDA graph replay and Triton kernels, which make a step fast, stay inside this folder.
"""

from resultant.losses.bank import ProCoBank
from resultant.losses.logit_adjusted import LogitAdjustedCrossEntropy
from resultant.losses.proco import ProCoLoss

__all__ = ["LogitAdjustedCrossEntropy", "ProCoBank", "ProCoLoss"]
