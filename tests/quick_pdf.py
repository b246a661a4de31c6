"""PDF files that are written quickly."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from resultant.report import style


@pytest.fixture(scope="session", autouse=True)
def quick_pdf() -> Iterator[None]:
    """PDF files with Type 3 fonts: subsets of TrueType fonts take most of the time of a report."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(style.STYLE, "pdf.fonttype", 3)
        yield
