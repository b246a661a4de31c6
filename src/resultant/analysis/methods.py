"""Methods that an analysis tries: vMF classifiers of one search, one fit per metric, and references
of scikit-learn on unit rows, of many rows a stratified sample, as the page says."""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from scipy.linalg import solve
from scipy.sparse import csr_array
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from threadpoolctl import ThreadpoolController
from torch import Tensor

from resultant._core.arrays import directions
from resultant._core.text import counted
from resultant.analysis.data import BALANCED, FeatureSet, Plan, Settings
from resultant.analysis.evaluate import Candidate, joined, predict
from resultant.analysis.metrics import stratified
from resultant.classes.metric import Metric
from resultant.classes.rule import REALIZATIONS
from resultant.classes.statistics import ClassStatistics
from resultant.classifiers.inputs import Sample
from resultant.classifiers.search import Search
from resultant.classifiers.validation import Validation
from resultant.classifiers.vmf import VMFClassifier

MIXTURE = "mixture"

# Found once: the search for the loaded libraries takes longer than a small fit.
BLAS = ThreadpoolController()

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
    result = Search(validation, {} if tau is None else {"temperature": [tau]})
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
        written = {
            k: float(f"{v:.6g}") if isinstance(v, float) else v for k, v in parameters.items()
        }
        words = ", ".join(f"{k}={v!r}" for k, v in written.items())
        name = f"mixture of {parameters['components']} vMF per class"
        if key != MIXTURE:
            known = PAPER_NAMES.get(key), "whitened" if parameters.get("whiten") else None
            known = ", ".join(filter(None, known))
            name = f"{key} ({known})" if known else key
        code = f"from resultant import VMFClassifier\n\nmodel = VMFClassifier({words}).fit(X, y)"
        note = ""
        if settings.calibration != "scale":
            # The calibration of a fit without the validation rows serves the final fit.
            trial, validated = trials[0][i][0], plan.splits[0][1]
            y, w = plan.labels[: len(validated)].numpy(), plan.weights[: len(validated)]
            x, w = plan.validation.read(validated), w * len(w) / w.sum()
            model.calibration_ = trial.calibrate(x, y, w, settings.calibration).calibration_
            note = f"Probabilities are calibrated on validation rows ({settings.calibration})."
        about = (key, name, "vmf", RANKS[key], parameters, code)
        validated = joined(fold[i] for fold in folds)
        candidates.append(Candidate(*about, validated, model, seconds, rows, note))
    return candidates


def fit_points(
    data: FeatureSet, rows: Tensor, points: Sequence[dict[str, Any]]
) -> Iterator[tuple[Any, int, float]]:
    """Fit a `VMFClassifier` per point, with rows and seconds; points of one fit share a pass."""
    fits: dict[str, tuple[Any, int, float]] = {}
    for point in points:
        key = str({k: point.get(k) for k in FIT_PARAMETERS})
        if key not in fits:
            started = time.perf_counter()
            model, used = _fit(VMFClassifier(**point), data, rows)
            fits[key] = model, used, time.perf_counter() - started
        model, used, seconds = fits[key]
        # A copy of an estimator copies its tensors, which the methods of one fit share.
        shared = VMFClassifier(**point)
        vars(shared).update({k: v for k, v in vars(model).items() if k.endswith("_")})
        yield shared, used, seconds


def _fit(model: Any, data: FeatureSet, rows: Tensor) -> tuple[Any, int]:
    """Fit one model; the metric of very many rows to a stratified sample of them."""
    some = rows[stratified(data.train.y[rows], SEARCH_BYTES / (4 * data.dim))]
    model.fit(data.train.read(some), data.train.y[some].numpy())
    if len(some) == len(rows) or method_of(model.get_params()) == MIXTURE:
        return model, len(some)
    sums = ClassStatistics(data.num_classes, data.dim)
    metric, size = model.metric_, (data.num_classes, data.dim)
    added = data.train.map(
        lambda x, y: ClassStatistics(*size).add(unit_rows(metric, x).cpu(), y), rows
    )
    for _, part in added:
        sums.merge(part)
    sums = sums.to(model.statistics_.device)
    model.statistics_, model.state_ = sums, sums.state(model.estimator)
    model.class_prior_ = (sums.weight / sums.weight.sum()).cpu().numpy()
    return model, len(rows)


LEVELS = ("none", "fast", "all")

Grid = list[dict[str, Any]]
PENALTIES: Grid = [{"C": c} for c in (0.001, 0.01, 0.1, 1.0)]
SHRINKAGES: Grid = [{"shrinkage": s} for s in (0.1, 0.5)]
SPHERICAL: Grid = [{"shrinkage": 1.0}]
NEIGHBOURS: Grid = [{"n_neighbors": k} for k in (1, 5, 10, 20)]

