"""The analysis of feature sets as a sequence: split, fit, choose, evaluate, explain."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resultant.analysis import metrics
from resultant.analysis.advice import learning_curve, next_steps
from resultant.analysis.candidate import Candidate
from resultant.analysis.choose import Choice, choose, recommend
from resultant.analysis.evaluate import confusion, evaluate
from resultant.analysis.explain import Findings, cautions, duplicates, look, suspicious_rows
from resultant.analysis.fit import Progress, fit, one_of_blas
from resultant.analysis.pictures import explorer, feature_map, fit_directions
from resultant.analysis.references import left_out
from resultant.analysis.result import AnalysisResult, FeatureData, FeatureResult
from resultant.analysis.sets import summary_of
from resultant.analysis.split import FeatureSet, Plan, Settings, Split, plan
from resultant.analysis.theory import Theory, gain_distribution, named_groups
from resultant.classes.groups import shot_groups
from resultant.classifiers.search import REFINED

# Features that `resultant extract` takes from the layer that the loss is computed on.
PROJECTION = "projection"


@dataclass(eq=False)
class Study:
    """One feature set on its way through the steps, each of which fills in a part."""

    data: FeatureSet
    plan: Plan
    settings: Settings
    candidates: list[Candidate] = field(default_factory=list)
    choice: Choice | None = None
    result: FeatureResult | None = None

    @cached_property
    def findings(self) -> Findings:
        """The quality of labels, outliers and near-duplicates of all rows."""
        with one_of_blas(len(self.data.train) * self.data.dim):
            return look(self.data, self.used, self.vmf)

    @property
    def used(self) -> Candidate:
        """The recommended method, or the best one if none is recommended."""
        assert self.choice is not None, "choose before"
        return self.named(self.choice.used if self.choice.able else self.choice.best)

    @property
    def vmf(self) -> Candidate:
        """The used method if its classes are sums of rows, else the best such method."""
        able = [c for c in self.candidates if c.family == "vmf" and c.key != REFINED]
        if self.used in able or not able:
            return self.used
        return max(able, key=lambda c: float(c.hits(self.plan.labels) @ self.plan.weights))

    @property
    def score(self) -> float:
        """The best validation score."""
        assert self.choice is not None, "choose before"
        return float(self.named(self.choice.best).hits(self.plan.labels) @ self.plan.weights)

    @property
    def right(self) -> Tensor:
        """Test rows [M] that the used method predicts correctly."""
        assert self.used.tested is not None, "evaluate before"
        return self.used.tested.predicted == self.data.test.y[self.plan.test]

    def named(self, key: str) -> Candidate:
        """Return a candidate by its key."""
        return next(c for c in self.candidates if c.key == key)


def run(
    sets: Sequence[FeatureSet],
    settings: Settings | None = None,
    progress: Progress = lambda _: None,
    summarized: Callable[[Study], object] = lambda _: None,
) -> tuple[list[Study], int]:
    """Analyze feature sets of one source.

    Args:
        sets: The feature sets, see `resultant.analysis.read`.
        settings: Options of the analysis.
        progress: Called with the name of each step.
        summarized: Called with the best feature set before its rows are explained.

    Returns:
        One study per feature set, and the index of the best one.

    Example:
        >>> x = torch.rand(40, 3) + torch.eye(3)[[0, 1] * 20]
        >>> (study,), first = run(read(x, 20 * ["ant", "bee"]))
        >>> study.used.key in {method.key for method in study.result.methods}
        True
    """
    settings = settings or Settings()
    if not sets:
        raise metrics.UnansweredError("expected one feature set or more, got none")
    several = len(sets) > 1
    steps = [
        (lambda text, name=data.name: progress(f"{name}: {text}")) if several else progress
        for data in sets
    ]
    studies = [Study(data, plan(data, settings), settings) for data in sets]
    for study, step in zip(studies, steps, strict=True):
        study.candidates = fit(study.data, study.plan, settings, step)
        study.choice = choose(study.candidates, study.plan)
    # Training rows say nothing about a projection, which the loss has fitted to them.
    every = range(len(sets))
    able = [i for i in every if studies[i].plan.folds is None or sets[i].name != PROJECTION]
    first = max(able or every, key=lambda i: studies[i].score)
    for i in sorted(every, key=lambda i: i != first):
        steps[i]("evaluate on the test rows")
        summarize(studies[i])
        if i == first:
            summarized(studies[i])
    for study, step in zip(studies, steps, strict=True):
        if settings.theory:
            explain(study, step)
    return studies, first


def result_of(title: str, studies: Sequence[Study], chosen: int, **about: Any) -> AnalysisResult:
    """Return the result of studies, of which one is chosen, with other facts by name."""
    features = tuple(study.result for study in studies if study.result is not None)
    return AnalysisResult(title, features, chosen, **about)


def summarize(study: Study) -> None:
    """Evaluate the candidates, and make the result without explanations."""
    data, rows, choice = study.data, study.plan, study.choice
    assert choice is not None, "choose before"
    started = time.perf_counter()
    with one_of_blas(len(data.test) * data.dim):
        methods = evaluate(study.candidates, choice, data, rows)
        copies, across = duplicates(data)
    used = next(m for m in methods if m.key == study.used.key)
    assert study.used.tested is not None
    study.result = FeatureResult(
        data=about(study, tuple(cautions(data, rows, across, used))),
        methods=methods,
        recommendation=recommend(methods, choice, data, rows),
        confusion=confusion(study.used.tested.predicted, data.test.y[rows.test], data.num_classes),
        rows={"duplicate": copies},
        seconds={
            "fit": sum(c.fit_seconds for c in study.candidates),
            "evaluate": time.perf_counter() - started,
        },
    )


def about(study: Study, warnings: tuple[metrics.Caution, ...]) -> FeatureData:
    """Return the facts of a feature set."""
    data, rows = study.data, study.plan
    stopped = next((c.note for c in study.candidates if c.family == "vmf"), "")
    notes = (*data.notes, stopped, left_out(data, study.settings.references))
    return FeatureData(
        source=data.source,
        name=data.name,
        dim=data.dim,
        class_names=data.class_names,
        splits={s.name: len(s) for s in data.splits},
        train=data.train.name,
        test=data.test.name,
        val=None if data.val is None else data.val.name,
        validation=rows.words,
        metric=rows.metric,
        metric_reason=rows.reason,
        train_count=data.counts.numpy(),
        test_count=torch.bincount(data.test.y, minlength=data.num_classes).numpy(),
        distinct_count=distinct_rows(data.test, data.num_classes),
        group=shot_groups(data.counts).numpy(),
        group_names=named_groups(data.counts),
        evaluated=len(rows.test),
        notes=tuple(filter(None, notes)),
        warnings=warnings,
        metadata=data.metadata,
    )


def distinct_rows(split: Split, num_classes: int) -> np.ndarray:
    """Count the rows [C] of each class, copies once."""
    pairs = np.unique(np.stack([split.y.numpy(), split.digests]), axis=1)
    return np.bincount(pairs[0], minlength=num_classes)


def explain(study: Study, progress: Progress) -> None:
    """Add rows to look at, the map, the numbers of the sliders and the gains of the classes."""
    started, result = time.perf_counter(), study.result
    assert result is not None and study.used.tested is not None, "summarize before"
    data, rows, vmf = study.data, study.plan, study.vmf
    with one_of_blas(len(data.train) * data.dim):
        progress("look for suspicious rows")
        found = {**suspicious_rows(data, study.findings), **result.rows}
        progress("learning curve")
        curve = learning_curve(data, rows, study.used)
        used = result.method(study.used.key)
        steps = tuple(next_steps(result.data, used, result.confusion, found, curve))
        sets = summary_of(study.used.model, data, rows.test)
        progress("map and sliders")
        directions = fit_directions(data, study.settings.estimator)
        drawn = feature_map(data, rows, directions, study.used.tested.predicted)
        sliders = explorer(data, rows, directions, vmf)
        tau, sums = vmf.settings["temperature"], vmf.model.statistics_.to("cpu")
        counts = torch.bincount(data.train.y[data.fitted], minlength=data.num_classes)
        gains = gain_distribution(sums, counts, study.settings.estimator, tau)
    seconds = {**result.seconds, "explain": time.perf_counter() - started}
    more: dict[str, Any] = {"steps": steps, "curve": curve, "sets": sets}
    more |= {"map": drawn, "explorer": sliders}
    study.result = replace(result, rows=found, seconds=seconds, theory=Theory(tau, gains), **more)
