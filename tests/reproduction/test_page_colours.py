"""Figures of the reproduction on light and dark pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from matplotlib.colors import to_hex

from page_colours import contrast, unseen
from resultant.report import style
from resultant_reproduction import ARTEFACTS, Evidence, Records, controls, historical
from resultant_reproduction.figures import INK
from resultant_reproduction.plan import official
from training_records import record

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def trained() -> list[dict[str, Any]]:
    facts: dict[str, Any] = {name: [0.3, 0.4] for name in ("gain_sd", "applied_gain_sd")}
    facts["increment_error"] = [{"reduced": 8.0, "increased": 9.0}] * 2
    facts |= {"epoch": [1, 200], "intercept_drift": [0.0, 0.1], "gradient_error": [4.0, 5.0]}
    point = {"exact": [1.0, 0.1], "leading": [1.1, 0.0]}
    facts["increment_plane"] = [{"share": 1.0, "reduced": point, "increased": point}] * 2
    probes = {"long_tail": {"encoder": {"accuracy": 0.5}}}
    config = official("cifar100", 100, family="power")
    records = [
        record(config, *policy, seed, trajectory=facts, probes=probes)
        for policy in historical.POLICIES.values()
        for seed in (0, 1)
    ]
    config = controls.control_config("c10-if50-u", "contrastive")
    more = (record(config, *policy, 0, trajectory=facts) for policy in controls.POLICIES.values())
    return [*records, *more]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["angular-training", "training-gain", "common-readouts", "c10-trajectory", "realization"],
)
def test_tables_and_figures(name: str) -> None:
    outcome = ARTEFACTS[name].compute(Evidence(Records(trained())))
    assert outcome.drawings
    for draw in outcome.drawings.values():
        assert unseen(draw()) == set()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *("residual-orders", "error-transition", "ratio-remainder", "failure-state"),
        *("centered-remainder", "softmax-coupling", "boundary-factors", "prior-reversal"),
    ],
)
def test_checks(name: str, evidence: Evidence) -> None:
    draw: Callable[[], Figure] | None = evidence.check(name).draw
    assert draw is not None and unseen(draw()) == set()


@pytest.mark.slow
def test_numbers_of_a_heat_map() -> None:
    """Numbers are visible on their cells, or on the page if there is no cell. Only the ends of the
    scale are too dark for a page, and those are backgrounds."""
    records = [
        record(controls.control_config(name, "contrastive"), *policy, 0, probes={"balanced": own})
        for name in ("c10-if10-u", "c10-if50-u", "c10-if100-u")
        for policy, value in zip(controls.POLICIES.values(), (0, 1, 3, 4, 5, 9, -4), strict=True)
        for own in ({s: {"accuracy": 0.5 + value / 100} for s in ("encoder", "projection")},)
    ]
    outcome = ARTEFACTS["c10-pure-complete"].compute(Evidence(Records(records)))
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
    ink = {INK.lower(), "#ffffff"}
    assert unseen(figure) - ink == {"#053061", "#67001f"}
