"""Every Python block of the README and of the pages of the site runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Notebooks run when the site is built.
PAGES = [ROOT / "README.md"] + [
    page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if not {"_build", "gallery", "generated"} & set(page.parts) and "mystnb" not in page.read_text()
]
BLOCKS = [
    pytest.param(page, text[: block.start()].count("\n") + 2, block[1], id=f"{page.stem}-{i}")
    for page in PAGES
    for text in [page.read_text()]
    for i, block in enumerate(re.finditer(r"^```python\n(.*?)^```", text, re.M | re.S))
]


@pytest.mark.slow
@pytest.mark.parametrize(("page", "line", "code"), BLOCKS)
def test_block_runs(page: Path, line: int, code: str) -> None:
    # Empty lines before the block, so that an error names the line of the page.
    exec(compile("\n" * (line - 1) + code, str(page), "exec"), {"__name__": "page"})


def test_blocks_are_found() -> None:
    assert len(BLOCKS) >= 7
