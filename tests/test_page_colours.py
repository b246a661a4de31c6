"""Figures within a page are seen where it is light and where it is dark."""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from resultant import figures
from resultant.paper import ARTEFACTS, Evidence, Records, controls, historical
from resultant.paper.plan import official
from resultant.report.page import inline_svg
from resultant.verify import CHECKS
from training_records import record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Less than this is not seen; WCAG asks three of what must be.
LEAST = 1.3


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


def unseen(figure: Figure) -> set[str]:
    """Colours of a figure in a page that are not seen where it is dark."""
    svg = inline_svg(figure, "a")
    return {c for c in re.findall(r"#[0-9a-f]{6}\b", svg) if contrast(c, cards()[1]) < LEAST}


def test_measure() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#1a1a1a", cards()[1]) < LEAST < contrast(figures.GREY, cards()[1])


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
    "name", ["training-gain", "common-readouts", "c10-trajectory", "realization"]
)
def test_artefacts_in_the_dark(name: str) -> None:
    outcome = ARTEFACTS[name].compute(Evidence(Records(trained())))
    assert outcome.drawings
    for draw in outcome.drawings.values():
        assert unseen(draw()) == set()


@pytest.mark.parametrize(
    "name", ["residual-orders", "error-transition", "ratio-remainder", "failure-state"]
)
def test_checks_in_the_dark(name: str) -> None:
    draw: Callable[[], Figure] | None = CHECKS[name]().draw
    assert draw is not None and unseen(draw()) == set()


def test_maps_have_their_own_ground() -> None:
    """Dark ink is on shaded cells alone; the ends of the scale are shades."""
    outcome = ARTEFACTS["c10-pure-complete"].compute(Evidence(Records()))
    svg = inline_svg(outcome.drawings["changes"](), "a")
    said = re.findall(rf"fill: {controls.INK.lower()}[^>]*>([^<]+)<", svg)
    assert len(said) > 50 and "–" not in said
    assert unseen(outcome.drawings["changes"]()) == {controls.INK.lower(), "#053061", "#67001f"}


def test_black_follows_the_page() -> None:
    """Lines, and faces, of which matplotlib does not write that they are black."""
    with figures.style():
        figure, (ax,) = figures.panels()
        ax.bar([0, 1], [1, 2], color=figures.BLACK)
        ax.plot([0, 1], [2, 1], "o-", color=figures.BLACK)
    svg = inline_svg(figure, "a", 2.0)
    assert re.match(r'<svg [^>]*fill="currentColor"', svg) and "#000000" not in svg
    assert unseen(figure) == set()


def test_shades_on_light_and_dark() -> None:
    import matplotlib.colors

    for n in (1, 2, 5, 9):
        for shade in map(matplotlib.colors.to_hex, figures.shades(n)):
            assert min(contrast(shade, card) for card in cards()) > LEAST
