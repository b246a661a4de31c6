"""The style of figures: visible colours on light and dark pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from matplotlib.colors import to_hex

from page_colours import LEAST, cards, contrast, unseen
from resultant.report import style
from resultant.report.page import inline_svg


def test_measure_of_visibility() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    light, dark = cards()
    assert contrast("#1a1a1a", dark) < LEAST < min(contrast(style.GREY, c) for c in (light, dark))
    with style.style():
        figure, (ax,) = style.panels()
        ax.plot([0, 1], color="#1a1a1a")
        ax.plot([1, 0], color="#ffffc0")
        ax.bar(0, 1, color=style.ORANGE, alpha=0.7)
        ax.bar(1, 1, color=style.BLUE, alpha=0.7)
        ax.fill_between([0, 1], [1, 1], color=style.SKY, alpha=0.2, lw=0)
    # Too dark, too light and too faint; the pale band is a background.
    assert unseen(figure) == {"#1a1a1a", "#ffffc0", style.ORANGE.lower()}


def test_black_follows_the_page() -> None:
    """Lines, and faces, whose black matplotlib omits."""
    with style.style():
        figure, (ax,) = style.panels()
        ax.bar([0, 1], [1, 2], color=style.BLACK)
        ax.plot([0, 1], [2, 1], "o-", color=style.BLACK)
    svg = inline_svg(figure, "a", 2.0)
    assert re.match(r'<svg [^>]*fill="currentColor"', svg) and "#000000" not in svg
    assert unseen(figure) == set()


def test_shades_on_light_and_dark() -> None:
    for n in (1, 2, 5, 9):
        for shade in map(to_hex, style.shades(n)):
            assert min(contrast(shade, card) for card in cards()) > LEAST


@pytest.mark.slow
def test_figure_files_are_whole(tmp_path: Path) -> None:
    with style.style():
        figure, (ax,) = style.panels()
        ax.plot([0, 1], [0, 1], label="line")
        style.legend_below(figure, ax)
    files = style.save(figure, tmp_path / "new" / "a.b")
    assert [f.name for f in files] == ["a.b.pdf", "a.b.png"]
    before = files[0].read_bytes()
    assert before.startswith(b"%PDF") and files[1].read_bytes().startswith(b"\x89PNG")
    # No dates within: the same figure gives the same file.
    style.save(figure, tmp_path / "new" / "a.b")
    assert files[0].read_bytes() == before

    def interrupted() -> None:
        with style.replacing(files[0]) as temporary:
            temporary.write_text("half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="full"):
        interrupted()
    assert files[0].read_bytes() == before
    assert sorted(f.name for f in files[0].parent.iterdir()) == ["a.b.pdf", "a.b.png"]


def test_style_is_left_behind() -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    with style.style():
        assert mpl.rcParams["axes.spines.top"] is False
    assert dict(mpl.rcParams) == before


def test_no_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install resultant\[report\]"):
        style.require()
