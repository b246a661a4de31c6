"""Peak memory of a call, measured in a separate process."""

from __future__ import annotations

import sys

import pytest

from programs import run_program

SCRIPT = """
import resource, torch
from resultant._core import chunks
from resultant.decisions import certificates
from resultant.classes import realization
from resultant.classes.statistics import ClassState
norm = torch.nn.functional.normalize
N, C, p = {sizes}
state = ClassState(norm(torch.randn(C, p), dim=1), torch.full((C,), 50.0), torch.ones(C))
z, y = norm(torch.randn(N, p), dim=1), torch.arange(N) % C
def call(z, y):
    {call}
call(z[:100], y[:100])
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before = peak()
call(z, y)
print(peak() - before)
"""

needs_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="ru_maxrss has other units elsewhere"
)


def beyond(call: str, sizes: tuple[int, int, int]) -> float:
    """MiB that statements ``call`` about queries z [N, p], labels y and a state of C classes take
    at their peak, N, C and p being ``sizes``; they were called on a few rows before."""
    return float(run_program(SCRIPT.format(call=call, sizes=sizes))[0])
