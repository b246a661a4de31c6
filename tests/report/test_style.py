"""The style of figures: visible colours on light and dark pages."""

from __future__ import annotations

import re

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
