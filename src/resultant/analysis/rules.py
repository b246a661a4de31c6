"""vMF classifiers of a feature set: one search for settings, one fit per metric."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from resultant._core.arrays import directions
from resultant.analysis.data import BALANCED, FeatureSet, Plan, Settings
from resultant.analysis.evaluate import Candidate, joined, predict
from resultant.analysis.metrics import stratified
from resultant.classes.metric import Metric
from resultant.classes.rule import REALIZATIONS
from resultant.classes.statistics import ClassStatistics
from resultant.classifiers.inputs import Sample
from resultant.classifiers.search import search_rules
from resultant.classifiers.validation import Validation

MIXTURE = "mixture"

# Places in the order from simple to complex.
RANKS = {"cosine": 10, "native": 20, "angular": 21, "temperature": 22, "preserve": 23, MIXTURE: 60}

# Names of the paper, where they differ from those of the API.
PAPER_NAMES = {
    "temperature": "Direct Temperature",
    "preserve": "Intercept-Preserving",
    "angular": "Pure Angular",
}

# Bytes of rows that a search and a fit of several components read; beyond, a stratified sample.
SEARCH_BYTES = 1 << 30

# Parameters that change the fit; others may be set after it.
FIT_PARAMETERS = ("whiten", "shrinkage", "center", "components", "estimator", "device")


@dataclass(frozen=True, eq=False)
class VMFSearch:
    """The result of the one search."""

    points: dict[str, dict[str, Any]]  # parameters of `VMFClassifier` by method, the best of each
    chosen: str  # the method that the search chose among them, by cross-validation
    words: str  # the rows of the search in words


def search(data: FeatureSet, plan: Plan, settings: Settings) -> VMFSearch:
    """Choose settings of each vMF method, by the search of `resultant.VMFClassifierCV`."""
    device, estimator, tau = settings.device, settings.estimator, settings.temperature
    most = SEARCH_BYTES / (4 * data.dim)
    shared: dict[str, Any] = {"estimator": estimator, "balanced": plan.metric == BALANCED}
    if plan.folds is None:
        fit = plan.splits[0][0]
        fit = fit[stratified(data.train.y[fit], most)]
        x = torch.cat([data.train.read(fit), plan.validation.read(plan.rows)])
        sample = sample_of(data, x, torch.cat([data.train.y[fit], plan.labels]), device)
        at = torch.arange(len(x), device=device)
        validation = Validation(sample, [(at[: len(fit)], at[len(fit) :])], **shared)
        words = plan.words
    else:
        rows, identities = stratified(data.train.y, most), data.train.identities
        sample = sample_of(data, data.train.read(rows), data.train.y[rows], device)
        groups = None if identities is None else identities[rows].to(device)
        validation = Validation.of_folds(sample, groups=groups, **shared)
        part = f" of the {len(data.train):,}" if len(rows) < len(data.train) else ""
        words = f"{plan.folds}-fold cross-validation on {len(rows):,}{part} training rows"
    result = search_rules(validation, {} if tau is None else {"temperature": [tau]})
    points = {method_of(c.parameters()): c for c in (*result.rules.values(), result.chosen)}
    parameters = {
        key: {**c.parameters(), "scale": c.scale, "estimator": estimator}
        for key, c in points.items()
    }
    return VMFSearch(parameters, method_of(result.chosen.parameters()), words)


def sample_of(data: FeatureSet, x: Tensor, y: Tensor, device: torch.device | str = "cpu") -> Sample:
    """Return rows [n, p] of classes [n] with weights of one."""
    weight = torch.ones(len(y), dtype=torch.float64, device=device)
    return Sample(x.to(device), y.to(device), weight, data.num_classes)


def unit_rows(metric: Metric | None, x: Tensor) -> Tensor:
    """Return rows [n, p] as unit vectors of a metric, in float64."""
    z = directions(x.double())[0]
    return z if metric is None else metric.transform(z.to(metric.mean.device))


def method_of(point: dict[str, Any]) -> str:
    """Return the method of a point: its realization, or "mixture" for several components."""
    return MIXTURE if point.get("components", 1) != 1 else str(point["realization"])


def vmf_candidates(
    data: FeatureSet, plan: Plan, found: VMFSearch, settings: Settings
) -> list[Candidate]:
    """Fit and validate the vMF methods of a search."""
    keys = [k for k in (*REALIZATIONS, MIXTURE) if k in found.points]
    points = [{**found.points[k], "device": settings.device} for k in keys]
    trials = [list(fit_points(data, fit, points)) for fit, _ in plan.splits]
    folds = [
        predict([model for model, *_ in fitted], plan.validation, rows, data.num_classes)
        for fitted, (_, rows) in zip(trials, plan.splits, strict=True)
    ]
    finals = trials[0] if plan.folds is None else fit_points(data, data.fitted, points)
    candidates = []
    for i, (key, (model, rows, seconds)) in enumerate(zip(keys, finals, strict=True)):
        parameters = {k: v for k, v in points[i].items() if k != "device" and v is not None}
        words = ", ".join(f"{k}={_rounded(v)!r}" for k, v in parameters.items())
        code = f"from resultant import VMFClassifier\n\nmodel = VMFClassifier({words}).fit(X, y)"
        note = ""
        if settings.calibration != "scale":
            # The calibration of a fit without the validation rows serves the final fit.
            trial, validated = trials[0][i][0], plan.splits[0][1]
            y, w = plan.labels[: len(validated)].numpy(), plan.weights[: len(validated)]
            x, w = plan.validation.read(validated), w * len(w) / w.sum()
            model.calibration_ = trial.calibrate(x, y, w, settings.calibration).calibration_
            note = f"Probabilities are calibrated on validation rows ({settings.calibration})."
        about = (key, _name(key, parameters), "vmf", RANKS[key], parameters, code)
        validated = joined(fold[i] for fold in folds)
        candidates.append(Candidate(*about, validated, model, seconds, rows, note))
    return candidates


def fit_points(
    data: FeatureSet, rows: Tensor, points: Sequence[dict[str, Any]]
) -> Iterator[tuple[Any, int, float]]:
    """Fit a `VMFClassifier` per point, with rows and seconds; points of one fit share a pass."""
    from resultant.classifiers import VMFClassifier

    fits: dict[str, tuple[Any, int, float]] = {}
    for point in points:
        key = str({k: point.get(k) for k in FIT_PARAMETERS})
        if key not in fits:
            started = time.perf_counter()
            model, used = _fit(VMFClassifier(**point), data, rows)
            fits[key] = model, used, time.perf_counter() - started
        model, used, seconds = fits[key]
        yield copy.copy(model).set_params(**point), used, seconds


def _fit(model: Any, data: FeatureSet, rows: Tensor) -> tuple[Any, int]:
    """Fit one model; of rows that exceed the memory of a search, the metric to a stratified sample
    and the sums to all in one pass."""
    some = rows[stratified(data.train.y[rows], SEARCH_BYTES / (4 * data.dim))]
    model.fit(data.train.read(some), data.train.y[some].numpy())
    if len(some) == len(rows) or method_of(model.get_params()) == MIXTURE:
        return model, len(some)
    sums = ClassStatistics(data.num_classes, data.dim)
    for _, part in data.train.map(partial(_sums, model, data.num_classes), rows):
        sums.merge(part)
    sums = sums.to(model.statistics_.device)
    model.statistics_, model.state_ = sums, sums.state(model.estimator)
    model.class_prior_ = (sums.weight / sums.weight.sum()).cpu().numpy()
    return model, len(rows)


def _sums(model: Any, num_classes: int, x: Tensor, y: Tensor) -> ClassStatistics:
    return ClassStatistics(num_classes, x.shape[1]).add(unit_rows(model.metric_, x).cpu(), y)


def _name(key: str, settings: dict[str, Any]) -> str:
    if key == MIXTURE:
        return f"mixture of {settings['components']} vMF per class"
    words = [PAPER_NAMES.get(key), "whitened" if settings.get("whiten") else None]
    known = ", ".join(filter(None, words))
    return f"{key} ({known})" if known else key


def _rounded(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value
