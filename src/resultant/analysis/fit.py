"""Search, fit and validate the classifiers of an analysis.

What is validated is what is saved: each classifier is fitted anew in every fold, with the settings
and the calibration that the final one has.
"""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from threadpoolctl import ThreadpoolController
from torch import Tensor

from resultant._core.arrays import directions
from resultant._core.text import counted
from resultant._core.threads import SMALL, few_threads
from resultant.analysis.candidate import Candidate, Predictions, of_all, predictions, probabilities
from resultant.analysis.metrics import stratified
from resultant.analysis.references import TRIAL, Reference, affordable, code_of, settings_of, table
from resultant.analysis.saved import ScaledClassifier
from resultant.analysis.split import BALANCED, FeatureSet, Plan, Settings
from resultant.classes.metric import Metric
from resultant.classes.statistics import ClassStatistics
from resultant.classifiers.calibration import fit_scale
from resultant.classifiers.inputs import Sample, seconds_or_none
from resultant.classifiers.refine import PRECISIONS
from resultant.classifiers.search import REFINED, Search
from resultant.classifiers.validation import Validation
from resultant.classifiers.vmf import VMFClassifier

# Found once: the search for the loaded libraries takes longer than a small fit.
LIBRARIES = ThreadpoolController()

# Places in the order from simple to complex: a whitened rule has as many numbers as discriminant
# analysis, and a concentration per class.
RANKS = {"cosine": 10, "native": 20, "angular": 21, "temperature": 22, "preserve": 23}
RANKS[REFINED] = 30
WHITENED = 20

# Bytes of rows that a search and a fit of several components read; beyond, a stratified sample.
SEARCH_BYTES = 1 << 30

# Parameters that may be set after the fit.
RULE_PARAMETERS = ("realization", "temperature", "beta", "prior", "scale")

Progress = Callable[[str], object]
# Fitted classifiers of a fold by the parameters of the fit, which several rules share.
Fits = dict[str, tuple[Any, int, float]]


def fit(data: FeatureSet, plan: Plan, settings: Settings, progress: Progress) -> list[Candidate]:
    """Return all candidates, validated, and fitted to the training rows."""
    with one_of_blas(len(data.train) * data.dim):
        progress("search vMF settings")
        candidates = [majority(data), *search(data, plan, settings)]
        progress("fit vMF classifiers")
        fit_each(candidates, data, plan)
        for reference in table(data, plan, settings.references):
            progress(f"fit {reference.name}")
            candidates.append(tuned(reference, data, plan, settings.references))
            fit_each(candidates[-1:], data, plan)
    return candidates


@contextmanager
def one_of_blas(numbers: float) -> Iterator[None]:
    """Use one thread of BLAS, and one of torch too for few numbers."""
    with few_threads(numbers), LIBRARIES.limit(limits=1):
        yield


def majority(data: FeatureSet) -> Candidate:
    """Return the baseline that always predicts the largest class."""
    make = partial(DummyClassifier, strategy="prior")
    return Candidate("majority", "always the largest class", "baseline", -1, make)


def search(data: FeatureSet, plan: Plan, settings: Settings) -> list[Candidate]:
    """Choose settings of each vMF rule, by the search of `resultant.VMFClassifierCV`."""
    device, estimator, tau = settings.device, settings.estimator, settings.temperature
    most = SEARCH_BYTES / (4 * data.dim)
    if plan.folds is None:
        fitted = plan.splits[0][0]
        fitted = fitted[stratified(data.train.y[fitted], most)]
        x = torch.cat([data.train.read(fitted), plan.validation.read(plan.rows)])
        y = torch.cat([data.train.y[fitted], plan.labels])
        at = torch.arange(len(x), device=device)
        splits, copies = [(at[: len(fitted)], at[len(fitted) :])], True
    else:
        rows = stratified(data.train.y, most)
        x, y = data.train.read(rows), data.train.y[rows]
        place = torch.full((len(data.train),), -1)
        place[rows] = torch.arange(len(rows))
        sides = ((place[fitted], place[apart]) for fitted, apart in data.folds)
        splits = [(a[a >= 0].to(device), b[b >= 0].to(device)) for a, b in sides]
        copies = len(np.unique(data.train.keys)) < len(data.train)
    validation = Validation(
        sample_of(data, x, y, device),
        splits,
        estimator=estimator,
        balanced=plan.metric == BALANCED,
        merge=not copies,
    )
    axes: dict[str, Any] = {"refine": (None, *PRECISIONS)}
    axes |= {} if tau is None else {"temperature": [tau]}
    result = Search(validation, axes, seconds=seconds_or_none(settings.time_limit))
    note = ""
    if result.stopped:
        number = counted(len(result.candidates), "point", "points")
        note = (
            f"The search of vMF settings was stopped after {settings.time_limit:g} s and {number}"
        )
        note += "; without a limit the result is the same on every machine."
    return [vmf_candidate(key, c, settings, note) for key, c in result.rules.items()]


