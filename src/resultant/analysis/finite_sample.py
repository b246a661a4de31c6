r"""What the support of a class does to its statistics (sec:finite-sample-diagnostics,
fig:finite-sample)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from resultant._core import chunks
from resultant.analysis.metrics import class_means
from resultant.analysis.result import Result, UnansweredError
from resultant.analysis.sampling import class_rows, owners, rank_in_class
from resultant.analysis.space import (
    FrozenSpace,
    Progress,
)
from resultant.classes.finite_sample import (
    expected_square_resultant,
    leave_one_out_scores,
    unbiased_square_resultant,
)
from resultant.classes.finite_sample import self_inclusion as expected_inclusion
from resultant.classes.statistics import fit_direction
from resultant.score.exact import vmf_score

SIZES = (5, 10, 20, 50, 100)

# Rows of a class, or twice the largest size, and classes that are looked at.
MOST_ROWS = 500
MOST_CLASSES = 200


@dataclass(frozen=True, eq=False)
class SupportCurve(Result):
    r"""Resultant lengths of small supports against a disjoint reference, for K sizes.

    ``sizes`` [K]; ``classes`` [M] with enough training rows for all sizes. The reference is
    :math:`\hat A=\sqrt{\max(U,0)}` of the remaining rows. Means over classes and draws: ``error``
    of :math:`|R_n-\hat A|` with ``error_sd`` between classes, ``bias`` of :math:`R_n-\hat A`,
    ``predicted_bias`` :math:`\sqrt{\hat A^2+(1-\hat A^2)/n}-\hat A`, and ``corrected_error`` of the
    unbiased estimate. ``direction_degrees``: the angle to the direction of the reference. All [K].
    """

    sizes: tuple[int, ...]
    classes: Tensor
    draws: int
    reference_rows: Tensor
    error: Tensor
    error_sd: Tensor
    bias: Tensor
    predicted_bias: Tensor
    corrected_error: Tensor
    direction_degrees: Tensor


@dataclass(frozen=True, eq=False)
class SelfInclusion(Result):
    r"""The increment of a training query's own score from being in its class (sec:self-inclusion).

    By class of two rows or more, all [M]: ``classes``, ``count``, ``queries`` looked at, mean and
    standard deviation within the class of the ``exact`` increment (a new direction and kappa), mean
    and standard deviation of the ``leading`` one :math:`X^\top(\bar X_n-\bar X_{-i})/\tau`, and
    ``predicted`` :math:`(1-\hat A^2)/(\tau n)`. ``history`` is the mean exact increment when all
    rows of the query's identity are left out; None where identities do not repeat.
    """

    classes: Tensor
    count: Tensor
    queries: Tensor
    exact: Tensor
    exact_sd: Tensor
    leading: Tensor
    leading_sd: Tensor
    predicted: Tensor
    history: Tensor | None


@torch.no_grad()
def support_curve(
    space: FrozenSpace,
    sizes: tuple[int, ...] = SIZES,
    *,
    draws: int = 10,
    seed: int = 0,
    progress: Progress | None = None,
) -> SupportCurve:
    """How far the resultant of n random training rows of a class is from that of its other rows.

    The classes are those with twice the largest size or more, the same for all sizes; sizes too
    large for two classes are left out.
    """
    sizes = tuple(sorted(sizes))
    if not sizes or sizes[0] < 2 or draws < 1:
        raise ValueError(f"expected sizes >= 2 and draws >= 1, got {sizes} and {draws}")
    while sizes and int((space.counts >= 2 * sizes[-1]).sum()) < 2:
        sizes = sizes[:-1]
    if not sizes:
        most = int(space.counts.sort().values[-2:][0])
        rule = "expected two classes of 4 rows or more at the least"
        raise UnansweredError(f"{rule}, got {most} rows")
    generator = torch.Generator().manual_seed(seed)
    able = (space.counts >= 2 * sizes[-1]).nonzero().squeeze(1)
    able = able[torch.randperm(len(able), generator=generator)[:MOST_CLASSES]].sort().values
    rows_of = class_rows(space.labels, space.num_classes)
    n, most = torch.tensor(sizes, device=space.device), max(MOST_ROWS, 2 * sizes[-1])
    columns = []
    left = []
    for c in able.tolist():
        rows = rows_of[c]
        rows = rows[torch.randperm(len(rows), generator=generator)[:most]].sort().values
        x = space.units("train", rows)
        places = torch.stack([torch.randperm(len(x), generator=generator) for _ in range(draws)])
        # Which rows [draws, sizes, rows] each support has, and their sums.
        support = (places.argsort(1).to(x.device).unsqueeze(1) < n.unsqueeze(1)).double() @ x
        rest = len(x) - sizes[-1]
        left.append(rest)
        mu, R = fit_direction(x.sum(0) - support[:, -1], x.new_full((draws,), rest))
        A = _unbiased(R, torch.full_like(R, rest)).unsqueeze(1).expand(-1, len(n))
        direction, length = fit_direction(support, n.double().expand(draws, -1))
        bias, corrected = length - A, (_unbiased(length, n) - A).abs()
        expected = expected_square_resultant(A, n).sqrt() - A
        angle = (direction * mu.unsqueeze(1)).sum(-1).clamp(-1, 1).acos().rad2deg()
        parts = (bias.abs(), bias, expected, corrected, angle)
        columns.append(torch.stack([part.mean(0) for part in parts]))
        if progress is not None:
            progress("support", len(columns) / len(able))
    by_class = torch.stack(columns)
    error, bias, expected, corrected, angle = by_class.mean(0)
    return SupportCurve(
        sizes=sizes,
        classes=able,
        draws=draws,
        reference_rows=torch.tensor(left),
        error=error,
        error_sd=by_class[:, 0].std(0, correction=1),
        bias=bias,
        predicted_bias=expected,
        corrected_error=corrected,
        direction_degrees=angle,
    )


@torch.no_grad()
def self_inclusion(
    space: FrozenSpace, most: int = 20_000, *, seed: int = 0, progress: Progress | None = None
) -> SelfInclusion:
    """The effect of a fitting row on its own score, on about ``most`` random rows, evenly over the
    classes of two rows or more."""
    count = space.state.count.cpu()
    if not (count >= 2).any():
        raise UnansweredError("expected a class of two fitting rows or more, got none")
    labels = space.labels if space.fitting is None else space.labels[space.fitting]
    place = None if space.fitting is None else space.fitting.nonzero().squeeze(1)
    chosen = _evenly(labels, count >= 2, most, seed)
    rows = chosen if place is None else place[chosen]
    y = space.labels[rows]
    totals, identities = space.statistics.total, _Histories.of(space, rows)
    columns = []
    for part in torch.arange(len(rows)).split(
        chunks.rows_per_chunk(8 * space.dim, chunks.INCLUSION_BYTES, space.device)
    ):
        x, own = space.units("train", rows[part]), y[part].to(space.device)
        scores = leave_one_out_scores(
            x, own, space.statistics, space.tau, space.estimator, validate_args=False
        )
        n, along = space.state.count[own].double(), (x * totals[own]).sum(1)
        leading = (along / n - (along - 1) / (n - 1)) / space.tau
        history = leading.new_full(leading.shape, torch.nan)
        if identities is not None:
            history = scores.included - identities.left_out(x, own, part.to(space.device))
        columns.append((scores.included - scores.left_out, leading, history))
        if progress is not None:
            progress("self_inclusion", (int(part[-1]) + 1) / len(rows))
    exact, leading, history = (torch.cat(column).cpu() for column in zip(*columns, strict=True))
    C = space.num_classes
    classes = y.unique()
    A = _unbiased(space.statistics.mean_length.cpu()[classes], count[classes])
    return SelfInclusion(
        classes=classes,
        count=count[classes],
        queries=torch.bincount(y, minlength=C)[classes],
        exact=class_means(exact, y, C)[classes],
        exact_sd=_deviation(exact, y, C)[classes],
        leading=class_means(leading, y, C)[classes],
        leading_sd=_deviation(leading, y, C)[classes],
        predicted=expected_inclusion(A, space.tau, count[classes]),
        history=None if identities is None else class_means(history, y, C)[classes],
    )


class _Histories:
    """The sums of the fitting rows that share label and identity with chosen rows."""

    def __init__(self, space: FrozenSpace, total: Tensor, number: Tensor) -> None:
        self.space, self.total, self.number = space, total, number

    @staticmethod
    def of(space: FrozenSpace, rows: Tensor) -> _Histories | None:
        """None where no identity has two fitting rows of one class."""
        if space.identities is None:
            return None
        owner = owners(space.labels, space.identities)
        if space.fitting is not None:
            owner = owner.masked_fill(~space.fitting, -1)
        number = torch.bincount(owner[owner >= 0], minlength=int(owner.max()) + 1)
        if int(number.max()) < 2:
            return None
        wanted, place = owner[rows].unique(return_inverse=True)
        members = torch.isin(owner, wanted).nonzero().squeeze(1)
        total = torch.zeros(len(wanted), space.dim, dtype=torch.float64, device=space.device)
        height = chunks.rows_per_chunk(8 * space.dim, chunks.ROW_BYTES, space.device)
        for part in members.split(height):
            at = torch.searchsorted(wanted, owner[part])
            total.index_add_(0, at.to(space.device), space.units("train", part))
        number = number[wanted][place].double().to(space.device)
        return _Histories(space, total[place.to(space.device)], number)

    def left_out(self, x: Tensor, y: Tensor, part: Tensor) -> Tensor:
        """The own-class scores [n] of queries without the history of their identity, NaN where
        nothing else is in the class."""
        statistics, number = self.space.statistics, self.number[part]
        mean = self.total[part] / number.unsqueeze(1)
        mu, kappa = statistics.left_out(mean, y, number, self.space.estimator)
        rho = (x * mu).sum(1).clamp(-1, 1)
        q = vmf_score(rho, kappa, self.space.tau, self.space.dim, validate_args=False)
        return q.masked_fill(statistics.weight[y] <= number, torch.nan)


def _unbiased(R: Tensor, n: Tensor) -> Tensor:
    """The estimate of A behind a mean length R of n rows."""
    return unbiased_square_resultant(R, n).clamp_min(0).sqrt()


def _deviation(values: Tensor, labels: Tensor, C: int) -> Tensor:
    """The standard deviations [C] within classes, NaN where there is no or one value."""
    number = torch.bincount(labels, minlength=C)
    apart = (values - class_means(values, labels, C)[labels]).square()
    return (class_means(apart, labels, C) * number / (number - 1)).sqrt()


def _evenly(labels: Tensor, wanted: Tensor, most: int, seed: int) -> Tensor:
    """Random rows of the wanted classes [C] bool, as many of each, about ``most`` in all."""
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    each = max(2, most // int(wanted.sum()))
    few = rank_in_class(labels[order]) < each
    return order[few & wanted[labels[order]]].sort().values
