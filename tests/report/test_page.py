"""The page, its files and its style, from small results."""

from __future__ import annotations

import base64
import csv
import dataclasses
import hashlib
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from resultant.analysis.result import AnalysisResult, Recommendation
from resultant.report import page, style
from resultant.report.charts import Axis, Chart, Mark, draw, level, numbers
from resultant.report.page import write_page
from resultant.report.table import SHOWN, Column, Table


def html(result: AnalysisResult) -> str:
    return page.render(result)[1]


def test_sections(result: AnalysisResult) -> None:
    """In order, with the promised contents, and without another resource or script."""
    text = html(result)
    anchors = ("use", "which", "look", "the-map", "try", "theory", "glossary")
    places = [text.index(f'id="{name}"') for name in anchors]
    assert places == sorted(places)
    for sentence in result.first.recommendation.sentences:
        assert sentence.replace(" %", "\u00a0%") in text
    assert "2 test rows are exact duplicates" in text
    opened = text.index("VMFClassifier.load(&#34;classifier.safetensors&#34;)")
    assert text.index("<details>") > opened
    tables = [table for table in result.first.rows.values() if len(table.row)]
    assert text.count('href="rows.csv"') == 1 + len(tables) >= 2
    # Labels and numbers below the theory are those of the paper.
    root = Path(__file__).parents[2] / "reproduction" / "resultant_reproduction"
    paper = tomllib.loads((root / "printed" / "paper.toml").read_text())
    printed = re.findall(r'<p class="paper">((?:Figure|Table|App|Eq).*?)</p>', text)
    pairs = [pair.split(", ") for part in printed for pair in part.split("; ")]
    assert len(pairs) == 7
    for number, label in pairs:
        assert paper[label]["number"].translate({40: None, 41: None}) == number
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', text)
    (allowed,) = re.findall(r"script-src '(sha256-[^']+)'", text)
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert allowed == f"sha256-{digest}"
    # The name of the first class is text.
    assert "</script><b>&" not in text.replace("\n", "")
    assert "&lt;/script&gt;&lt;b&gt;&amp;" in text


def test_feature_sets_and_verdict(several: AnalysisResult, tmp_path: Path) -> None:
    text = write_page(several, tmp_path).read_text()
    assert several.comparisons[0].sentence in text
    # The chosen set is open.
    sets = re.findall(r'<details class="set" id="([^"]+)"( open)?>', text)
    assert sets == [("1-store-npz", ""), ("2-b-npz", " open")]
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    files = {p.name for p in (tmp_path / "tables").iterdir()}
    assert {"1-store-npz-methods.csv", "2-b-npz-methods.csv"} <= files


def test_without_recommendation_and_optional_parts(result: AnalysisResult) -> None:
    sentence = "These features do not carry these labels."
    bare = dataclasses.replace(
        result.first,
        **dict.fromkeys(("map", "explorer", "theory")),
        recommendation=Recommendation(None, "native", (sentence,), ""),
        rows={},
        data=dataclasses.replace(result.first.data, group_names=()),
        methods=tuple(dataclasses.replace(m, groups={}) for m in result.first.methods),
    )
    text = html(dataclasses.replace(result, features=(bare,)))
    shown = re.sub(r"<(style|script|dl)\b.*?</\1>", "", text, flags=re.DOTALL)
    assert not re.findall(r"\b(?:medium|tail)\b", shown)
    assert sentence in text
    assert "VMFClassifier.load" not in text and 'class="explorer"' not in text
    assert "No likely label errors" in text


