"""Frozen rules with a fitted scale each, under other fits of the classes.

Group 5 of ``protocol.md``. Half of the held-out queries of each class fit the scales and the
held-out concentrations, the other half judges.
"""

import math
from typing import Any

import torch
from torch import Tensor

from resultant.analysis.metrics import rank_correlation
from resultant.classes.finite_sample import held_out_state
from resultant.classes.rule import REALIZATIONS, TEMPERED, Rule
from resultant.classes.scores import realize
from resultant.classifiers.calibration import expected_calibration_error, fit_scale, log_losses
from resultant.classifiers.em import AUTO, Components, fit_components
from resultant_reproduction.cells.statistics import Estimate
from resultant_reproduction.frozen.space import FrozenSpace, rank_in_class

# Fits of the classes, in the order of the protocol.
FITS = ("proco", "mle", "held-out", "components")
EDIT, BEFORE = "angular", "native"
BINS = 15
# The normal quantile of a two-sided 95 % interval.
NORMAL = 1.959963984540054


def over_queries(after: Tensor, before: Tensor, scale: float = 1.0) -> Estimate:
    """Mean difference [N] of two rules on the same queries with a normal interval."""
    d = scale * (after.double() - before.double())
    mean, reach = float(d.mean()), NORMAL * float(d.std(correction=0)) / math.sqrt(len(d))
    return Estimate(mean, mean - reach, mean + reach, len(d))


def halves(space: FrozenSpace) -> tuple[Tensor, Tensor]:
    """Rows of the fitting and of the judging queries: every second one of each class judges."""
    judging = rank_in_class(space.test_labels) % 2 == 1
    return (~judging).nonzero().squeeze(1), judging.nonzero().squeeze(1)


def _fitted(space: FrozenSpace, name: str, fitting: Tensor) -> Components:
    if name == "components":
        weight = torch.ones(len(space.train), dtype=torch.float64)
        X = space.units("train", torch.arange(len(space.train)))
        return fit_components(X, space.labels, weight, AUTO, space.estimator)
    if name == "held-out":
        z, y = space.units("test", fitting), space.test_labels[fitting]
        return Components.single(held_out_state(space.statistics, z, y))
    return Components.single(space.statistics.state(name))


def judge(
    space: FrozenSpace, fit: Components, rule: str, split: tuple[Tensor, Tensor]
) -> tuple[dict[str, float], Tensor, Tensor]:
    """Fit the scale of a rule at beta 0 on one half of the queries, and judge it on the other."""
    state = fit.state.to(dtype=space.dtype)
    scorer = realize(state, Rule(space.tau, rule, offset=fit.log_weight))
    fitting, scores = (
        fit.of_classes(torch.cat([scorer(x) for _, x, _ in space.queries(rows)])) for rows in split
    )
    scale, labels = fit_scale(fitting, space.test_labels[split[0]]), space.test_labels[split[1]]
    right, scaled = scores.argmax(-1) == labels, log_losses(scores, labels, scale)
    numbers = {
        "accuracy": float(right.double().mean()),
        "nll": float(scaled.mean()),
        "raw_nll": float(log_losses(scores, labels).mean()),
        "scale": scale,
        "error": expected_calibration_error((scale * scores).softmax(-1), labels, BINS),
    }
    return numbers, right, scaled


@torch.no_grad()
def calibrate(space: FrozenSpace) -> dict[str, dict[str, Any]]:
    """Judge every fit and rule, in JSON types by name of the fit: ``points`` of accuracy and
    ``nats`` of cross-entropy with fitted scales are Pure Angular less native, [mean, low, high]
    over the judging queries; ``spread`` and ``correlation`` compare the gains with ProCo's."""
    split = halves(space)
    usual, results = _fitted(space, "proco", split[0]).gain(space.tau), {}
    for name in FITS:
        fit = _fitted(space, name, split[0])
        own = fit.gain(space.tau)
        rules = (BEFORE, EDIT) if name == "components" else REALIZATIONS
        if not own.all():
            # A class without concentration has no temperature.
            rules = tuple(rule for rule in rules if rule not in TEMPERED)
        judged = {rule: judge(space, fit, rule, split) for rule in rules}
        (_, *after), (_, *before) = judged[EDIT], judged[BEFORE]
        results[name] = {
            "rules": {rule: numbers for rule, (numbers, *_) in judged.items()},
            "points": [*over_queries(after[0], before[0], 100.0)[:3]],
            "nats": [*over_queries(after[1], before[1])[:3]],
            "spread": float(own.std() / own.mean()),
            "correlation": rank_correlation(own, usual),
            "queries": len(split[1]),
        }
    return results
