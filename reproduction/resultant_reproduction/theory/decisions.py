"""Decisions: certificates and bounds of the cosine rule, and the factors that move a boundary."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from resultant.classes.cosines import cosines
from resultant.classes.gain import angular_gain
from resultant.classes.realization import Realization, class_scores, realize
from resultant.classes.rule import Rule
from resultant.classes.statistics import ClassState
from resultant.decisions.boundaries import (
    ArcRoots,
    displacement,
    displacement_error,
    short_arc_roots,
)
from resultant.decisions.certificates import Certificate, certificate, gradient_bound, loss_bound
from resultant.report import style
from resultant.theory.leading import joint_leading
from resultant.theory.score_expansion import joint_expansion
from resultant.theory.thresholds import posterior_thresholds
from resultant_reproduction.figures import Chart, Curve
from resultant_reproduction.theory.check import Check, Numbers, check, rounding
from resultant_reproduction.theory.realizations import (
    random_queries,
    random_state,
    tangent_loss_gradient,
)

TAU = 0.1

# kappa/nu of b and of the competitors in `Setting`.
OTHERS = 1.0


@check
def margin_certificate(
    certify: Callable[..., Certificate] = certificate, queries: int = 2000
) -> Check:
    """Check that angular scores and cosines agree on every certified query
    (prop:cosine-prediction-stability)."""
    rows = []
    for seed, (p, classes) in enumerate(((16, 5), (64, 100), (128, 20), (512, 50))):
        state = random_state(seed, classes, p, 0.1, 3.0)
        z, _ = random_queries(100 + seed, queries, state)
        result = certify(z, state, TAU)
        angular = class_scores(z, state, TAU, "angular", 0.0).argmax(-1)
        differ = angular != cosines(z, state.mu).argmax(-1)
        certified = result.certified
        rows.append({"p": p, "classes": classes, "certified": float(certified.double().mean())})
        wrong = int((differ & certified).sum())
        rows[-1] |= {"differ": int(differ.sum()), "certified_and_differ": wrong}
    wrong = sum(row["certified_and_differ"] for row in rows)
    differ = sum(row["differ"] for row in rows)
    share = sum(row["certified"] for row in rows) / len(rows)
    return Check(
        ours=f"{wrong} ({share:.0%} certified; {differ} of {len(rows) * queries} differ)",
        # Without any disagreement the certificate would not be tested.
        holds=wrong == 0 and differ > 0 and share > 0.1,
        details={"states": rows, "lambda": "uniform in [0.1, 3]", "tau": TAU, "queries": queries},
    )


@check
def stability_bounds(factor: float = 1.0, queries: int = 500) -> Check:
    """Check that losses and gradients of the two rules differ by at most 2 eps and
    2 gbar eps + 2 eta (prop:cosine-gradient-stability); ``factor`` scales the bounds."""
    largest = {"loss": 0.0, "gradient": 0.0}
    for seed, (p, classes) in enumerate(((16, 5), (128, 20), (512, 50))):
        state = random_state(seed, classes, p, 0.1, 3.0)
        z, y = random_queries(200 + seed, queries, state)
        scores = [
            lambda x, state=state, name=name: class_scores(x, state, TAU, name)
            for name in ("angular", "cosine")
        ]
        losses = [-f(z).log_softmax(-1).gather(1, y[:, None]).squeeze(1) for f in scores]
        gradients = [tangent_loss_gradient(z, y, f) for f in scores]
        ratios = {
            "loss": (losses[0] - losses[1]).abs() / loss_bound(z, y, state, TAU).bound,
            "gradient": (gradients[0] - gradients[1]).norm(dim=-1)
            / gradient_bound(z, y, state, TAU).bound,
        }
        for name, ratio in ratios.items():
            largest[name] = max(largest[name], float(ratio.max()) / factor)
    return Check(
        ours=f"{largest['loss']:.3f}, {largest['gradient']:.3f}",
        holds=max(largest.values()) <= 1,
        details={
            "states": "(p, C) = (16, 5), (128, 20), (512, 50); lambda uniform in [0.1, 3]",
            "tau": TAU,
            "queries": queries,
            "largest_over_bound": largest,
        },
    )


@dataclass(frozen=True)
class Truncated(Realization):
    """The joint expansion of native scores up to ``order`` (thm:joint-score-expansion)."""

    order: int = 2

    def at(self, rho: Tensor, classes: Tensor | None = None) -> Tensor:
        kappa, tau, shift = self.kappa, self.tau, self.shift
        assert tau is not None and shift is not None
        tau = tau.expand_as(kappa)
        if classes is not None:
            kappa, tau, shift = kappa[classes], tau[classes], shift[classes]
        p = self.mu.shape[1]
        return joint_expansion(rho, kappa, tau, p, self.order, validate_args=False) + shift


@dataclass(frozen=True)
class Setting:
    """Classes a and b at an angle in degrees, and competitors orthogonal to both."""

    tau: float = 0.1
    bias: float = 0.3  # b_a - b_b
    concentration: float = 1.2  # of a, over nu
    angle: float = 70.0
    classes: int = 10
    p: int = 130

    def rules(self) -> dict[str, Realization]:
        """Return the exact rule and its truncations."""
        mu = torch.eye(self.p, dtype=torch.float64)[: self.classes].clone()
        theta = math.radians(self.angle)
        mu[1, :2] = torch.tensor([math.cos(theta), math.sin(theta)])
        lam = torch.full((self.classes,), OTHERS, dtype=torch.float64)
        lam[0] = self.concentration
        offset = torch.zeros_like(lam)
        offset[0] = self.bias
        count = torch.ones(self.classes, dtype=torch.int64)
        state = ClassState(mu, (self.p / 2 - 1) * lam, count)
        exact = realize(state, Rule(self.tau, offset=offset))
        parts = (exact.mu, exact.kappa, exact.tau, None, offset)
        return {
            "exact": exact,
            "joint B0": joint_leading(state, Rule(self.tau, offset=offset)),
            "joint B2": Truncated(*parts),
        }


SWEEPS: dict[str, Numbers] = {
    "tau": tuple(0.05 * 1.19**k for k in range(9)),
    "bias": tuple(-1.5 + 0.375 * k for k in range(9)),
    "concentration": tuple(0.7 + 0.15 * k for k in range(9)),
    "angle": tuple(50.0 + 7.5 * k for k in range(9)),
    "classes": (2, 4, 8, 16, 24, 32, 48, 64),
}
AXES = {
    "tau": r"temperature $\tau$",
    "bias": "bias $b_a-b_b$",
    "concentration": r"concentration $\lambda_a$",
    "angle": "prototype angle (degrees)",
    "classes": "class count $C$",
}
ROOTS = {"pairwise": style.BLUE, "one-vs-rest": style.ORANGE}

Roots = Callable[[Realization, Tensor], ArcRoots]


def _pairwise(rule: Realization, pairs: Tensor) -> ArcRoots:
    return short_arc_roots(rule, pairs, exhaustive=True)


@check
def boundary_factors(
    pairwise: Roots = _pairwise,
    one_vs_rest: Roots = posterior_thresholds,
    sweeps: Mapping[str, Numbers] = SWEEPS,
) -> Check:
    """Check that temperature, bias, concentration and angle move both boundaries on the short arc,
    and the class count only the one-vs-rest boundary (fig:factor-app).

    Positions are fractions u/theta of the arc. The move by a factor is the range of positions over
    its sweep.
    """
    pair = torch.tensor([[0, 1]])
    solvers = {"pairwise": pairwise, "one-vs-rest": one_vs_rest}
    positions: dict[str, dict[str, dict[str, list[float]]]] = {}
    for factor, values in sweeps.items():
        curves: dict[str, dict[str, list[float]]] = {name: {} for name in solvers}
        for value in values:
            for kind, rule in replace(Setting(), **{factor: value}).rules().items():
                for name, solve in solvers.items():
                    roots = solve(rule, pair)
                    curves[name].setdefault(kind, []).append(float(roots.root / roots.theta))
        positions[factor] = curves
    moves = {
        factor: {name: _range(curves[name]["exact"]) for name in solvers}
        for factor, curves in positions.items()
    }
    errors = {
        kind: max(
            abs(a - b)
            for curves in positions.values()
            for curve in curves.values()
            for a, b in zip(curve[kind], curve["exact"], strict=True)
            if not math.isnan(a - b)
        )
        for kind in ("joint B0", "joint B2")
    }
    four = [moves[factor][name] for factor in sweeps if factor != "classes" for name in solvers]
    still, moved = (moves["classes"][name] for name in solvers)
    holds = min(four) > 0.02 and still < 1e-12 and moved > 0.02
    holds = holds and errors["joint B2"] < errors["joint B0"] / 5

    def panels() -> list[Chart]:
        looks = {"exact": ("-", 1.3), "joint B0": ("--", 1.3), "joint B2": (":", 2.5)}
        charts = []
        for factor, curves in positions.items():
            lines = [
                Curve(
                    *(sweeps[factor], curves[name][kind], dash, f"{name}, {kind}", colour),
                    more={"lw": wide},
                )
                for name, colour in ROOTS.items()
                for kind, (dash, wide) in looks.items()
            ]
            ylabel = r"boundary $u/\theta$" if len(charts) % 3 == 0 else ""
            charts.append(Chart(lines, AXES[factor], ylabel, more={"ylim": (0, 1)}))
        return charts

    return Check(
        ours=f"{min(four):.3f}; {rounding(still)}, {moved:.3f}",
        holds=holds,
        details={
            "base": vars(Setting()),
            "sweeps": dict(sweeps),
            "others": f"lambda {OTHERS:g}, directions orthogonal to a and b",
            "moves": moves,
            "largest_error": errors,
            "positions": positions,
        },
        panels=panels,
        layout={"columns": 3, "width": 2.9, "height": 2.5},
    )


def _range(values: list[float]) -> float:
    known = [v for v in values if not math.isnan(v)]
    return max(known) - min(known) if known else 0.0


@check
def boundary_motion(leading: Callable[..., Realization] = joint_leading) -> Check:
    """Check that equal gains put the boundary at theta/2, that equalizing moves it toward the
    prototype of the larger gain (sec:softmax-geometry), and that leading scores predict the
    displacement (fig:main-boundaries)."""
    p, tau, classes = 128, 0.5, 24
    state = random_state(21, classes, p, 0.6, 3.0)
    rules = [
        [make(state, Rule(tau, name)) for name in ("native", "temperature")]
        for make in (realize, leading)
    ]
    exact, guess = ([short_arc_roots(rule) for rule in pair] for pair in rules)
    # Equal gains and no intercepts.
    middle = short_arc_roots(realize(state, Rule(tau, "cosine")))
    moved, predicted = (displacement(*roots) for roots in (exact, guess))
    error = displacement_error(moved, predicted)
    g = angular_gain(state, tau)
    a, b = torch.triu_indices(classes, classes, 1)
    # Toward a, the prototype at u = 0, if a has the larger gain.
    right = (moved.shift < 0) == (g[a] > g[b])
    toward = float(right[moved.displaced].double().mean())
    centred = float((middle.root / middle.theta - 0.5).abs().max())

    def panels() -> list[Chart]:
        both = moved.displaced & predicted.displaced
        x, y = moved.shift[both].rad2deg(), predicted.shift[both].rad2deg()
        reach = 1.05 * float(x.abs().max())
        curves = [
            Curve((-reach, reach), (-reach, reach), "--", "equal", style.GREY),
            Curve(x, y, ".", f"{len(x)} pairs", style.BLUE),
        ]
        labels = "exact displacement (degrees)", "leading displacement (degrees)"
        return [Chart(curves, *labels, "Equalizing the gains moves boundaries")]

    return Check(
        ours=f"{error.same_direction:.0%}; {toward:.0%}; {error.mean_absolute:.3f} degrees",
        holds=error.same_direction == 1 and toward == 1 and centred < 1e-9,
        details={
            "state": {"classes": classes, "p": p, "lambda": "uniform in [0.6, 3]", "seed": 21},
            "tau": tau,
            "error": error._asdict(),
            "changes": moved.tally(),
            "equal_gains_from_the_middle": centred,
        },
        panels=panels,
        layout={"width": 3.8, "height": 3.4},
    )
