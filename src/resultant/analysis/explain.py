"""Rows to look at (likely label errors, exact duplicates across splits, outliers of a class),
warnings where numbers may mislead, a map of the test rows, and the numbers of the sliders."""

import importlib.util
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resultant._core.arrays import directions
from resultant._core.text import class_name, counted
from resultant.analysis.data import FeatureSet, Plan, Split, row_weights
from resultant.analysis.evaluate import FEW_ROWS, SMALLEST
from resultant.analysis.methods import sample_of, unit_rows
from resultant.analysis.metrics import Caution, sample_rows, stratified
from resultant.analysis.result import Explorer, FeatureMap, Method, RowTable
from resultant.classes.metric import Metric
from resultant.classes.realization import cosines
from resultant.classes.statistics import ClassState
from resultant.classifiers.inputs import UNIT_ROWS, UNITS, digests, widest_column
from resultant.classifiers.validation import shuffled_ranks

# Rows that a table keeps, and rows times classes of a split that are scored at most.
KEPT = 200
CELLS = 100_000_000

# Calibrated probabilities of the label at most, and of another class at least, from which a label
# is suspicious.
UNLIKELY, LIKELY = 0.05, 0.9

# Robust standard deviations below the median cosine of a class from which a row is an outlier.
DEVIATIONS = 5.0
NORMAL_MAD = 1.4826

# Test rows of a class below which its accuracy means little.
FEW_PER_CLASS = 3

# A class dominates with more than this share of the test rows, and this many times the rows of the
# average other class: of two classes one has 80 %, of five or more classes one has half.
DOMINANT, TIMES = 0.5, 4

# Fraction by which validation rows are more accurate than test rows if they were seen in training.
SEEN = 0.1

# Training rows times dimension that a metric is fitted to, its dimensions at most (directions are
# not whitened beyond), and points of the map.
METRIC_ENTRIES = 2e7
METRIC_DIM = 2_048
MAP_ROWS = 2_000

# Shrinkages of the slider; the map has the second one.
SHRINKAGES = (0.1, 0.3, 0.6, 0.9)

# Test rows of the sliders, candidates per row, numbers of all of them, and classes of a boundary.
EXPLORED_ROWS = 500
CANDIDATES = 100
EXPLORED_CELLS = 250_000
SHOWN_CLASSES = 24

# Classes in one metric; None for the plain directions.
Directions = tuple[Metric | None, ClassState]


