"""Long-tailed classification of frozen features, compared with scikit-learn; the protocol is
benchmarks/longtail.md.

    python -m benchmarks.longtail --data FOLDER --out FILE.jsonl --processes 12

FOLDER holds the files of `benchmarks.embeddings`, and cifar10-lt.safetensors and
tiny-imagenet-lt.safetensors of ``resultant extract``; packaged features and digits need none. A
record is one set, tail, seed and method.
Records that FILE has are skipped, so that the same command continues one that was ended. All sets
come with the first seed first."""

from __future__ import annotations

import json
import time
import warnings
from contextlib import nullcontext
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import tyro
from joblib import Parallel, delayed, parallel_config
from safetensors.numpy import load_file
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import recall_score
from sklearn.model_selection import ParameterGrid, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.class_weight import compute_sample_weight

from benchmarks import Row
from resultant import VMFClassifier, VMFClassifierCV
from resultant.classifiers.validation import stratified_splits
from resultant.features import packaged_file

TAILS = (10, 100)
SEEDS = (0, 1, 2, 3, 4)
FOLDS = 3
# Rows of the largest class, except for features of networks trained on a long tail.
LARGEST = 100
LEAST_PROBABILITY = 1e-9
# Test rows of each class of digits.
LAST = 40

FILES = ("banking77", "clinc150", "cifar10", "cifar100", "tiny-imagenet")
# Stores of networks that were trained on a long tail, and their spaces.
TRAINED = ("packaged", "cifar10-lt", "tiny-imagenet-lt")
# Above so many classes of such a store, every tenth in the order of size, with so many test rows.
MOST, STEP, TEST = 100, 10, 20
KEY = ("set", "tail", "seed", "method")
SETS = (*FILES, "digits", *map("-".join, product(TRAINED, ("encoder", "projection"))))


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
    if name == "digits":
        data: Any = load_digits()
        rng = np.random.default_rng(0)
        own = [rng.permutation(np.flatnonzero(data.target == c)) for c in range(10)]
        parts = [np.concatenate([rows[part] for rows in own]) for part in np.s_[:-LAST, -LAST:]]
        x, y = ([array[rows] for rows in parts] for array in (data.data, data.target))
    elif store in TRAINED:
        file = nullcontext(folder / f"{store}.safetensors")
        with packaged_file() if store == "packaged" else file as path:
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


def long_tailed(rows: Split, name: str, tail: int, seed: int) -> Split:
    """Draw training rows whose class sizes fall geometrically by the factor ``tail``."""
    rng = np.random.default_rng(seed)
    C = int(rows.y.max()) + 1
    order, largest = rng.permutation(C), LARGEST
    if name.rpartition("-")[0] in TRAINED:
        # These classes have a long tail already, in this order.
        order, largest = np.arange(C), {10: 50, 100: 400}[tail]
    counts = np.empty(C, int)
    counts[order] = np.maximum(1, np.rint(largest * tail ** (-np.arange(C) / (C - 1))))
    own = [rng.permutation(np.flatnonzero(rows.y == c))[: counts[c]] for c in range(C)]
    drawn = np.concatenate(own)
    return rows._replace(x=rows.x[drawn], y=rows.y[drawn])


class Discriminant(LinearDiscriminantAnalysis):
    """Linear discriminant analysis with equal priors of the classes."""

    def fit(self, X: Any, y: Any) -> Any:
        present = len(np.unique(y))
        self.priors = np.full(present, 1 / present)
        return super().fit(X, y)


NORMALIZED, STANDARDIZED = [Normalizer()], [StandardScaler()]
EITHER = NORMALIZED + STANDARDIZED
BALANCED: dict[str, Any] = {"class_weight": "balanced"}


def grid(rows: list[Any], **values: list[Any]) -> Row:
    return {"by": rows, **{f"model__{name}": own for name, own in values.items()}}


# The settings of each method are in the order of preference. A grid sorts names of parameters, and
# the last one varies first.
KERNEL = RBFSampler(n_components=2000, random_state=0)
REFERENCES: dict[str, tuple[Any, list[Row]]] = {
    "logistic": (
        LogisticRegression(max_iter=300, **BALANCED),
        [grid(NORMALIZED, C=[10.0, 100.0, 1e3]), grid(STANDARDIZED, C=[1e-3, 1e-2, 0.1])],
    ),
    "svm": (LinearSVC(**BALANCED), [grid(NORMALIZED, C=[0.1, 0.3, 1.0, 3.0, 10.0])]),
    "lda": (
        Discriminant(solver="lsqr"),
        [grid(EITHER, shrinkage=["auto", 0.03, 0.1, 0.3, 0.5, 0.8])],
    ),
    "knn": (
        KNeighborsClassifier(),
        [grid(EITHER, n_neighbors=[1, 3, 5, 10, 20], weights=["uniform", "distance"])],
    ),
    "centroid": (NearestCentroid(), [grid(EITHER)]),
    "random": (
        Pipeline([("kernel", KERNEL), ("ridge", RidgeClassifier(**BALANCED))]),
        [grid(NORMALIZED, kernel__gamma=[0.5, 1.0, 2.0], ridge__alpha=[0.01, 0.1, 1.0])],
    ),
}
OURS = "vmf"
METHODS = (OURS, "vmf-default", *REFERENCES)