@pytest.mark.slow
@pytest.mark.parametrize("sets", [1, 4])
def test_large_pages(result: AnalysisResult, sets: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """They stay below the limit: with more cosines than fit, and a limit that needs fewer rows."""
    e = result.first.explorer
    assert e is not None
    rng, rows, width = np.random.default_rng(0), 4000, 200
    large = dataclasses.replace(
        e,
        **{name: np.arange(rows) % 12 for name in ("row", "label")},
        weight=np.full(rows, 1 / rows),
        candidates=rng.integers(12, size=(rows, width)),
        cosine=rng.uniform(-1, 1, (len(e.shrinkage), rows, width)),
    )
    one = dataclasses.replace(result.first, explorer=large)
    many = dataclasses.replace(result, features=(one,) * sets)
    size = len(html(many).encode())
    assert size <= page.LARGEST == 4_000_000
    monkeypatch.setattr(page, "LARGEST", round(0.9 * size))
    text = html(many)
    assert len(text.encode()) <= 0.9 * size and "class 12" in text


def test_table(tmp_path: Path) -> None:
    numbers = [0.1234567890123, *map(float, range(SHOWN))]
    values = ["=1+1", *(SHOWN * ["x"])], numbers, (1 + SHOWN) * [None]
    table = Table("t", "T", "", tuple(map(Column, ("name", "v", "none"), values)))
    table.write(tmp_path / "t.csv")
    first, *others = (tmp_path / "t.csv").read_text().splitlines()[1:]
    assert first == "'=1+1,0.1234567890123," and len(others) == SHOWN
    assert len(table.shown()) == SHOWN
    # A column without values is left out of the page.
    assert [(c.name, numeric) for c, numeric in table.heads()] == [("name", False), ("v", True)]
    assert table.shown()[0][1] == ("0.1235", "0.1234567890123", True)


@pytest.mark.slow
def test_tables_and_figures_as_files(result: AnalysisResult, tmp_path: Path) -> None:
    text = write_page(result, tmp_path, figures=True).read_text()
    assert {p.stem for p in (tmp_path / "tables").iterdir()} == {"methods", "confused", "classes"}
    with (tmp_path / "tables" / "methods.csv").open() as file:
        first, *_ = csv.DictReader(file)
    assert float(first["accuracy"]) == result.first.methods[0].accuracy.value
    drawn = re.findall(r'data-chart="([^"]+)"', text)
    assert len(drawn) == 11
    assert {p.name for p in (tmp_path / "figures").iterdir()} == {
        f"{name}.{suffix}" for name in drawn for suffix in ("pdf", "png")
    }
    assert 'href="figures/gains.pdf"' in text
    with style.style():
        figure = Figure()
        figure.subplots().plot([0, 1], [0, 1])
    files = style.save(figure, tmp_path / "new" / "a.b")
    assert [f.name for f in files] == ["a.b.pdf", "a.b.png"]
    before = files[0].read_bytes()
    assert before.startswith(b"%PDF") and files[1].read_bytes().startswith(b"\x89PNG")
    # No dates within: the same figure gives the same file.
    style.save(figure, tmp_path / "new" / "a.b")
    assert files[0].read_bytes() == before


def test_marks_as_json_and_in_matplotlib() -> None:
    names, plain = Axis(names=("a", "b")), Axis()
    marks = level(0.0), Mark("points", np.array([0.123456789, np.nan]), [1.0, 2.0])
    chart = Chart("c", "C", "", Axis("x", log=True), plain, marks)
    assert not chart.empty and Chart("c", "C", "", plain, plain, marks[:1]).empty
    assert numbers(chart)["x"] == {"label": "x", "log": True} and numbers(plain) == {}
    assert numbers(marks[0])["at"] == 0.0 and numbers(marks[1])["x"] == [0.123457, None]
    points = Mark(
        *("points", [1.0, 2.0], [0.0, 1.0], "p", ["#000000", "#ff0000"]),
        low=[0.5, 1.5],
        high=[1.5, 3.0],
    )
    line = Mark("line", [1.0, 2.0], [0.0, 1.0], "line", marks=True)
    (ax,) = draw(Chart("c", "C", "", Axis("x", log=True), names, (points, line))).axes
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b"]
    assert ax.yaxis_inverted() and ax.get_xscale() == "log"
    segments: Any = ax.collections[0]
    assert [s[:, 0].tolist() for s in segments.get_segments()] == [[0.5, 1.5], [1.5, 3.0]]
    cells = Mark("cells", [0, 1], [0, 1], share=[0.5, 1.0], text=["", ""])
    (ax,) = draw(Chart("c", "C", "", names, names, (cells,), square=True)).axes
    assert len(ax.collections) == 1
    (ax,) = draw(Chart("c", "C", "", plain, plain, (Mark("bars", [0, 1], [2, 3], width=0.5),))).axes
    bars: Any = ax.patches
    assert [bar.get_height() for bar in bars] == [2.0, 3.0]


def contrast(*colours: str) -> float:
    """The contrast of WCAG 2: 1 for equal colours, 21 for black on white."""
    parts = np.array([to_rgb(colour) for colour in colours])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    low, high = sorted(linear @ (0.2126, 0.7152, 0.0722))
    return (high + 0.05) / (low + 0.05)


def test_marks_and_text_are_visible_on_light_and_dark() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    figures = pytest.importorskip("resultant_reproduction.figures")
    shades = [to_hex(shade) for n in (1, 2, 5, 9) for shade in figures.shades(n)]
    css = Path(page.__file__).with_name("templates") / "page.css"
    roots = re.findall(r":root \{(.*?)\}", css.read_text(), re.DOTALL)
    assert len(roots) == 2
    for root in roots:
        palette = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", root))
        for colour in (*style.CYCLE, style.GREY, *shades):
            # WCAG asks for 3, which orange and sky blue do not have on white.
            assert contrast(colour, palette["card"]) > 2
        for ground in ("page", "card", "hint", "good"):
            # WCAG: 4.5 for text.
            for ink in ("text", "soft", "link", "accent", "warn"):
                assert contrast(palette[ink], palette[ground]) > 4.5, (ink, ground)
