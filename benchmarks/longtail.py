"""Long-tailed classification of frozen features, compared with scikit-learn; the protocol is
benchmarks/longtail.md, and `longtail_page` makes tables of the records.

    python -m benchmarks.longtail --data FOLDER --out FILE.jsonl --processes 12 [--methods refined]

FOLDER holds the files of `benchmarks.embeddings`, and cifar10-lt.safetensors and
tiny-imagenet-lt.safetensors of ``resultant extract``. A record is a set, tail, seed and method."""

import json
import time
import warnings
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import tyro
from joblib import Parallel, delayed, parallel_config
from safetensors.numpy import load_file
from scipy.special import softmax
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import balanced_accuracy_score, log_loss
from sklearn.model_selection import ParameterGrid, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.class_weight import compute_sample_weight

from benchmarks import Row
from resultant import VMFClassifier, VMFClassifierCV
from resultant.classifiers.folds import stratified_splits
from resultant.features import packaged_file

TAILS = (1, 10, 100)
SEEDS = (0, 1, 2, 3, 4)
FOLDS = 3
# Rows of the largest class by tail, and those for features of networks trained on a long tail.
LARGEST, LARGEST_TRAINED = {1: 50, 10: 100, 100: 100}, {1: 5, 10: 50, 100: 400}
LEAST_PROBABILITY = 1e-9
# Test rows of each class of digits.
LAST = 40

# Stores of networks that were trained on a long tail, and their spaces.
TRAINED = ("packaged", "cifar10-lt", "tiny-imagenet-lt")
# Above so many classes of such a store, every tenth in the order of size, with so many test rows.
MOST, STEP, TEST = 100, 10, 20
SETS = (
    *("banking77", "clinc150", "cifar10", "cifar100", "tiny-imagenet", "digits"),
    *map("-".join, product(TRAINED, ("encoder", "projection"))),
)
# Raw columns, for the question of the default metric alone.
TABLES = {"iris": load_iris, "wine": load_wine, "breast-cancer": load_breast_cancer}


class Split(NamedTuple):
    """Rows [N, p] in float32 with classes [N], and test rows with theirs."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


@lru_cache(maxsize=1)
def read(name: str, folder: Path) -> Split:
    """Read all rows of a set."""
    store, _, space = name.rpartition("-")
    if name in ("digits", *TABLES):
        columns: Any = {"digits": load_digits, **TABLES}[name](return_X_y=True)
        rng = np.random.default_rng(0)
        own = [rng.permutation(np.flatnonzero(columns[1] == c)) for c in np.unique(columns[1])]
        last = [LAST if name == "digits" else (len(rows) + 1) // 2 for rows in own]
        pairs = [(rows[:-k], rows[-k:]) for rows, k in zip(own, last, strict=True)]
        x, y = (
            [array[np.concatenate(rows)] for rows in zip(*pairs, strict=True)] for array in columns
        )
    elif store in TRAINED:
        with packaged_file() as packaged:
            path = packaged if store == "packaged" else folder / f"{store}.safetensors"
            arrays = load_file(path)
        x, y = ([arrays[f"{s}/{n}"] for s in ("train", "test")] for n in (space, "labels"))
    else:
        with np.load(folder / f"{name}.npz") as f:
            x = [f["low"] + f["step"] * f[part] for part in ("train", "test")]
            y = [f[f"{part}_y"].astype(np.int64) for part in ("train", "test")]
    rows = Split(x[0].astype(np.float32), y[0], x[1].astype(np.float32), y[1])
    return thinned(rows) if store in TRAINED and y[0].max() >= MOST else rows


def thinned(rows: Split) -> Split:
    """Keep every tenth class, in the order of size, and the first test rows of each."""
    kept = np.argsort(-np.bincount(rows.y), kind="stable")[::STEP]
    train = [np.flatnonzero(rows.y == c) for c in kept]
    test = [np.flatnonzero(rows.y_test == c)[:TEST] for c in kept]
    y, y_test = (np.repeat(np.arange(len(own)), [len(r) for r in own]) for own in (train, test))
    return Split(rows.x[np.concatenate(train)], y, rows.x_test[np.concatenate(test)], y_test)


def long_tailed(rows: Split, name: str, tail: int, seed: int, largest: int | None = None) -> Split:
    """Draw training rows whose class sizes fall geometrically by the factor ``tail``."""
    rng = np.random.default_rng(seed)
    C = int(rows.y.max()) + 1
    order, largest = rng.permutation(C), largest or LARGEST[tail]
    if name.rpartition("-")[0] in TRAINED:
        # These classes have a long tail already, in this order.
        order, largest = np.arange(C), LARGEST_TRAINED[tail]
    counts = np.empty(C, int)
    counts[order] = np.maximum(1, np.rint(largest * tail ** (-np.arange(C) / (C - 1))))
    own = [rng.permutation(np.flatnonzero(rows.y == c))[: counts[c]] for c in range(C)]
    return rows._replace(
        x=rows.x[np.concatenate(own)], y=np.repeat(np.arange(C), list(map(len, own)))
    )


class Discriminant(LinearDiscriminantAnalysis):
    """Linear discriminant analysis with equal priors of the classes."""

    def fit(self, X: Any, y: Any) -> Any:
        present = len(np.unique(y))
        self.priors = np.full(present, 1 / present)
        return super().fit(X, y)


class Adjusted(LogisticRegression):
    """Logistic regression whose scores lose the logarithms of the shares of the classes."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        self.shares = np.unique(y, return_counts=True)[1] / len(y)
        return super().fit(X, y, sample_weight)

    def decision_function(self, X: Any) -> Any:
        return super().decision_function(X) - np.log(self.shares)

    def predict(self, X: Any) -> Any:
        return self.classes_[self.decision_function(X).argmax(1)]

    def predict_proba(self, X: Any) -> Any:
        return softmax(self.decision_function(X), axis=1)


