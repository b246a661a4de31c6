"""Threads of small fits."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

# Rows times dimension up to which one thread is faster than several that wait for each other.
SMALL = 1 << 22


@contextmanager
def few_threads(numbers: float) -> Iterator[None]:
    """Use one thread of torch for few numbers, and afterwards as many as before."""
    before = torch.get_num_threads()
    if numbers <= SMALL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
