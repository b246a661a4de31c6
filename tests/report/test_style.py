"""The style of figures: visible colours on light and dark pages."""

from __future__ import annotations

import importlib.resources
import re
from pathlib import Path

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from resultant.report import style

# Colours below this contrast are hard to see. WCAG asks for 3, which orange and sky blue do not
# have on white.
LEAST = 2.0


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return sum(w * v for w, v in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    """The contrast of WCAG 2: 1 for equal colours, 21 for black on white."""
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def palettes() -> list[dict[str, str]]:
    """The colours of the page by name: light, dark."""
    css = importlib.resources.files("resultant.report") / "templates" / "page.css"
    roots = re.findall(r":root \{(.*?)\}", css.read_text(), re.DOTALL)
    return [dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", root)) for root in roots]


def test_marks_and_text_are_visible_on_light_and_dark() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    figures = pytest.importorskip("resultant_reproduction.figures")
    shades = [to_hex(shade) for n in (1, 2, 5, 9) for shade in figures.shades(n)]
    for palette in palettes():
        for colour in (*style.CYCLE, style.GREY, *shades):
            assert contrast(colour, palette["card"]) > LEAST
        for ground in ("page", "card", "hint", "good"):
            # WCAG: 4.5 for text.
            for ink in ("text", "soft", "link", "accent", "warn"):
                assert contrast(palette[ink], palette[ground]) > 4.5, (ink, ground)


@pytest.mark.slow
def test_figure_files_are_whole(tmp_path: Path) -> None:
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
