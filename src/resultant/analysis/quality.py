"""The quality of all labels, by the most likely classes of each row in a fit that did not see it.

A label is compared with the strongest other class: its quality is p(label) / (p(label) +
p(other)^(1/2)), the sigmoid of log odds in which the other class counts half. Labels that people
get wrong are found best by p(label) alone, and flipped ones by the odds; this is near the better
one of both (`benchmarks` measures it). A row is flagged if another class is likely enough for a row
of that class, by a threshold per class (confident learning), and clearly more likely than the
label.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from resultant.analysis.candidate import Candidate, of_all
from resultant.analysis.fit import fitted_model
from resultant.analysis.saved import ScaledClassifier
from resultant.analysis.split import FeatureSet, Split
from resultant.classifiers.folds import ranks

# Classes that are kept of each row, the most likely first.
TOP = 5

# Another class is likely enough with this share of the mean probability that rows of the class have
# of their label, and clearly more likely with these odds against the label.
SHARE, ODDS = 0.8, 2.0

# Part of the log probability of the strongest other class in the odds of a label.
OTHER = 0.5

# Training rows of each class that are never flagged, the best ones: no class is flagged away.
KEPT = 2


@dataclass(eq=False)
class Scored:
    """Rows of a split with their most likely classes."""

    split: Split
    fold: Tensor  # fold [N] whose fit did not see the row; -1 for all rows of other splits
    top: Tensor  # classes [N, k], the most likely first
    p: Tensor  # their probabilities [N, k]
    own: Tensor  # probability [N] of the label
    odds: Tensor  # log odds [N] of the label, the strongest other class at `OTHER`; NaN if unknown
    suggested: Tensor  # class [N] that is suggested for a flagged row, else -1

    @staticmethod
    def empty(split: Split, num_classes: int) -> Scored:
        """Return the rows of a split, without scores."""
        n, k = len(split), min(TOP, num_classes)
        top, p = torch.zeros(n, k, dtype=torch.int64), torch.zeros(n, k)
        unknown = torch.full((n,), torch.nan)
        fold = torch.full((n,), -1)
        return Scored(split, fold, top, p, unknown.clone(), unknown, fold.clone())

    @property
    def quality(self) -> Tensor:
        """Quality [N] of the labels, between 0 and 1."""
        return self.odds.double().sigmoid()

    @property
    def flagged(self) -> Tensor:
        """Rows [N] whose label is likely wrong."""
        return self.suggested >= 0

    def fill(self, model: Any, rows: Tensor, num_classes: int) -> None:
        """Score some rows by a model that did not see them."""
        found = partial(most_likely, model, num_classes)
        for at, part in self.split.map(found, rows, num_classes):
            at = rows[at]
            self.top[at], self.p[at], self.own[at], self.odds[at] = part


def most_likely(
    model: Any, num_classes: int, x: Tensor, y: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the most likely classes [n, k] of rows [n, p], their probabilities, that of the label
    y [n], and its log odds."""
    s = of_all(model, model.predict_log_proba(x.numpy()), num_classes, -torch.inf)
    best, top = s.topk(min(TOP, num_classes), 1)
    own = s.gather(1, y[:, None])[:, 0]
    other = torch.where(top[:, 0] == y, best[:, 1], best[:, 0])
    # Between the logarithms of zero there are no odds.
    odds = (own - OTHER * other).clamp(-1e4, 1e4)
    return top, best.exp().float(), own.exp().float(), odds.float()


def score_rows(data: FeatureSet, used: Candidate) -> list[Scored]:
    """Score the rows of all splits by the method that is used, training rows by fits of folds."""
    C = data.num_classes
    parts = [Scored.empty(split, C) for split in data.splits]
    train, *others = parts
    for k, (rows, apart) in enumerate(data.folds):
        model, _, _ = fitted_model(used, data, rows, {})
        if isinstance(model, ScaledClassifier):
            model.scale = used.model.scale
        train.fill(model, apart, C)
        train.fold[apart] = k
        known = torch.bincount(data.train.y[rows], minlength=C) > 0
        train.odds[apart[~known[data.train.y[apart]]]] = torch.nan
    for part in others:
        part.fill(used.model, torch.arange(len(part.split)), C)
    least = SHARE * expected(train, C)
    for part in parts:
        part.suggested = suggestions(part, least)
    keep_some(train)
    return parts


def expected(train: Scored, num_classes: int) -> Tensor:
    """Return the mean probability [C] that rows of a class have of their label, 1 if not known."""
    known = ~train.odds.isnan()
    y, own = train.split.y[known], train.own[known].double()
    number = torch.bincount(y, minlength=num_classes)
    mean = torch.bincount(y, own, num_classes) / number.clamp_min(1)
    return torch.where(number > 0, mean, 1.0).float()


def suggestions(part: Scored, least: Tensor) -> Tensor:
    """Return the class [N] that each row likely is instead of its label, else -1."""
    likely = (part.p >= least[part.top]) & (part.top != part.split.y[:, None])
    p, at = torch.where(likely, part.p, -1.0).max(1)
    wrong = (p > ODDS * part.own) & ~part.odds.isnan()
    return torch.where(wrong, part.top.gather(1, at[:, None])[:, 0], -1)


def keep_some(train: Scored) -> None:
    """Take back the flags of the best rows of a class that would have fewer than `KEPT` left."""
    y = train.split.y
    rows = train.flagged.nonzero()[:, 0]
    rows = rows[train.odds[rows].argsort(stable=True)]
    most = (torch.bincount(y) - KEPT).clamp_min(0)
    train.suggested[rows[ranks(y[rows], torch.arange(len(rows))) >= most[y[rows]]]] = -1
