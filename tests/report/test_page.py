"""The page of a report: HTML that needs no other file, figures and tables in it, its folder."""

from __future__ import annotations

import base64
import hashlib
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from resultant.report import page, style
from resultant.report.explorer import Side
from resultant.report.page import (
    Page,
    Section,
    require_report_folder,
    write_page,
)
from resultant.report.paper import printed
from resultant.report.table import Column, Table


class Links(HTMLParser):
    """The links and ids of a page; raises if an element is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.urls: list[str] = []
        self.ids: list[str] = []
        self.open: list[str] = []
        self.scripts: list[str] = []
        self.policy = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src", "xlink:href", "action", "data"):
                self.urls.append(value or "")
            if name == "id":
                self.ids.append(value or "")
        if tag == "script":
            self.scripts.append("")
        if ("http-equiv", "Content-Security-Policy") in attrs:
            self.policy = dict(attrs)["content"] or ""
        if tag not in ("meta", "link", "br", "input"):
            self.open.append(tag)

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Parts of a picture that end where they begin."""

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.slow
def test_page_is_well_formed_and_needs_no_other_file(folder: Path) -> None:
    text = (folder / "index.html").read_text()
    links = Links(text)
    # The numbers, Bokeh and our own.
    assert not links.open and len(links.scripts) == 3
    assert len(links.ids) == len(set(links.ids))
    assert "@import" not in text
    for url in links.urls:
        if url.startswith("#"):
            assert url[1:] in links.ids
        elif not url.startswith("data:"):
            assert (folder / url).is_file()
    assert "<script>alert" not in text and "&lt;script&gt;alert(1)" in text
    assert "a &amp; b" in text


@pytest.mark.slow
def test_policy_allows_the_scripts_of_the_page_alone(folder: Path) -> None:
    links = Links((folder / "index.html").read_text())
    rules = {name: values for name, *values in map(str.split, links.policy.split(";"))}
    hashes = {
        "'sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() + "'"
        for script in links.scripts
    }
    # The numbers of the page are no script that runs.
    assert rules["default-src"] == ["'none'"] and len(rules["script-src"]) == 2
    assert hashes.issuperset(rules["script-src"])


@pytest.mark.slow
def test_page_and_files_hold_the_results(report: Page, folder: Path, side: Side) -> None:
    text = (folder / "index.html").read_text()
    drawings = [d for section in report.sections for d in section.drawings]
    assert "a note" in text and text.count("<figure ") == len(drawings)
    for drawing in drawings:
        assert drawing.label in text and printed(drawing.label) in text
    results = json.loads((folder / "results.json").read_text())
    assert results["features"]["pro/jection"] == json.loads(json.dumps(side.analysis.to_dict()))
    tables = [t.name for section in report.sections for t in section.tables]
    assert {p.stem for p in (folder / "tables").iterdir()} == {f"pro-jection-{t}" for t in tables}
    # Figures that only the page fills have no file.
    files = {p.stem for p in (folder / "figures").glob("*.pdf")}
    assert files == {f"pro-jection-{d.name}" for d in drawings if not d.name.startswith("arc")}


def test_small_tables_are_embedded(tmp_path: Path) -> None:
    """As CSV; large tables are files."""
    small, large = (
        Table(name, "T", "S.", "tab:x", (Column("β"),), [(f"{i},",) for i in range(n)])
        for name, n in (("small", 3), ("large", 20_000))
    )
    write_page(tmp_path, Page("p", [], [Section("s", "S", "", (), (small, large))]))
    links = [url for url in Links((tmp_path / "index.html").read_text()).urls if "csv" in url]
    head, _, content = links[0].partition("base64,")
    assert head == "data:text/csv;charset=utf-8;"
    assert base64.b64decode(content) == (tmp_path / "tables" / "s-small.csv").read_bytes()
    assert base64.b64decode(content).decode() == 'β\n"0,"\n"1,"\n"2,"\n'
    assert links[1] == "tables/s-large.csv"


def test_missing_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"bokeh and jinja2: pip install resultant\[report\]"):
        page.require()
    with pytest.raises(ValueError, match="bokeh and jinja2 and matplotlib"):
        page.require(figure_files=True)
    with pytest.raises(ValueError, match=r"matplotlib to draw figures: pip install"):
        style.require()


def test_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_report_folder(tmp_path / "a" / "b")
    assert not list(tmp_path.iterdir())

    def denied(*_: Any, **__: Any) -> str:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr("tempfile.mkdtemp", denied)
        with pytest.raises(ValueError, match=r"a/b \(Permission denied\)$"):
            require_report_folder(tmp_path / "a" / "b")
    # A mount cannot be renamed.
    monkeypatch.setattr(Path, "is_mount", lambda path: path == tmp_path)
    with pytest.raises(ValueError, match="within a mounted folder"):
        require_report_folder(tmp_path)


def test_folder_with_other_files(tmp_path: Path) -> None:
    (tmp_path / "own.txt").touch()
    with pytest.raises(ValueError, match=r"new or an earlier report, got other files: .*own.txt$"):
        require_report_folder(tmp_path)
