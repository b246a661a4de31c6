"""Threads of small fits."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import torch

# Rows times dimension up to which one thread is faster than several that wait for each other.
SMALL = 1 << 22


class _Fits:
    """Small fits that are under way, and the number of threads before the first of them."""

    lock, number, before = Lock(), 0, 1


@contextmanager
def few_threads(numbers: float) -> Iterator[None]:
    """Use one thread of torch for few numbers, and afterwards as many as before, also where fits of
    several Python threads overlap."""
    if numbers > SMALL:
        yield
        return
    with _Fits.lock:
        if not _Fits.number:
            _Fits.before = torch.get_num_threads()
        _Fits.number += 1
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _Fits.lock:
            _Fits.number -= 1
            torch.set_num_threads(_Fits.before)
