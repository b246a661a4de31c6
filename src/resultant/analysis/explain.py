"""Rows to look at (likely label errors, copies, outliers of a class), and warnings where numbers
may mislead."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from resultant._core.arrays import directions
from resultant._core.text import class_name, counted
from resultant.analysis.candidate import SMALLEST, Candidate, probabilities
from resultant.analysis.evaluate import FEW_ROWS
from resultant.analysis.fit import Fits, fitted_model, unit_rows
from resultant.analysis.metrics import Caution, sample_rows, stratified
from resultant.analysis.result import Method, Places, RowTable
from resultant.analysis.split import FeatureSet, Plan, Split
from resultant.classes.scores import cosines
from resultant.classifiers.inputs import UNIT_ROWS, UNITS, widest_column

# Rows that a table keeps, and rows times classes of a split that are scored at most.
KEPT = 200
CELLS = 20_000_000

# How many times as likely as its label another class is at least, where a label is suspicious.
ODDS = 10.0

# Robust standard deviations below the median cosine of a class from which a row is an outlier.
DEVIATIONS = 5.0
NORMAL_MAD = 1.4826

# Test rows of a class below which its accuracy means little.
FEW_PER_CLASS = 3

# A class dominates with more than this share of the test rows, and this many times the rows of the
# average other class: of two classes one has 80 %, of five or more classes one has half.
DOMINANT, TIMES = 0.5, 4

# Fraction by which validation rows are more accurate than test rows if something is wrong.
SEEN = 0.1

# Rows of a split with other classes and scores.
Found = tuple[Split, Tensor, Tensor, Tensor]


def places_of(split: Split, rows: Tensor) -> Places:
    """Return the places of some rows [n] of a split."""
    origin, name = split.origin, np.full(len(rows), split.name)
    columns = {column: origin.columns[column][rows] for column in origin.columns}
    return Places(name, np.array(origin.names(rows), object), origin.row[rows].numpy(), columns)


def suspicious_rows(data: FeatureSet, used: Candidate, vmf: Candidate) -> dict[str, RowTable]:
    """Find likely label errors by the classifier that is used, and outliers of the vMF classes."""
    errors = table("label", label_errors(data, used))
    return {"label": errors, "outlier": table("outlier", list(outliers(data, vmf)))}


def label_errors(data: FeatureSet, used: Candidate) -> list[Found]:
    """Find rows whose label another class beats by far, by probabilities of fits without the row.

    A class is confident about a row from its mean probability of the rows that have its label
    (confident learning): noise lowers all probabilities, and these thresholds with them.
    """
    rows = stratified(data.train.y, CELLS / data.num_classes)
    p = torch.zeros(len(rows), data.num_classes)
    place = torch.full((len(data.train),), -1)
    place[rows] = torch.arange(len(rows))
    scored = torch.zeros(len(rows), dtype=torch.bool)
    for fit, apart in data.folds:
        fits: Fits = {}
        model, _, _ = fitted_model(used, data, fit, fits)
        if hasattr(model, "pipeline"):
            model.scale = used.model.scale
        known = torch.bincount(data.train.y[fit], minlength=data.num_classes) > 0
        asked = apart[(place[apart] >= 0) & known[data.train.y[apart]]]
        for at, x, _ in data.train.chunks(asked, data.num_classes):
            p[place[asked[at]]] = probabilities(model, x, data.num_classes).float()
        scored[place[asked]] = True
    rows, p = rows[scored], p[scored]
    y = data.train.y[rows]
    total = torch.bincount(y, p.gather(1, y[:, None])[:, 0].double(), data.num_classes)
    number = torch.bincount(y, minlength=data.num_classes)
    least = torch.where(number > 0, total / number.clamp_min(1), 1.0).float()
    found = [(data.train, *beaten(p, y, rows, least))]
    for split in data.splits[1:]:
        rows = sample_rows(len(split), CELLS // data.num_classes, 0)
        for at, x, y in split.chunks(rows, data.num_classes):
            p = probabilities(used.model, x, data.num_classes).float()
            found.append((split, *beaten(p, y, rows[at], least)))
    return found


def beaten(p: Tensor, y: Tensor, rows: Tensor, least: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the rows [n] with a confident other class, this class, and its log odds."""
    confident = torch.where(p >= least, p, 0.0)
    top, other = confident.max(1)
    own = p.gather(1, y[:, None])[:, 0]
    wrong = (top > ODDS * own) & (other != y)
    odds = top.clamp_min(SMALLEST).log() - own.clamp_min(SMALLEST).log()
    return rows[wrong], other[wrong], odds[wrong].double()