# Gradient at which the solver of a logistic regression stops.
TOLERANCE = 1e-3

# Keys, names and ranks; of two, for the prior of the training rows and for equal priors.
About = tuple[str, str, int]
CENTROID: About = ("NearestCentroid", "nearest centroid", 0)
NEAREST: About = ("KNeighborsClassifier", "nearest neighbours", 70)
DISCRIMINANT: tuple[About, ...] = (
    ("LinearDiscriminantAnalysis", "linear discriminant analysis", 40),
    ("LinearDiscriminantAnalysis(equal prior)", "linear discriminant analysis, equal prior", 41),
)
LOGISTIC: tuple[About, ...] = (
    ("LogisticRegression", "logistic regression", 50),
    ("LogisticRegression(balanced)", "balanced logistic regression", 51),
)

# Names, steps of a pipeline, settings of the last one, and about the number of fitted rows.
Reference = tuple[About, list[Any], Grid, float]


@dataclass(frozen=True)
class Budget:
    """Sizes up to which all rows are fitted; beyond them a stratified sample is."""

    cells: float  # rows times classes times dimension of a logistic regression
    trial: float  # share of the rows while a setting is chosen
    steps: float  # cells times iterations of a logistic regression at most
    iterations: int  # its iterations at most
    classes: int  # its classes; it is left out beyond
    products: float  # test rows times rows times dimension of nearest neighbours
    entries: float  # rows times dimension of discriminant analysis and of centroids


BUDGETS = {
    "fast": Budget(8e7, 0.2, 2e10, 100, 2000, 4e9, 2e7),
    "all": Budget(6e10, 0.05, 1e14, 1000, 20_000, 1e14, 1e9),
}


class Discriminant(LinearDiscriminantAnalysis):
    """Discriminant analysis whose covariance is one product rather than one per class."""

    def fit(self, X: Any, y: Any) -> Self:
        """Fit rows [N, p] of classes [N]."""
        self.classes_, own = np.unique(y, return_inverse=True)
        count, one = np.bincount(own), (np.ones(len(own)), (own, np.arange(len(own))))
        mean = csr_array(one) @ X / count[:, None]
        self.priors_ = count / len(own) if self.priors is None else np.asarray(self.priors)
        apart = (X - mean[own]) * np.sqrt(self.priors_ / count)[own, None]
        covariance = apart.T @ apart
        shrinkage, spread = float(self.shrinkage or 0), max(covariance.trace() / X.shape[1], 1e-12)
        covariance = (1 - shrinkage) * covariance + shrinkage * spread * np.eye(len(covariance))
        coef = solve(covariance, mean.T, assume_a="pos").T
        intercept = np.log(self.priors_) - (mean * coef).sum(1) / 2
        two = len(coef) == 2
        self.coef_, self.intercept_ = (
            (np.diff(a, axis=0) if two else a).astype(X.dtype) for a in (coef, intercept)
        )
        return self


def references(
    data: FeatureSet,
    plan: Plan,
    level: str,
    *,
    slow: bool = True,
    progress: Callable[[str], object] = lambda _: None,
) -> Iterator[Candidate]:
    """Fit and validate the references."""
    if level not in LEVELS:
        raise ValueError(f"expected references among {LEVELS}, got {level!r}")
    if level == "none":
        return
    budget, C, p = BUDGETS[level], data.num_classes, data.dim
    entries, equal = budget.entries / p, np.full(C, 1 / C)
    # The nearest centroid has a spherical covariance.
    centroid: list[Any] = [Discriminant("lsqr", priors=equal)]
    models: list[Reference] = [(CENTROID, centroid, SPHERICAL, entries)]
    # Fast references have the prior of the metric; all of them have both.
    priors = [plan.metric == BALANCED] if level == "fast" else [False, True]
    for even in priors:
        model = Discriminant("lsqr", priors=equal if even else None)
        models.append((DISCRIMINANT[even], [model], SHRINKAGES, entries))
    number = budget.products / (len(plan.test) * p)
    models.append((NEAREST, [KNeighborsClassifier()], NEIGHBOURS, number))
    for even in priors if budget.classes >= C and slow else ():
        number = max(2 * C, min(len(data.fitted), budget.cells / (C * p)))
        steps = int(min(budget.iterations, max(10, budget.steps / (number * C * p))))
        weight = "balanced" if even else None
        model = LogisticRegression(
            class_weight=weight, max_iter=steps, tol=TOLERANCE, warm_start=True
        )
        models.append((LOGISTIC[even], [StandardScaler(), model], PENALTIES, number))
    for reference in models:
        progress(reference[0][1])
        yield _reference(data, plan, level, reference)