class RandomReLU(TransformerMixin, BaseEstimator):
    """Positive parts of random projections, as RanPAC's head has them."""

    def fit(self, X: Any, y: Any = None) -> Any:
        self.directions_ = np.random.default_rng(0).normal(size=(X.shape[1], 2000))
        return self

    def transform(self, X: Any) -> Any:
        return np.maximum(X @ self.directions_.astype(X.dtype), 0)


def grid(*rows: Any, **values: list[Any]) -> Row:
    return {"by": list(rows), **{f"model__{name}": own for name, own in values.items()}}


BALANCED: dict[str, Any] = {"class_weight": "balanced"}
LENGTH, COLUMNS = Normalizer(), StandardScaler()
KERNEL = RBFSampler(n_components=2000, random_state=0)
# The settings of each method are in the order of preference. A grid sorts names of parameters, and
# the last one varies first.
REFERENCES: dict[str, tuple[Any, ...]] = {
    "logistic": (
        LogisticRegression(max_iter=300, **BALANCED),
        *(grid(LENGTH, C=[10.0, 100.0, 1e3]), grid(COLUMNS, C=[1e-3, 1e-2, 0.1])),
    ),
    "svm": (LinearSVC(**BALANCED), grid(LENGTH, C=[0.1, 0.3, 1.0, 3.0, 10.0])),
    "lda": (
        Discriminant(solver="lsqr"),
        grid(LENGTH, COLUMNS, shrinkage=["auto", 0.03, 0.1, 0.3, 0.5, 0.8]),
    ),
    "knn": (
        KNeighborsClassifier(),
        grid(LENGTH, COLUMNS, n_neighbors=[1, 3, 5, 10, 20], weights=["uniform", "distance"]),
    ),
    "centroid": (NearestCentroid(), grid(LENGTH, COLUMNS)),
    "random": (
        Pipeline([("kernel", KERNEL), ("ridge", RidgeClassifier(**BALANCED))]),
        grid(LENGTH, kernel__gamma=[0.5, 1.0, 2.0], ridge__alpha=[0.01, 0.1, 1.0]),
    ),
    "adjusted": (
        Adjusted(max_iter=300),
        *(grid(LENGTH, C=[10.0, 100.0, 1e3]), grid(COLUMNS, C=[1e-3, 1e-2, 0.1])),
    ),
    "ranpac": (
        Pipeline([("relu", RandomReLU()), ("ridge", RidgeClassifier())]),
        grid(LENGTH, ridge__alpha=[0.1, 1.0, 10.0, 100.0], ridge__class_weight=["balanced", None]),
    ),
}
OURS, SUMS = "refined", "vmf"
DEFAULT, WHITENED = "vmf-default", "vmf-whitened"
METHODS = (OURS, SUMS, DEFAULT, WHITENED, *REFERENCES)


