"""Accuracy of predictions, over all images and in the shot groups of the training classes."""

from __future__ import annotations

import torch
from torch import Tensor

from resultant.classes.groups import group_masks


def accuracies(predicted: Tensor, labels: Tensor, counts: Tensor) -> dict[str, float]:
    """Compute the accuracy over all images, and the mean over the classes of each group.

    Args:
        predicted: Predicted classes [N].
        labels: Labels [N].
        counts: Training images per class [C], which define the groups of `group_masks`.

    Returns:
        ``accuracy``, and the accuracy of each group that has images.

    Example:
        >>> import torch
        >>> from resultant.training.accuracy import accuracies
        >>> labels, counts = torch.tensor([0, 0, 0, 1]), torch.tensor([200, 5])
        >>> accuracies(torch.tensor([0, 1, 0, 1]), labels, counts)["accuracy"]
        0.75
    """
    correct, number = (
        torch.bincount(y.cpu(), minlength=len(counts)).double()
        for y in (labels[predicted == labels], labels)
    )
    values = {"accuracy": float(correct.sum() / number.sum())}
    for name, members in group_masks(counts).items():
        members = members & (number > 0)
        if members.any():
            values[name] = float((correct / number)[members].mean())
    return values


def accuracy(predicted: Tensor, labels: Tensor) -> float:
    """Return the share of predictions [N] that equal the labels [N]."""
    return float((predicted == labels).double().mean())
