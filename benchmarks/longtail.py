"""Long-tailed classification of frozen features, compared with scikit-learn; the protocol is
benchmarks/longtail.md.

    python -m benchmarks.longtail --data FOLDER --out FILE.jsonl --processes 12

FOLDER holds the files of `benchmarks.embeddings`, and cifar10-lt.safetensors and
tiny-imagenet-lt.safetensors of ``resultant extract``; packaged features and digits need none. A
record is one set, tail, seed and method.
Records that FILE has are skipped, so that the same command continues one that was ended. All sets
come with the first seed first."""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from joblib import Parallel, delayed, parallel_config
from safetensors.torch import load_file
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.svm import LinearSVC

from resultant import VMFClassifier, VMFClassifierCV
from resultant.classifiers.validation import stratified_splits
from resultant.features import packaged_file

TAILS = (10, 100)
SEEDS = (0, 1, 2, 3, 4)
FOLDS = 3
# Rows of the largest class, except for features of networks trained on a long tail.
LARGEST = 100
LEAST_PROBABILITY = 1e-9
# Rows of each class of digits: training, test.
HEAD, LAST = slice(-40), slice(-40, None)

FILES = ("banking77", "clinc150", "cifar10", "cifar100", "tiny-imagenet")
# Stores of networks that were trained on a long tail, and their spaces.
TRAINED = ("packaged", "cifar10-lt", "tiny-imagenet-lt")
# Above so many classes of such a store, every tenth in the order of size, with so many test rows.
MOST, STEP, TEST = 100, 10, 20
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
    if name == "digits":
        digits: Any = load_digits()
        x, y, rng = digits.data.astype(np.float32), digits.target, np.random.default_rng(0)
        rows = [rng.permutation(np.flatnonzero(y == c)) for c in range(10)]
        train, test = (np.concatenate([own[part] for own in rows]) for part in (HEAD, LAST))
        return Split(x[train], y[train], x[test], y[test])
    store, _, space = name.rpartition("-")
    if store in TRAINED:
        file = nullcontext(folder / f"{store}.safetensors")
        with packaged_file() if store == "packaged" else file as path:
            arrays = load_file(path)
        x, x_test = (arrays[f"{split}/{space}"] for split in ("train", "test"))
        y, y_test = arrays["train/labels"], arrays["test/labels"]
        rows = Split(x.float().numpy(), y.numpy(), x_test.float().numpy(), y_test.numpy())
        return thinned(rows) if y.max() >= MOST else rows
    with np.load(folder / f"{name}.npz") as f:
        x, x_test = (f["low"] + f["step"] * f[part] for part in ("train", "test"))
        y, y_test = f["train_y"].astype(np.int64), f["test_y"].astype(np.int64)
    return Split(x.astype(np.float32), y, x_test.astype(np.float32), y_test)


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


class Key(NamedTuple):
    """Name of a record."""

    set: str
    tail: int
    seed: int
    method: str


class Discriminant(LinearDiscriminantAnalysis):
    """Linear discriminant analysis with equal priors of the classes."""

    def fit(self, X: Any, y: Any) -> Any:
        present = len(np.unique(y))
        self.priors = np.full(present, 1 / present)
        return super().fit(X, y)


ROWS = {"normalized": Normalizer, "standardized": StandardScaler}
NORMALIZED, STANDARDIZED = ROWS
BALANCED: dict[str, Any] = {"class_weight": "balanced"}

# Settings of each method in the order of preference, the rows first, and the steps of a setting.
REFERENCES: dict[str, tuple[Sequence[tuple[Any, ...]], Callable[..., Any]]] = {
    "logistic": (
        [(NORMALIZED, C) for C in (10.0, 100.0, 1e3)]
        + [(STANDARDIZED, C) for C in (1e-3, 1e-2, 0.1)],
        lambda C: [LogisticRegression(C=C, max_iter=300, **BALANCED)],
    ),
    "svm": (
        [(NORMALIZED, C) for C in (0.1, 0.3, 1.0, 3.0, 10.0)],
        lambda C: [LinearSVC(C=C, **BALANCED)],
    ),
    "lda": (
        [*product(ROWS, ("auto", 0.03, 0.1, 0.3, 0.5, 0.8))],
        lambda shrinkage: [Discriminant(solver="lsqr", shrinkage=shrinkage)],
    ),
    "knn": (
        [*product(ROWS, (1, 3, 5, 10, 20), ("uniform", "distance"))],
        lambda k, weights: [KNeighborsClassifier(k, weights=weights)],
    ),
    "centroid": ([*product(ROWS)], lambda: [NearestCentroid()]),
    "random": (
        [*product([NORMALIZED], (0.5, 1.0, 2.0), (0.01, 0.1, 1.0))],
        lambda gamma, alpha: [
            RBFSampler(gamma=gamma, n_components=2000, random_state=0),
            RidgeClassifier(alpha=alpha, **BALANCED),
        ],
    ),
}
OURS = "vmf"
METHODS = (OURS, "vmf-default", *REFERENCES)


