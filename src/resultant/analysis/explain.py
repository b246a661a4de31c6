"""Rows to look at (likely label errors, copies, outliers of a class), and warnings where numbers
may mislead."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from resultant._core.arrays import directions
from resultant._core.text import class_name, counted
from resultant.analysis.candidate import SMALLEST, Candidate
from resultant.analysis.duplicates import Groups, conflicts, exact, near
from resultant.analysis.evaluate import FEW_ROWS
from resultant.analysis.fit import unit_rows
from resultant.analysis.metrics import Caution, sample_rows
from resultant.analysis.quality import Scored, score_rows
from resultant.analysis.result import Method, Places, RowTable
from resultant.analysis.split import FeatureSet, Plan, Split
from resultant.classifiers.inputs import UNIT_ROWS, UNITS, widest_column
from resultant.features.selection import COLUMNS

# Rows that a table keeps.
KEPT = 200

# Robust standard deviations above the median of a class from which a row is an outlier, of the
# logarithm of its angle to the class: cosines of few dimensions have long tails without outliers.
DEVIATIONS = 3.0
# Smaller angles are rounding.
LEAST_ANGLE = 1e-3
NORMAL_MAD = 1.4826
# Rows of a class whose spread counts as much as that of all training rows.
POOLED = 10

# Test rows of a class below which its accuracy means little.
FEW_PER_CLASS = 3

# A class dominates with more than this share of the test rows, and this many times the rows of the
# average other class: of two classes one has 80 %, of five or more classes one has half.
DOMINANT, TIMES = 0.5, 4

# Fraction by which validation rows are more accurate than test rows if something is wrong.
SEEN = 0.1


@dataclass(eq=False)
class Findings:
    """Scores, outliers and near-duplicates of all rows, in lists of one entry per split."""

    scored: list[Scored]
    deviation: list[Tensor]  # robust standard deviations [N] from the class, see `outliers`
    p_value: list[Tensor]  # conformal p-value [N] of the row in its class
    groups: Groups  # near-duplicates


def places_of(split: Split, rows: Tensor) -> Places:
    """Return the places of some rows [n] of a split."""
    origin, name = split.origin, np.full(len(rows), split.name)
    columns = {column: origin.columns[column][rows] for column in origin.columns}
    return Places(name, np.array(origin.names(rows), object), origin.row[rows].numpy(), columns)


def suspicious_rows(data: FeatureSet, found: Findings) -> dict[str, RowTable]:
    """Return tables of likely label errors, of outliers and of near-duplicates."""
    errors, far, start = [], [], 0
    for part, deviation in zip(found.scored, found.deviation, strict=True):
        rows = part.flagged.nonzero()[:, 0]
        top, other = part.top[rows], part.suggested[rows]
        p = part.p[rows].gather(1, (top == other[:, None]).int().argmax(1, keepdim=True))[:, 0]
        odds = (p / part.own[rows].clamp_min(SMALLEST)).double().log()
        errors.append((start + rows, other, odds))
        rows = (deviation > DEVIATIONS).nonzero()[:, 0]
        first, second = part.top[rows, :2].T
        other = torch.where(first == part.split.y[rows], second, first)
        far.append((start + rows, other, deviation[rows]))
        start += len(part.split)
    tables = {}
    for kind, parts in (("label", errors), ("outlier", far)):
        at, other, score = map(torch.cat, zip(*parts, strict=True))
        order = score.argsort(descending=True, stable=True)
        tables[kind] = table(kind, data, at[order], other[order], score[order])
    # Rows that are nearly equal to an earlier row, the closest first.
    first, cosine = (torch.from_numpy(a) for a in (found.groups.first, found.groups.cosine))
    at = ((first != torch.arange(len(first))) & (cosine < 1)).nonzero()[:, 0]
    at = at[cosine[at].argsort(descending=True, stable=True)]
    tables["near"] = table("near", data, at, data.labels[first[at]], cosine[at], first[at])
    return tables


def table(
    kind: str, data: FeatureSet, at: Tensor, other: Tensor, score: Tensor, of: Tensor | None = None
) -> RowTable:
    """Return the first of some rows ``at`` [n] of all splits, with other classes and scores [n],
    and if they are copies, the earlier rows ``of`` [n] that they are like."""
    places, copies = joined(data, at[:KEPT]), None if of is None else joined(data, of[:KEPT])
    columns = (a[:KEPT].numpy() for a in (data.labels[at], other, score))
    return RowTable(kind, places, *columns, total=len(at), copies=copies)


def look(data: FeatureSet, used: Candidate, vmf: Candidate) -> Findings:
    """Score the labels of all rows, their places in their classes, and near-duplicates."""
    scored = score_rows(data, used)
    deviation, p_value = zip(*outliers(data, vmf), strict=True)
    return Findings(scored, list(deviation), list(p_value), near(data))


def outliers(data: FeatureSet, vmf: Candidate) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield, for each split, how far the rows [N] are from the direction of their class: robust
    standard deviations of the logarithm of the angle above the median of the training rows of the
    class, and the conformal p-value, the share of these rows, itself among them, that are as far.
    Training rows leave themselves out; the deviation of few rows is nearly that of all classes.
    Where one column decides all directions, no row is far."""
    model = vmf.model
    mu, total = model.state_.mu, model.statistics_.total

    def own_cosine(x: Tensor, y: Tensor, inside: bool) -> Tensor:
        z, y = unit_rows(model.metric_, x).to(mu.device), y.to(mu.device)
        own = directions(total[y] - z)[0] if inside else mu[y]
        return (z * own.to(z)).sum(1).cpu()

    known = middle = spread = torch.empty(0)
    able = dominant_column(data)[1] <= UNITS
    for split in data.splits:
        cosine = torch.zeros(len(split), dtype=torch.float64)
        for at, part in split.map(partial(own_cosine, inside=split is data.train)):
            cosine[at] = part
        angle = cosine.clamp(-1, 1).arccos().clamp_min(LEAST_ANGLE).log()
        # Cosines are in [-1, 1], so that those of one class follow each other.
        if split is data.train:
            known = (4 * split.y + cosine).sort().values
            middle = _medians(angle, split.y, data.num_classes)
            apart = (angle - middle[split.y]).abs()
            own = _medians(apart, split.y, data.num_classes)
            all_rows = _medians(apart, torch.zeros_like(split.y), 1)
            number = data.counts.double()
            spread = NORMAL_MAD * (number * own + POOLED * all_rows) / (number + POOLED)
        as_far = torch.searchsorted(known, 4 * split.y + cosine, right=True)
        as_far -= torch.searchsorted(known, 4.0 * split.y - 2)
        other = int(split is not data.train)
        above = angle - middle[split.y]
        far = above / spread[split.y].clamp_min(1e-12)
        deviation = torch.where(able & (above > 1e-6), far, 0.0)
        yield deviation, (as_far + other).double() / (data.counts[split.y] + other)