# Balanced accuracy, of all classes or of those in ``labels``.
balanced_accuracy = partial(recall_score, average="macro")


def chosen(name: str, x: np.ndarray, y: np.ndarray) -> tuple[Any, Row]:
    """Return a method, not fitted, and its setting, with the best predictions of the rows left out,
    the first of equals."""
    model, grids = REFERENCES[name]
    method: Any = Pipeline([("by", None), ("model", model)])
    splits = [(a.numpy(), b.numpy()) for a, b in stratified_splits(torch.from_numpy(y), FOLDS)]

    def validated(setting: Row) -> float:
        predicted = cross_val_predict(method.set_params(**setting), x, y, cv=splits)
        return balanced_accuracy(y, predicted)

    setting = max(ParameterGrid(grids), key=validated)
    return method.set_params(**setting), setting


def fit(name: str, x: np.ndarray, y: np.ndarray) -> tuple[Any, Row]:
    """Choose the settings of a method and fit it; return the estimator and the settings."""
    if name == OURS:
        search = VMFClassifierCV(cv=FOLDS, balanced=True, scoring="accuracy").fit(x, y)
        return search, search.best_params_ | {"scale": search.scale_}
    method, setting = (VMFClassifier(), {}) if name == "vmf-default" else chosen(name, x, y)
    return method.fit(x, y), setting


def record(folder: Path, name: str, tail: int, seed: int, method: str) -> Row:
    """Measure one method on one draw of a set, on one thread."""
    torch.set_num_threads(1)
    rows = long_tailed(read(name, folder), name, tail, seed)
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted, setting = fit(method, rows.x, rows.y)
        ready = time.perf_counter()
        predicted = fitted.predict(rows.x_test)
        ended = time.perf_counter()
        loss = None
        if hasattr(fitted, "predict_proba"):
            p = np.asarray(fitted.predict_proba(rows.x_test), np.float64)
            own = np.maximum(p[np.arange(len(p)), rows.y_test], LEAST_PROBABILITY)
            weights = compute_sample_weight("balanced", rows.y_test)
            loss = float(np.average(-np.log(own), weights=weights))
    counts = np.bincount(rows.y)
    # Thirds of the classes by their number of training rows.
    thirds = np.array_split(np.argsort(-counts, kind="stable"), 3)
    parts = [balanced_accuracy(rows.y_test, predicted, labels=third) for third in thirds]
    return {
        **dict(zip(KEY, (name, tail, seed, method), strict=True)),
        "rows": len(rows.y),
        "dim": rows.x.shape[1],
        "classes": len(counts),
        "balanced_accuracy": balanced_accuracy(rows.y_test, predicted),
        "log_loss": loss,
        **dict(zip(("head", "medium", "tail_accuracy"), parts, strict=True)),
        "fit_seconds": ready - started,
        "predict_seconds": ended - ready,
        "chosen": setting,
    }


def measured(path: Path) -> dict[tuple[Any, ...], Row]:
    """Read the records of a file; the last line of a killed run may be broken."""
    lines = path.read_text().splitlines() if path.exists() else []
    rows = (json.loads(line) for line in lines if line.endswith("}"))
    return {tuple(row[name] for name in KEY): row for row in rows}


def main(data: Path, out: Path, processes: int = 1) -> None:
    done = measured(out)
    keys = [(name, tail, s, m) for s, name, tail, m in product(SEEDS, SETS, TAILS, METHODS)]
    tasks = (delayed(record)(data, *key) for key in keys if key not in done)
    with parallel_config("loky", inner_max_num_threads=1, n_jobs=processes), out.open("a") as file:
        rows: Any = Parallel(return_as="generator_unordered", pre_dispatch="all")(tasks)
        for row in rows:
            # A step of a pipeline is named by its class.
            print(json.dumps(row, default=str), file=file, flush=True)
            print(*(row[name] for name in KEY), f"{row['balanced_accuracy']:.4f}", flush=True)


if __name__ == "__main__":
    # Processes find the functions by the name of the module.
    from benchmarks import longtail

    tyro.cli(longtail.main, description=__doc__)
