"""Conformal p-values: how well a row fits a class, by the rows of the class.

The score of a row for a class is its log-probability, with one more outcome, "none of these", whose
score a `SHARE` of training rows exceeds in the own class: a row that is like no class has a low
score for all. The p-value is the rank of this score among those of known rows of the class, which
did not take part in the fit.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.special import ndtr
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_consistent_length
from torch import Tensor

from resultant._core.validation import finite_number
from resultant.classes.metric import Metric
from resultant.classifiers.inputs import Array, Sample, class_labels, returned, row_chunks

# Share of the training rows whose score in their own class exceeds that of none of these.
SHARE = 0.9
# Pool classes of few known rows by their number.
SIZE = "size"
# Relative rounding of an error.
ROUNDING = 1e-9
# Rows of a class beyond which a p-value is fine enough.
ENOUGH = 999


@dataclass(eq=False)
class Conformal:
    """Scores of known rows in their own class, to rank those of new rows."""

    scores: Tensor  # scores [n], sorted within each class
    fits: Tensor  # scores [n] of the classifier in the own class, sorted within each class
    number: Tensor  # number of rows [C]
    scale: float  # factor of the classifier's scores
    none: float | None  # score of none of these, or None for no such outcome
    held_out: bool  # rows of `calibrate`; else training rows, each scored without itself
    rule: Any  # parameters that the scores depend on

    @staticmethod
    def of(scores: Tensor, y: Tensor, num_classes: int, **settings: Any) -> Conformal:
        """Rank scores [n, C] of the classifier for rows of classes y [n]."""
        number = torch.bincount(y, minlength=num_classes)
        none = scores.new_empty(0).double()
        known = Conformal(none, none, number, **settings)
        values = []
        for s in (known.of_classes(scores), scores.double()):
            own = s.gather(1, y[:, None])[:, 0]
            order = own.argsort(stable=True)
            values.append(own[order[y[order].argsort(stable=True)]])
        known.scores, known.fits = values
        return known

    def of_classes(self, scores: Tensor) -> Tensor:
        """Return the scores [n, C] of all classes, from those of the classifier; -inf for classes
        without training rows."""
        s = scores.double() * self.scale
        total = s.logsumexp(1, keepdim=True)
        if self.none is not None:
            total = torch.logaddexp(total, torch.full_like(total, self.none))
        return torch.where(s.isneginf(), s, s - total)

    def of_class(self, c: int) -> Tensor:
        """Return the sorted scores [n] of the classifier of the known rows of a class."""
        last = int(self.number[: c + 1].sum())
        return self.fits[last - int(self.number[c]) : last]

    def p_values(self, scores: Tensor, group: Tensor | None = None) -> Tensor:
        """Return the p-values [n, C] of the scores of the classifier, among the known rows of each
        class, or of all classes of its ``group`` [C]; zero for classes without training rows."""
        s, C = self.of_classes(scores), len(self.number)
        group = torch.arange(C, device=s.device) if group is None else group
        number = self.number.new_zeros(C).index_add_(0, group, self.number)
        owner = group.repeat_interleave(self.number)
        order = self.scores.argsort(stable=True)
        order = order[owner[order].argsort(stable=True)]
        first = number.cumsum(0) - number
        place = torch.arange(len(order), device=s.device) - first[owner[order]]
        ranked = s.new_full((C, max(1, int(number.max()))), torch.inf)
        ranked[owner[order], place] = self.scores[order]
        least = torch.searchsorted(ranked[group], s.T.contiguous(), right=True).T
        return torch.where(s.isneginf(), 0.0, (1 + least) / (1 + number[group]))

    def groups(self, error: float) -> Tensor:
        """Return the group [C] of each class: classes of too few known rows for a promise at this
        error share one, in the order of size, until it has enough. What is left joins the group
        before, or else the smallest class of enough rows."""
        group = list(range(len(self.number)))
        first, rows, last = -1, 0, -1
        for c in self.number.argsort(stable=True).tolist():
            known = int(self.number[c])
            enough = error * (known + 1) * (1 + ROUNDING) >= 1
            if enough and rows and last < 0:
                last = c
            if enough:
                break
            if known:
                first = first if rows else c
                group[c], rows = first, rows + known
                if error * (rows + 1) * (1 + ROUNDING) >= 1:
                    last, rows = first, 0
        if rows and last >= 0:
            group = [last if g == first else g for g in group]
        return torch.tensor(group, device=self.number.device)

    def pooled(self, scores: Tensor, weight: Tensor) -> Tensor:
        """Return p-values [n, C] among the rows of all classes, with the ``weight`` [C] of each."""
        s = self.of_classes(scores)
        w = (weight / self.number.clamp_min(1)).repeat_interleave(self.number)
        order = self.scores.argsort()
        below = torch.cat([w.new_zeros(1), w[order].cumsum(0)])
        rank = torch.searchsorted(self.scores[order], s.contiguous(), right=True)
        one = w.mean() if len(w) else 1.0
        return torch.where(s.isneginf(), 0.0, (one + below[rank]) / (one + w.sum()))


class SetClassifier(BaseEstimator):
    """Classifier of sets of classes with a promise."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    conformal_: Conformal | None = None  # scores of known rows, from the first use on

    def p_values(self, X: Any) -> Array:
        r"""Return conformal p-values [N, C]: the share of known rows of a class that fit the class
        no better than the row, :math:`(1+\#\{i:s_i\le s\})/(n_c+1)`; zero for a label without
        rows. `predict_set` says what they promise."""
        known = self._conformal()
        return returned(known.p_values(self._scores(X) / self._scale()), X)

    def predict_set(self, X: Any, error: float = 0.1, per_class: bool | str = True) -> Array:
        """Return sets of classes [N, C] bool, which miss the class of a row in at most a share
        ``error`` of rows; an empty set means none of these.

        The promise. After `calibrate`, with rows that were not fitted: if the rows of a class are
        exchangeable with those that calibrated it, the probability that the set of a new row misses
        this class is at most ``error``, for each class, whatever the classifier (split conformal; a
        mean over draws of rows). Without it, the known rows are the kept training rows of each
        class, at most 999, each scored by the classes without it, as jackknife, or the validation
        rows of the folds where classes are no sums (``components``, ``refine``): the share is about
        ``error`` where such rows move the classes little, which is measured in the docs, and has
        no bound in general. Nothing is promised for rows of other classes than the fitted ones.

        A class of n known rows is in every set if ``error`` < 1 / (n + 1): its promise is empty.

        Args:
            X: Rows [N, p].
            error: Share of the rows whose set misses their class, between 0 and 1.
            per_class: Promise the share for each class; False promises it for the rows of all
                classes together, so that sets are smaller and those of rare or difficult classes
                may miss their class more often. ``"size"`` promises it for each class of enough
                known rows, and for groups of smaller classes of like size together, so that these
                can be excluded too: a class with a share s of the known rows of its group may be
                missed in up to ``error`` / s of its rows, while the others are missed less often.

        Example:
            >>> X = [[1.0, 0.1], [1.0, -0.2], [1.0, 0.2], [0.1, 1.0], [0.2, 1.0], [-0.2, 1.0]]
            >>> model = VMFClassifier().fit(X, [0, 0, 0, 1, 1, 1])
            >>> model.predict_set([[1.0, 0.0], [-1.0, -1.0]], error=0.3).tolist()
            [[True, False], [False, False]]
        """
        error = finite_number("error", error)
        if not 0 < error < 1:
            raise ValueError(f"expected error between 0 and 1, got {error:g}")
        if isinstance(per_class, str) and per_class != SIZE:
            raise ValueError(f'expected per_class to be True, False or "{SIZE}", got {per_class!r}')
        known = self._conformal()
        if per_class:
            group = known.groups(error) if per_class == SIZE else None
            return returned(known.p_values(self._scores(X) / self._scale(), group) > error, X)
        weight = self.statistics_.weight
        weight = known.number.to(weight) if known.held_out else weight
        return returned(known.pooled(self._scores(X) / self._scale(), weight) > error, X)

    def batch_p_value(self, X: Any, y: Any) -> float:
        r"""Test that rows are like the known rows of their classes, by ranks of their scores there.

        A stratified Wilcoxon test of one side: with m rows of a class among n known ones, the mean
        rank has variance :math:`(n+m+1)/(12nm)` if both are alike. A batch that is like the fitted
        rows is below 0.001 about once in a thousand batches, or less often; one of another camera,
        year or labelling is below it the sooner the larger it is.

        Args:
            X, y: Rows [N, p] that are not fitted yet, and labels [N]; those of labels without known
                rows are left out.

        Returns:
            The p-value, 1 if no row can be compared; small if the rows fit their classes worse than
            the known rows do.

        Example:
            >>> X = [[1.0, 0.1], [1.0, -0.2], [1.0, 0.2], [0.1, 1.0], [0.2, 1.0], [-0.2, 1.0]]
            >>> model = VMFClassifier().fit(X, [0, 0, 0, 1, 1, 1])
            >>> round(model.batch_p_value([[0.5, 1.0], [0.4, 1.0], [0.6, 1.0]], [0, 0, 0]), 3)
            0.025
        """
        labels, known = class_labels("y", y), self._conformal()
        scores = self._scores(X).double() / self._scale()
        check_consistent_length(scores, labels)
        index = {name: c for c, name in enumerate(self.classes_.tolist())}
        classes = np.array([index.get(name, -1) for name in labels.tolist()])
        excess = variance = 0.0
        for c in np.unique(classes[classes >= 0]).tolist():
            own = known.of_class(c)
            new = scores[torch.from_numpy(classes == c).to(scores.device), c].contiguous()
            n, m = len(own), len(new)
            if not n or not bool(new.isfinite().any()):
                continue
            # A row among equal ones has their middle rank.
            sides = (torch.searchsorted(own, new, right=right) for right in (False, True))
            excess += float(sum(side.double().sum() for side in sides)) / (2 * n) - m / 2
            variance += m * (n + m + 1) / (12 * n)
        return float(ndtr(excess / variance**0.5)) if variance else 1.0

    def _known_scores(self) -> Conformal | None:
        """Return the ranked scores, if there are any."""
        try:
            return self._conformal()
        except ValueError:
            return None

    def _can_promise(self) -> bool:
        """Test whether there are rows that p-values can be ranked among."""
        return self.conformal_ is not None or bool(self._sums and len(self._sums.kept.y))

    def _conformal(self) -> Conformal:
        """Return the ranked scores of `calibrate`, or of the kept rows, each without itself."""
        rule, known = self._written_rule()[:-1], self.conformal_
        if known is not None and known.rule == rule:
            return known
        if known is not None and known.held_out:
            text = "other parameters have other scores: p-values are those of the kept rows"
            warnings.warn(f"{text}; call calibrate again", UserWarning, stacklevel=4)
        sums = self._sums
        if sums is None or not len(sums.kept.y):
            rule = "expected a classifier with kept rows for p-values, or one after calibrate(X, y)"
            raise ValueError(f"{rule}, got neither; calibrate with rows that were not fitted")
        followed = self.metric_ is not None and not isinstance(self.whiten, Metric)
        plain = sums.statistics if followed and not self.sampled_ else None
        scores = []
        kept = sums.kept.trim(ENOUGH)
        every = Sample(kept.rows, kept.y, kept.weight, len(sums.classes))
        height = next(row_chunks(kept.rows, len(sums.classes))).stop
        for at in torch.arange(len(kept.y), device=kept.y.device).split(height):
            scores.append(self._fold_scores(self._left_out(every.at(at), plain)))
        s = torch.cat(scores).repeat_interleave(kept.count, 0)
        return self._rank(s, kept.y.repeat_interleave(kept.count))

    def _rank(self, s: Tensor, y: Tensor) -> Conformal:
        """Rank the scores [n, C] of rows of classes y [n] by classes without them."""
        own = s.gather(1, y[:, None])[:, 0] * self._scale()
        own = own[own.isfinite()]
        none = float(np.quantile(own.double().cpu().numpy(), 1 - SHARE)) if len(own) else None
        settings: dict[str, Any] = {"scale": self._scale(), "none": none, "held_out": False}
        settings["rule"] = self._written_rule()[:-1]
        self.conformal_ = Conformal.of(s, y, len(self.classes_), **settings)
        return self.conformal_
