"""The analysis of feature sets: read, split, fit, choose, evaluate, explain."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from resultant.analysis.candidates import Candidate, Majority, Predictions, predict
from resultant.analysis.cautions import cautions
from resultant.analysis.data import EVALUATED, FeatureSet, Plan, plan
from resultant.analysis.evaluate import choose, confusion, evaluate, recommend
from resultant.analysis.explore import explorer, feature_map, fit_directions, rows_of
from resultant.analysis.plain import UnansweredError
from resultant.analysis.references import left_out, references
from resultant.analysis.result import FeatureData, FeatureResult, Method
from resultant.analysis.rules import VMFSearch, fit_points, search, vmf_candidates
from resultant.analysis.run import Analysis, analyze_space
from resultant.analysis.sampling import sample_rows
from resultant.analysis.space import FrozenSpace
from resultant.analysis.suspects import duplicates, suspicious_rows, unit_rows

# Features that `resultant extract` takes from the layer that the loss is computed on.
PROJECTION = "projection"

# Test rows times classes at most that the theory is computed for, and training rows times
# dimension.
THEORY_CELLS = 20_000_000
THEORY_ENTRIES = 50_000_000

Progress = Callable[[str], object]


@dataclass(frozen=True)
class Settings:
    """Options of an analysis.

    Attributes:
        estimator: Estimator of kappa.
        temperature: Temperature of the vMF methods; None to choose it.
        references: "none", "fast" or "all".
        calibration: "scale", "sigmoid" or "isotonic".
        device: Device of the vMF methods.
        theory: Also compute the theory and the numbers of the sliders and the map.
    """

    estimator: str = "mle"
    temperature: float | None = None
    references: str = "fast"
    calibration: str = "scale"
    device: torch.device | str = "cpu"
    theory: bool = True


@dataclass(frozen=True, eq=False)
class Fitted:
    """A feature set with its validated methods.

    Attributes:
        data: The rows.
        plan: The validation rows.
        found: The search for vMF settings.
        candidates: The methods.
        seconds: Seconds by step.
    """

    data: FeatureSet
    plan: Plan
    found: VMFSearch
    candidates: list[Candidate]
    seconds: dict[str, float]

    @property
    def score(self) -> float:
        """The validation score of the vMF method that the search chose."""
        c = next(c for c in self.candidates if c.key == self.found.chosen)
        return float((c.validated.predicted == self.plan.labels).double() @ self.plan.weights)


@dataclass(frozen=True, eq=False)
class Evaluated:
    """A feature set whose method is chosen and evaluated: all that a summary says.

    Attributes:
        fitted: The methods.
        result: The result without the explanation.
        tested: Predictions of the evaluated test rows by key.
        model: The recommended model, or the best one.
        vmf: The vMF model of one component per class that the explanation is about.
    """

    fitted: Fitted
    result: FeatureResult
    tested: dict[str, Predictions]
    model: Any
    vmf: Candidate


def fit_rules(data: FeatureSet, settings: Settings, progress: Progress) -> Fitted:
    """Split the rows, and search, fit and validate the vMF methods."""
    started = time.perf_counter()
    rows = plan(data, None if settings.references == "all" else EVALUATED)
    progress("search vMF settings")
    found = search(
        data,
        rows,
        estimator=settings.estimator,
        temperature=settings.temperature,
        device=settings.device,
    )
    progress("fit vMF classifiers")
    candidates = vmf_candidates(
        data, rows, found, calibration=settings.calibration, device=settings.device
    )
    majority = Majority(data.counts)
    checked = predict([majority], rows.validation, rows.rows, data.num_classes)[0]
    candidates.append(
        Candidate(
            *("majority", "always the largest class", "baseline", -1, {}, ""),
            *(checked, majority, 0.0, len(data.fitted)),
        )
    )
    return Fitted(data, rows, found, candidates, {"vmf": time.perf_counter() - started})


def foremost(fitted: Sequence[Fitted]) -> int:
    """Return the index of the feature set with the best validation score.

    Training rows say nothing about a projection, which the loss has fitted to them: validation rows
    of their own alone can choose it.
    """
    able = [
        i
        for i, f in enumerate(fitted)
        if f.plan.folds is None or f.data.name != PROJECTION or len(fitted) == 1
    ]
    return max(able or range(len(fitted)), key=lambda i: fitted[i].score)


def fit_references(
    fitted: Fitted, settings: Settings, progress: Progress, *, slow: bool = True
) -> Fitted:
    """Add the references of scikit-learn; logistic regressions only if ``slow``."""
    started = time.perf_counter()
    more = references(
        fitted.data,
        fitted.plan,
        settings.references,
        slow=slow,
        progress=lambda name: progress(f"fit {name}"),
    )
    candidates = [*fitted.candidates, *more]
    seconds = {**fitted.seconds, "references": time.perf_counter() - started}
    return replace(fitted, candidates=candidates, seconds=seconds)


def evaluate_methods(
    fitted: Fitted, settings: Settings, progress: Progress, *, slow: bool = True
) -> Evaluated:
    """Choose the method, and evaluate all of them on the test rows."""
    started = time.perf_counter()
    data, rows = fitted.data, fitted.plan
    progress("evaluate on the test rows")
    choice = choose(fitted.candidates, rows, fitted.found.chosen)
    methods, tested, labels = evaluate(fitted.candidates, choice, data, rows)
    recommendation = recommend(methods, choice, data, rows)
    named = {c.key: c for c in fitted.candidates}
    vmf = _explained(fitted, settings)
    copies = duplicates(data)
    used = choice.key or choice.best
    method = next(m for m in methods if m.key == used)
    notes = (*data.notes, left_out(data, settings.references, slow))
    described = _described(data, rows, fitted.found, tuple(filter(None, notes)))
    found = cautions(data, rows, copies, method)
    result = FeatureResult(
        data=replace(described, warnings=found),
        methods=methods,
        recommendation=recommendation,
        confusion=confusion(tested[used].predicted, labels, data.num_classes),
        rows={"duplicate": copies},
        map=None,
        explorer=None,
        theory=None,
        seconds={**fitted.seconds, "evaluate": time.perf_counter() - started},
    )
    return Evaluated(fitted, result, tested, named[used].model, vmf)


def _explained(fitted: Fitted, settings: Settings) -> Candidate:
    """Return the chosen vMF method if it has one component per class, else another method of one
    component, else the chosen one fitted again with one."""
    methods = [c for c in fitted.candidates if c.family == "vmf"]
    chosen = next(c for c in methods if c.key == fitted.found.chosen)
    for method in (chosen, *methods):
        if method.settings.get("components", 1) == 1:
            return method
    point = {**fitted.found.points[chosen.key], "components": 1, "device": settings.device}
    ((model, _, _),) = fit_points(fitted.data, fitted.data.fitted, [point])
    return replace(chosen, settings={**chosen.settings, "components": 1}, model=model)


def _described(
    data: FeatureSet, rows: Plan, found: VMFSearch, notes: tuple[str, ...]
) -> FeatureData:
    splits = [s for s in (data.train, data.val, data.test) if s is not None]
    validation = f"settings of vMF methods by {found.words}; methods by {rows.words}"
    return FeatureData(
        source=data.source,
        name=data.name,
        dim=data.dim,
        class_names=data.class_names,
        splits={s.name: len(s) for s in splits},
        train=data.train.name,
        test=data.test.name,
        val=None if data.val is None else data.val.name,
        validation=validation if found.words != rows.words else rows.words,
        metric=rows.metric,
        train_count=data.counts.numpy(),
        test_count=torch.bincount(data.test.y, minlength=data.num_classes).numpy(),
        group=data.groups.numpy(),
        group_names=data.group_names,
        evaluated=len(data.test) if rows.test is None else len(rows.test),
        notes=notes,
    )


def explain(evaluated: Evaluated, settings: Settings, progress: Progress) -> FeatureResult:
    """Add rows to look at, the map, the numbers of the sliders and the theory."""
    started = time.perf_counter()
    fitted, result = evaluated.fitted, evaluated.result
    data = fitted.data
    progress("look for suspicious rows")
    suspects = suspicious_rows(data, evaluated.vmf.model)
    progress("map and sliders")
    used = result.recommendation.key or result.recommendation.best
    rows = rows_of(data.test, fitted.plan.test)
    directions = fit_directions(data, settings.estimator)
    drawn = feature_map(data, directions, rows, evaluated.tested[used].predicted)
    sliders = explorer(data, fitted.plan, directions, rows, evaluated.vmf.settings)
    seconds = {**result.seconds, "map": time.perf_counter() - started}
    started = time.perf_counter()
    answers = theory(evaluated, result.methods, settings, progress)
    seconds["theory"] = time.perf_counter() - started
    return replace(
        result,
        rows={**suspects, **result.rows},
        map=drawn,
        explorer=sliders,
        theory=answers,
        seconds=seconds,
    )


def theory(
    evaluated: Evaluated, methods: Sequence[Method], settings: Settings, progress: Progress
) -> Analysis:
    """Ask the questions of the paper about the classes of the method "native", at its temperature
    and in its metric."""
    data = evaluated.fitted.data
    native = next((c for c in evaluated.fitted.candidates if c.key == "native"), evaluated.vmf)
    some = sample_rows(len(data.test), THEORY_CELLS // data.num_classes, 0)
    train = MetricRows(data.train.x, native.model)
    space = FrozenSpace.fit(
        train,
        data.train.y,
        MetricRows(data.test.x, native.model)[some],
        data.test.y[some],
        num_classes=data.num_classes,
        name=data.name,
        tau=native.settings["temperature"],
        estimator=settings.estimator,
        identities=data.train.identities,
        device=settings.device,
    )
    if data.kept_apart is not None:
        fitting = torch.ones(len(data.train), dtype=torch.bool)
        fitting[data.kept_apart] = False
        statistics = native.model.statistics_.to("cpu")
        space = replace(space, fitting=fitting, statistics=statistics)
    return analyze_space(space, progress=lambda step, _: progress(f"theory: {step}"))


class MetricRows:
    """Rows [N, p] in the metric of a `VMFClassifier`, read when they are asked for.

    Args:
        rows: Rows [N, p].
        model: The classifier.
    """

    def __init__(self, rows: Any, model: Any) -> None:
        self.rows, self.model, self.shape = rows, model, tuple(rows.shape)
        self.dtype = torch.float32

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, at: Any) -> Tensor:
        if getattr(self.model, "metric_", None) is None:
            return self.rows[at].float()
        return unit_rows(self.model, self.rows[at].float()).float().cpu()


def analyze_sets(
    sets: Sequence[FeatureSet],
    settings: Settings,
    progress: Progress,
    summarized: Callable[[Evaluated], object] | None = None,
) -> tuple[list[Evaluated], int]:
    """Analyze several feature sets of the same source.

    Args:
        sets: The feature sets.
        settings: Options.
        progress: Called with the name of each step.
        summarized: Called with the set to use as soon as it is evaluated.

    Returns:
        The evaluated sets with complete results, and the index of the set to use.
    """
    if not sets:
        raise UnansweredError("expected one feature set or more, got none")
    step = (lambda name: lambda text: progress(f"{name}: {text}")) if len(sets) > 1 else None
    steps = [progress if step is None else step(data.name) for data in sets]
    fitted = [fit_rules(data, settings, steps[i]) for i, data in enumerate(sets)]
    first = foremost(fitted)
    evaluated: dict[int, Evaluated] = {}
    for i in sorted(range(len(sets)), key=lambda i: i != first):
        slow = settings.references == "all" or i == first
        one = fit_references(fitted[i], settings, steps[i], slow=slow)
        evaluated[i] = evaluate_methods(one, settings, steps[i], slow=slow)
        if i == first and summarized is not None:
            summarized(evaluated[i])
    if settings.theory:
        for i, one in evaluated.items():
            evaluated[i] = replace(one, result=explain(one, settings, steps[i]))
    return [evaluated[i] for i in range(len(sets))], first
