"""Figures within a page are seen where it is light and where it is dark."""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
from matplotlib.colors import to_hex

from resultant.report import style
from resultant.report.page import inline_svg
from resultant_reproduction import ARTEFACTS, Evidence, Records, controls, historical
from resultant_reproduction.plan import official
from resultant_reproduction.theory import CHECKS
from training_records import record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Less than this is hardly seen. WCAG asks three of what must be, which orange and sky blue do not
# have on white.
LEAST = 2.0
# Less opaque faces are the ground of a line.
GROUND = 0.5


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return sum(w * v for w, v in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    """Of WCAG 2: 1 for the same, 21 for black on white."""
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def cards() -> tuple[str, str]:
    """What figures lie on: light, dark."""
    css = importlib.resources.files("resultant.report") / "templates" / "page.css"
    light, dark = re.findall(r"--card: (#[0-9a-f]{6})", css.read_text())
    return light, dark


def mixed(colour: str, opacity: float, card: str) -> str:
    """What is seen of a colour that lets a card through."""
    both = [[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in (colour, card)]
    parts = (opacity * a + (1 - opacity) * b for a, b in zip(*both, strict=True))
    return "#" + "".join(f"{round(v):02x}" for v in parts)


def painted(svg: str) -> set[tuple[str, float]]:
    """The colours of lines, faces and words, and how opaque they are; not those that follow the
    page, nor faces that an edge shows."""
    found = set()
    for element in ElementTree.fromstring(svg).iter():
        told = re.findall(r"([a-z-]+):\s*([^;]+)", element.get("style", ""))
        look = {**element.attrib, **dict(told)}
        edged = look.get("stroke", "none") != "none"
        for what in ("stroke",) if edged else ("fill",):
            colour = look.get(what, "")
            opacity = float(look.get("opacity", 1)) * float(look.get(f"{what}-opacity", 1))
            if colour.startswith("#") and opacity >= GROUND:
                found.add((colour.lower(), opacity))
    return found


def unseen(figure: Figure) -> set[str]:
    """Colours of a figure in a page that are not seen where it is light, or where it is dark."""
    return {
        colour
        for colour, opacity in painted(inline_svg(figure, "a"))
        for card in cards()
        if contrast(mixed(colour, opacity, card), card) < LEAST
    }


def test_measure() -> None:
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
    # Too dark, too light, too faint; and not the ground of something.
    assert unseen(figure) == {"#1a1a1a", "#ffffc0", style.ORANGE.lower()}


def trained() -> list[dict[str, Any]]:
    told: dict[str, Any] = {name: [0.3, 0.4] for name in ("gain_sd", "applied_gain_sd")}
    told["increment_error"] = [{"reduced": 8.0, "increased": 9.0}] * 2
    told |= {"epoch": [1, 200], "intercept_drift": [0.0, 0.1], "gradient_error": [4.0, 5.0]}
    point = {"exact": [1.0, 0.1], "leading": [1.1, 0.0]}
    told["increment_plane"] = [{"share": 1.0, "reduced": point, "increased": point}] * 2
    probes = {"long_tail": {"encoder": {"accuracy": 0.5}}}
    config = official("cifar100", 100, family="power")
    made = [
        record(config, *policy, seed, trajectory=told, probes=probes)
        for policy in historical.POLICIES.values()
        for seed in (0, 1)
    ]
    config = controls.control_config("c10-if50-u", "contrastive")
    more = (record(config, *policy, 0, trajectory=told) for policy in controls.POLICIES.values())
    return [*made, *more]


@pytest.mark.parametrize(
    "name",
    ["angular-training", "training-gain", "common-readouts", "c10-trajectory", "realization"],
)
def test_artefacts_on_both_cards(name: str) -> None:
    outcome = ARTEFACTS[name].compute(Evidence(Records(trained())))
    assert outcome.drawings
    for draw in outcome.drawings.values():
        assert unseen(draw()) == set()


@pytest.mark.parametrize(
    "name",
    [
        *("residual-orders", "error-transition", "ratio-remainder", "failure-state"),
        *("centered-remainder", "softmax-coupling", "boundary-factors", "prior-reversal"),
    ],
)
def test_checks_on_both_cards(name: str) -> None:
    draw: Callable[[], Figure] | None = CHECKS[name]().draw
    assert draw is not None and unseen(draw()) == set()


def test_maps_have_their_own_ground() -> None:
    """Words are seen on their cells, or on the card where there is none; else nothing but the ends
    of the scale is not seen, which are shades."""
    made = [
        record(controls.control_config(name, "contrastive"), *policy, 0, probes={"balanced": own})
        for name in ("c10-if10-u", "c10-if50-u", "c10-if100-u")
        for policy, value in zip(controls.POLICIES.values(), (0, 1, 3, 4, 5, 9, -4), strict=True)
        for own in ({s: {"accuracy": 0.5 + value / 100} for s in ("encoder", "projection")},)
    ]
    outcome = ARTEFACTS["c10-pure-complete"].compute(Evidence(Records(made)))
    figure = outcome.drawings["changes"]()
    lowest, number = 21.0, 0
    for ax in figure.axes[:2]:
        (image,) = ax.images
        values: Any = image.get_array()
        for text in ax.texts:
            x, y = map(round, text.get_position())
            if text.get_text() == "–":
                assert text.get_color() == style.GREY and values.mask[y, x]
                continue
            cell: Any = image.cmap(image.norm(values[y, x]))
            lowest = min(lowest, contrast(to_hex(text.get_color()), to_hex(cell)))
            number += 1
    assert number == 84 + 36 and lowest > 3
    ink = {controls.INK.lower(), "#ffffff"}
    assert unseen(figure) - ink == {"#053061", "#67001f"}


def test_black_follows_the_page() -> None:
    """Lines, and faces, of which matplotlib does not write that they are black."""
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
