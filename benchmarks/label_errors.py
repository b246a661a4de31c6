"""Label errors: the quality and the flags of `resultant.rows` beside those of cleanlab.

    python -m benchmarks label_errors --data FOLDER        (needs cleanlab, from PyPI)

Protocol, written before the runs of the table. Wrong labels are known: some are flipped, or people
gave them. Both tools get the same features, the same labels and the same five folds (those of the
library: stratified, equal rows together), and the same out-of-fold probabilities:

- "logistic": `StandardScaler` and `LogisticRegression`, scaling and penalty chosen on a sample of
  the noisy labels, as `resultant analyze` does for its references;
- "ours": the method that `resultant analyze` recommends among the vMF ones, chosen on the noisy
  labels.

cleanlab runs with its defaults: `get_label_quality_scores` and `find_label_issues`. Ours are
`score_rows`: log odds of the label against the strongest other class, which counts half; flagged
are rows where another class has .8 of the mean probability of its class or more, and twice that of
the label. The half was chosen among 0, .25, .5, .75 and 1, shares and odds among a few, on other
draws of digits and of the packaged features and on other rows of CIFAR-10, with fixed settings of
both classifiers; nothing was changed after the runs.

Sets: digits (1,797 x 64), whole and as a long tail of 170 to 8 rows; the packaged encoder (10,847 x
64, 100 classes from 500 to 5 rows); CIFAR-10 with labels that people gave (CIFAR-10N: 9, 17 and 40
% wrong), 1,280 features of EfficientNet-Lite0, 10,000 rows, and a long tail of 1,000 to 10 rows of
the given labels; texts: CLINC150 (6,000 x 384 of all-MiniLM-L6-v2, 60 classes). Flips: 5 and 20 %
of all rows, to any other class, or to the class that a classifier of clean labels confuses most
with the own one; one draw of each.

Measures: average precision of the ranking, for all rows and for the tail (the third of the classes
with the fewest rows, by the given labels); precision and recall of flags. Ours is ahead of a pair
of rows if its average precision on the same probabilities is larger; the aim is to be behind by
more than .005 nowhere.

FOLDER holds cifar10.npz (``x`` [50000, 1280], features of the training images in their order, by
`benchmarks.embeddings.image_network`), cifar10n.npz (the labels of CIFAR-10N), and clinc150.npz of
`benchmarks.embeddings`; sets without a file are left out."""

# pyright: reportMissingImports=false

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.metrics import average_precision_score
from sklearn.model_selection import cross_val_predict

from benchmarks import Row, Tables
from resultant import VMFClassifier
from resultant.analysis.candidate import Candidate, probabilities
from resultant.analysis.choose import choose
from resultant.analysis.fit import few_threads, fit_each, fitted_model, majority, search, tuned
from resultant.analysis.quality import score_rows
from resultant.analysis.references import table as references
from resultant.analysis.split import FeatureSet, Settings, Split, plan
from resultant.features.packaged import packaged_file
from resultant.features.store import FeatureStore

SHARES, DRAWS, PEOPLE = (0.05, 0.2), 1, ("aggre_label", "random_label1", "worse_label")
ROWS, LONG_TAIL, SHORT = 10_000, (1000, 10), (170, 8)


class Task(NamedTuple):
    """Features with given labels, and the rows whose label is wrong."""

    name: str
    noise: str
    x: np.ndarray
    given: np.ndarray
    wrong: np.ndarray