def left_out(data: FeatureSet, level: str, slow: bool) -> str:
    """Return a sentence about references that are too large, or ""."""
    if level == "none":
        return ""
    hint = "; --references all fits it" if level == "fast" else ""
    if data.num_classes > BUDGETS[level].classes:
        size = counted(data.num_classes, "class", "classes")
        return f"Logistic regression is left out: {size} take too long{hint}."
    return "" if slow else f"Logistic regression is fitted to the best features alone{hint}."


def _reference(data: FeatureSet, plan: Plan, level: str, reference: Reference) -> Candidate:
    """Choose settings, validate them, and fit the final model."""
    (key, name, rank), steps, grid, number = reference
    model, last = make_pipeline(Normalizer(), *steps), steps[-1]
    fit, rows = plan.splits[0]
    scores = []
    for settings in grid if len(grid) > 1 else ():
        last.set_params(**settings)
        _fit_reference(model, data, fit, BUDGETS[level].trial * number)
        predicted = predict([model], plan.validation, rows, data.num_classes)[0].predicted
        hits = (predicted == plan.labels[: len(rows)]).double()
        scores.append(float(hits @ plan.weights[: len(rows)]))
    settings = grid[int(np.argmax(scores))] if scores else grid[0]
    last.set_params(**settings)
    parts = []
    for fit, rows in plan.splits:
        _fit_reference(model, data, fit, number)
        parts += predict([model], plan.validation, rows, data.num_classes)
    used, seconds = _fit_reference(model, data, data.fitted, number)
    note = ""
    if used < len(data.fitted):
        note = f"Fitted to a stratified sample of {used:,} of {len(data.fitted):,} rows"
        note += "; --references all fits more." if level == "fast" else "."
    if np.max(getattr(last, "n_iter_", 0)) >= getattr(last, "max_iter", 1):
        note += f" The solver was stopped after {last.max_iter} iterations."
    settings = {setting: getattr(last, setting) for setting in settings}
    if getattr(last, "class_weight", None) is not None:
        settings["class_weight"] = last.class_weight
    candidate = key, name, "scikit-learn", rank, settings, _code(model), joined(parts)
    return Candidate(*candidate, model, seconds, used, note.strip())


def _fit_reference(model: Any, data: FeatureSet, rows: Tensor, number: float) -> tuple[int, float]:
    """Fit a pipeline to about ``number`` of some training rows; return rows and seconds."""
    drawn = rows[stratified(data.train.y[rows], number)]
    x, y = data.train.read(drawn).numpy(), data.train.y[drawn].numpy()
    # Classes whose rows are all of one identity may lack in the fitted rows.
    present, last = len(np.unique(y)), model[-1]
    if isinstance(getattr(last, "priors", None), np.ndarray):
        last.priors = np.full(present, 1 / present)
    if hasattr(last, "n_neighbors"):
        last.n_neighbors = min(last.n_neighbors, len(drawn))
    if getattr(last, "warm_start", False) and len(getattr(last, "classes_", y)) != present:
        last.__dict__.pop("coef_", None)
    started = time.perf_counter()
    # The products of a fit are small: threads of BLAS would wait for each other.
    with BLAS.limit(limits=1, user_api="blas"), warnings.catch_warnings():
        # Solvers that are stopped.
        warnings.simplefilter("ignore", (UserWarning, RuntimeWarning))
        model.fit(x, y)
    return len(drawn), time.perf_counter() - started


def _code(model: Any) -> str:
    """Return Python that builds and fits a pipeline, from scikit-learn's own representation."""
    imports, words = [("sklearn.pipeline", "make_pipeline")], []
    for _, step in model.steps:
        known = type(step).__module__.startswith("sklearn")
        kind: Any = type(step) if known else type(step).__base__
        settings, priors = step.get_params(), ""
        if isinstance(settings.get("priors"), np.ndarray):
            priors = f", priors=[1 / {len(settings.pop('priors'))}] * {len(step.priors)})"
        if "warm_start" in settings:
            settings["warm_start"] = False
        text = " ".join(repr(kind(**settings)).split())
        words.append(text[:-1] + priors if priors else text)
        imports.append((kind.__module__.split("._")[0], kind.__name__))
    lines = [f"from {module} import {name}" for module, name in sorted(imports)]
    return "\n".join([*lines, "", f"model = make_pipeline({', '.join(words)}).fit(X, y)"])
