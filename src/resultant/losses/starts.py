"""Random starts of classes without samples: vectors of length 0.9.

A start counts as a sample of weight 1e-30: without samples it is the mean, and next to one sample
it is below rounding.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

START_LENGTH = 0.9
START_WEIGHT = 1e-30
# Classes whose random starts are drawn at a time.
START_ROWS = 1 << 16


def write_starts(
    rows: Tensor, classes: range, num_classes: int, entropy: tuple[int, int, int]
) -> None:
    """Write the random starts of ``classes`` into rows [K, p + 1] of a bank.

    Args:
        rows: Sums and counts to write.
        classes: Classes of the rows.
        num_classes: Number of all classes. All are drawn, so that any share of them is the same.
        entropy: Seed, epoch and bank, which fix the starts.
    """
    rows[:, -1] = START_WEIGHT
    mixed = np.random.SeedSequence(entropy).generate_state(1, np.uint64)
    generator = torch.Generator("cpu").manual_seed(int(mixed[0] >> np.uint64(1)))
    for left in range(0, num_classes, START_ROWS):
        right = min(left + START_ROWS, num_classes)
        # Not in the default dtype, in which other numbers would be drawn.
        options = {"generator": generator, "dtype": torch.float32, "device": "cpu"}
        u = torch.randn(right - left, rows.shape[1] - 1, **options)
        first, last = max(left, classes.start), min(right, classes.stop)
        if first < last:
            u = u[first - left : last - left].double()
            u = START_WEIGHT * START_LENGTH * u / u.norm(dim=-1, keepdim=True)
            rows[first - classes.start : last - classes.start, :-1] = u.to(rows.device)
