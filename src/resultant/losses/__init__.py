"""The ProCo loss and logit adjustment."""

from resultant.losses.bank import ProCoBank
from resultant.losses.proco import LogitAdjustedCrossEntropy, ProCoLoss

__all__ = ["LogitAdjustedCrossEntropy", "ProCoBank", "ProCoLoss"]
