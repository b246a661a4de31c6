"""Terms of the Bessel ratio in mpmath, and observed orders of errors."""

from __future__ import annotations

from collections.abc import Callable

import mpmath
import numpy as np
import torch
from torch import Tensor

# The ratio at nu u is R0(u) + R1(u) / nu + R2(u) / nu^2 + ...
R0: Callable = lambda u: u / (1 + mpmath.sqrt(1 + u * u))  # noqa: E731
R1: Callable = lambda u: -u / (2 * (1 + u * u))  # noqa: E731
R2: Callable = lambda u: u * (4 - u * u) / (8 * mpmath.sqrt(1 + u * u) ** 5)  # noqa: E731


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
