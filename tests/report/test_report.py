"""The page of a report: by itself, and against names that would break out of it."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch

from resultant.analysis import Analysis, FrozenSpace, analyze_space
from resultant.report import words
from resultant.report.analysis_page import analysis_page, drawings
from resultant.report.figures import (
    COLOURS,
    GROUP_COLOURS,
    Panel,
    reliability_curves,
    sparse_bins,
)
from resultant.report.page import Page, Section, inline_svg, render, write_page
from resultant.report.summary import foremost, summary
from resultant.report.tables import SHOWN, Column, Table, tables
from small_features import NAMES, small_features
from small_report import small_analysis, small_page

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")


@pytest.fixture(scope="module")
def analysis() -> Analysis:
    return small_analysis()


@pytest.fixture(scope="module")
def made() -> Page:
    return small_page()


@pytest.fixture(scope="module")
def folder(made: Page, tmp_path_factory: Any) -> Path:
    found = tmp_path_factory.mktemp("page")
    write_page(found, made)
    return found


def test_every_question_has_its_figure(analysis: Analysis) -> None:
    found = {d.name: d for d in drawings(analysis, NAMES)}
    assert set(found) == {
        *("gains", "accuracy", "groups", "classes", "calibration", "prior", "cosine"),
        *("certificate", "boundaries", "margins", "typical", "intercepts", "self-inclusion"),
        *("fit", *(["support"] if analysis.support is not None else [])),
    }
    for d in found.values():
        assert re.fullmatch(r"(fig|tab|sec|eq):[\w-]+", d.label)
        assert d.sentence.endswith(".") and "nan" not in d.sentence.lower()
    # All pairs of six classes, each once.
    assert "of 15 pairs" in found["typical"].sentence


def test_figures_without_answers_are_left_out(analysis: Analysis) -> None:
    bare = Analysis(analysis.space)
    assert drawings(bare, NAMES) == [] and tables(bare, NAMES) == []
    (use, *_) = summary({"z": bare}, "file", NAMES)
    assert use == ("use", "no recommendation: not asked")
    made = analysis_page({"z": bare}, "file", NAMES, [], {})
    assert "no recommendation" in render(made, {})


def test_figures_take_the_colours_of_the_page(analysis: Analysis) -> None:
    drawing = drawings(analysis, NAMES)[0]
    svg = inline_svg(drawing.figure(), "a/b c")
    assert "#000000" not in svg and "#ffffff" not in svg and "#e4e4e4" not in svg
    assert "currentColor" in svg and "var(--grid)" in svg
    assert not re.search(r'<svg[^>]* (width|height)="', svg) and "viewBox" in svg
    ids = re.findall(r'\bid="([^"]+)"', svg)
    assert ids and all(i.startswith("a-b-c-") for i in ids)
    for reference in re.findall(r'(?:href="#|url\(#)([^")]+)', svg):
        assert reference in ids


def test_wide_figures_are_not_enlarged_beyond_reading(analysis: Analysis, tmp_path: Path) -> None:
    section = Section("s", "S", "", drawings(analysis, NAMES)[:1])
    for wide in (False, True):
        write_page(tmp_path, Page("P", [], [section], wide=wide))
        html = (tmp_path / "index.html").read_text()
        box = re.search(r'viewBox="0 0 ([0-9.]+) ', html)
        limit = re.search(r'<svg style="max-width: ([0-9]+)px"', html)
        assert box and ('<body class="wide">' in html) == (limit is not None) == wide
        if limit:
            assert float(limit[1]) == pytest.approx(1.6 * float(box[1]), abs=1)


class Links(HTMLParser):
    """What a page refers to, and whether its elements close."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.urls: list[str] = []
        self.ids: list[str] = []
        self.open: list[str] = []
        self.scripts = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src", "xlink:href", "action", "data"):
                self.urls.append(value or "")
            if name == "id":
                self.ids.append(value or "")
        self.scripts += tag == "script"
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_closed_and_by_itself(folder: Path) -> None:
    text = (folder / "index.html").read_text()
    links = Links(text)
    assert not links.open and links.scripts == 1
    assert len(links.ids) == len(set(links.ids))
    assert "Content-Security-Policy" in text and "@import" not in text
    for url in links.urls:
        if url.startswith("#"):
            assert url[1:] in links.ids
        elif not url.startswith("data:"):
            assert (folder / url).is_file()
    assert "<script>alert" not in text and "&lt;script&gt;alert(1)" in text
    assert "a &amp; b" in text


def test_the_page_says_what_was_found(made: Page, folder: Path, analysis: Analysis) -> None:
    text = (folder / "index.html").read_text()
    assert "a note" in text and text.count("<figure>") == len(made.sections[0].drawings)
    for drawing in made.sections[0].drawings:
        assert drawing.label in text
    results = json.loads((folder / "results.json").read_text())
    assert results["features"]["pro/jection"] == json.loads(json.dumps(analysis.to_dict()))
    assert {p.name for p in (folder / "tables").iterdir()} == {
        f"pro-jection-{t.name}.csv" for t in made.sections[0].tables
    }


