"""One page with the explorer and all pictures of the tour, in a browser that all tests share."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser import CHROMIUM, Browser

DOCS = Path(__file__).parents[2] / "docs"
SHARED = DOCS.parent / "src" / "resultant" / "report" / "shared"


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("needs chromium")
    folder = DOCS / "_static" / "explorer"
    files = (*(SHARED / name for name in ("vmf.js", "chart.js")), *sorted(folder.glob("*.js")))
    scripts = "".join(f"<script>{file.read_text()}</script>" for file in files)
    tour = (DOCS / "tutorials" / "theory.md").read_text()
    forms = "".join(re.findall(r'<form class="movable tour".*?</form>', tour))
    path = tmp_path_factory.mktemp("site") / "index.html"
    explorer = (folder / "explorer.html").read_text()
    path.write_text(f"<!doctype html><meta charset='utf-8'>{scripts}{explorer}{forms}")
    browser = Browser()
    browser.open(path)
    yield browser
    browser.close()
