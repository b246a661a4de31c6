"""The result of an analysis, from which the page, the summary, JSON and the files are made.

Shares are between 0 and 1, losses in nats, times in seconds; an undefined number is NaN or None.
"""

from __future__ import annotations

import html
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from resultant.analysis.metrics import Caution, Difference, Estimate, Result
from resultant.analysis.theory import Theory
from resultant.features.selection import LABEL_COLUMN


@dataclass(frozen=True, eq=False)
class FeatureData(Result):
    """The rows of one feature set; counts and groups are per class."""

    source: str  # file or folder that was read, as the user named it
    name: str  # array or column of the features, such as "encoder"
    dim: int
    class_names: tuple[str, ...]  # names of the C classes; numbers as text if they have no names
    splits: dict[str, int]  # rows by split, under the names of the user
    train: str
    test: str
    val: str | None  # name of the split that validates; None if training rows validate
    validation: str  # the validation in words: "5-fold cross-validation on 10,847 training rows"
    metric: str  # "accuracy" or "balanced accuracy"
    metric_reason: str  # the reason for the metric in a sentence
    train_count: np.ndarray
    test_count: np.ndarray
    distinct_count: np.ndarray  # test rows without copies
    group: np.ndarray  # shot groups [C], indices of group_names, which are empty for equal classes
    group_names: tuple[str, ...]
    evaluated: int  # test rows that evaluated the methods; fewer than all if sampled
    notes: tuple[str, ...] = ()  # sentences about classes, rows or methods that were left out
    warnings: tuple[Caution, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def classes(self) -> str:
        """The number of classes, and the column of their labels."""
        column = self.metadata.get(LABEL_COLUMN)
        return f"{len(self.class_names):,} classes" + (f" (labels: {column})" if column else "")


@dataclass(frozen=True, eq=False)
class Reliability(Result):
    """Rows, mean confidence and accuracy (or NaN) in 15 bins, and the calibration error."""

    count: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray
    error: float


@dataclass(frozen=True, eq=False)
class Method(Result):
    """One classifier, validated and then evaluated on the test rows."""

    # Unique name as in the API: a realization of `VMFClassifier`, "refined", a class of
    # scikit-learn such as "LogisticRegression(balanced)", or "majority".
    key: str
    name: str  # name for people, such as "angular (Pure Angular)" or "logistic regression"
    family: str  # "vmf", "scikit-learn" or "baseline"
    settings: dict[str, Any]  # chosen settings by parameter name of the API
    code: str  # Python that builds the classifier with these settings
    validation: Estimate  # metric of `FeatureData.metric` on the validation rows
    validation_loss: Estimate  # log-loss on the validation rows
    accuracy: Estimate  # accuracy on the test rows, as are balanced accuracy and log_loss
    balanced: Estimate
    log_loss: Estimate
    reliability: Reliability | None  # calibration on the test rows; None for fewer than 30 rows
    groups: dict[str, float]  # mean accuracy of the classes of each shot group, NaN without rows
    class_accuracy: np.ndarray  # accuracy [C] per class, NaN without test rows
    difference: Difference | None  # metric minus that of the recommended method, on the same rows
    fit_seconds: float
    predict_seconds: float
    rows: int  # training rows of the final fit; fewer than the fitted rows if sampled
    note: str = ""  # a sentence about sampling or convergence, or ""

    def metric(self, name: str) -> Estimate:
        """Return "accuracy" or "balanced accuracy" on the test rows."""
        return self.accuracy if name == "accuracy" else self.balanced


@dataclass(frozen=True, eq=False)
class Recommendation(Result):
    """The method to use."""

    key: str | None  # key of the method; None if none beats always predicting the largest class
    best: str  # key of the best validation score of all methods, with which a simpler one may tie
    sentences: tuple[str, ...]  # two: what to use with its accuracy, and why
    code: str  # Python that loads the saved classifier, or builds and fits it; "" without one
    saved: str = ""  # name of the file of the saved classifier beside the page; "" without one


@dataclass(frozen=True, eq=False)
class Confusion(Result):
    """Errors of the recommended method on the test rows."""

    pairs: np.ndarray  # true and predicted class [K, 2], the most frequent error first
    count: np.ndarray  # test rows [K] of these pairs, and their share of the true class
    share: np.ndarray
    matrix: np.ndarray | None  # counts [C, C], true by predicted; None for more than 200 classes
    order: np.ndarray | None  # order [C] that puts confused classes side by side


@dataclass(frozen=True, eq=False)
class Places(Result):
    """Places [n] of rows in the files of the user, one per entry."""

    split: np.ndarray  # split of each row, by the name of the user
    file: np.ndarray  # file of each row
    row: np.ndarray  # number of each row in its file, from 0, without a header line
    # Columns of the user that describe the rows, by name: an identity first, a text, a path.
    columns: dict[str, list[str]]

    @cached_property
    def short_files(self) -> dict[str, str]:
        """The names of the files, without folders unless two files differ in them alone."""
        names = {file: Path(file).name for file in map(str, self.file.tolist())}
        number = Counter(names.values())
        return {file: name if number[name] == 1 else file for file, name in names.items()}

    def name(self, i: int) -> str:
        """Return a row in words: its number in its file, its split, and its identity if that is
        another, or the image that `extract` read."""
        row = str(self.row[i])
        columns = {"image": self.columns["image"]} if "image" in self.columns else self.columns
        own = (values[i] for values in list(columns.values())[:1])
        place = f"row {row} of {self.short_files[str(self.file[i])]} ({self.split[i]})"
        return ", ".join([place, *(text for text in own if text != row)])


@dataclass(frozen=True, eq=False)
class RowTable(Result):
    """Rows to look at, one per entry [n], the most suspicious first."""

    kind: str  # "label", "duplicate", "near" or "outlier"
    places: Places
    label: np.ndarray  # class of the label
    other: np.ndarray  # the more likely class; for a duplicate the class of its copy
    # Log odds of the other class against the label; robust standard deviations of the angle of an
    # outlier above the median of its class; cosine of a near-duplicate; zero for a duplicate.
    score: np.ndarray
    total: int  # rows found; the table keeps the first ones
    copies: Places | None = None  # for duplicates, the first row that they are equal to


@dataclass(frozen=True, eq=False)
class CurvePoint(Result):
    """A point of a learning curve: the used method fitted to a part of the training rows."""

    rows: int  # training rows of the part
    test: Estimate  # metric on the test rows
    rest: Difference  # metric of a fit to all training rows minus that


@dataclass(frozen=True, eq=False)
class SetSummary(Result):
    """Sets of classes of the test rows, see `VMFClassifier.predict_set`."""

    error: float  # share of the rows of a class whose set may miss it
    single: float  # share of the sets with one class, and without a class
    empty: float
    size: float  # mean number of classes
    missed: float  # share of the rows whose set misses their class
    hollow: np.ndarray  # classes [M] of too few rows, which are in every set


@dataclass(frozen=True, eq=False)
class FeatureMap(Result):
    """A two-dimensional map of test rows [n] with their classes, by PCA of the whitened rows."""

    x: np.ndarray
    y: np.ndarray
    places: Places
    label: np.ndarray
    predicted: np.ndarray  # class predicted by the recommended method, or by the best one
    explained: tuple[float, float]  # share of the variance along both axes


@dataclass(frozen=True, eq=False)
class Explorer(Result):
    """Classes and test rows, from which a browser computes `resultant.class_scores`; arrays [S, .]
    have one entry per metric: the plain directions, and whitened ones by shrinkage."""

    dim: int  # dimensions p
    shrinkage: np.ndarray  # shrinkages [S] of the slider; NaN for directions that are not whitened
    kappa: np.ndarray  # concentrations [S, C]
    resultant: np.ndarray  # mean resultant lengths A_c [S, C]; the gain is A_c / tau
    log_prior: np.ndarray  # log shares [C] of the classes among the training rows
    row: np.ndarray  # row numbers [n] in the test split, with their classes label [n]
    label: np.ndarray
    weight: np.ndarray  # weights [n] whose mean of correct predictions is the metric; sum one
    equal: np.ndarray  # weights [n] in which all evaluated rows count alike; sum one
    candidates: np.ndarray  # classes [n, K] that are scored: all, or the nearest and the own one
    cosine: np.ndarray  # cosines [S, n, K] of the rows with their candidates
    start: dict[str, Any]  # settings of a vMF method; "metric" indexes shrinkage
    method: str = ""  # name of this method
    # Training rows of the classes at the other shrinkages; None if all, as for this method.
    sample: int | None = None


@dataclass(frozen=True, eq=False)
class FeatureResult(Result):
    """The analysis of one feature set."""

    data: FeatureData
    methods: tuple[Method, ...]  # all methods, the best validation score first
    recommendation: Recommendation
    confusion: Confusion
    # Tables of rows to look at: "label", "duplicate", "near" and "outlier".
    rows: dict[str, RowTable]
    steps: tuple[str, ...] = ()  # sentences about what to do next
    curve: tuple[CurvePoint, ...] = ()  # learning curve of the vMF method of the sliders
    sets: SetSummary | None = None  # None for classifiers without sets
    map: FeatureMap | None = None
    explorer: Explorer | None = None  # numbers of the sliders
    theory: Theory | None = None  # about the vMF classes of the method of the sliders
    seconds: dict[str, float] = field(default_factory=dict)

    def method(self, key: str) -> Method:
        """Return a method by its key."""
        return next(method for method in self.methods if method.key == key)

    @property
    def recommended(self) -> Method | None:
        """The recommended method, or None."""
        key = self.recommendation.key
        return None if key is None else self.method(key)

    @property
    def used(self) -> Method:
        """The recommended method, or the best one if none is recommended."""
        return self.method(self.recommendation.key or self.recommendation.best)


@dataclass(frozen=True, eq=False)
class SetComparison(Result):
    """Two feature sets by their recommended methods on the test rows."""

    a: int  # index of the first set in `AnalysisResult.features`, and b of the second
    b: int
    metric: str  # "accuracy" or "balanced accuracy"
    difference: Difference  # metric of b minus that of a
    paired: bool  # true if identities show that the test rows are the same
    rows: int  # test rows that were compared
    sentence: str  # the verdict in one sentence


@dataclass(frozen=True, eq=False)
class AnalysisResult(Result):
    """The result of `resultant.analyze`, and of the commands analyze and compare."""

    title: str  # the source in a few words, such as "digits.csv" or "a.npz and b.npz"
    features: tuple[FeatureResult, ...]  # one result per feature set
    chosen: int = 0  # index of the feature set to use, by the validation score
    comparisons: tuple[SetComparison, ...] = ()  # verdicts of two feature sets; empty for analyze
    files: dict[str, str] = field(default_factory=dict)  # files beside the page, by their content
    versions: dict[str, Any] = field(default_factory=dict)  # of the packages, and the device
    options: dict[str, Any] = field(default_factory=dict)  # options that were given, by name

    @property
    def first(self) -> FeatureResult:
        """The feature set to use."""
        return self.features[self.chosen]

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types, without the numbers of maps and sliders."""
        kept = tuple(replace(feature, map=None, explorer=None) for feature in self.features)
        return Result.to_dict(replace(self, features=kept))

    def _repr_html_(self) -> str:
        """Show the recommendation and the methods of the chosen feature set in a notebook."""
        f = self.first
        text = "".join(f"<p>{html.escape(s)}</p>" for s in f.recommendation.sentences)
        text += "".join(f"<p>Warning: {html.escape(w.text)}</p>" for w in f.data.warnings)
        head = ("method", "validation", "accuracy", "balanced accuracy", "log-loss")
        rows = [f"<tr>{''.join(f'<th>{name}</th>' for name in head)}</tr>"]
        for m in f.methods:
            shares = (f"{100 * e.value:.1f} %" for e in (m.validation, m.accuracy, m.balanced))
            cells = (html.escape(m.name), *shares, f"{m.log_loss.value:.3f}")
            rows.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
        title = f"<h3>{html.escape(f'{self.title}: {f.data.name}')}</h3>"
        return f"{title}{text}<table>{''.join(rows)}</table>"