def sample_of(data: FeatureSet, x: Tensor, y: Tensor, device: torch.device | str = "cpu") -> Sample:
    """Return rows [n, p] of classes [n] with weights of one."""
    weight = torch.ones(len(y), dtype=torch.float64, device=device)
    return Sample(x.to(device), y.to(device), weight, data.num_classes)


def vmf_candidate(key: str, found: Any, settings: Settings, note: str) -> Candidate:
    """Return the candidate of a point of the search."""
    point = {**found.parameters(), "scale": found.scale, "estimator": settings.estimator}
    parameters = {name: value for name, value in point.items() if value is not None}
    whitened = bool(parameters.get("whiten"))
    name = f"vMF {key}{', lifted' if point.get('lift') else ''}{', whitened' if whitened else ''}"
    rank = RANKS[key] + whitened * WHITENED
    written = {k: float(f"{v:.6g}") if isinstance(v, float) else v for k, v in parameters.items()}
    words = ", ".join(f"{k}={v!r}" for k, v in written.items())
    code = f"from resultant import VMFClassifier\n\nmodel = VMFClassifier({words}).fit(X, y)"
    make = partial(VMFClassifier, **point, device=settings.device)
    return Candidate(key, name, "vmf", rank, make, parameters, code, note=note)


def tuned(reference: Reference, data: FeatureSet, plan: Plan, level: str) -> Candidate:
    """Return a reference with the scaling and the setting that are best on a sample."""
    number = affordable(reference, data, plan, level)
    (fitted, rows), pipelines = plan.splits[0], reference.pipelines()
    labels, weights = plan.labels[: len(rows)], plan.weights[: len(rows)]
    trial = fitted[stratified(data.train.y[fitted], TRIAL[level] * min(number, len(fitted)))]
    if len(trial) * data.dim * data.num_classes <= SMALL:
        trial = fitted

    def score(pipeline: Any) -> float:
        one = Candidate(reference.key, "", "scikit-learn", 0, partial(clone, pipeline))
        model, _, _ = fitted_model(one, data, trial, {})
        scores = scores_of(model, plan, rows, data.num_classes)
        return float((scores.argmax(1) == labels).double() @ weights)

    best = max(pipelines, key=score) if len(pipelines) > 1 else pipelines[0]
    key, name, rank = reference.key, reference.name, reference.rank
    make, chosen = partial(clone, best), settings_of(best, reference)
    return Candidate(key, name, "scikit-learn", rank, make, chosen, code_of(best), number)


def fit_each(candidates: list[Candidate], data: FeatureSet, plan: Plan) -> None:
    """Validate candidates by fits that know none of the validation rows, and fit them."""
    parts: list[list[Tensor]] = [[] for _ in candidates]
    for fitted, rows in plan.splits:
        fits: Fits = {}
        for one, scores in zip(candidates, parts, strict=True):
            model, _, _ = fitted_model(one, data, fitted, fits)
            scores.append(scores_of(model, plan, rows, data.num_classes))
    fits = {}
    for one, scores in zip(candidates, parts, strict=True):
        one.model, one.rows, one.fit_seconds = fitted_model(one, data, data.fitted, fits)
        one.validated = calibrated(one, torch.cat(scores), plan)
        last = getattr(getattr(one.model, "pipeline", None), "steps", [("", None)])[-1][1]
        if np.max(getattr(last, "n_iter_", 0)) >= getattr(last, "max_iter", 1):
            one.note = f"The solver was stopped after {last.max_iter} iterations."