def confused(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the class [C] that each class is most often taken for."""
    model = VMFClassifier(whiten="within", shrinkage=0.3)
    predicted: Any = cross_val_predict(model, x, y, cv=5)
    matrix = np.zeros((y.max() + 1, y.max() + 1))
    np.add.at(matrix, (y, predicted), 1)
    np.fill_diagonal(matrix, -1)
    return matrix.argmax(1)


def flipped(name: str, x: np.ndarray, y: np.ndarray, draws: int, short: Any) -> Iterator[Task]:
    """Yield tasks of flipped labels."""
    other, C = confused(x, y), int(y.max()) + 1
    for share in SHARES:
        for noise in ("any class", "most confused"):
            for seed in range(draws):
                rng = np.random.default_rng(seed)
                kept = np.arange(len(y)) if short is None else long_tail(y, short[0], short[1], rng)
                t = y[kept]
                wrong = rng.random(len(t)) < share
                new = (t + rng.integers(1, C, len(t))) % C if noise == "any class" else other[t]
                given = np.where(wrong, new, t)
                yield Task(name, f"{share:.0%} to {noise}", x[kept], given, wrong)


def long_tail(y: np.ndarray, most: int, least: int, rng: np.random.Generator) -> np.ndarray:
    """Draw rows with geometrically fewer rows in each class."""
    C = int(y.max()) + 1
    sizes = (most * (least / most) ** (np.arange(C) / (C - 1))).round().astype(int)
    pick = [
        rng.permutation(np.nonzero(y == c)[0])[:n]
        for c, n in zip(rng.permutation(C), sizes, strict=True)
    ]
    return np.sort(np.concatenate(pick))


def tasks(folder: Path) -> Iterator[Task]:
    """Yield all tasks."""
    digits: Any = load_digits()
    x, y = digits.data.astype(np.float32), digits.target
    yield from flipped("digits", x, y, DRAWS, None)
    yield from flipped("digits, long tail", x, y, DRAWS, SHORT)
    with packaged_file() as path:
        store = FeatureStore.open(path)
        x, y = (store[f"train/{name}"].numpy() for name in ("encoder", "labels"))
    yield from flipped("packaged", x.astype(np.float32), y, 1, None)
    if (folder / "clinc150.npz").exists():
        texts = np.load(folder / "clinc150.npz")
        x = (texts["low"] + texts["step"] * texts["train"]).astype(np.float32)
        yield from flipped("texts", x, texts["train_y"].astype(int), 1, None)
    if not (folder / "cifar10.npz").exists():
        return
    x = np.load(folder / "cifar10.npz")["x"][:ROWS].astype(np.float32)
    people = np.load(folder / "cifar10n.npz")
    true = people["clean_label"][:ROWS]
    for column in PEOPLE:
        given = people[column][:ROWS].astype(int)
        wrong = given != true
        noise = f"people, {wrong.mean():.0%}"
        yield Task("CIFAR-10", noise, x, given, wrong)
        kept = long_tail(given, *LONG_TAIL, np.random.default_rng(0))
        yield Task("CIFAR-10, long tail", noise, x[kept], given[kept], wrong[kept])


def candidates(data: FeatureSet) -> Iterator[tuple[str, Candidate]]:
    """Yield the two classifiers, chosen on the noisy labels."""
    made = plan(data)
    models = [majority(data), *search(data, made, Settings())]
    fit_each(models, data, made)
    key = choose(models, made).used
    yield "ours", next(c for c in models if c.key == key)
    (logistic,) = (r for r in references(data, made, "fast") if r.key.startswith("Logistic"))
    model: Any = clone(logistic.model)
    plain = replace(logistic, model=model.set_params(class_weight=None))
    yield "logistic", tuned(plain, data, made, "fast")


def out_of_fold(one: Candidate, data: FeatureSet) -> np.ndarray:
    """Return the probabilities [N, C] that cleanlab asks for."""
    p = torch.zeros(len(data.train), data.num_classes, dtype=torch.float64)
    for rows, apart in data.folds:
        model, _, _ = fitted_model(one, data, rows, {})
        p[apart] = probabilities(model, data.train.read(apart), data.num_classes).double()
    return p.numpy()


def measured(task: Task) -> Iterator[Row]:
    """Yield the measures of both tools on both probabilities."""
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    y = torch.from_numpy(task.given).long()
    names = tuple(map(str, range(int(y.max()) + 1)))
    train = Split("train", torch.from_numpy(task.x), y)
    few = Split("test", train.x[:2], y[:2])
    data = FeatureSet(task.name, "x", names, train, few)
    count = np.bincount(task.given)
    tail = count[task.given] <= np.sort(count)[len(count) // 3]
    with few_threads(0):
        for kind, one in candidates(data):
            p = out_of_fold(one, data)
            one.model, _, _ = fitted_model(one, data, data.fitted, {})
            ours = score_rows(data, one)[0]
            score = get_label_quality_scores(task.given, p)
            issues = find_label_issues(task.given, p)
            tools = (
                ("resultant", ours.odds.numpy(), ours.flagged.numpy()),
                ("cleanlab", score, issues),
            )
            about = {"set": task.name, "wrong labels": task.noise, "probabilities": kind}
            for tool, quality, flags in tools:
                found = numbers(task.wrong, tail, quality, flags)
                yield {**about, "tool": tool, **found}


def numbers(wrong: np.ndarray, tail: np.ndarray, quality: np.ndarray, flags: np.ndarray) -> Row:
    """Return average precisions, and precision and recall of flags; none without a wrong label."""
    found: Row = {}
    for end, at in (("", np.ones_like(tail)), (", tail", tail)):
        if not (wrong & at).any():
            continue
        right = int((wrong & flags & at).sum())
        found[f"average precision{end}"] = float(average_precision_score(wrong[at], -quality[at]))
        found[f"precision{end}"] = right / max(int((flags & at).sum()), 1)
        found[f"recall{end}"] = right / max(int((wrong & at).sum()), 1)
    return found


def run(data: Path) -> Tables:
    """Measure all tasks; the mean of the draws of each."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    keys = ("set", "wrong labels", "probabilities", "tool")
    for task in tasks(data):
        for row in measured(task):
            print(*(value if isinstance(value, str) else f"{value:.3f}" for value in row.values()))
            found.setdefault(tuple(row[key] for key in keys), []).append(row)
    mean = partial(np.mean, dtype=float)
    rows: list[Row] = []
    for key, parts in found.items():
        values = {n: float(mean([part[n] for part in parts])) for n in parts[0] if n not in keys}
        rows.append({**dict(zip(keys, key, strict=True)), **values})
    yield note(rows), rows


def note(rows: Sequence[Row]) -> str:
    """Return what the table shows: where ours is ahead, and where behind."""
    text = "Wrong labels, found by resultant and cleanlab from the same out-of-fold probabilities; "
    text += "the protocol stands in `benchmarks/label_errors.py`."
    for what, name in (("all rows", ""), ("rows of the tail", ", tail")):
        precision = [float(row.get(f"average precision{name}", np.nan)) for row in rows]  # type: ignore[arg-type]
        gaps = np.array(precision[::2]) - np.array(precision[1::2])
        gaps = gaps[np.isfinite(gaps)]
        text += f" Average precision of {what}: ours is larger in {(gaps > 0).sum()} of {len(gaps)}"
        text += f" pairs, by {gaps.mean():+.3f} in the mean; behind by more than .005 in "
        text += f"{(gaps < -0.005).sum()}, at most {max(0.0, -gaps.min()):.3f}."
    return text
