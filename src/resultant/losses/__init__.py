"""Losses for training: the ProCo loss with its running class statistics, and logit adjustment.

CUDA graph replay and Triton kernels, which make a step fast, stay inside this folder.
"""

from resultant.losses.bank import ProCoBank
from resultant.losses.logit_adjusted import LogitAdjustedCrossEntropy
from resultant.losses.proco import ProCoLoss

__all__ = ["LogitAdjustedCrossEntropy", "ProCoBank", "ProCoLoss"]
