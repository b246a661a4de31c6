"""Sets of classes: coverage per class, size, and new classes, beside MAPIE and a threshold.

    python -m benchmarks sets --data FOLDER        (needs mapie, from PyPI)

Protocol, written before the runs of the tables. The sets and long tails are those of
`benchmarks.longtail`; a fifth of the classes, drawn by the seed, is new: its rows are not fitted.
"redrawn" are sets whose files of training and test rows are shuffled together first, class by
class, as a promise asks for rows that are exchangeable with known ones; digits are one file, which
is shuffled. Rows as given share their test rows in all draws, and standard errors leave out the
variance of these. All methods get the same training rows, error .1, and the same test rows:

- "ours": `VMFClassifier(whiten="within", shrinkage=0.3).predict_set`, calibrated by its own
  training rows;
- "ours, refined": the same of `VMFClassifier(whiten="within", refine=0.3)`, by validation rows;
- "ours, calibrated": "ours" fitted to half of the training rows of each class (rounded up) and
  `calibrate` on the others;
- "MAPIE": `LogisticRegression(C=100)` on normalized rows, fitted to the same half, and the others
  for `SplitConformalClassifier(conformity_score="lac")`, conformalized for each class by the rows
  of this class alone (Mondrian; MAPIE has no class-conditional option). Classes of too few rows,
  which MAPIE refuses, are in every set;
- "threshold": the classes whose probability by the same logistic regression is at least the .1
  quantile of the probabilities of the labels, over the other rows of all classes together.

Measures: the mean over seeds of the coverage (share of test rows whose set has their class) of
head, medium and tail thirds of the known classes by training rows, only classes whose promise is
not empty (nine known rows or more for ours); their mean number of classes in a set, over all known
test rows; and the share of test rows of new classes with an empty set, of sets over classes whose
promise is not empty.

Equal coverage: smaller sets that cover less are no gain. Of the classes for which MAPIE's promise
is not empty, the test rows of these classes give MAPIE's coverage and its mean number of these
classes in a set; of ours the error is moved until the coverage of the same rows is the same, with
the size between those of the two nearest errors. A draw is one difference of sizes.

Rule: ours holds in a row if no coverage is below .9 by more than two standard errors of the mean
over seeds. At equal coverage its sets are smaller (or larger) than MAPIE's if the mean difference
is beyond two standard errors below (or above) zero, else equal. The score (one more outcome for
none of these, exceeded by .9 of the training rows) was chosen among five on seed 0, which is left
out here. After the runs the gain of refined classes was mended, so that a fit and its folds have
nearly one, and all was measured again; nothing else was changed.

On draws 10 to 12 of the five sets, redrawn, the score was tried with other shares than .9. At equal
coverage sets of "ours" and "ours, refined" are larger by 1.9 % of MAPIE's with .8, and 1.4 points
more of the rows of new classes have an empty set; with .95 smaller by .7 %, and 1.2 points fewer;
without the outcome smaller by 1.1 %, larger than MAPIE's nowhere, and 4.7 points fewer. A rule
written before these numbers allowed for one point fewer at most, so that .9 stays."""

# pyright: reportMissingImports=false

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from benchmarks import Row, Tables
from benchmarks.longtail import Split, long_tailed, read
from resultant import VMFClassifier

MAPIE, REDRAWN = "MAPIE", ", redrawn"
FILES = ("banking77", "clinc150", "cifar10", "cifar100")
SETS = ("digits", *(name + end for name in FILES for end in ("", REDRAWN)))
TAILS, LARGEST, SEEDS, ERROR, NEW = (1, 10), 100, range(1, 4), 0.1, 0.2
LEAST = round(1 / ERROR) - 1

NOTE = f"""\
Sets of classes that promise to miss the class of a row in at most {ERROR:.0%} of the rows of each
class: coverage of the classes whose promise is not empty (`promised`, a share of the classes), mean
number of classes in a set, and empty sets of rows of new and of known classes. Means of
{len(SEEDS)} draws with standard errors; `benchmarks/sets.py` has the protocol."""

EQUAL = """\
Sizes of sets at equal coverage: mean numbers of classes in a set where the errors of ours are moved
until they cover as many test rows as MAPIE does, among classes for which it has a promise;
differences with standard errors."""