def calibrated(one: Candidate, scores: Tensor, plan: Plan) -> Predictions:
    """Predict validation rows by the logarithms of probabilities [V, C]; a classifier of
    scikit-learn gets the scale that is best there, which changes no prediction."""
    if isinstance(one.model, ScaledClassifier):
        one.model.scale = fit_scale(scores, plan.labels, plan.weights)
        scores = one.model.scale * scores
    return predictions(scores.softmax(1), plan.labels)


def scores_of(model: Any, plan: Plan, rows: Tensor, num_classes: int) -> Tensor:
    """Return scores [n, C] of validation rows, whose softmax are the probabilities."""
    parts = []
    for _, x, _ in plan.validation.chunks(rows, num_classes):
        if isinstance(model, ScaledClassifier):
            parts.append(of_all(model, model.log_proba(x.numpy()), num_classes, -torch.inf))
        else:
            parts.append(probabilities(model, x, num_classes).double().log())
    return torch.cat(parts)


def fitted_model(
    one: Candidate, data: FeatureSet, rows: Tensor, fits: Fits
) -> tuple[Any, int, float]:
    """Fit a cold classifier to some training rows; return it, its rows and seconds."""
    started, model = time.perf_counter(), one.make()
    if one.family == "vmf":
        key = str({k: v for k, v in model.get_params().items() if k not in RULE_PARAMETERS})
        if key not in fits:
            used = _fit_vmf(model, data, rows)
            fits[key] = model, used, time.perf_counter() - started
        first, used, seconds = fits[key]
        rule = {name: getattr(model, name) for name in RULE_PARAMETERS}
        return copy.copy(first).set_params(**rule), used, seconds
    if one.family == "baseline":
        y = data.train.y[rows].numpy()
        return model.fit(np.empty((len(y), 1)), y), len(rows), 0.0
    some = rows[stratified(data.train.y[rows], one.number)]
    x, y = data.train.read(some).numpy(), data.train.y[some].numpy()
    last = model[-1]
    if hasattr(last, "n_neighbors"):
        last.n_neighbors = min(last.n_neighbors, len(y))
    started = time.perf_counter()
    with warnings.catch_warnings():
        # Solvers that are stopped.
        warnings.simplefilter("ignore", (UserWarning, RuntimeWarning))
        fitted = ScaledClassifier(model).fit(x, y)
    return fitted, len(y), time.perf_counter() - started


def unit_rows(metric: Metric | None, x: Tensor) -> Tensor:
    """Return rows [n, p] as unit vectors of a metric, in float64."""
    z = directions(x.double())[0]
    return z if metric is None else metric.transform(z.to(metric.mean.device))


def _fit_vmf(model: Any, data: FeatureSet, rows: Tensor) -> int:
    """Fit one model; the metric of very many rows to a stratified sample of them."""
    some = rows[stratified(data.train.y[rows], SEARCH_BYTES / (4 * data.dim))]
    with warnings.catch_warnings():
        # The page has a caution about columns of different units.
        warnings.filterwarnings("ignore", "column .* varies", UserWarning)
        model.fit(data.train.read(some), data.train.y[some].numpy())
    if len(some) == len(rows) or model.refined_ is not None:
        return len(some)
    sums = ClassStatistics(data.num_classes, data.dim)
    number, dim, metric = data.num_classes, data.dim, model.metric_

    def summed(x: Tensor, y: Tensor) -> ClassStatistics:
        return ClassStatistics(number, dim).add(unit_rows(metric, x).cpu(), y)

    for _, part in data.train.map(summed, rows):
        sums.merge(part)
    sums = sums.to(model.statistics_.device)
    model.statistics_, model.state_ = sums, sums.state(model.estimator)
    model.class_prior_ = (sums.weight / sums.weight.sum()).cpu().numpy()
    # The kept rows are those of the sample: they rank others, and sums of all rows do not grow.
    model.sampled_ = True
    return len(rows)
