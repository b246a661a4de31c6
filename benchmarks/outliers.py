"""Out-of-distribution scores of fitted classes, compared with published detectors.

``--data`` is the folder of `benchmarks.embeddings`. The formulas are those of pytorch-ood: the
distance to the k-th nearest unit vector (kNN), the least distance of Mahalanobis to a class, the
same less that to all rows (RMD), and energy and largest probability of a logistic regression."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize

from benchmarks import Row, Tables
from benchmarks.longtail import SETS, read
from resultant import VMFClassifier

DRAWS = 3
HELD_OUT = 0.2
OUTSIDE = "clinc150-outside"
# Added to sums of squares, as in pytorch-ood.
RIDGE = 1e-6


def areas(x: np.ndarray, y: np.ndarray, queries: np.ndarray, inside: np.ndarray) -> Row:
    """Return the AUROC of every detector, in percent."""
    one, many = VMFClassifier().fit(x, y), VMFClassifier(components=8).fit(x, y)
    metric = VMFClassifier(whiten="within", shrinkage=0.3).fit(x, y)
    cosines = np.asarray(metric.directions(queries)) @ metric.state_.mu.float().numpy().T
    found = {
        "log_marginal": one.log_marginal(queries),
        "log_marginal, 8 components": many.log_marginal(queries),
        "log_marginal, metric": metric.log_marginal(queries),
        "largest cosine, metric": cosines.max(1),
    }

    units, unit_queries = normalize(x), normalize(queries)
    distance, _ = NearestNeighbors(n_neighbors=50).fit(units).kneighbors(unit_queries)
    found |= {f"kNN, k = {k}": -distance[:, k - 1] for k in (1, 5, 50)}

    z, wide = x.astype(np.float64), queries.astype(np.float64)
    names, own = np.unique(y, return_inverse=True)
    means = np.stack([z[y == c].mean(0) for c in names])

    def distances(rows: np.ndarray, centres: np.ndarray) -> np.ndarray:
        squares = rows.T @ rows + RIDGE * np.eye(rows.shape[1])
        whiten = np.linalg.inv(np.linalg.cholesky(squares)).T
        return cdist(wide @ whiten, centres @ whiten, "sqeuclidean")

    within, background = distances(z - means[own], means), distances(z - z.mean(0), z.mean(0)[None])
    found |= {"Mahalanobis": -within.min(1), "RMD": -(within - background).min(1)}

    model = LogisticRegression(C=100, max_iter=200).fit(units, y)
    found["energy"] = logsumexp(model.decision_function(unit_queries), axis=1)
    found["largest probability"] = model.predict_proba(unit_queries).max(1)
    return {name: 100 * float(roc_auc_score(inside, score)) for name, score in found.items()}


def draws(name: str, folder: Path) -> Iterator[Row]:
    """Score test rows of a set with classes held out, and those of CLINC with its out-of-scope
    queries."""
    rows = read(name.removesuffix("-outside"), folder)
    if name == OUTSIDE:
        with np.load(folder / "clinc150.npz") as f:
            others = (f["low"] + f["step"] * f["outside"]).astype(np.float32)
        queries = np.concatenate([rows.x_test, others])
        yield areas(rows.x, rows.y, queries, np.arange(len(queries)) < len(rows.x_test))
        return
    C = int(rows.y.max()) + 1
    for draw in range(DRAWS):
        out = np.random.default_rng(draw).permutation(C)[: round(HELD_OUT * C)]
        kept, inside = (~np.isin(y, out) for y in (rows.y, rows.y_test))
        yield areas(rows.x[kept], rows.y[kept], rows.x_test, inside)


def run(data: Path) -> Tables:
    torch.set_num_threads(1)
    rows = ({"set": name, **pd.DataFrame(draws(name, data)).mean()} for name in (*SETS, OUTSIDE))
    note = f"""\
AUROC in percent of test rows of held-out classes against those of other classes, mean of {DRAWS}
draws; `{OUTSIDE}` has the out-of-scope queries of CLINC instead. All training rows are fitted."""
    yield note, rows
