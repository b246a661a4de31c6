"""Out-of-distribution scores of fitted classes, compared with published detectors.

    python -m benchmarks.outliers --data FOLDER [--out FILE.json]

A fifth of the classes of each set of `benchmarks.longtail_features` is held out, three times at
random. Detectors are fitted to the training rows of the other classes; the test rows of all classes
are scored, and the AUROC of held-out against other classes is recorded. ``clinc150-outside`` scores
the out-of-scope queries of CLINC against all its classes.

The formulas are those of pytorch-ood: the distance to the k-th nearest unit vector (kNN), the least
distance of Mahalanobis to a class, the same less that to all rows (RMD), and energy and largest
probability of a logistic regression."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize

from benchmarks import HERE
from benchmarks.longtail_features import SETS, Split, read
from resultant import VMFClassifier
from resultant._core.files import write_text

DRAWS = 3
HELD_OUT = 0.2
OUTSIDE = "clinc150-outside"
# Added to sums of squares, as in pytorch-ood.
RIDGE = 1e-6

Scores = dict[str, np.ndarray]


def fitted_classes(x: np.ndarray, y: np.ndarray, queries: np.ndarray) -> Scores:
    """Score queries by vMF classes: large for rows like those of a class."""
    one, many = VMFClassifier().fit(x, y), VMFClassifier(components=8).fit(x, y)
    metric = VMFClassifier(whiten="within", shrinkage=0.3).fit(x, y)
    mu = metric.state_.mu.float().numpy()
    return {
        "log_marginal": np.asarray(one.log_marginal(queries)),
        "log_marginal, 8 components": np.asarray(many.log_marginal(queries)),
        "log_marginal, metric": np.asarray(metric.log_marginal(queries)),
        "largest cosine, metric": (np.asarray(metric.directions(queries)) @ mu.T).max(1),
    }


def neighbours(x: np.ndarray, y: np.ndarray, queries: np.ndarray) -> Scores:
    distance, _ = NearestNeighbors(n_neighbors=50).fit(normalize(x)).kneighbors(normalize(queries))
    return {f"kNN, k = {k}": -distance[:, k - 1] for k in (1, 5, 50)}


def gaussians(x: np.ndarray, y: np.ndarray, queries: np.ndarray) -> Scores:
    x, queries = x.astype(np.float64), queries.astype(np.float64)
    means = np.stack([x[y == c].mean(0) for c in np.unique(y)])
    residual = x - means[np.searchsorted(np.unique(y), y)]
    centred = x - x.mean(0)

    def distances(rows: np.ndarray, centres: np.ndarray) -> np.ndarray:
        precision = np.linalg.inv(rows.T @ rows + RIDGE * np.eye(rows.shape[1]))
        of_centres = ((centres @ precision) * centres).sum(1)
        moved = queries @ precision
        return (moved * queries).sum(1)[:, None] - 2 * moved @ centres.T + of_centres

    within, background = distances(residual, means), distances(centred, x.mean(0)[None])
    return {"Mahalanobis": -within.min(1), "RMD": -(within - background).min(1)}


def logits(x: np.ndarray, y: np.ndarray, queries: np.ndarray) -> Scores:
    model = LogisticRegression(C=100, max_iter=200).fit(normalize(x), y)
    scores = model.decision_function(normalize(queries))
    energy = np.asarray(logsumexp(scores, axis=1))
    return {"energy": energy, "largest probability": np.exp(scores.max(1) - energy)}


DETECTORS: tuple[Callable[[np.ndarray, np.ndarray, np.ndarray], Scores], ...] = (
    fitted_classes,
    neighbours,
    gaussians,
    logits,
)


def areas(x: np.ndarray, y: np.ndarray, queries: np.ndarray, inside: np.ndarray) -> dict[str, Any]:
    """Return the AUROC of every detector, in percent."""
    found: Scores = {}
    for detector in DETECTORS:
        found |= detector(x, y, queries)
    return {name: 100 * float(roc_auc_score(inside, score)) for name, score in found.items()}


def held_out(rows: Split, draw: int) -> dict[str, Any]:
    """Hold out classes of a set and score its test rows."""
    C = int(rows.y.max()) + 1
    out = np.random.default_rng(draw).permutation(C)[: round(HELD_OUT * C)]
    kept = ~np.isin(rows.y, out)
    return areas(rows.x[kept], rows.y[kept], rows.x_test, ~np.isin(rows.y_test, out))


def outside(folder: Path) -> dict[str, Any]:
    """Score test rows and out-of-scope queries of CLINC."""
    rows = read("clinc150", folder)
    with np.load(folder / "clinc150.npz") as f:
        others = (f["low"] + f["step"] * f["outside"]).astype(np.float32)
    queries = np.concatenate([rows.x_test, others])
    return areas(rows.x, rows.y, queries, np.arange(len(queries)) < len(rows.x_test))


def main() -> None:
    options = argparse.ArgumentParser(
        prog="python -m benchmarks.outliers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument("--data", type=Path, required=True, help="folder of the embeddings")
    options.add_argument("--out", type=Path, default=HERE / "outliers.json")
    given = options.parse_args()
    torch.set_num_threads(1)
    means: dict[str, dict[str, float]] = {}
    for name in (*SETS, OUTSIDE):
        if name == OUTSIDE:
            draws = [outside(given.data)]
        else:
            draws = [held_out(read(name, given.data), draw) for draw in range(DRAWS)]
        means[name] = {key: float(np.mean([d[key] for d in draws])) for key in draws[0]}
        print(name, {key: round(value, 1) for key, value in means[name].items()}, flush=True)
        write_text(given.out, json.dumps(means, indent=1) + "\n")


if __name__ == "__main__":
    main()
