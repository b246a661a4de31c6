"""Losses for training: the ProCo loss with its running class statistics, and logit adjustment.

What makes a step fast (CUDA graph replay, Triton kernels) stays inside this folder.
"""

from resultant.losses.bank import ProCoBank
from resultant.losses.logit_adjusted import LogitAdjustedCrossEntropy
from resultant.losses.proco import ProCoLoss

__all__ = ["LogitAdjustedCrossEntropy", "ProCoBank", "ProCoLoss"]
