"""The explorer and the movable pictures of the theory, in a browser, against the library."""

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import resultant
from browser import Browser

Values = dict[str, float]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:joint_expansion is meant"),
    pytest.mark.filterwarnings("ignore:fixed_expansion is meant"),
]


def number(x: Any) -> torch.Tensor:
    return torch.tensor(x, dtype=torch.float64)


RHO = torch.linspace(-1, 1, 121, dtype=torch.float64)


def pair(s: Values) -> resultant.ClassState:
    p, angle = int(s["p"]), math.radians(s["angle"])
    mu = torch.zeros(2, p, dtype=torch.float64)
    mu[0, 0], mu[1, 0], mu[1, 1] = 1, math.cos(angle), math.sin(angle)
    return resultant.ClassState(mu, number([s["kappa1"], s["kappa2"]]), torch.ones(2))


def edited(s: Values, realization: str, beta: float) -> Any:
    return resultant.realize(pair(s), resultant.Rule(s["tau"], realization, beta))


def root(s: Values, realization: str, beta: float) -> float:
    """Return the boundary on the short arc in degrees."""
    return float(resultant.short_arc_roots(edited(s, realization, beta)).root.rad2deg())


def queries(p: int, angles: torch.Tensor) -> torch.Tensor:
    z = torch.zeros(len(angles), p, dtype=torch.float64)
    z[:, 0], z[:, 1] = angles.cos(), angles.sin()
    return z


def gain(s: Values, p: int) -> Values:
    nu = p / 2 - 1
    parts = resultant.decompose(RHO, number(nu * s["lambda"]), number(s["tau"]), p)
    most = float(parts.remainder.abs().max())
    return {"gain": float(parts.gain), "remainder": most, "scaled": nu * most}


def bregman(s: Values, p: int) -> Values:
    kappa = (p / 2 - 1) * s["lambda"]
    line = RHO * resultant.mean_resultant(p, number(kappa)) / s["tau"]
    divergence = resultant.vmf_score(RHO, number(kappa), number(s["tau"]), p) - line
    return {"least": float(divergence.min()), "most": float(divergence.max())}


def errors(expand: Callable[..., torch.Tensor], kappa: float, s: Values, p: int) -> Values:
    at = number(s["rho"]), number(kappa), number(s["tau"])
    exact = resultant.vmf_score(*at, p)
    terms = {"zero": 0, "one": 1, "two": 2}
    return {name: float(abs(expand(*at, p, k) - exact)) for name, k in terms.items()}


def fixed(s: Values, p: int) -> Values:
    return errors(resultant.fixed_expansion, s["kappa"], s, p)


def joint(s: Values, p: int) -> Values:
    return errors(resultant.joint_expansion, (p / 2 - 1) * s["lambda"], s, p)


def boundary(s: Values, p: int) -> Values:
    names = ("angular", "preserve", "temperature")
    return {name: root(s, name, s["beta"]) for name in names}


def transition(s: Values, p: int) -> Values:
    cosine = math.cos(math.radians(s["angle"]))
    model = resultant.BinaryModel(s["lambdaH"], s["lambdaT"], cosine, b_h=s["delta"])
    return {"margin": model.typical_margins.t, **model.errors(p)._asdict()}


def certificate(s: Values, p: int) -> Values:
    z = queries(p, torch.linspace(0, math.radians(s["angle"]), 121, dtype=torch.float64))
    share = 100 * resultant.certificate(z, pair(s), s["tau"]).coverage
    return {"certified": share, "boundary": root(s, "angular", 0.0), "middle": s["angle"] / 2}


def stability(s: Values, p: int) -> Values:
    z = queries(p, number([s["u"] * math.radians(s["angle"])]))
    found = [
        f(z, torch.tensor([0]), pair(s), s["tau"])
        for f in (resultant.loss_bound, resultant.gradient_bound)
    ]
    values = [float(x) for b in found for x in (b.difference, b.bound)]
    return dict(zip(("loss", "lossBound", "gradient", "gradientBound"), values, strict=True))


def propagation(s: Values, p: int) -> Values:
    rho, kappa = number([s["rho1"], s["rho2"]]), number([s["lambda1"], s["lambda2"]])
    at = rho, (p / 2 - 1) * kappa, number(s["tau"])
    b0, b1, b2 = resultant.joint_terms(*at, p)
    return {
        "exact": float(resultant.vmf_score(*at, p).softmax(0)[0]),
        "second": float(resultant.propagate_probabilities(b0, b1, b2, p)[0]),
        "alone": float(resultant.propagate_probabilities(b0, b1, b2, p, variance=False)[0]),
    }


