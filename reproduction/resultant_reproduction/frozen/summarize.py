"""Parts of records: summaries of a frozen analysis, and gradient increments during training
(sec:historical-gradient)."""

from typing import Any

import torch
from torch import Tensor

from resultant.analysis.metrics import plain
from resultant.classes.rule import REALIZATIONS, Rule
from resultant.classes.scores import realize
from resultant.classes.statistics import ClassState
from resultant.decisions.gradients import loss_gradient, mean_relative_error, stacked_relative_error
from resultant_reproduction.cifar.stack import Stack
from resultant_reproduction.frozen.agreement import intercept_drift
from resultant_reproduction.frozen.boundaries import BoundaryDisplacement
from resultant_reproduction.frozen.questions import Analysis, analyze_space
from resultant_reproduction.frozen.same_state import SameState, same_state
from resultant_reproduction.frozen.space import FrozenSpace
from resultant_reproduction.recipes.evaluation import FROZEN_FITS, FROZEN_TEMPERATURE

# Strengths of the grid; direct temperature is undefined for some of them.
BETAS = (-0.5, 0.0, 0.5, 1.0, 1.5, 2.0)
SPACES = ("encoder", "projection")

# Questions that tables and claims read.
QUESTIONS = ("gains", "grid", "cosine", "gradients", "boundaries", "margins", "intercepts")
QUESTIONS += ("same_state",)

# Numbers that a summary takes over from the answer to a question.
TAKEN = {
    "cosine": "queries agreement disagreements low_margin certified certified_disagreements",
    "gradients": "loss_mean gradient_error median_cosine bounds_held linear_error joint_error",
    "margins": "incidences agreement coverage certified_wrong",
    "gains": "mean standard_deviation minimum maximum",
}


def summarize(a: Analysis) -> dict[str, Any]:
    """Summarize an analysis in JSON types: fractions, gradient errors in percent, degrees."""
    summary: dict[str, Any] = {"tau": a.space.tau, "estimator": a.space.estimator}
    if a.grid is not None:
        points = {rule: a.grid.point(rule) for rule in REALIZATIONS}
        summary["accuracy"] = {rule: point.accuracy for rule, point in points.items()}
        summary["nll"] = {rule: point.nll for rule, point in points.items()}
        summary["grid"] = {
            f"{p.realization} {p.beta:g} {p.gamma:g}": p.accuracy
            for p in a.grid.points
            if p.realization in ("native", "temperature", "angular") and p.accuracy is not None
        }
    for question, names in TAKEN.items():
        if (answer := getattr(a, question)) is not None:
            summary[question] = _taken(answer, names)
    if a.boundaries is not None:
        summary["boundaries"] = {
            "pairs": len(a.boundaries.pairs),
            "tally": a.boundaries.tally,
            "displacements": _displacements(a.boundaries),
            **{
                name: {
                    "comparable": p.comparable,
                    "mae": p.mean_absolute_degrees,
                    "largest": p.largest_degrees,
                    "same_direction": p.same_direction,
                }
                for name, p in a.boundaries.predicted.items()
            },
        }
    if a.intercepts is not None:
        summary["intercepts"] = a.intercepts.largest
    if a.same_state is not None:
        summary["same_state"] = _rules(a.same_state)
    return plain(summary)


def _taken(a: object, names: str) -> dict[str, Any]:
    return {name: getattr(a, name) for name in names.split()}


def _displacements(b: BoundaryDisplacement) -> dict[str, list[float]]:
    """Exact and leading displacements of the pairs with both, in degrees to five digits."""
    shifts = {"exact": b.shift_degrees, "leading": b.predicted["joint_leading"].shift_degrees}
    both = ~(shifts["exact"].isnan() | shifts["leading"].isnan())
    return {name: [float(f"{v:.5g}") for v in x[both].tolist()] for name, x in shifts.items()}


def _rules(state: SameState) -> dict[str, dict[str, float]]:
    names = "cross_entropy accuracy distinct"
    return {row.realization: _taken(row, names) for row in state.rows}


