"""Rows to look at (likely label errors, exact duplicates across splits, outliers of a class), and
warnings about rows where numbers may mislead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resultant._core.arrays import directions
from resultant._core.text import class_name, counted
from resultant.analysis.data import FeatureSet, Plan, Split
from resultant.analysis.evaluate import FEW_ROWS, SMALLEST
from resultant.analysis.metrics import sample_rows
from resultant.analysis.plain import Caution
from resultant.analysis.result import Method, RowTable
from resultant.classes.metric import Metric
from resultant.classes.realization import cosines

# Rows that a table keeps, and rows times classes of a split that are scored at most.
KEPT = 200
CELLS = 100_000_000

# Calibrated probabilities of the label at most, and of another class at least, from which a label
# is suspicious.
UNLIKELY = 0.05
LIKELY = 0.9

# Robust standard deviations below the median cosine of a class from which a row is an outlier.
DEVIATIONS = 5.0
NORMAL_MAD = 1.4826

# Test rows of a class below which its accuracy means little.
FEW_PER_CLASS = 3

# A class dominates with more than this share of the test rows, and this many times the rows of the
# average other class: of two classes one has 80 %, of five or more classes one has half.
DOMINANT = 0.5
TIMES = 4

# Ratio of the standard deviations of two columns from which their units differ, and rows that
# show it.
UNITS = 100.0
UNIT_ROWS = 2_000

# Fraction by which validation rows are more accurate than test rows if they were seen in training.
SEEN = 0.1


def suspicious_rows(data: FeatureSet, model: Any) -> dict[str, RowTable]:
    """Find rows to look at in all splits."""
    labels, outliers = [], []
    for split in data.splits:
        rows = sample_rows(len(split), CELLS // data.num_classes, 0)
        columns = []
        for _, x, y in split.chunks(rows, data.num_classes):
            p, cosine = _probabilities(model, x, y, left_out=split is data.train)
            top, other = p.scatter(1, y[:, None], -1.0).max(1)
            columns.append((other, top, p.gather(1, y[:, None])[:, 0], cosine))
        other, top, own, cosine = map(torch.cat, zip(*columns, strict=True))
        wrong = (top >= LIKELY) & (own <= UNLIKELY)
        odds = top.log() - own.clamp_min(SMALLEST).log()
        labels.append((split, rows[wrong], other[wrong], odds[wrong]))
        below = _medians(cosine, split.y[rows]) - cosine
        spread = NORMAL_MAD * _medians(below.abs(), split.y[rows])
        deviation = below / spread.clamp_min(1e-12)
        far = deviation > DEVIATIONS
        outliers.append((split, rows[far], other[far], deviation[far]))
    return {"label": _table("label", labels), "outlier": _table("outlier", outliers)}


def _probabilities(model: Any, x: Tensor, y: Tensor, left_out: bool) -> tuple[Tensor, Tensor]:
    """Return probabilities [n, C] in float64, and the cosines [n] with the own class."""
    state, own = model.state_, y[:, None].to(model.state_.mu.device)
    z = unit_rows(model.metric_, x).to(state.mu)
    rho = cosines(z, state.mu)
    if left_out:
        rest = model.statistics_.total[own[:, 0]] - z
        rho = rho.scatter(1, own, (z * directions(rest)[0]).sum(1, keepdim=True))
    scores = model._scale() * model._realization(rho.dtype).at(rho)
    return scores.softmax(1).cpu(), rho.gather(1, own)[:, 0].cpu()


def unit_rows(metric: Metric | None, x: Tensor) -> Tensor:
    """Return rows [n, p] as unit vectors of a metric, in float64."""
    z = directions(x.double())[0]
    return z if metric is None else metric.transform(z.to(metric.mean.device))


def _medians(values: Tensor, labels: Tensor) -> Tensor:
    """Return the median [n] of the values [n] of the class of each row."""
    order = values.argsort(stable=True)
    order = order[labels[order].argsort(stable=True)]
    size = torch.bincount(labels)
    middle = size.cumsum(0) - size + (size - 1).clamp_min(0) // 2
    return values[order][middle[labels]]


def duplicates(data: FeatureSet) -> RowTable:
    """Find rows of the other splits that are exactly equal to a training row."""
    seen, first = row_hashes(data.train).sort(stable=True)
    found = []
    for split in data.splits[1:]:
        own = row_hashes(split)
        at = torch.searchsorted(seen, own).clamp_max(len(seen) - 1)
        rows = (seen[at] == own).nonzero().squeeze(1)
        copies = first[at[rows]]
        found.append((split, rows, data.train.y[copies], copies.double()))
    return _table("duplicate", found, data.train.name)


def row_hashes(split: Split) -> Tensor:
    """Hash rows [N, p] by their values in float32, as int64 [N]; equal rows have equal hashes."""
    hashes = torch.empty(len(split), dtype=torch.int64)
    # The numbers of a row are hashed as int64.
    for at, part in split.map(_hashes, None, 2 * split.x.shape[1]):
        hashes[at] = part
    return hashes


def _hashes(x: Tensor, y: Tensor) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    factors = torch.randint(-(2**62), 2**62, (x.shape[1],), generator=generator) | 1
    # Plus zero: -0.0 equals 0.0. Sums of int64 wrap around.
    bits = (x.to("cpu", torch.float32) + 0.0).view(torch.int32).long()
    return (bits * factors).sum(1)


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
        yield Caution(
            "duplicates",
            f"{rows} in {data.train.name} and in another split, as exact duplicates: accuracies "
            "may be too high. Remove the duplicates from one of the splits.",
        )
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
        x = data.train.read(sample_rows(len(data.train), UNIT_ROWS, 0)).double()
        spread = x.std(0, correction=min(1, len(x) - 1))
        spread = spread[spread > 0]
        ratio = float(spread.max() / spread.median()) if len(spread) > 1 else 1.0
        if ratio > UNITS:
            text = f"One column varies {ratio:,.0f} times as much as the median column and decides"
            yield Caution("units", f"{text} all directions. Standardize the columns.")
    value, test = method.validation.value, method.metric(plan.metric).value
    if plan.folds is not None and value - test >= SEEN:
        yield Caution(
            "seen",
            f"Validation rows are {100 * value:.1f} % accurate, test rows {100 * test:.1f} %: the "
            "network has probably seen the training rows. Settings and probabilities are chosen "
            "too sharp. Give a split val of unseen rows.",
        )
    labels = data.train.y
    if bool((labels[1:] >= labels[:-1]).all()) and len(labels) > data.num_classes:
        yield Caution(
            "sorted",
            "The training rows are sorted by class. Nothing here depends on the order, but a split "
            "or a stream of these rows must shuffle them first.",
        )