class Sets(NamedTuple):
    """Sets of a method, and what they are made of."""

    method: str
    sets: Any  # sets [N, C] bool
    known: np.ndarray  # known rows [C] behind the promise of each class
    p: Any = None  # p-values [N, C]


def ours(x: np.ndarray, y: np.ndarray, half: np.ndarray, queries: np.ndarray) -> Iterator[Sets]:
    every = np.arange(len(y))
    settings: dict[str, Any] = {"whiten": "within", "shrinkage": 0.3}
    for name, options, rows in (
        ("ours", settings, every),
        ("ours, refined", {"whiten": "within", "refine": 0.3}, every),
        ("ours, calibrated", settings, every[half]),
    ):
        model, rest = VMFClassifier(**options).fit(x[rows], y[rows]), every
        if len(rows) < len(y):
            rest = every[~half]
            model.calibrate(x[rest], y[rest])
        p, known = model.p_values(queries), np.bincount(y[rest], minlength=y.max() + 1)
        yield Sets(name, model.predict_set(queries, ERROR), known, p)


def others(x: np.ndarray, y: np.ndarray, half: np.ndarray, queries: np.ndarray) -> Iterator[Sets]:
    from mapie.classification import SplitConformalClassifier

    x, queries = np.asarray(normalize(x)), np.asarray(normalize(queries))
    model = LogisticRegression(C=100, max_iter=300).fit(x[half], y[half])
    sets = np.ones((len(queries), y.max() + 1), bool)
    number = np.bincount(y[~half], minlength=y.max() + 1)
    for c in np.flatnonzero(number > LEAST + 1):
        settings: dict[str, Any] = {"conformity_score": "lac", "prefit": True}
        one = SplitConformalClassifier(model, confidence_level=1 - ERROR, **settings)
        rows = ~half & (y == c)
        one.conformalize(x[rows], y[rows])
        sets[:, c] = one.predict_set(queries)[1][:, c, 0]
    yield Sets(MAPIE, sets, np.where(number > LEAST + 1, number, 0))
    own = model.predict_proba(x[~half])[np.arange((~half).sum()), y[~half]]
    sets = model.predict_proba(queries) >= np.quantile(own, ERROR)
    yield Sets("threshold", sets, np.bincount(y))


def redrawn(rows: Split, seed: int) -> Split:
    """Shuffle training and test rows together, class by class."""
    x, y = np.concatenate([rows.x, rows.x_test]), np.concatenate([rows.y, rows.y_test])
    rng, first = np.random.default_rng(seed), np.arange(len(y)) < len(rows.y)
    order = np.arange(len(y))
    for c in np.unique(y):
        own = np.flatnonzero(y == c)
        order[own] = rng.permutation(own)
    return Split(x[order[first]], y[first], x[order[~first]], y[~first])


def size_at(coverage: float, p: np.ndarray, t: np.ndarray) -> float:
    """Return the mean size of sets of p-values p [N, C] that have the class t [N] of as many rows,
    between the sizes of two errors."""
    own = p[np.arange(len(t)), t]
    errors = np.unique(np.append(own, 0.0))[::-1]
    have, size = (
        (a.size - np.searchsorted(np.sort(a, axis=None), errors, "right")) / len(t)
        for a in (own, p)
    )
    return float(np.interp(coverage, have, size))


