"""Rows to look at: likely label errors, exact duplicates across splits, outliers of a class."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resultant._core.arrays import directions
from resultant.analysis.candidates import SMALLEST
from resultant.analysis.data import FeatureSet, Split
from resultant.analysis.result import RowTable
from resultant.analysis.sampling import sample_rows
from resultant.classes.cosines import cosines

# Rows that a table keeps.
KEPT = 200

# Rows times classes of a split that are scored at most.
CELLS = 100_000_000

# Odds of another class against the label from which a label is suspicious.
ODDS = 10.0

# Robust standard deviations below the median cosine of a class from which a row is an outlier.
DEVIATIONS = 5.0
NORMAL_MAD = 1.4826


def suspicious_rows(data: FeatureSet, model: Any) -> dict[str, RowTable]:
    """Find rows to look at in the training rows and the test rows.

    Args:
        data: The rows.
        model: A `VMFClassifier`, fitted to the training rows. A training row is scored against its
            class without this row.

    Returns:
        Tables "label" and "outlier".
    """
    labels, outliers = [], []
    splits = [data.train, data.test] if data.val is None else [data.train, data.val, data.test]
    for split in splits:
        rows = sample_rows(len(split), CELLS // data.num_classes, 0)
        other, odds, confident, cosine = _held_out(data, split, rows, model)
        wrong = confident & (odds > math.log(ODDS))
        labels.append((split, rows[wrong], other[wrong], odds[wrong]))
        deviation = _deviations(cosine, split.y[rows], data.num_classes)
        far = deviation > DEVIATIONS
        outliers.append((split, rows[far], other[far], deviation[far]))
    return {"label": _table("label", labels), "outlier": _table("outlier", outliers)}


def _held_out(
    data: FeatureSet, split: Split, rows: Tensor, model: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Score rows [n] against their classes without them.

    Returns:
        The most likely other class [n], its log odds [n] against the label, True [n] if it is as
        probable as rows of that class are to themselves on average, and the own cosine [n].
    """
    n, C = len(rows), data.num_classes
    other, cosine, odds = torch.empty(n).long(), *torch.empty(2, n).double()
    top, total, count = torch.empty(n).double(), torch.zeros(C).double(), torch.zeros(C)
    for at, x, y in split.chunks(rows, C):
        p, own_cosine = _probabilities(model, x, y, left_out=split is data.train)
        own = p.gather(1, y[:, None])[:, 0]
        total.index_add_(0, y, own)
        count.index_add_(0, y, torch.ones(len(y)))
        top[at], other[at] = p.scatter(1, y[:, None], -1.0).max(1)
        odds[at] = top[at].clamp_min(SMALLEST).log() - own.clamp_min(SMALLEST).log()
        cosine[at] = own_cosine
    confident = top >= (total / count)[other].nan_to_num(1.0)
    return other, odds, confident, cosine


def _probabilities(model: Any, x: Tensor, y: Tensor, left_out: bool) -> tuple[Tensor, Tensor]:
    """Probabilities [n, C] in float64, and the cosines [n] with the own class."""
    state, own = model.state_, y[:, None].to(model.state_.mu.device)
    z = unit_rows(model, x).to(state.mu)
    rho = cosines(z, state.mu)
    if left_out:
        rest = model.statistics_.total[own[:, 0]] - z
        rho = rho.scatter(1, own, (z * directions(rest)[0]).sum(1, keepdim=True))
    scores = model._scale() * model._realization(rho.dtype).at(rho)
    return scores.softmax(1).cpu(), rho.gather(1, own)[:, 0].cpu()


def unit_rows(model: Any, x: Tensor) -> Tensor:
    """Return rows [n, p] as the unit vectors that a `VMFClassifier` scores, in float64."""
    z = directions(x.double())[0]
    metric = getattr(model, "metric_", None)
    return z if metric is None else metric.transform(z.to(metric.mean.device))


def _deviations(cosine: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """Robust standard deviations [n] of cosines [n] below the median of their class."""
    median = _medians(cosine, labels, num_classes)
    below = median[labels] - cosine
    spread = NORMAL_MAD * _medians(below.abs(), labels, num_classes)
    return below / spread[labels].clamp_min(1e-12)


def _medians(values: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """Medians [C] of values [n] per class; zero for a class without values."""
    order = values.argsort(stable=True)
    order = order[labels[order].argsort(stable=True)]
    size = torch.bincount(labels, minlength=num_classes)
    middle = size.cumsum(0) - size + (size - 1).clamp_min(0) // 2
    return torch.where(size > 0, values[order][middle.clamp_max(len(values) - 1)], 0.0)


def duplicates(data: FeatureSet) -> RowTable:
    """Find rows of the other splits that are exactly equal to a training row."""
    seen, first = row_hashes(data.train).sort(stable=True)
    found = []
    for split in (data.test, data.val):
        if split is None:
            continue
        own = row_hashes(split)
        at = torch.searchsorted(seen, own).clamp_max(len(seen) - 1)
        rows = (seen[at] == own).nonzero().squeeze(1)
        copies = first[at[rows]]
        found.append((split, rows, data.train.y[copies], copies.double()))
    table = _table("duplicate", found, ordered=False)
    copied = np.full(len(table.row), data.train.name)
    return RowTable(**{**vars(table), "copy_split": copied})


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
    kind: str, found: list[tuple[Split, Tensor, Tensor, Tensor]], ordered: bool = True
) -> RowTable:
    """Join the rows of all splits, the largest score first."""
    score = torch.cat([s for *_, s in found])
    order = score.argsort(descending=True, stable=True) if ordered else torch.arange(len(score))
    order = order[:KEPT]
    columns = {
        "split": np.concatenate([np.full(len(rows), s.name) for s, rows, *_ in found]),
        "row": torch.cat([rows for _, rows, *_ in found]).numpy(),
        "identity": np.concatenate([identity_text(s, rows) for s, rows, *_ in found]),
        "label": torch.cat([s.y[rows] for s, rows, *_ in found]).numpy(),
        "other": torch.cat([other for *_, other, _ in found]).numpy(),
        "score": score.numpy(),
    }
    kept = {name: column[order.numpy()] for name, column in columns.items()}
    return RowTable(kind, **kept, copy_split=np.empty(0, dtype=str), total=len(score))


def identity_text(split: Split, rows: Tensor) -> np.ndarray:
    """Identities [n] of rows as text; "" without identities."""
    if split.identities is None:
        return np.full(len(rows), "")
    return split.identities[rows].numpy().astype(str)