def test_long_tables_are_shown_in_part(tmp_path: Path) -> None:
    rows = [(f"c{i}", None if i % 2 else i / 3, float("nan")) for i in range(SHOWN + 5)]
    columns = (Column("name"), Column("third", words.percent), Column("none"))
    table = Table("t", "T", "S.", "tab:x", columns, rows)
    assert len(table.shown()) == SHOWN
    assert table.shown()[1][1] == (words.MISSING, "", True)
    assert table.shown()[2][1] == ("66.67\u00a0%", repr(2 / 3), True)
    html = render(Page("p", [("use", "x")], [Section("s", "S", "", (), (table,))]), {})
    assert f"The first {SHOWN} of {SHOWN + 5}." in html
    table.write(tmp_path / "t.csv")
    lines = (tmp_path / "t.csv").read_text().splitlines()
    assert len(lines) == SHOWN + 6 and lines[2] == "c1,," and lines[3] == f"c2,{2 / 3!r},"


def test_tables_go_with_the_page(tmp_path: Path) -> None:
    """The CSV is within it, unless it is large."""
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


def test_the_more_accurate_space_is_recommended(analysis: Analysis) -> None:
    arrays = small_features(noise=0.3)
    names = ("train/projection", "train/labels", "test/projection", "test/labels")
    questions = ("recommendation",)
    better = analyze_space(FrozenSpace.fit(*(arrays[n] for n in names)), questions)
    both = {"a": analysis, "b": better}
    assert foremost(both) == "b" and foremost({"a": analysis}) == "a"
    said = summary(both, "file", NAMES)[0][1]
    assert "on b features" in said
    # The original of the other space is beside it, whatever is used.
    assert analysis.recommendation is not None
    assert f"{words.percent(analysis.recommendation.accuracy_before)} on a)" in said


def test_every_number_has_its_rows(analysis: Analysis) -> None:
    """The gain is of the half that judges, all else of all held-out rows."""
    r = analysis.recommendation
    assert r is not None
    used = replace(r, realization="angular", candidate="angular", beta=0.0, candidate_beta=0.0)
    used = replace(used, gain=0.0342, better=3, accuracy_before=0.3971, accuracy_after=0.4271)
    said = dict(summary({"z": replace(analysis, recommendation=used)}, "file", NAMES))
    assert "42.71\u00a0% accurate on all 120 held-out rows" in said["use"]
    assert said["use"].endswith("(Native: 39.71\u00a0%)")
    assert "+3.42 points over Native of z features" in said["accuracy"]
    assert said["accuracy"].startswith("judging half (60 rows")
    assert said["accuracy"].endswith("all rows: +3.00 points")
    for name in ("calibration", "groups", "rise most", "fall most"):
        assert said[name].startswith("all rows: ")


def test_gains_are_said_with_and_without_the_bias(analysis: Analysis) -> None:
    g = analysis.gains
    assert g is not None
    g = replace(g, rank_correlation=-0.37, corrected_rank_correlation=0.03, uncorrected=(4, 5))
    a = replace(analysis, gains=replace(g, spread=0.008, corrected_spread=0.006))
    (drawn,) = (d for d in drawings(a, NAMES) if d.name == "gains")
    for said in (drawn.sentence, dict(summary({"z": a}, "file", NAMES))["angular gain"]):
        for number in ("0.80\u00a0%", "0.60\u00a0%", "-0.37", "+0.03"):
            assert number in said
    assert "2 classes of one row cannot be corrected" in drawn.sentence
    assert "without 2 classes of one row" in said
    hollow = [x for x in drawn.figure().axes[0].lines if x.get_markerfacecolor() == "none"]
    assert sum(len(x.get_xdata()) for x in hollow) == 6  # type: ignore[arg-type]
    none = replace(g, corrected_spread=None, corrected_rank_correlation=None)
    (bare,) = (d for d in drawings(replace(a, gains=none), NAMES) if d.name == "gains")
    assert "bias" not in bare.sentence
    assert "bias" not in dict(summary({"z": replace(a, gains=none)}, "f", NAMES))["angular gain"]


@pytest.mark.parametrize("names", [NAMES, tuple("246810")])
def test_classes_are_called_by_their_names(analysis: Analysis, names: tuple[str, ...]) -> None:
    """Everywhere; labels, which are not those of the fit, where there are no names."""
    assert analysis.gains is not None and analysis.intercepts is not None
    assert analysis.same_state is not None
    a = replace(
        analysis,
        gains=replace(analysis.gains, capped=(1, 3)),
        intercepts=replace(analysis.intercepts, worst_class=4),
    )
    made = analysis_page({"z": a}, "file", names, [], {})
    assert f"z: the concentration of 2 classes is at the cap: {names[1]}, {names[3]}." in made.notes
    (section,) = made.sections
    (drawn,) = (d for d in section.drawings if d.name == "intercepts")
    assert ("(five)" if names is NAMES else "(class 1)") in drawn.sentence
    (table,) = (t for t in section.tables if t.name == "same-state")
    (column,) = (i for i, c in enumerate(table.columns) if c.name == "most predicted")
    expected = [names[row.top_class] for row in analysis.same_state.rows]
    assert [row[column] for row in table.rows] == expected
    one = replace(analysis, gains=replace(analysis.gains, capped=(2,)))
    (note,) = analysis_page({"z": one}, "file", names, [], {}).notes
    assert note == f"z: the concentration of 1 class is at the cap: {names[2]}."