def dominant_column(data: FeatureSet) -> tuple[int, float]:
    """Return the column that varies most, and its ratio to the median column."""
    return widest_column(data.train.read(sample_rows(len(data.train), UNIT_ROWS, 0)))


def _medians(values: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """Return the median [C] of the values [n] of each class."""
    order = values.argsort(stable=True)
    ranked = values[order[labels[order].argsort(stable=True)]]
    size = torch.bincount(labels, minlength=num_classes)
    first = size.cumsum(0) - size
    # The middle row, or the middle two; classes without rows have any value.
    pair = torch.stack([first + (size - 1).clamp_min(0) // 2, first + size // 2])
    return ranked[pair.clamp_max(len(ranked) - 1)].mean(0)


def joined(data: FeatureSet, at: Tensor) -> Places:
    """Return the places of some rows [n] of all splits."""
    number, rows = (a[at] for a in data.every)
    split, file = np.empty(len(rows), object), np.empty(len(rows), object)
    row, columns = np.zeros(len(rows), np.int64), {}
    for i in number.unique().tolist():
        here = (number == i).numpy()
        own = places_of(data.splits[i], rows[number == i])
        split[here], file[here], row[here] = own.split, own.file, own.row
        for name, values in own.columns.items():
            column = columns.setdefault(name, [""] * len(rows))
            for k, value in zip(here.nonzero()[0].tolist(), values, strict=True):
                column[k] = value
    return Places(split, file, row, columns)


def duplicates(data: FeatureSet) -> tuple[RowTable, int]:
    """Find rows that equal an earlier row, of training rows first; return also how many of them
    equal a training row from another split."""
    first, (number, _), y = torch.from_numpy(exact(data)), data.every, data.labels
    at = (first != torch.arange(len(first))).nonzero()[:, 0]
    of = first[at]
    apart = (number[at] != number[of]) & (number[of] == 0)
    # Copies with another label matter most, and then those across splits.
    order = (2 * (y[at] == y[of]) + ~apart).argsort(stable=True)
    at, of = at[order], of[order]
    none = torch.zeros(len(at), dtype=torch.float64)
    return table("duplicate", data, at, y[of], none, of), int(apart.sum())


def names_alike(names: Sequence[str]) -> list[str]:
    """Return names of classes that are equal but for capitals and white space, if there are any."""
    same: dict[str, list[str]] = {}
    for name in names:
        same.setdefault(" ".join(name.split()).casefold(), []).append(name)
    return next((own for own in same.values() if len(own) > 1), [])


def cautions(data: FeatureSet, plan: Plan, across: int, used: Method) -> Iterator[Caution]:
    """Check the rows of a feature set, and the recommended method or the best one."""
    if across:
        rows = counted(across, "row is", "rows are")
        text = f"{rows} in {data.train.name} and in another split, as exact duplicates: accuracies"
        text += " may be too high. Remove the duplicates from one of the splits."
        yield Caution("duplicates", text)
    if within := sum(len(split) - len(np.unique(split.digests)) for split in data.splits):
        rows = counted(within, "row repeats", "rows repeat")
        text = f"{rows} another row of the same split. Copies stay in one fold, so that they do not"
        text += " flatter the validation. Accuracies count each of them, intervals count them once."
        yield Caution("copies", text)
    if differing := int(conflicts(data).sum()):
        rows = counted(differing, "row has a copy", "rows have copies")
        text = f"{rows} with another label: one label of each such group is right at most, and no"
        text += " classifier predicts all of them. The rows have label_conflict in rows.parquet."
        yield Caution("conflicts", text)
    if alike := names_alike(data.class_names):
        text = f"{len(alike)} classes are called {class_name(alike[0])} but for capitals and white"
        yield Caution("names", f"{text} space: are they one? Then write their labels alike.")
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
        yield Caution("dominant", f"{text} {percent:.1f} % accurate. Read the balanced accuracy.")
    column, ratio = dominant_column(data)
    if ratio > UNITS:
        names = data.metadata.get(COLUMNS, {}).get(data.name)
        one = f"The column {names[column]}" if names else f"Column {column} (from 0)"
        text = f"{one} varies {ratio:,.0f} times as much as the median column and decides the"
        text += " directions of rows that are not standardized. No outliers are named: standardize"
        text += " the columns to find some."
        yield Caution("units", text)
    value, test = used.validation.value, used.metric(plan.metric)
    if plan.folds is not None and value - test.value >= SEEN and test.high < value:
        text = f"{used.name} has {100 * value:.1f} % {plan.metric} on the validation rows, and"
        text += f" {100 * test.value:.1f} % on the test rows. Either the features were trained on"
        text += " the training rows, or the test rows differ (another camera, site or time)."
        yield Caution("seen", f"{text} Give a split val of rows like the test rows.")