def outliers(data: FeatureSet, vmf: Candidate) -> Iterator[Found]:
    """Find rows far from the direction of their class."""
    model = vmf.model
    mu = model.state_.mu.float()
    for split in data.splits:
        rows = sample_rows(len(split), CELLS // data.num_classes, 0)
        columns = []
        for _, x, y in split.chunks(rows, data.num_classes):
            z, own = unit_rows(model.metric_, x).to(mu.device), y[:, None].to(mu.device)
            rho = cosines(z.float(), mu)
            if split is data.train:
                rest = directions(model.statistics_.total[own[:, 0]] - z)[0]
                rho.scatter_(1, own, (z * rest).sum(1, keepdim=True).to(rho))
            other = rho.scatter(1, own, -2.0).argmax(1)
            columns.append((other.cpu(), rho.gather(1, own)[:, 0].cpu()))
        other, cosine = (torch.cat(column) for column in zip(*columns, strict=True))
        below = _medians(cosine, split.y[rows]) - cosine
        spread = NORMAL_MAD * _medians(below.abs(), split.y[rows])
        deviation = below / spread.clamp_min(1e-12)
        far = (deviation > DEVIATIONS) & (below > 1e-6)
        yield split, rows[far], other[far], deviation[far]


def _medians(values: Tensor, labels: Tensor) -> Tensor:
    """Return the median [n] of the values [n] of the class of each row."""
    order = values.argsort(stable=True)
    order = order[labels[order].argsort(stable=True)]
    size = torch.bincount(labels)
    middle = size.cumsum(0) - size + (size - 1).clamp_min(0) // 2
    return values[order][middle[labels]]


def table(kind: str, found: Sequence[Found]) -> RowTable:
    """Join the rows of all splits, the largest score first."""
    number = torch.cat([torch.full_like(rows, i) for i, (_, rows, _, _) in enumerate(found)])
    _, *columns = zip(*found, strict=True)
    rows, other, score = (torch.cat(list(column)) for column in columns)
    order = score.argsort(descending=True, stable=True)[:KEPT]
    label = torch.cat([split.y[own] for split, own, _, _ in found])
    parts = [split for split, *_ in found]
    places = joined(parts, number[order], rows[order])
    kept = (a[order].numpy() for a in (label, other, score))
    return RowTable(kind, places, *kept, total=len(rows))


def joined(parts: Sequence[Split], number: Tensor, rows: Tensor) -> Places:
    """Return the places of rows [n] of the parts that ``number`` [n] names."""
    split, file = np.empty(len(rows), object), np.empty(len(rows), object)
    row, columns = np.zeros(len(rows), np.int64), {}
    for i in number.unique().tolist():
        at = (number == i).numpy()
        own = places_of(parts[i], rows[number == i])
        split[at], file[at], row[at] = own.split, own.file, own.row
        for name, values in own.columns.items():
            column = columns.setdefault(name, [""] * len(rows))
            for k, value in zip(at.nonzero()[0].tolist(), values, strict=True):
                column[k] = value
    return Places(split, file, row, columns)


def duplicates(data: FeatureSet) -> tuple[RowTable, int]:
    """Find rows that equal an earlier row, of training rows first; return also how many of them
    equal a training row from another split."""
    splits = data.splits
    hashes = np.concatenate([split.digests for split in splits])
    number = np.concatenate([np.full(len(split), i) for i, split in enumerate(splits)])
    rows = np.concatenate([np.arange(len(split)) for split in splits])
    labels = torch.cat([split.y for split in splits]).numpy()
    _, first, own = np.unique(hashes, return_index=True, return_inverse=True)
    copies = (first[own] != np.arange(len(own))).nonzero()[0]
    firsts = first[own[copies]]
    apart = (number[copies] != number[firsts]) & (number[firsts] == 0)
    # Copies across splits matter most.
    kept = np.argsort(~apart, kind="stable")[:KEPT]
    at, of = (torch.from_numpy(a[kept]) for a in (copies, firsts))
    places, sources = (
        joined(splits, torch.from_numpy(number)[a], torch.from_numpy(rows)[a]) for a in (at, of)
    )
    columns = labels[at.numpy()], labels[of.numpy()], np.zeros(len(at))
    return RowTable("duplicate", places, *columns, len(copies), sources), int(apart.sum())


def cautions(
    data: FeatureSet, plan: Plan, copies: RowTable, across: int, used: Method
) -> Iterator[Caution]:
    """Check the rows of a feature set, and the recommended method or the best one."""
    if across:
        rows = counted(across, "row is", "rows are")
        text = f"{rows} in {data.train.name} and in another split, as exact duplicates: accuracies"
        text += " may be too high. Remove the duplicates from one of the splits."
        yield Caution("duplicates", text)
    if within := copies.total - across:
        rows = counted(within, "row repeats", "rows repeat")
        text = f"{rows} another row of the same split. Copies stay in one fold, so that they do not"
        yield Caution("copies", f"{text} flatter the validation, but they count several times.")
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
    x = data.train.read(sample_rows(len(data.train), UNIT_ROWS, 0))
    if (ratio := widest_column(x)[1]) > UNITS:
        text = f"One column varies {ratio:,.0f} times as much as the median column and decides the"
        text += " directions of rows that are not standardized or whitened."
        yield Caution("units", text)
    value, test = used.validation.value, used.metric(plan.metric).value
    if plan.folds is not None and value - test >= SEEN:
        text = f"{used.name} has {100 * value:.1f} % {plan.metric} on the validation rows, and"
        text += f" {100 * test:.1f} % on the test rows. Either the features were trained on the"
        text += " training rows, or the test rows differ (another camera, site or time)."
        yield Caution("seen", f"{text} Give a split val of rows like the test rows.")