def fit(name: str, x: np.ndarray, y: np.ndarray) -> tuple[Any, Row]:
    """Fit a method with the setting of the best predictions of rows left out, the first of equals;
    return the estimator and the setting."""
    if name in (OURS, SUMS):
        settings: Any = {} if name == OURS else {"refine": None, "scoring": "accuracy"}
        search = VMFClassifierCV(cv=FOLDS, balanced=True, **settings).fit(x, y)
        return search, search.best_params_ | {"scale": search.scale_}
    if name in (DEFAULT, WHITENED):
        settings = {} if name == DEFAULT else {"whiten": "within", "shrinkage": 0.5}
        return VMFClassifier(**settings).fit(x, y), {}
    model, *grids = REFERENCES[name]
    method: Any = Pipeline([("by", None), ("model", model)])
    splits = [(a.numpy(), b.numpy()) for a, b in stratified_splits(torch.from_numpy(y), FOLDS)]

    def validated(setting: Row) -> float:
        predicted = cross_val_predict(method.set_params(**setting), x, y, cv=splits)
        return balanced_accuracy_score(y, predicted)

    setting = max(ParameterGrid(grids), key=validated)
    return method.set_params(**setting).fit(x, y), setting


def record(folder: Path, seed: int, name: str, tail: int, method: str) -> Row:
    """Measure one method on one draw of a set, on one thread."""
    torch.set_num_threads(1)
    rows = long_tailed(read(name, folder), name, tail, seed)
    warnings.simplefilter("ignore")
    started = time.process_time()
    fitted, setting = fit(method, rows.x, rows.y)
    ready = time.process_time()
    predicted = fitted.predict(rows.x_test)
    ended = time.process_time()
    loss = None
    if hasattr(fitted, "predict_proba"):
        p = np.asarray(fitted.predict_proba(rows.x_test), np.float64).clip(LEAST_PROBABILITY)
        weights = compute_sample_weight("balanced", rows.y_test)
        loss = log_loss(rows.y_test, p, sample_weight=weights)
    counts = np.bincount(rows.y)
    recalls = np.bincount(rows.y_test, predicted == rows.y_test) / np.bincount(rows.y_test)
    # Thirds of the classes by their number of training rows.
    thirds = np.array_split(np.argsort(-counts, kind="stable"), 3)
    key = {"set": name, "tail": tail, "seed": seed, "method": method}
    shape = {"rows": len(rows.y), "dim": rows.x.shape[1], "classes": len(counts)}
    accuracy = {"balanced_accuracy": recalls.mean(), "log_loss": loss}
    for part, third in zip(("head", "medium", "tail_accuracy"), thirds, strict=True):
        accuracy[part] = recalls[third].mean()
    times = {"fit_seconds": ready - started, "predict_seconds": ended - ready}
    return {**key, **shape, **accuracy, **times, "chosen": setting}


def main(
    data: Path,
    out: Path,
    processes: int = 1,
    methods: tuple[str, ...] = METHODS,
    sets: tuple[str, ...] = SETS,
    tails: tuple[int, ...] = TAILS,
    seeds: tuple[int, ...] = SEEDS,
) -> None:
    tasks = (delayed(record)(data, *key) for key in product(seeds, sets, tails, methods))
    with parallel_config("loky", inner_max_num_threads=1, n_jobs=processes), out.open("a") as file:
        rows: Any = Parallel(return_as="generator_unordered", verbose=10)(tasks)
        for row in rows:
            # A step of a pipeline is named by its class.
            print(json.dumps(row, default=str), file=file, flush=True)


if __name__ == "__main__":
    # Processes find the functions by the name of the module.
    from benchmarks import longtail

    tyro.cli(longtail.main, description=__doc__)