def draw(name: str, tail: int, seed: int, folder: Path) -> Iterator[Row]:
    """Score the sets of all methods on one draw."""
    base = name.removesuffix(REDRAWN)
    rows = read(base, folder) if base == name else redrawn(read(base, folder), seed)
    rows = long_tailed(rows, base, tail, seed, LARGEST)
    rng, C = np.random.default_rng(seed), int(rows.y.max()) + 1
    new: Any = rng.permutation(C)[: round(NEW * C)]
    kept = np.isin(rows.y, new, invert=True)
    names, y = np.unique(rows.y[kept], return_inverse=True)
    x, inside = rows.x[kept], np.asarray(np.isin(rows.y_test, new, invert=True))
    t = np.searchsorted(names, rows.y_test[inside])
    half = np.zeros(len(y), bool)
    for c in range(len(names)):
        own = rng.permutation(np.flatnonzero(y == c))
        half[own[: (len(own) + 1) // 2]] = True
    third: Any = np.empty(len(names), int)
    third[np.argsort(-np.bincount(y), kind="stable")] = np.arange(len(names)) * 3 // len(names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        of_methods = [result for fit in (ours, others) for result in fit(x, y, half, rows.x_test)]
    theirs = next(result for result in of_methods if result.method == MAPIE)
    shared = np.flatnonzero(theirs.known >= LEAST)
    among = np.isin(t, shared)
    chosen: Any = theirs.sets[inside][among][:, shared]
    labels = np.searchsorted(shared, t[among])
    coverage = float(chosen[np.arange(len(labels)), labels].mean())
    for method, sets, known, p in of_methods:
        sets, promised = np.asarray(sets), np.asarray(known >= LEAST)
        hits: Any = sets[inside][np.arange(len(t)), t]
        found: Row = {"set": name, "tail": tail, "method": method, "seed": seed}
        for k, part in enumerate(("head", "medium", "tail")):
            rows_of = promised[t] & (third[t] == k)
            found[f"coverage, {part}"] = float(hits[rows_of].mean()) if rows_of.any() else None
        found["size"] = float(sets[inside].sum(1).mean())
        some: Any = sets[:, promised].any(1) if promised.any() else np.ones(len(sets), bool)
        found |= {"new: empty": float(1 - some[~inside].mean())}
        found |= {"known: empty": float(1 - some[inside].mean())}
        found["promised"] = float(promised.mean())
        found["at coverage"] = coverage
        found["size there"] = None
        if method == MAPIE:
            found["size there"] = float(chosen.sum(1).mean())
        elif p is not None:
            found["size there"] = size_at(coverage, p[inside][among][:, shared], labels)
        yield found


def summary(table: pd.DataFrame) -> Iterator[Row]:
    """Return the means of the draws, coverages with standard errors."""
    groups: Any = table.groupby(["set", "tail", "method"], sort=False)
    for (name, tail, method), own in groups:
        row: Row = {"set": name, "tail": str(tail), "method": method}
        holds = True
        for part in ("head", "medium", "tail"):
            values = own[f"coverage, {part}"].dropna().to_numpy(float)
            if len(values) < 2:
                row[f"coverage, {part}"] = "no promise"
                continue
            error = float(values.std(ddof=1) / len(values) ** 0.5)
            row[f"coverage, {part}"] = f"{values.mean():.3f} ± {error:.3f}"
            holds &= bool(values.mean() >= 1 - ERROR - 2 * error)
        for column in ("size", "new: empty", "known: empty", "promised"):
            row[column] = float(own[column].mean())
        yield row | {"holds": "yes" if holds else "no"}


def compared(table: pd.DataFrame) -> Iterator[Row]:
    """Return the sizes at equal coverage, with differences from MAPIE's."""
    groups: Any = table.groupby(["set", "tail"], sort=False)
    for (name, tail), own in groups:
        sizes: Any = own.pivot(index="seed", columns="method", values="size there")
        row: Row = {"set": name, "tail": str(tail), "coverage": float(own["at coverage"].mean())}
        row[MAPIE] = float(sizes[MAPIE].mean())
        for method in (m for m in own["method"].unique() if m.startswith("ours")):
            gap = sizes[method] - sizes[MAPIE]
            mean, error = float(gap.mean()), float(gap.std(ddof=1) / len(gap) ** 0.5)
            word = "smaller" if mean < -2 * error else "larger" if mean > 2 * error else "equal"
            row[method] = f"{sizes[method].mean():.3f}, {mean:+.3f} ± {error:.3f}: {word}"
        yield row


def run(data: Path) -> Tables:
    torch.set_num_threads(1)
    cases = [(name, tail, seed) for name in SETS for tail in TAILS for seed in SEEDS]
    rows: list[Row] = []
    for case in cases:
        rows += draw(*case, data)
        print(*case)
    table = pd.DataFrame(rows)
    yield NOTE, summary(table)
    yield EQUAL, compared(table)