def test_native_has_one_name_and_that_of_the_paper_once(made: Page, folder: Path) -> None:
    text = (folder / "index.html").read_text()
    assert text.lower().count("original vmf") == 1
    assert words.NATIVE_IN_PAPER in unescape(text)
    assert "are labels of the paper <cite>Does a Shared Temperature" in text
    (table,) = (t for t in made.sections[0].tables if t.name == "realizations")
    assert table.sentence.endswith(words.NATIVE_IN_PAPER)
    assert {row[0] for row in table.rows} == set(words.NAMES.values())
    (classes,) = (t for t in made.sections[0].tables if t.name == "classes")
    assert "native" in [c.name for c in classes.columns]


@pytest.mark.parametrize(("count", "marks"), [([9998, 2, 0], 1), ([30, 19, 20], 2), ([9, 9, 9], 0)])
def test_bins_of_few_rows_are_not_drawn(count: list[int], marks: int, analysis: Analysis) -> None:
    from resultant.analysis.decisions import Reliability

    assert analysis.grid is not None
    at = torch.tensor([0.02, 0.4, 0.9])
    native = analysis.grid.point("native")
    point = replace(native, reliability=Reliability(torch.tensor(count), at, at))
    panel = Panel("c", "C", "S.", "fig:x", lambda ax: reliability_curves(ax, {"n": (point, "red")}))
    (ax,) = panel.figure().axes
    assert len(ax.lines[0].get_xdata()) == marks  # type: ignore[arg-type]
    assert ax.get_xlim()[1] == pytest.approx(1.05 * (0.9 if marks > 1 else 1))
    said = sparse_bins([point, None])
    hidden = sum(n for n in count if n < 20)
    assert f"({hidden:,} rows at most)" in said
    assert ("a single mark" in said) == (marks == 1)
    assert ("no curve" in said) == (marks == 0)


def test_curves_that_coincide_are_all_seen(analysis: Analysis) -> None:
    """Each is thinner than those below it, and no group has the colour of a realization."""
    (drawn,) = (d for d in drawings(analysis, NAMES) if d.name == "accuracy")
    curves = [x for x in drawn.figure().axes[0].lines if x.get_marker() == "o"]
    widths = [x.get_linewidth() for x in curves]
    assert len(widths) == 3 and widths == sorted(set(widths), reverse=True)
    assert [x.get_markersize() > x.get_linewidth() for x in curves] == [True] * 3
    assert not set(GROUP_COLOURS.values()) & set(COLOURS.values())


def test_what_is_kept_is_not_said_to_change(analysis: Analysis) -> None:
    r = analysis.recommendation
    assert r is not None
    kept = replace(r, realization="native", candidate="native", candidate_beta=1.0)
    a = replace(analysis, recommendation=kept)
    said = dict(summary({"features": a}, "file", NAMES))
    assert said["use"].startswith("Native on features, ")
    assert {said[name] for name in ("groups", "rise most", "fall most")} == {"no change"}
    assert " to " not in said["calibration"]
    found = {d.name: d.sentence for d in drawings(a, NAMES)}
    assert "classes" not in found and " to " not in found["calibration"]
    (table,) = (t for t in tables(a, NAMES) if t.name == "classes")
    assert [c.name for c in table.columns][-2:] == ["held out", "native"]
    assert table.sentence.endswith("its accuracy under Native.")
    assert {len(row) for row in table.rows} == {len(table.columns)}
    # Another candidate is named in all that it would change, and has no interval without a width.
    other = replace(r, realization="native", candidate="angular", candidate_beta=0.5)
    for better in (3, 0):
        tried = replace(other, better=better, worse=0)
        said = dict(summary({"z": replace(analysis, recommendation=tried)}, "file", NAMES))
        for name in ("accuracy", "calibration", "groups", "rise most", "fall most"):
            assert said[name].startswith("Pure Angular at β = 0.5 (not advised), ")
        judged = f"judging half ({r.queries} rows that did not choose it): "
        assert judged in said["accuracy"]
        assert ("interval" in said["accuracy"]) == bool(better)


def test_lists_of_a_section() -> None:
    text = "First.\n\n- one\n- two - and a half\nLast."
    assert Section("s", "S", text).blocks() == [
        (False, ["First.", ""]),
        (True, ["one", "two - and a half"]),
        (False, ["Last."]),
    ]
    assert Section("s", "S", "").blocks() == []
    html = render(Page("p", [("use", "x")], [Section("s", "S", "- <b>\n- c")]), {})
    assert '<ul class="text"><li>&lt;b&gt;</li><li>c</li></ul>' in html
