"""Small results of an analysis, built from generated rows, and a browser that the tests share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from browser import CHROMIUM, Browser
from resultant import ClassState, class_scores, mean_resultant
from resultant.analysis import FrozenSpace, analyze_space
from resultant.analysis.result import (
    AnalysisResult,
    Caution,
    Confusion,
    Difference,
    Estimate,
    Explorer,
    FeatureData,
    FeatureMap,
    FeatureResult,
    Method,
    Recommendation,
    Reliability,
    RowTable,
    SetComparison,
)

# A name that must not become HTML or a script.
HOSTILE = "</script><b>&\"'class 1"
TAU = 0.1
SHRINKAGES = (np.nan, 0.3)


def estimate(correct: np.ndarray) -> Estimate:
    value, error = float(correct.mean()), float(correct.std() / len(correct) ** 0.5)
    return Estimate(value, value - 1.96 * error, value + 1.96 * error, error)


@dataclasses.dataclass(frozen=True)
class Rows:
    """Generated training and test rows."""

    z: torch.Tensor
    y: torch.Tensor
    test: torch.Tensor
    test_y: torch.Tensor

    @property
    def classes(self) -> int:
        return int(self.y.max()) + 1


def rows_of(classes: int, dim: int, per_class: int, seed: int) -> Rows:
    generator = torch.Generator().manual_seed(seed)
    count = [max(3, round(200 * 0.01 ** (c / max(1, classes - 1)))) for c in range(classes)]
    y = torch.repeat_interleave(torch.arange(classes), torch.tensor(count))
    test_y = torch.arange(classes).repeat_interleave(per_class)
    mu = torch.randn(classes, dim, dtype=torch.float64, generator=generator)
    tight = torch.linspace(0.9, 1.9, classes, dtype=torch.float64)[:, None] * (dim / 16) ** 0.25
    z, test = (
        torch.nn.functional.normalize(
            mu[of] + tight[of] * torch.randn(len(of), dim, dtype=torch.float64, generator=generator)
        )
        for of in (y, test_y)
    )
    return Rows(z, y, test, test_y)


def method(
    key: str, name: str, family: str, scores: torch.Tensor, rows: Rows, group: np.ndarray
) -> Method:
    label = rows.test_y.numpy()
    probability = scores.softmax(1).numpy()
    predicted, confidence = probability.argmax(1), probability.max(1)
    correct = (predicted == label).astype(float)
    per_class = np.array([correct[label == c].mean() for c in range(rows.classes)])
    loss = -np.log(probability[np.arange(len(label)), label])
    bins = np.minimum((confidence * 15).astype(int), 14)
    count = np.bincount(bins, minlength=15)
    with np.errstate(invalid="ignore"):
        sure, right = (np.bincount(bins, v, 15) / count for v in (confidence, correct))
    error = float(np.nansum(count * np.abs(sure - right)) / len(label))
    groups = {
        g: float(per_class[group == i].mean()) for i, g in enumerate(("head", "medium", "tail"))
    }
    return Method(
        key,
        name,
        family,
        {"realization": key, "temperature": TAU},
        f"VMFClassifier(realization={key!r})",
        *(estimate(correct), estimate(loss), estimate(correct), estimate(correct)),
        estimate(loss),
        Reliability(count, sure, right, error),
        groups,
        per_class,
        None,
        *(0.01, 0.002, len(rows.y)),
    )


def explorer(rows: Rows, state: ClassState, most: int) -> Explorer:
    candidates = np.arange(state.num_classes)[None].repeat(len(rows.test), 0)
    cosine = (rows.test @ state.mu.T).numpy()
    if most < state.num_classes:
        near = np.argsort(-cosine, 1)[:, :most]
        own = rows.test_y.numpy()
        near[~(near == own[:, None]).any(1), -1] = own[~(near == own[:, None]).any(1)]
        candidates, cosine = near, np.take_along_axis(cosine, near, 1)
    shown = np.array([0, state.num_classes // 2, state.num_classes - 1])
    pair = (state.mu @ state.mu.T).numpy()[np.ix_(shown, shown)]
    both = lambda v: np.stack([v] * len(SHRINKAGES))  # noqa: E731
    resultant, n = mean_resultant(state.dim, state.kappa).numpy(), len(rows.test)
    return Explorer(
        *(state.dim, np.array(SHRINKAGES), both(state.kappa.numpy()), both(resultant)),
        np.log(state.count.double().numpy() / float(state.count.sum())),
        *(np.arange(n), rows.test_y.numpy(), np.full(n, 1 / n), candidates, both(cosine)),
        *(shown, both(pair)),
        {
            "realization": "angular",
            "beta": 0.5,
            "temperature": TAU,
            "prior": 0.0,
            "metric": 0,
            "scale": 1.0,
        },
    )


@cache
def feature_result(
    classes: int = 12,
    dim: int = 16,
    per_class: int = 20,
    seed: int = 0,
    source: str = "store.npz",
    candidates: int = 1000,
) -> FeatureResult:
    rows = rows_of(classes, dim, per_class, seed)
    space = FrozenSpace.fit(rows.z, rows.y, rows.test, rows.test_y, tau=TAU)
    questions = ["gains", "boundaries", "cosine", "intercepts", "fit"]
    theory = analyze_space(space, questions)
    state = space.state
    count = np.bincount(rows.y.numpy(), minlength=classes)
    group = np.where(count > 100, 0, np.where(count >= 20, 1, 2))
    scores = {r: class_scores(rows.test, state, TAU, r, 0.5) for r in ("angular", "native")}
    methods = [
        method("angular", "angular (Pure Angular)", "vmf", scores["angular"], rows, group),
        method("native", "native", "vmf", scores["native"], rows, group),
        method(
            *("LogisticRegression", "logistic regression", "scikit-learn"),
            *(9 * rows.test @ state.mu.T, rows, group),
        ),
        method(
            *("majority", "always the largest class", "baseline"),
            *(0 * rows.test @ state.mu.T, rows, group),
        ),
    ]
    worse = Difference(-0.05, -0.08, -0.02, 0.015, 0.001, "worse")
    methods = [methods[0], *(dataclasses.replace(m, difference=worse) for m in methods[1:])]
    label, predicted = rows.test_y.numpy(), scores["angular"].argmax(1).numpy()
    matrix = np.zeros((classes, classes), int)
    np.add.at(matrix, (label, predicted), 1)
    off = matrix * (1 - np.eye(classes, dtype=int))
    true, guess = np.nonzero(off)
    order = np.argsort(-off[true, guess], kind="stable")[:20]
    pairs = np.stack([true, guess], 1)[order]
    names = (HOSTILE, *(f"class {c + 1}" for c in range(1, classes)))
    wrong = np.flatnonzero(label != predicted)[:5]
    strings = lambda text, n: np.array([text] * n)  # noqa: E731

    def table(kind: str, score: np.ndarray, other: np.ndarray) -> RowTable:
        n = len(score)
        identity = np.array([f"image-{i}" for i in wrong[:n]])
        copies = strings("train", n) if kind == "duplicate" else np.array([])
        return RowTable(
            kind, strings("test", n), wrong[:n], identity, label[wrong[:n]], other, score, copies, n
        )

    rows_ = {
        "label": table("label", np.linspace(9, 5, len(wrong)), predicted[wrong]),
        "duplicate": table("duplicate", np.array([7.0, 9.0]), label[wrong[:2]]),
        "outlier": table("outlier", np.array([7.5, 4.25]), predicted[wrong[:2]]),
    }
    u, s, _ = np.linalg.svd(rows.test.numpy() - rows.test.numpy().mean(0), full_matrices=False)
    explained = s**2 / (s**2).sum()
    small = classes <= 200
    return FeatureResult(
        FeatureData(
            *(source, "encoder", dim, names, {"train": len(rows.y), "test": len(label)}),
            *("train", "test", None, f"5-fold cross-validation on {len(rows.y):,} training rows"),
            *("balanced accuracy", count, np.bincount(label), group, ("head", "medium", "tail")),
            *(len(label), ("3 rows without a label were left out.",)),
            (Caution("duplicates", "2 test rows are exact duplicates of training rows."),),
        ),
        tuple(methods),
        Recommendation(
            "angular",
            "angular",
            (
                "Use angular (Pure Angular): balanced accuracy 71.2 % [65.4, 77.0] on test rows.",
                "It beats logistic regression by 5.0 points [2.0, 8.0].",
            ),
            'VMFClassifier.load("classifier.safetensors")',
            "classifier.safetensors",
        ),
        Confusion(
            pairs,
            off[pairs[:, 0], pairs[:, 1]],
            off[pairs[:, 0], pairs[:, 1]] / per_class,
            matrix if small else None,
            np.argsort(count) if small else None,
        ),
        rows_,
        FeatureMap(
            *("PCA", u[:, 0], u[:, 1], np.arange(len(label)), strings("", len(label))),
            *(label, predicted, (float(explained[0]), float(explained[1]))),
        ),
        explorer(rows, state, candidates),
        theory,
        {"read": 0.1},
    )


def analysis_result(*features: FeatureResult, **more: Any) -> AnalysisResult:
    files = {"results": "results.json", "rows": "rows.csv", "classifier": "classifier.safetensors"}
    return AnalysisResult(
        "store.npz", features or (feature_result(),), files=files, versions={"torch": "2"}, **more
    )


@pytest.fixture(scope="session")
def feature() -> Callable[..., FeatureResult]:
    """A function that builds the result of one feature set."""
    return feature_result


@pytest.fixture(scope="session")
def result() -> AnalysisResult:
    return analysis_result()


@pytest.fixture(scope="session")
def several() -> AnalysisResult:
    """Two feature sets and the verdict on them."""
    verdict = Difference(0.03, 0.01, 0.05, 0.01, 0.004, "better")
    sentence = "b.npz is better: +3.0 points of balanced accuracy [+1.0, +5.0]."
    comparison = SetComparison(0, 1, "balanced accuracy", verdict, True, 240, sentence)
    features = (feature_result(), feature_result(seed=1, source="b.npz"))
    return analysis_result(*features, chosen=1, comparisons=(comparison,))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("needs chromium")
    browser = Browser()
    yield browser
    browser.close()
