"""Rows to look at: likely label errors, exact duplicates across splits, outliers of a class."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from resultant._core.arrays import directions
from resultant.analysis.candidates import SMALLEST
from resultant.analysis.data import FeatureSet, Split
from resultant.analysis.metrics import sample_rows
from resultant.analysis.result import RowTable
from resultant.classes.cosines import cosines

# Rows that a table keeps.
KEPT = 200

# Rows times classes of a split that are scored at most.
CELLS = 100_000_000

# Calibrated probabilities of the label at most, and of another class at least, from which a label
# is suspicious.
UNLIKELY = 0.05
LIKELY = 0.9

# Robust standard deviations below the median cosine of a class from which a row is an outlier.
DEVIATIONS = 5.0
NORMAL_MAD = 1.4826


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
        deviation = _deviations(cosine, split.y[rows])
        far = deviation > DEVIATIONS
        outliers.append((split, rows[far], other[far], deviation[far]))
    return {"label": _table("label", labels), "outlier": _table("outlier", outliers)}


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


def _deviations(cosine: Tensor, labels: Tensor) -> Tensor:
    """Robust standard deviations [n] of cosines [n] below the median of their class."""
    below = _medians(cosine, labels) - cosine
    return below / (NORMAL_MAD * _medians(below.abs(), labels)).clamp_min(1e-12)


def _medians(values: Tensor, labels: Tensor) -> Tensor:
    """The median [n] of the values [n] of the class of each row."""
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
    score = torch.cat([s for *_, s in found]).numpy()
    order = np.argsort(-score, kind="stable") if copied is None else np.arange(len(score))
    columns = (
        np.concatenate([np.full(len(rows), s.name) for s, rows, *_ in found]),
        np.concatenate([rows.numpy() for _, rows, *_ in found]),
        np.concatenate([identity_text(s, rows) for s, rows, *_ in found]),
        np.concatenate([s.y[rows].numpy() for s, rows, *_ in found]),
        np.concatenate([other.numpy() for *_, other, _ in found]),
        score,
    )
    kept = [column[order[:KEPT]] for column in columns]
    copies = np.full(0 if copied is None else len(kept[0]), copied or "")
    return RowTable(kind, *kept, copy_split=copies, total=len(score))


def identity_text(split: Split, rows: Tensor) -> np.ndarray:
    """Identities [n] of rows as text; "" without identities."""
    if split.identities is None:
        return np.full(len(rows), "")
    return split.identities[rows].numpy().astype(str)
