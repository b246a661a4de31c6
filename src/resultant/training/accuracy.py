"""Accuracy of predictions: over all samples, per class, and in the shot groups of the classes."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from resultant.classes.groups import group_masks


def accuracy(predicted: Tensor, labels: Tensor) -> float:
    """Return the share of predictions [N] that equal the labels [N]."""
    return float((predicted == labels).double().mean())


def class_accuracies(predicted: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """Return the accuracies [M, C] of predictions [M, N], NaN for a class without labels [N]."""
    right, y = (predicted == labels).double().cpu(), labels.cpu()
    correct = right.new_zeros(len(right), num_classes).index_add_(1, y, right)
    return correct / torch.bincount(y, minlength=num_classes)


def group_accuracies(per_class: Tensor, masks: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the means [M] of accuracies [M, C] over the classes of each group of `group_masks`."""
    return {name: per_class[:, mask.cpu()].nanmean(1) for name, mask in masks.items()}


def accuracies(predicted: Tensor, labels: Tensor, counts: Tensor) -> dict[str, float]:
    """Return ``accuracy`` of predictions [N], and the mean over the classes of each group."""
    per_class = class_accuracies(predicted[None], labels, len(counts))
    groups = group_accuracies(per_class, group_masks(counts))
    values = {name: float(value) for name, value in groups.items()}
    values = {name: value for name, value in values.items() if not math.isnan(value)}
    return {"accuracy": accuracy(predicted, labels), **values}
