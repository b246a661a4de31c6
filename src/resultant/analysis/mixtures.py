"""A mixture of vMF per class as one more rule, where its fit takes about a second."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from resultant.analysis.choice import ChoosingRows
from resultant.analysis.judging import Batch, FinishedRule
from resultant.analysis.space import FrozenSpace, unit
from resultant.classes.realization import realize
from resultant.classes.rule import Rule
from resultant.classifiers.calibration import fit_scale, log_losses
from resultant.classifiers.calibrators import METHODS, fit_calibrators
from resultant.classifiers.choice import AXES, LEAST, beyond
from resultant.classifiers.components import Components, fit_components

KEY, NAME = "mixture", "Native mixture"

# Rows times dimension up to which mixtures are fitted.
ENTRIES = 200_000

# Rows of the smallest class at least, and rows per component at least.
LEAST_ROWS = 16
ROWS_PER_COMPONENT = 2


@dataclass(frozen=True, eq=False)
class MixtureChoice:
    """A mixture per class, with settings chosen on rows that were not fitted.

    Attributes:
        rule: The rule, fitted to all rows.
        rows: Positions [m] of the choosing rows that chose.
        losses: Their cross-entropies [m] with the scale of the rule.
        accuracy: Fraction of these rows that are predicted correctly, weighted as the loss.
    """

    rule: FinishedRule
    rows: Tensor
    losses: Tensor
    accuracy: float


def choose_mixture(
    space: FrozenSpace,
    rows: ChoosingRows,
    temperature: float | None = None,
    calibration: str = "scale",
) -> MixtureChoice | None:
    """Choose the number of components and the temperature; None where rows are many or few.

    The rows of the first fold choose, the other training rows are fitted. The number doubles and
    the temperature halves while the loss falls.
    """
    fitted = torch.arange(len(space.labels))
    if space.fitting is not None:
        fitted = space.fitting.nonzero().squeeze(1)
    least = int(space.statistics.count.min())
    if len(fitted) * space.dim > ENTRIES or least < LEAST_ROWS:
        return None
    pool = fitted if rows.folds is None else (rows.folds != 0).nonzero().squeeze(1)
    chosen = (rows.fold == 0).nonzero().squeeze(1)
    source = space.val if rows.split == "val" else space.train
    assert source is not None
    index = rows.index[chosen]
    query, own = unit(source[index], rows.split, index).to(space.dtype), rows.labels[chosen]
    weights = rows.weights[chosen] / rows.weights[chosen].sum()
    best: tuple[float, int, float, float, Tensor, Tensor] | None = None
    taus = list(AXES["temperature"] if temperature is None else (temperature,))
    number, at_edge = 2, True
    while at_edge and ROWS_PER_COMPONENT * number <= least:
        components, at_edge = _fit(space, pool, number), False
        for tau in taus:
            s = _scores(space, components, tau, query)
            scale = fit_scale(s, own, weights)
            losses = log_losses(s, own, scale)
            loss = float(losses @ weights)
            if best is not None and loss >= best[0] - LEAST * max(1.0, best[0]):
                continue
            best, at_edge = (loss, number, tau, scale, losses, s), True
            lower = beyond("temperature", tau, True)
            if temperature is None and tau == taus[-1] and lower is not None:
                taus.append(lower)
        number *= 2
    assert best is not None
    _, number, tau, scale, losses, s = best
    accuracy = float((s.argmax(1) == own).double() @ weights)
    calibrators = None
    if calibration in METHODS:
        calibrators = fit_calibrators(scale * s, own, weights, calibration)
    started = time.perf_counter()
    components = _fit(space, fitted, number)
    seconds = time.perf_counter() - started

    def scores(batch: Batch) -> Tensor:
        return _scores(space, components, tau, batch.z.cpu()).to(batch.z)

    settings: dict[str, Any] = {"temperature": tau, "beta": 1.0, "prior": 0.0, "components": number}
    if calibrators is not None:
        settings["calibration"] = calibration
    fit = scale, scores, seconds, len(fitted)
    rule = FinishedRule(KEY, NAME, "vmf", settings, *fit, calibrators=calibrators)
    return MixtureChoice(rule, chosen, losses, accuracy)


def _fit(space: FrozenSpace, rows: Tensor, number: int) -> Components:
    x = unit(space.train[rows], "train", rows)
    weight = torch.ones(len(rows), dtype=torch.float64)
    y = space.labels[rows]
    return fit_components(x, y, weight, space.num_classes, number, space.estimator)


def _scores(space: FrozenSpace, components: Components, tau: float, z: Tensor) -> Tensor:
    rule = Rule(tau, "native", offset=components.log_weight)
    realization = realize(components.state, rule, validate_args=False, dtype=space.dtype)
    return components.of_classes(realization(z))
