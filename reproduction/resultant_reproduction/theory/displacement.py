"""Errors of predicted displacements of boundaries (fig:main-boundaries)."""

from typing import NamedTuple

import torch

from resultant.decisions.boundaries import Displacement


class DisplacementError(NamedTuple):
    """Errors of predicted displacements in degrees, over pairs displaced in both; NaN without."""

    mean_absolute: float
    largest: float
    same_direction: float  # share of pairs whose displacements have the same sign
    comparable: int
    total: int


def displacement_error(exact: Displacement, predicted: Displacement) -> DisplacementError:
    """Measure the error of predicted displacements (fig:main-boundaries)."""
    both = exact.displaced & predicted.displaced
    expected, guess = exact.shift[both].rad2deg(), predicted.shift[both].rad2deg()
    error, same = (guess - expected).abs(), (expected.sign() == guess.sign()).double()
    largest = float(error.max()) if len(error) else torch.nan
    mean, alike = float(error.mean()), float(same.mean())
    return DisplacementError(mean, largest, alike, len(error), len(both))
