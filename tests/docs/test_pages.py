"""Pages that are read on the site of the repository are plain Markdown, their links lead on, and
pages that draw records of the repository draw those of now."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def links(page: Path) -> list[Path]:
    """Return the files that a page links."""
    found = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    return [(page.parent / link).resolve() for link in found if "://" not in link]


LINKED = {*links(ROOT / "README.md"), *links(ROOT / "docs/howto/index.md")}
PAGES = sorted(page for page in LINKED if page.suffix == ".md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page_is_plain(page: Path) -> None:
    # A cell of a notebook is a block of code on any page.
    text = re.sub(r"^```{code-cell}.*?^```", "", page.read_text(), flags=re.M | re.S)
    assert not re.findall(r"^(?:```|:::)+{[\w-]+}.*|{[\w:-]+}`.*?`", text, re.M)
    made = ROOT / "docs" / "gallery"
    assert not [p for p in links(page) if not p.exists() and made not in p.parents]


# Their cells read files of the repository, which every measurement writes anew.
DRAWN = [
    page
    for page in sorted((ROOT / "docs").glob("*/*.md"))
    if re.search(r'^[^#\n]*"\.\./\.\./', page.read_text(), re.M)
]


@pytest.mark.slow
@pytest.mark.parametrize("page", DRAWN, ids=lambda page: page.stem)
def test_records_are_drawn(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(page.parent)
    monkeypatch.setattr("matplotlib.pyplot.show", lambda: None)
    names: dict[str, object] = {}
    cells = re.findall(r"^```\{code-cell\}\n(.*?)^```", page.read_text(), re.M | re.S)
    for cell in cells:
        # Without the settings of the cell.
        exec(re.sub(r"\A---\n.*?^---\n|^:.*\n", "", cell, flags=re.M | re.S), names)
    assert cells


def test_pages_are_found() -> None:
    assert ROOT / "docs/benchmarks/index.md" in DRAWN
    assert {ROOT / "docs/howto/ray.md", ROOT / "docs/start.md", ROOT / "CHANGELOG.md"} <= {*PAGES}
