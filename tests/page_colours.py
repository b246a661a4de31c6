"""Contrast of the colours of a figure with the light and the dark background of a page."""

from __future__ import annotations

import importlib.resources
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from resultant.report.page import inline_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colours below this contrast are hard to see. WCAG asks for 3, which orange and sky blue do not
# have on white.
LEAST = 2.0
# Faces that are less opaque are the background of a line.
GROUND = 0.5


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return sum(w * v for w, v in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    """The contrast of WCAG 2: 1 for equal colours, 21 for black on white."""
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def cards() -> tuple[str, str]:
    """The backgrounds of figures: light, dark."""
    css = importlib.resources.files("resultant.report") / "templates" / "page.css"
    light, dark = re.findall(r"--card: (#[0-9a-f]{6})", css.read_text())
    return light, dark


def mixed(colour: str, opacity: float, card: str) -> str:
    """A colour of some opacity on a background."""
    both = [[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in (colour, card)]
    parts = (opacity * a + (1 - opacity) * b for a, b in zip(*both, strict=True))
    return "#" + "".join(f"{round(v):02x}" for v in parts)


def painted(svg: str) -> set[tuple[str, float]]:
    """The colours of lines, faces and texts with their opacity; without the colours that follow
    the page, and without faces that have an edge."""
    colours = set()
    for element in ElementTree.fromstring(svg).iter():
        pairs = re.findall(r"([a-z-]+):\s*([^;]+)", element.get("style", ""))
        look = {**element.attrib, **dict(pairs)}
        edged = look.get("stroke", "none") != "none"
        for what in ("stroke",) if edged else ("fill",):
            colour = look.get(what, "")
            opacity = float(look.get("opacity", 1)) * float(look.get(f"{what}-opacity", 1))
            if colour.startswith("#") and opacity >= GROUND:
                colours.add((colour.lower(), opacity))
    return colours


def unseen(figure: Figure) -> set[str]:
    """Colours of a figure that are hard to see on a light or on a dark page."""
    return {
        colour
        for colour, opacity in painted(inline_svg(figure, "a"))
        for card in cards()
        if contrast(mixed(colour, opacity, card), card) < LEAST
    }
