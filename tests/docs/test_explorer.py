"""The explorer of the site, driven in a browser and compared with the library."""

from __future__ import annotations

import json
import math
import warnings
from typing import Any

import pytest
import torch

from browser import Browser
from resultant import (
    ClassState,
    Rule,
    certificate,
    joint_expansion,
    mean_resultant,
    realize,
    short_arc_roots,
    vmf_score,
    vmf_score_slope,
)

# Positions of the controls: realization, beta, and sliders from 0 to 1 or in degrees.
MOVES = [
    ("angular", 0.0, {}),
    ("temperature", 0.5, {"tau": 0.3, "kappa1": 0.4}),
    ("preserve", 0.25, {"p": 0.1, "kappa2": 0.5}),
    ("cosine", 0.0, {"angle": 120, "p": 0.9}),
    ("native", 1.0, {"kappa1": 0.7, "angle": 40}),
]
PROBE = """((moves) => {
  const root = document.getElementById("explorer");
  const moved = moves.map(([realization, beta, sliders]) => {
    for (const [name, x] of Object.entries({ realization, beta, ...sliders }))
      root.querySelector(`[name=${name}]`).value = x;
    root.dispatchEvent(new Event("input"));
    return JSON.parse(root.dataset.result);
  });
  const points = [];
  for (const p of [3, 17, 128, 4096]) for (const kappa of [1, 40, 5000])
    for (const tau of [0.02, 1]) for (const rho of [-1, -0.3, 0.5, 1])
      points.push([p, kappa, tau, rho, vmf.score(rho, kappa, tau, p), vmf.slope(rho, kappa, tau, p),
                   vmf.resultant(kappa, p), vmf.expansion(rho, kappa, tau, p)]);
  return { moved, points };
})"""


@pytest.fixture(scope="module")
def seen(page: Browser) -> dict[str, Any]:
    answer = page.js(f"{PROBE}({json.dumps(MOVES)})")
    assert page.errors == []
    return answer


@pytest.mark.slow
def test_functions_equal_the_library(seen: dict[str, Any]) -> None:
    assert len(seen["points"]) == 96
    for p, kappa, tau, rho, *values in seen["points"]:
        numbers = torch.tensor([rho, kappa, tau], dtype=torch.float64)
        at = numbers[0], numbers[1], numbers[2]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the expansion outside its range
            expansion = joint_expansion(*at, p)
        exact = (vmf_score(*at, p), vmf_score_slope(*at, p), mean_resultant(p, at[1]), expansion)
        assert values == pytest.approx([float(x) for x in exact], rel=1e-9, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("index", range(len(MOVES)))
def test_moved_controls_equal_the_library(seen: dict[str, Any], index: int) -> None:
    realization, beta, _ = MOVES[index]
    result = seen["moved"][index]
    s = result["settings"]
    assert (s["realization"], s["beta"]) == (realization, beta)
    p, angle = s["p"], math.radians(s["angle"])
    mu = torch.zeros(2, p, dtype=torch.float64)
    mu[0, 0], mu[1, 0], mu[1, 1] = 1, math.cos(angle), math.sin(angle)
    kappa = torch.tensor([s["kappa1"], s["kappa2"]], dtype=torch.float64)
    state = ClassState(mu, kappa, torch.ones(2))
    native, edited = (realize(state, Rule(s["tau"], r, beta)) for r in ("native", realization))
    gains = [*native.gain().tolist(), *edited.gain().tolist()]
    assert [result[k] for k in ("gain1", "gain2", "edited1", "edited2")] == pytest.approx(
        gains, 1e-9
    )
    for name, rule in (("before", native), ("after", edited)):
        root = float(short_arc_roots(rule).root.rad2deg())
        assert (result[name] is None and math.isnan(root)) or result[name] == pytest.approx(
            root, 1e-7
        )
    u = torch.linspace(0, angle, 121, dtype=torch.float64)
    z = torch.zeros(121, p, dtype=torch.float64)
    z[:, 0], z[:, 1] = u.cos(), u.sin()
    assert result["certified"] == pytest.approx(100 * certificate(z, state, s["tau"]).coverage)


@pytest.mark.slow
def test_controls_move_the_boundary(seen: dict[str, Any]) -> None:
    """The start of the page is the picture of the README: 11.65 to 42.05 degrees."""
    assert seen["moved"][0]["before"] == pytest.approx(11.645, abs=0.01)
    assert seen["moved"][0]["after"] == pytest.approx(42.05, abs=0.01)
    assert len({r["after"] for r in seen["moved"]}) == len(MOVES)
