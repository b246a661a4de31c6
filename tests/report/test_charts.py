"""Tables and charts: as JSON, in matplotlib, as files, and their colours."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb

from resultant.report import page, style
from resultant.report.charts import Axis, Chart, Mark, draw, level, numbers
from resultant.report.table import SHOWN, Column, Table


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


def test_marks_as_json_and_in_matplotlib(tmp_path: Path) -> None:
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
    chart = Chart("c", "C", "", plain, plain, (Mark("bars", [0, 1], [2, 3], width=0.5),))
    figure, again = draw(chart), draw(chart)
    bars: Any = figure.axes[0].patches
    assert [bar.get_height() for bar in bars] == [2.0, 3.0]
    files = style.save(figure, tmp_path / "new" / "a.b")
    assert [f.name for f in files] == ["a.b.pdf", "a.b.png"]
    before = files[0].read_bytes()
    assert before.startswith(b"%PDF") and files[1].read_bytes().startswith(b"\x89PNG")
    # No dates within: the same figure gives the same file.
    style.save(again, tmp_path / "new" / "a.b")
    assert files[0].read_bytes() == before


def contrast(*colours: str) -> float:
    """The contrast of WCAG 2: 1 for equal colours, 21 for black on white."""
    parts = np.array([to_rgb(colour) for colour in colours])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    low, high = sorted(linear @ (0.2126, 0.7152, 0.0722))
    return (high + 0.05) / (low + 0.05)


def test_marks_and_text_are_visible_on_light_and_dark() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    figures = pytest.importorskip("resultant_reproduction.cells.charts")
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
