"""Observed orders of errors."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def f64(*values: object) -> list[Tensor]:
    return [torch.tensor(v, dtype=torch.float64) for v in values]


def slopes(x: Tensor, errors: Tensor, floor: float) -> Tensor:
    """Slopes of log error [n, ...] in log x [n], from the points above the rounding ``floor``,
    where there are at least three and they lie on a line to R^2 >= 0.9."""
    slopes_of_columns = []
    for column in errors.reshape(len(x), -1).T:
        keep = column > floor
        if keep.sum() < 3:
            continue
        a, b = x[keep].log().numpy(), column[keep].log().numpy()
        if np.corrcoef(a, b)[0, 1] ** 2 >= 0.9:
            slopes_of_columns.append(np.polyfit(a, b, 1)[0])
    return torch.tensor(slopes_of_columns)
