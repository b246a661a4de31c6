"""The analysis of feature sets: split, fit, choose, evaluate, explain; and compare two sets."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from resultant._core.text import signed
from resultant.analysis import methods, metrics
from resultant.analysis.data import EVALUATED, FeatureSet, Plan, Settings, plan, row_weights
from resultant.analysis.evaluate import (
    Candidate,
    Predictions,
    choose,
    confusion,
    evaluate,
    majority,
    recommend,
)
from resultant.analysis.explain import (
    cautions,
    duplicates,
    explorer,
    feature_map,
    fit_directions,
    suspicious_rows,
)
from resultant.analysis.result import FeatureData, FeatureResult, SetComparison
from resultant.analysis.space import FrozenSpace, named_groups
from resultant.analysis.theory import ask_theory
from resultant.classes.groups import shot_groups
from resultant.features.identities import match_rows

# Features that `resultant extract` takes from the layer that the loss is computed on.
PROJECTION = "projection"

# Test rows times classes at most that the theory is asked of.
THEORY_CELLS = 20_000_000

# Verdicts on two feature sets.
WORDS = {"better": "B is better than A", "worse": "A is better than B"}
WORDS["tie"] = "A and B are not significantly different"

Progress = Callable[[str], object]


@dataclass(frozen=True, eq=False)
class Fitted:
    """A feature set with its validated methods."""

    data: FeatureSet
    plan: Plan
    found: methods.VMFSearch
    candidates: list[Candidate]
    seconds: dict[str, float]

    @property
    def score(self) -> float:
        """The validation score of the vMF method that the search chose."""
        c = next(c for c in self.candidates if c.key == self.found.chosen)
        return float((c.validated.predicted == self.plan.labels).double() @ self.plan.weights)


@dataclass(frozen=True, eq=False)
class Evaluated(Fitted):
    """A feature set whose method is chosen and evaluated."""

    result: FeatureResult
    tested: dict[str, Predictions]  # predictions of the evaluated test rows by key

    @property
    def used(self) -> Candidate:
        """The recommended method, or the best one."""
        advice = self.result.recommendation
        return next(c for c in self.candidates if c.key == (advice.key or advice.best))

    @property
    def right(self) -> Tensor:
        """Test rows [M] that this method predicts correctly."""
        return self.tested[self.used.key].predicted == self.data.test.y[self.plan.test]


def analyze_sets(
    sets: Sequence[FeatureSet],
    settings: Settings,
    progress: Progress,
    summarized: Callable[[Evaluated], object] = lambda _: None,
) -> tuple[list[Evaluated], int]:
    """Analyze feature sets of one source; return them in order, and the index of the best one, with
    which ``summarized`` is called as soon as it is evaluated."""
    if not sets:
        raise metrics.UnansweredError("expected one feature set or more, got none")
    names = [f"{data.name}: " if len(sets) > 1 else "" for data in sets]
    steps: list[Progress] = [lambda text, name=name: progress(name + text) for name in names]
    plans = [plan(data, None if settings.references == "all" else EVALUATED) for data in sets]
    every, evaluated = range(len(sets)), {}
    # Training rows say nothing about a projection, which the loss has fitted to them.
    able = [i for i in every if plans[i].folds is None or sets[i].name != PROJECTION] or every
    fitted = {i: fit_rules(sets[i], plans[i], settings, steps[i]) for i in able}
    first = max(able, key=lambda i: fitted[i].score)
    for i in sorted(every, key=lambda i: i != first):
        one = fitted.get(i) or fit_rules(sets[i], plans[i], settings, steps[i])
        slow = settings.references == "all" or i == first
        evaluated[i] = evaluate_methods(one, settings, steps[i], slow=slow)
        if i == first:
            summarized(evaluated[i])
    for i, one in evaluated.items() if settings.theory else ():
        evaluated[i] = replace(one, result=explain(one, settings, steps[i]))
    return [evaluated[i] for i in every], first


def fit_rules(data: FeatureSet, rows: Plan, settings: Settings, progress: Progress) -> Fitted:
    """Search, fit and validate the vMF methods."""
    started = time.perf_counter()
    progress("search vMF settings")
    found = methods.search(data, rows, settings)
    progress("fit vMF classifiers")
    candidates = [*methods.vmf_candidates(data, rows, found, settings), majority(data, rows)]
    return Fitted(data, rows, found, candidates, {"vmf": time.perf_counter() - started})


def evaluate_methods(
    fitted: Fitted, settings: Settings, progress: Progress, *, slow: bool = True
) -> Evaluated:
    """Fit references (logistic ones only if ``slow``), choose, and evaluate on the test rows."""
    started, data, rows = time.perf_counter(), fitted.data, fitted.plan
    level = settings.references
    more = methods.references(
        data, rows, level, slow=slow, progress=lambda name: progress(f"fit {name}")
    )
    candidates = [*fitted.candidates, *more]
    seconds = {**fitted.seconds, "references": time.perf_counter() - started}
    started = time.perf_counter()
    progress("evaluate on the test rows")
    best, key = choose(candidates, rows, fitted.found.chosen)
    judged, tested = evaluate(candidates, key, data, rows)
    copies, words = duplicates(data), fitted.found.words
    method = next(m for m in judged if m.key == (key or best))
    validation = f"settings of vMF methods by {words}; methods by {rows.words}"
    about = FeatureData(
        source=data.source,
        name=data.name,
        dim=data.dim,
        class_names=data.class_names,
        splits={s.name: len(s) for s in data.splits},
        train=data.train.name,
        test=data.test.name,
        val=None if data.val is None else data.val.name,
        validation=validation if words != rows.words else words,
        metric=rows.metric,
        train_count=data.counts.numpy(),
        test_count=torch.bincount(data.test.y, minlength=data.num_classes).numpy(),
        group=shot_groups(data.counts).numpy(),
        group_names=named_groups(data.counts),
        evaluated=len(rows.test),
        notes=tuple(filter(None, (*data.notes, methods.left_out(data, level, slow)))),
        warnings=tuple(cautions(data, rows, copies, method)),
        metadata=data.metadata,
    )
    result = FeatureResult(
        data=about,
        methods=judged,
        recommendation=recommend(judged, best, key, data, rows),
        confusion=confusion(
            tested[key or best].predicted, data.test.y[rows.test], data.num_classes
        ),
        rows={"duplicate": copies},
        seconds={**seconds, "evaluate": time.perf_counter() - started},
    )
    return Evaluated(data, rows, fitted.found, candidates, fitted.seconds, result, tested)


def explain(evaluated: Evaluated, settings: Settings, progress: Progress) -> FeatureResult:
    """Add rows to look at, the map, the numbers of the sliders and the theory."""
    started, result = time.perf_counter(), evaluated.result
    data, rows = evaluated.data, evaluated.plan
    vmf = one_component(evaluated, settings)
    progress("look for suspicious rows")
    found = {**suspicious_rows(data, vmf.model), **result.rows}
    progress("map and sliders")
    directions = fit_directions(data, settings.estimator)
    drawn = feature_map(data, rows, directions, evaluated.tested[evaluated.used.key].predicted)
    sliders = explorer(data, rows, directions, vmf.settings)
    seconds = {**result.seconds, "map": time.perf_counter() - started}
    # Questions of the page about the classes of the method "native", in its metric.
    native = next((c for c in evaluated.candidates if c.key == "native"), vmf)
    some = metrics.sample_rows(len(data.test), THEORY_CELLS // data.num_classes, 0)
    own, identities = data.fitted, data.train.identities
    space = FrozenSpace.fit(
        MetricRows(data.train.x, native.model.metric_, None if data.kept_apart is None else own),
        data.train.y[own],
        MetricRows(data.test.x, native.model.metric_)[some],
        data.test.y[some],
        num_classes=data.num_classes,
        name=data.name,
        tau=native.settings["temperature"],
        estimator=settings.estimator,
        identities=None if identities is None else identities[own],
        device=settings.device,
    )
    progress("theory")
    answers = ask_theory(space)
    seconds["theory"] = time.perf_counter() - started - seconds["map"]
    return replace(result, rows=found, map=drawn, explorer=sliders, theory=answers, seconds=seconds)


def one_component(fitted: Fitted, settings: Settings) -> Candidate:
    """Return the chosen vMF method, or another, with one component per class."""
    able = [c for c in fitted.candidates if c.family == "vmf"]
    chosen = next(c for c in able if c.key == fitted.found.chosen)
    for method in (chosen, *able):
        if method.settings.get("components", 1) == 1:
            return method
    point = {**fitted.found.points[chosen.key], "components": 1, "device": settings.device}
    ((model, _, _),) = methods.fit_points(fitted.data, fitted.data.fitted, [point])
    return replace(chosen, settings={**chosen.settings, "components": 1}, model=model)


class MetricRows:
    """Rows [N, p] of an ``index`` [n] or all as unit vectors of a metric, read when asked for."""

    def __init__(self, rows: Any, metric: Any, index: Tensor | None = None) -> None:
        self.rows, self.metric, self.index, self.dtype = rows, metric, index, torch.float32
        self.shape = (len(rows) if index is None else len(index), rows.shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, at: Any) -> Tensor:
        x = self.rows[at if self.index is None else self.index[at]].float()
        return x if self.metric is None else methods.unit_rows(self.metric, x).float().cpu()


def compare_sets(evaluated: Sequence[Evaluated], a: int, b: int) -> SetComparison:
    """Compare two feature sets on test rows paired by their identities, or else on two samples."""
    sides = evaluated[a], evaluated[b]
    metric, values = sides[0].result.data.metric, []
    known, labels = zip(
        *((s.data.test.identities, s.data.test.y[s.plan.test]) for s in sides), strict=True
    )
    match = None
    if known[0] is not None and known[1] is not None:
        match = match_rows(known[0][sides[0].plan.test], known[1][sides[1].plan.test])
    if match is not None and match.kind in ("same", "reordered"):
        weights = row_weights(labels[0][match.a], metric)
        d = metrics.paired_gain(sides[0].right[match.a], sides[1].right[match.b], weights)
        number, rows = len(match.a), "the same test rows"
        if d.p_value < metrics.SIGNIFICANCE:
            rows += f", p = {d.p_value:.2g}"
    else:
        (x, x_error), (y, y_error) = (
            metrics.mean_and_error(side.right.double(), row_weights(own, metric))
            for side, own in zip(sides, labels, strict=True)
        )
        d = metrics.Difference.of(y - x, math.hypot(x_error, y_error), math.nan)
        number, rows = sum(map(len, labels)), "test rows that are not known to be the same"
    for side in sides:
        method = side.result.method(side.used.key)
        values.append(f"{100 * method.metric(metric).value:.1f} % with {method.name}")
    value, low, high = (signed(100 * v) for v in (d.gain, d.low, d.high))
    points = f"{value} points [{low}, {high}]"
    text = f"{WORDS[d.verdict]}: {metric} {values[0]} against {values[1]}; {points} for B on {rows}"
    return SetComparison(a, b, metric, d, not math.isnan(d.p_value), number, f"{text}.")