def ratio(s: Values, p: int) -> Values:
    nu = number(s["nu"])
    x = torch.linspace(-math.log(30), math.log(30), 241, dtype=torch.float64).exp() * nu
    most = float((resultant.bessel_ratio(nu, x) - resultant.ratio_approximation(nu, x)).abs().max())
    return {"bound": float(nu**-3), "most": most, "share": most * float(nu**3)}


def crossfit(s: Values, p: int) -> Values:
    nu, tau = p / 2 - 1, s["tau"]
    kappa = nu * number([s["lambda1"], s["lambda2"]])
    A = resultant.mean_resultant(p, kappa)
    reference = float(A.mean())
    after = resultant.vmf_score(RHO[:, None], kappa, tau * A / reference, p)
    distance = float((after - RHO[:, None] * reference / tau).abs().max())
    length = resultant.expected_square_resultant(A[0], number(s["n"])).sqrt()
    return {
        "distance": distance,
        "scaled": nu * distance,
        "biased": float(reference / tau * A[0] / length),
        "gain": reference / tau,
    }


PICTURES = (gain, bregman, fixed, joint, boundary, transition, certificate)
PICTURES += (stability, propagation, ratio, crossfit)
EXPECTED = {picture.__name__: picture for picture in PICTURES}


def test_every_statement_has_a_picture(page: Browser) -> None:
    forms = "document.querySelectorAll('form.tour')"
    assert page.js(f"[...{forms}].map((form) => form.dataset.picture)") == list(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_picture_equals_the_library(page: Browser, name: str) -> None:
    """At the start, and with every slider moved."""
    form = f"document.querySelector('form[data-picture={name}]')"
    move = f"""(() => {{ for (const input of {form}.querySelectorAll('input')) {{
        const [low, high] = [Number(input.min), Number(input.max)];
        input.value = Number(input.value) + 0.2 * (high - Number(input.value)) - 0.1 * (high - low);
        input.dispatchEvent(new Event('input', {{ bubbles: true }})); }} }})()"""
    before = page.js(f"{form}.querySelector('path.curve').getAttribute('d')")
    seen = [json.loads(page.js(f"{form}.dataset.result"))]
    page.js(move)
    seen.append(json.loads(page.js(f"{form}.dataset.result")))
    assert page.errors == []
    assert page.js(f"{form}.querySelector('path.curve').getAttribute('d')") != before
    assert seen[0]["settings"] != seen[1]["settings"]
    for one in seen:
        s = one["settings"]
        exact = EXPECTED[name](s, int(s.get("p", 0)))
        assert one["results"] == pytest.approx(exact, rel=1e-6, abs=1e-9, nan_ok=True)


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


def test_functions_equal_the_library(seen: dict[str, Any]) -> None:
    assert len(seen["points"]) == 96
    for p, kappa, tau, rho, *values in seen["points"]:
        at = number(rho), number(kappa), number(tau)
        scores = (resultant.vmf_score, resultant.vmf_score_slope, resultant.joint_expansion)
        q, slope, expansion = (float(function(*at, p)) for function in scores)
        expected = [q, slope, float(resultant.mean_resultant(p, at[1])), expansion]
        assert values == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("index", range(len(MOVES)))
def test_moved_controls_equal_the_library(seen: dict[str, Any], index: int) -> None:
    realization, beta, _ = MOVES[index]
    result = seen["moved"][index]
    s = result["settings"]
    assert (s["realization"], s["beta"]) == (realization, beta)
    rules = {"before": "native", "after": realization}
    gains = [g for rule in rules.values() for g in edited(s, rule, beta).gain().tolist()]
    shown = [result[name] for name in ("gain1", "gain2", "edited1", "edited2")]
    assert shown == pytest.approx(gains, 1e-9)
    for name, rule in rules.items():
        value = math.nan if result[name] is None else result[name]
        assert value == pytest.approx(root(s, rule, beta), 1e-7, nan_ok=True)
    assert result["certified"] == pytest.approx(certificate(s, s["p"])["certified"])


def test_controls_move_the_boundary(seen: dict[str, Any]) -> None:
    """The start of the page is the picture of the README: 11.65 to 42.05 degrees."""
    assert seen["moved"][0]["before"] == pytest.approx(11.645, abs=0.01)
    assert seen["moved"][0]["after"] == pytest.approx(42.05, abs=0.01)
    assert len({r["after"] for r in seen["moved"]}) == len(MOVES)