def balanced_accuracy(y: np.ndarray, predicted: np.ndarray) -> float:
    """Average the accuracies of the classes."""
    return float(np.mean([(predicted[y == c] == c).mean() for c in np.unique(y)]))


def reference(name: str, setting: tuple[Any, ...]) -> Any:
    """Return the estimator of a setting."""
    rows, *values = setting
    return make_pipeline(ROWS[rows](), *REFERENCES[name][1](*values))


def chosen(name: str, x: np.ndarray, y: np.ndarray) -> tuple[Any, ...]:
    """Return the setting whose predictions of the rows left out are best, the first of equals."""

    def validated(setting: tuple[Any, ...]) -> float:
        predicted = np.empty_like(y)
        for train, left_out in stratified_splits(torch.from_numpy(y), FOLDS):
            fitted = reference(name, setting).fit(x[train], y[train])
            predicted[left_out] = fitted.predict(x[left_out])
        return balanced_accuracy(y, predicted)

    return max(REFERENCES[name][0], key=validated)


def fit(name: str, x: np.ndarray, y: np.ndarray) -> tuple[Any, dict[str, Any]]:
    """Choose the settings of a method and fit it; return the estimator and the settings."""
    if name == OURS:
        search = VMFClassifierCV(cv=FOLDS, balanced=True, scoring="accuracy").fit(x, y)
        return search, search.best_params_ | {"scale": search.scale_}
    if name == "vmf-default":
        return VMFClassifier().fit(x, y), {}
    setting = chosen(name, x, y)
    return reference(name, setting).fit(x, y), {"setting": setting}


def record(key: Key, folder: Path) -> dict[str, Any]:
    """Measure one method on one draw of a set, on one thread."""
    torch.set_num_threads(1)
    rows = long_tailed(read(key.set, folder), key.set, key.tail, key.seed)
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted, setting = fit(key.method, rows.x, rows.y)
        ready = time.perf_counter()
        predicted = fitted.predict(rows.x_test)
        ended = time.perf_counter()
        loss = log_loss(fitted, rows)
    counts = np.bincount(rows.y)
    # Head, medium and tail are thirds of the classes by their number of training rows.
    thirds = np.array_split(np.argsort(-counts, kind="stable"), 3)
    y = rows.y_test
    parts = [balanced_accuracy(y[at], predicted[at]) for at in (np.isin(y, t) for t in thirds)]
    return {
        **key._asdict(),
        "rows": len(rows.y),
        "dim": rows.x.shape[1],
        "classes": len(counts),
        "balanced_accuracy": balanced_accuracy(y, predicted),
        "log_loss": loss,
        **dict(zip(("head", "medium", "tail_accuracy"), parts, strict=True)),
        "fit_seconds": ready - started,
        "predict_seconds": ended - ready,
        "chosen": setting,
    }


def log_loss(fitted: Any, rows: Split) -> float | None:
    """Compute the cross-entropy in nats of the test rows, averaged over classes."""
    if not hasattr(fitted, "predict_proba"):
        return None
    p = np.asarray(fitted.predict_proba(rows.x_test), np.float64)
    own = np.maximum(p[np.arange(len(p)), rows.y_test], LEAST_PROBABILITY)
    return float(np.mean([-np.log(own[rows.y_test == c]).mean() for c in np.unique(rows.y_test)]))


def measured(path: Path) -> list[dict[str, Any]]:
    """Read the records of a file; the last line of a killed run may be broken."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m benchmarks.longtail", description=__doc__)
    options.add_argument("--data", type=Path, required=True, help="folder of the embeddings")
    options.add_argument("--out", type=Path, required=True, help="file of the records, JSON lines")
    options.add_argument("--processes", type=int, default=1)
    given = options.parse_args()
    done = {Key(*(row[name] for name in Key._fields)) for row in measured(given.out)}
    keys = [Key(n, tail, s, m) for s, n, tail, m in product(SEEDS, SETS, TAILS, METHODS)]
    tasks = (delayed(record)(key, given.data) for key in keys if key not in done)
    with (
        parallel_config("loky", inner_max_num_threads=1, n_jobs=given.processes),
        given.out.open("a") as file,
    ):
        rows: Any = Parallel(return_as="generator_unordered", pre_dispatch="all")(tasks)
        for row in rows:
            print(json.dumps(row), file=file, flush=True)
            name = " ".join(str(row[field]) for field in Key._fields)
            print(f"{name}: {row['balanced_accuracy']:.4f}", flush=True)


if __name__ == "__main__":
    # Processes find the functions by the name of the module.
    from benchmarks import longtail

    longtail.main()
