"""Every Python block of the README runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
BLOCKS = [
    (README.read_text()[: block.start()].count("\n") + 2, block[1])
    for block in re.finditer(r"^```python\n(.*?)^```", README.read_text(), re.M | re.S)
]


@pytest.mark.parametrize(("line", "code"), BLOCKS, ids=[f"line {line}" for line, _ in BLOCKS])
def test_block_runs(line: int, code: str) -> None:
    # Empty lines before it, so that an error names the line of the README.
    exec(compile("\n" * (line - 1) + code, str(README), "exec"), {"__name__": "readme"})


def test_blocks_are_found() -> None:
    assert len(BLOCKS) >= 3