def suspicious_rows(data: FeatureSet, model: Any) -> dict[str, RowTable]:
    """Find rows to look at in all splits."""
    labels, outliers = [], []
    for split in data.splits:
        rows = sample_rows(len(split), CELLS // data.num_classes, 0)
        columns = []
        for _, x, y in split.chunks(rows, data.num_classes):
            mu = model.state_.mu.float()
            z, own = unit_rows(model.metric_, x).to(mu.device), y[:, None].to(mu.device)
            rho = cosines(z, mu)
            if split is data.train:
                rest = directions(model.statistics_.total[own[:, 0]] - z)[0]
                rho.scatter_(1, own, (z * rest).sum(1, keepdim=True).to(rho))
            p = (model._scale() * model._realization(rho.dtype).at(rho)).softmax(1)
            top, other = p.scatter(1, own, -1.0).max(1)
            columns.append((other, top, *(a.gather(1, own)[:, 0] for a in (p, rho))))
        other, top, own, cosine = (torch.cat(column).cpu() for column in zip(*columns, strict=True))
        wrong = (top >= LIKELY) & (own <= UNLIKELY)
        odds = top.log() - own.clamp_min(SMALLEST).log()
        labels.append((split, rows[wrong], other[wrong], odds[wrong]))
        below = _medians(cosine, split.y[rows]) - cosine
        spread = NORMAL_MAD * _medians(below.abs(), split.y[rows])
        deviation = below / spread.clamp_min(1e-12)
        far = deviation > DEVIATIONS
        outliers.append((split, rows[far], other[far], deviation[far]))
    return {"label": _table("label", labels), "outlier": _table("outlier", outliers)}


def _medians(values: Tensor, labels: Tensor) -> Tensor:
    """Return the median [n] of the values [n] of the class of each row."""
    order = values.argsort(stable=True)
    order = order[labels[order].argsort(stable=True)]
    size = torch.bincount(labels)
    middle = size.cumsum(0) - size + (size - 1).clamp_min(0) // 2
    return values[order][middle[labels]]


def duplicates(data: FeatureSet) -> RowTable:
    """Find rows of the other splits that are exactly equal to a training row."""
    hashes = []
    for split in data.splits:
        hashes.append(torch.empty(len(split), dtype=torch.int64))
        for at, part in split.map(lambda x, _: torch.tensor(digests(x.float()))):
            hashes[-1][at] = part
    seen, first = hashes[0].sort(stable=True)
    found = []
    for split, own in zip(data.splits[1:], hashes[1:], strict=True):
        at = torch.searchsorted(seen, own).clamp_max(len(seen) - 1)
        rows = (seen[at] == own).nonzero().squeeze(1)
        copies = first[at[rows]]
        found.append((split, rows, data.train.y[copies], copies.double()))
    return _table("duplicate", found, data.train.name)


def _table(
    kind: str, found: list[tuple[Split, Tensor, Tensor, Tensor]], copied: str | None = None
) -> RowTable:
    """Join the rows of all splits, the largest score first, or copies of a split in order."""
    parts = [
        (np.full(len(rows), s.name), rows, identity_text(s, rows), s.y[rows], other, score)
        for s, rows, other, score in found
    ]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    total = len(columns[-1])
    order = np.argsort(-columns[-1], kind="stable") if copied is None else np.arange(total)
    kept = [column[order[:KEPT]] for column in columns]
    copies = np.full(0 if copied is None else len(kept[0]), copied or "")
    return RowTable(kind, *kept, copy_split=copies, total=total)


def identity_text(split: Split, rows: Tensor) -> np.ndarray:
    """Return the identities [n] of rows as text; "" without identities."""
    if split.identities is None:
        return np.full(len(rows), "")
    return split.identities[rows].numpy().astype(str)


def cautions(data: FeatureSet, plan: Plan, copies: RowTable, method: Method) -> Iterator[Caution]:
    """Check the rows of a feature set, and the recommended method or the best one."""
    if copies.total:
        rows = counted(copies.total, "row is", "rows are")
        text = f"{rows} in {data.train.name} and in another split, as exact duplicates: accuracies"
        text += " may be too high. Remove the duplicates from one of the splits."
        yield Caution("duplicates", text)
    if len(data.test) < FEW_ROWS:
        rows = counted(len(data.test), "test row", "test rows")
        text = f"Only {rows}: accuracies are rough, and calibration errors are not shown."
        yield Caution("few-rows", f"{text} Hold out {FEW_ROWS} rows or more.")
    counts = torch.bincount(data.test.y, minlength=data.num_classes)
    if few := int((counts < FEW_PER_CLASS).sum()):
        have = counted(few, "class has", "classes have")
        text = f"{have} fewer than {FEW_PER_CLASS} test rows"
        yield Caution("few-per-class", f"{text}: accuracies of single classes mean little there.")
    most, total = int(counts.max()), int(counts.sum())
    if most > DOMINANT * total and most * (data.num_classes - 1) >= TIMES * (total - most):
        name, percent = class_name(data.class_names[int(counts.argmax())]), 100 * most / total
        text = f"{percent:.1f} % of the test rows are {name}: always predicting it is"
        text = f"{text} {percent:.1f} % accurate. Read the balanced accuracy."
        yield Caution("dominant", text)
    # Whitening removes units.
    if not method.settings.get("whiten") and method.family != "scikit-learn":
        x = data.train.read(sample_rows(len(data.train), UNIT_ROWS, 0))
        if (ratio := widest_column(x)[1]) > UNITS:
            text = f"One column varies {ratio:,.0f} times as much as the median column and decides"
            yield Caution("units", f"{text} all directions. Standardize the columns.")
    value, test = method.validation.value, method.metric(plan.metric).value
    if plan.folds is not None and value - test >= SEEN:
        text = (
            f"Validation rows are {100 * value:.1f} % accurate, test rows {100 * test:.1f} %: the"
        )
        text += " network has probably seen the training rows. Settings and probabilities are"
        yield Caution("seen", f"{text} chosen too sharp. Give a split val of unseen rows.")
    labels = data.train.y
    if bool((labels[1:] >= labels[:-1]).all()) and len(labels) > data.num_classes:
        text = "The training rows are sorted by class. Nothing here depends on the order, but a"
        yield Caution("sorted", f"{text} split or a stream of these rows must shuffle them first.")


def fit_directions(data: FeatureSet, estimator: str) -> list[Directions]:
    """Fit the classes of a stratified sample in the plain and in the whitened directions."""
    rows = data.fitted[stratified(data.train.y[data.fitted], METRIC_ENTRIES / data.dim)]
    sample = sample_of(data, data.train.read(rows), data.train.y[rows])
    whiten = data.dim <= METRIC_DIM
    plain = sample.sums(scatter=whiten)
    fitted: list[Directions] = [(None, plain.state(estimator))]
    if whiten:
        metric = Metric.fit(plain, SHRINKAGES[0])
        sums = sample.metric_sums(torch.arange(len(rows)), metric, SHRINKAGES)
        for shrinkage, own in zip(SHRINKAGES, sums, strict=True):
            fitted.append((metric.with_shrinkage(shrinkage), own.state(estimator)))
    return fitted


def feature_map(
    data: FeatureSet, plan: Plan, fitted: list[Directions], predicted: Tensor
) -> FeatureMap:
    """Map test rows to two dimensions: PCA of the whitened rows, or UMAP if it is installed."""
    at = stratified(data.test.y[plan.test], MAP_ROWS)
    rows, predicted = plan.test[at], predicted[at]
    z = unit_rows(fitted[min(2, len(fitted) - 1)][0], data.test.read(rows)).float()
    kind, explained = "PCA", (float("nan"), float("nan"))
    if importlib.util.find_spec("umap") is not None and len(z) > 15:
        import umap  # pyright: ignore[reportMissingImports]

        xy, kind = umap.UMAP(metric="cosine", random_state=0).fit_transform(z.numpy()), "UMAP"
    else:
        centred = z - z.mean(0)
        variance, axes = torch.linalg.eigh(centred.T @ centred)
        top = axes[:, [-1, -2]]
        # The sign of an axis is arbitrary: its largest coordinate is positive.
        top = top * top.gather(0, top.abs().argmax(0, keepdim=True)).sign()
        xy = (centred @ top).numpy()
        shares = variance.clamp_min(0)[[-1, -2]] / variance.clamp_min(0).sum().clamp_min(1e-30)
        explained = (float(shares[0]), float(shares[1]))
    place, identity = xy.astype(np.float32).T, identity_text(data.test, rows)
    about = rows.numpy(), identity, data.test.y[rows].numpy(), predicted.numpy()
    return FeatureMap(kind, place[0], place[1], *about, explained)


def explorer(
    data: FeatureSet, plan: Plan, fitted: list[Directions], settings: dict[str, Any]
) -> Explorer:
    """Return the numbers of the sliders."""
    C, S, rows = data.num_classes, len(fitted), plan.test
    most = min(EXPLORED_ROWS, EXPLORED_CELLS // (S * min(C, CANDIDATES)))
    # As many rows of each class as possible.
    spread = shuffled_ranks(data.test.y[rows]).argsort(stable=True)[:most]
    rows = rows[spread.sort().values]
    x, label = data.test.read(rows), data.test.y[rows]
    states = [state for _, state in fitted]
    rho = torch.stack([cosines(unit_rows(m, x), state.mu) for m, state in fitted]).float()
    # The classes of each row with the largest cosine under any metric, and its own.
    nearest = rho.amax(0).scatter(1, label[:, None], 2.0).topk(min(C, CANDIDATES), 1)
    candidates = nearest.indices.sort(1).values
    # Evenly over the class sizes, the largest first.
    order = data.counts.argsort(descending=True, stable=True)
    shown = order[torch.linspace(0, C - 1, min(SHOWN_CLASSES, C)).round().long()]
    log_prior = (data.counts.double() / data.counts.sum()).log()
    shrinkage = np.array([np.nan if metric is None else metric.shrinkage for metric, _ in fitted])
    start = {k: settings.get(k) for k in ("realization", "beta", "temperature", "prior", "scale")}
    metric = 0
    if settings.get("whiten") and S > 1:
        metric = 1 + int(np.abs(shrinkage[1:] - float(settings.get("shrinkage", 0.3))).argmin())
    return Explorer(
        dim=data.dim,
        shrinkage=shrinkage,
        kappa=torch.stack([state.kappa for state in states]).numpy(),
        resultant=torch.stack([state.resultant for state in states]).numpy(),
        log_prior=log_prior.numpy(),
        row=rows.numpy(),
        label=label.numpy(),
        weight=row_weights(label, plan.metric).numpy(),
        candidates=candidates.numpy(),
        cosine=rho.gather(2, candidates.expand(S, -1, -1)).numpy(),
        shown=shown.numpy(),
        pair_cosine=torch.stack([a.mu[shown] @ a.mu[shown].T for a in states]).numpy(),
        start={**start, "metric": metric},
    )
