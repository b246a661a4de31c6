"""Decisions: certificates and bounds of the cosine rule, and the factors that move a boundary."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from resultant.classes.gain import angular_gain
from resultant.classes.rule import Rule
from resultant.classes.scores import ClassScores, class_scores, cosines, realize
from resultant.classes.statistics import ClassState
from resultant.decisions.boundaries import displacement, short_arc_roots
from resultant.decisions.certificates import Certificate, certificate, gradient_bound, loss_bound
from resultant.report import style
from resultant.theory.score_expansion import joint_expansion
from resultant.theory.softmax import joint_leading, posterior_thresholds
from resultant_reproduction.cells.charts import Curve
from resultant_reproduction.theory import check as shared
from resultant_reproduction.theory.check import Finding, check
from resultant_reproduction.theory.displacement import displacement_error
from resultant_reproduction.theory.identities import tangent_loss_gradient


@check
def margin_certificate(at: Any, certify: Callable[..., Certificate] = certificate) -> Finding:
    """Check that angular scores and cosines agree on every certified query."""
    rows = []
    for seed, (p, classes) in enumerate(at.states):
        state = shared.random_state(seed, classes, p, at.lam)
        z, _ = shared.random_queries(100 + seed, at.queries, state)
        certified = certify(z, state, at.tau).certified
        angular = class_scores(z, state, at.tau, "angular", 0.0).argmax(-1)
        differ = angular != cosines(z, state.mu).argmax(-1)
        counts = {"differ": int(differ.sum()), "wrong": int((differ & certified).sum())}
        rows.append({"p": p, "certified": float(certified.double().mean()), **counts})
    wrong, differ, certified = (
        sum(r[key] for r in rows) for key in ("wrong", "differ", "certified")
    )
    share = certified / len(rows)
    # Without any disagreement the certificate would not be tested.
    holds = wrong == 0 and differ > 0 and share > 0.1
    return Finding((wrong, share, differ, len(rows) * at.queries), {"by_state": rows}, holds)


@check
def stability_bounds(at: Any, factor: float = 1.0) -> Finding:
    """Check that both bounds of the cosine rule hold, and are 2 epsilon and 2 gbar epsilon + 2 eta
    with the residuals and slopes of every query; ``factor`` scales the bounds."""
    gaps = [0.0]

    def ratios() -> Iterator[dict[str, Tensor]]:
        for seed, (p, classes) in enumerate(at.states):
            state = shared.random_state(seed, classes, p, at.lam)
            z, y = shared.random_queries(200 + seed, at.queries, state)
            scores = [
                lambda x, state=state, name=name: class_scores(x, state, at.tau, name)
                for name in ("angular", "cosine")
            ]
            losses = [cross_entropy(f(z), y, reduction="none") for f in scores]
            gradients = [tangent_loss_gradient(z, y, f) for f in scores]
            change = (gradients[0] - gradients[1]).norm(dim=-1)
            of_loss, of_gradient = (
                factor * bound(z, y, state, at.tau).bound for bound in (loss_bound, gradient_bound)
            )
            epsilon, eta, gbar = residuals(z, state, at.tau)
            for bound, formula in (
                (of_loss, 2 * epsilon),
                (of_gradient, 2 * gbar * epsilon + 2 * eta),
            ):
                gaps.append(float((bound / formula - 1).abs().max()))
            yield {"loss": (losses[0] - losses[1]) / of_loss, "gradient": change / of_gradient}

    worst = shared.largest(ratios())
    holds = max(worst.values()) <= 1 and max(gaps) < 1e-8
    values = (*worst.values(), "< 1e-8" if max(gaps) < 1e-8 else f"{max(gaps):.0e}")
    return Finding(values, {"largest_over_bound": worst, "formula": max(gaps)}, holds)


def residuals(z: Tensor, state: ClassState, tau: float) -> tuple[Tensor, Tensor, float]:
    """Return the largest residual of angular and cosine scores over classes [N], the largest slope
    of a residual in its cosine [N], by central differences, and the mean gain."""
    gbar = float(angular_gain(state, tau).mean())
    rule = realize(state, Rule(tau, "angular", 0.0))
    rho, step = cosines(z, state.mu), 1e-4
    delta = rule.at(rho) - gbar * rho
    slope = (rule.at(rho + step) - rule.at(rho - step)) / (2 * step) - gbar
    return delta.abs().amax(-1), slope.abs().amax(-1), gbar


@dataclass(frozen=True)
class Truncated(ClassScores):
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


def _rules(factors: Mapping[str, float]) -> dict[str, ClassScores]:
    """Return the exact rule and its truncations of classes a, b and orthogonal competitors."""
    p, classes, tau = int(factors["p"]), int(factors["classes"]), factors["tau"]
    mu = torch.eye(p, dtype=torch.float64)[:classes].clone()
    theta = math.radians(factors["angle"])
    mu[1, :2] = torch.tensor([math.cos(theta), math.sin(theta)])
    lam = torch.ones(classes, dtype=torch.float64)
    lam[0] = factors["concentration"]
    offset = torch.zeros_like(lam)
    offset[0] = factors["bias"]
    state = ClassState(mu, (p / 2 - 1) * lam, torch.ones(classes, dtype=torch.int64))
    rule = Rule(tau, offset=offset)
    exact = realize(state, rule)
    expanded = Truncated(exact.mu, exact.kappa, exact.tau, None, offset)
    return {"exact": exact, "joint B0": joint_leading(state, rule), "joint B2": expanded}


ROOTS = {"pairwise": style.BLUE, "one-vs-rest": style.ORANGE}

Roots = Callable[[ClassScores, Tensor], Any]
all_roots = partial(short_arc_roots, exhaustive=True)


@check
def boundary_factors(
    at: Any, pairwise: Roots = all_roots, one_vs_rest: Roots = posterior_thresholds
) -> Finding:
    """Check which factors move boundaries, as fractions u/theta of the short arc."""
    solvers = dict(zip(ROOTS, (pairwise, one_vs_rest), strict=True))
    positions: dict[str, dict[str, dict[str, list[float]]]] = {}
    for factor, values in at.sweeps.items():
        curves = positions[factor] = {name: {} for name in solvers}
        for value, (name, solve) in product(values, solvers.items()):
            for kind, rule in _rules(at.base | {factor: value}).items():
                roots = solve(rule, torch.tensor([[0, 1]]))
                curves[name].setdefault(kind, []).append(float(roots.root / roots.theta))
    moves: dict[str, dict[str, float]] = {}
    for factor, curves in positions.items():
        known = {n: [v for v in c["exact"] if not math.isnan(v)] for n, c in curves.items()}
        moves[factor] = {
            n: max(own, default=0.0) - min(own, default=0.0) for n, own in known.items()
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
    least = min(v for factor, own in moves.items() if factor != "classes" for v in own.values())
    still, moved = moves["classes"].values()
    holds = least > 0.02 and still < 1e-12 and moved > 0.02
    holds = holds and errors["joint B2"] < errors["joint B0"] / 5

    def panels() -> list[Any]:
        looks = {"exact": ("-", 1.3), "joint B0": ("--", 1.3), "joint B2": (":", 2.5)}
        return [
            [
                Curve(x, curves[name][kind], dash, f"{name}, {kind}", colour, more={"lw": wide})
                for name, colour in ROOTS.items()
                for kind, (dash, wide) in looks.items()
            ]
            for x, curves in zip(at.sweeps.values(), positions.values(), strict=True)
        ]

    details = {"moves": moves, "largest_error": errors, "positions": positions}
    return Finding((least, shared.rounding(still), moved), details, holds, panels)


@check
def boundary_motion(at: Any, leading: Callable[..., ClassScores] = joint_leading) -> Finding:
    """Check that equal gains put the boundary at theta/2, and its predicted motion."""
    state = shared.random_state(at.seed, at.classes, at.p, at.lam)
    moved, predicted = (
        displacement(
            *(short_arc_roots(make(state, Rule(at.tau, n))) for n in ("native", "temperature"))
        )
        for make in (realize, leading)
    )
    # Equal gains and no intercepts.
    middle = short_arc_roots(realize(state, Rule(at.tau, "cosine")))
    error = displacement_error(moved, predicted)
    g = angular_gain(state, at.tau)
    a, b = torch.triu_indices(at.classes, at.classes, 1)
    # Toward a, the prototype at u = 0, if a has the larger gain.
    right = (moved.shift < 0) == (g[a] > g[b])
    toward = float(right[moved.displaced].double().mean())
    centred = float((middle.root / middle.theta - 0.5).abs().max())

    details = {"error": error._asdict(), "changes": moved.tally()}
    details["equal_gains_from_the_middle"] = centred
    values = error.same_direction, toward, error.mean_absolute
    return Finding(values, details, values[:2] == (1, 1) and centred < 1e-9)
