"""Losses for training: the ProCo loss with its running class statistics, and logit adjustment.

`contrastive` is the ProCo loss step by step, and `proco` chooses the fastest way to its numbers;
`bank` holds the running statistics and `prior` the class prior. `logit_adjusted` is the loss of a
classifier, `supervised` has the losses to compare with. CUDA graph replay and Triton kernels, which
make a step fast, stay inside this folder.
"""

from resultant.losses.bank import ProCoBank
from resultant.losses.logit_adjusted import LogitAdjustedCrossEntropy
from resultant.losses.proco import ProCoLoss

__all__ = ["LogitAdjustedCrossEntropy", "ProCoBank", "ProCoLoss"]
