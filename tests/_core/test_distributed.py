"""Processes that wait for each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from processes import run_processes

LATE = """
import time
from datetime import timedelta
from resultant._core import distributed

def main(rank):
    distributed.wait_for_all()
    set_timeout = getattr(dist, "set_timeout", dist.distributed_c10d._set_pg_timeout)
    set_timeout(timedelta(seconds=0.5))
    began = time.monotonic()
    if rank == 0:
        time.sleep(1)
    distributed.wait_for_all()
    assert time.monotonic() - began > 0.9
"""


@pytest.mark.slow
def test_a_late_process_is_waited_for(tmp_path: Path) -> None:
    """Longer than other exchanges would wait."""
    run_processes(LATE, 2, tmp_path)