def summarize_state(space: FrozenSpace, gamma: float) -> dict[str, Any]:
    """Summarize the rules and the intercept drift of a last state (sec:same-state-diagnostic)."""
    state = same_state(space, gamma=gamma)
    drift = intercept_drift(space).largest
    return plain({"same_state": _rules(state), "intercepts": drift, "focus": state.focus})


def summaries(*rows: Tensor) -> dict[str, dict[str, Any]]:
    """Summarize one space by estimator, for the rows of `fit_space`."""
    fits = {estimator: fit_space(*rows, estimator=estimator) for estimator in FROZEN_FITS}
    analyses = {n: analyze_space(a, QUESTIONS, betas=BETAS) for n, a in fits.items()}
    return {name: summarize(a) for name, a in analyses.items()}


def fit_space(*rows: Tensor, estimator: str = FROZEN_FITS[0]) -> FrozenSpace:
    """Fit the classes as in the frozen tables: training rows, labels, test rows, labels."""
    settings: Any = {"tau": FROZEN_TEMPERATURE, "estimator": estimator}
    settings["num_classes"] = int(rows[1].max()) + 1
    return FrozenSpace.fit(*(a.cpu() for a in rows), **settings)


# Strengths of the interventions (sec:historical-power-temperature); native is 1.
POWERS = {"reduced": 0.5, "increased": 1.5}


def power_diagnostic(stack: Stack, z: Tensor, y: Tensor) -> list[dict[str, Any]]:
    """Return `gradient_increments` of every run of a stack, for z [runs, n, p] and y [n]."""
    tau, offsets = stack.config.temperature, stack.proco.log_prior.cpu().double()
    states = [stack.proco.state(i).to("cpu") for i in range(len(stack.runs))]
    own = zip(z, states, offsets.expand(len(states), -1), strict=True)
    return [gradient_increments(x, y, state, tau, offset) for x, state, offset in own]


def gradient_increments(
    z: Tensor, y: Tensor, state: ClassState, tau: float, offset: Tensor
) -> dict[str, Any]:
    """Measure the stacked changes of tangent gradients from the native policy to each of `POWERS`
    (fig:training-gain), and the plane through zero nearest to the four: its ``share`` of squared
    lengths, and the points in its axes. Empty if a class has gain zero, or all gains are equal."""
    if not 0 < float(state.kappa.min()) < float(state.kappa.max()):
        return {}

    def gradients(*policy: Any) -> Tensor:
        rule = realize(state, Rule(tau, *policy, family="power", offset=offset))
        scores = (rule, rule.linear(), rule.linear(intercept=False))
        return torch.stack([loss_gradient(z, y, r) for r in scores])

    native = gradients("native")
    changes = {name: gradients("temperature", beta) - native for name, beta in POWERS.items()}
    stacked = torch.stack([change[:2].flatten(1) for change in changes.values()]).flatten(0, 1)
    # The products of the four vectors suffice; n p is large.
    size, axes = torch.linalg.eigh(stacked @ stacked.T)
    size, axes = size.flip(0).clamp_min(0), axes.flip(1)
    points = (axes * size.sqrt())[:, :2].unflatten(0, (len(POWERS), 2))
    names = list(POWERS)
    signs = [points[names.index("increased"), 0, 0], points[names.index("reduced"), 0, 1]]
    points = points * torch.where(torch.stack(signs) < 0, -1.0, 1.0)
    errors = {"": stacked_relative_error, "mean_": mean_relative_error}
    result: dict[str, Any] = {
        f"{of}increment_error{end}": {n: error(own[0], own[k]) for n, own in changes.items()}
        for k, end in ((1, ""), (2, "_without_intercept"))
        for of, error in errors.items()
    }
    pairs = (dict(zip(("exact", "leading"), pair, strict=True)) for pair in points.tolist())
    share = float(size[:2].sum() / size.sum())
    return result | {"increment_plane": {"share": share, **dict(zip(changes, pairs, strict=True))}}
