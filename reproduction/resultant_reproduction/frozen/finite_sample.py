"""The effect of the number of rows on the statistics of a class (sec:finite-sample-diagnostics)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from resultant._core import memory
from resultant.analysis.metrics import Result, UnansweredError, class_means
from resultant.classes.finite_sample import (
    expected_square_resultant,
    leave_one_out_scores,
    self_inclusion as expected_inclusion,
    unbiased_square_resultant,
)
from resultant.classifiers.folds import shuffled_ranks
from resultant.score.exact import vmf_score
from resultant.vmf.estimators import fit_direction
from resultant_reproduction.frozen.space import FrozenSpace, owners

SIZES = (5, 10, 20, 50, 100)

# The most rows per class (or twice the largest size), and the most classes.
MOST_ROWS = 500
MOST_CLASSES = 200


@dataclass(frozen=True, eq=False)
class SupportCurve(Result):
    r"""Resultant lengths of supports of K sizes against :math:`\hat A=\sqrt{\max(U,0)}` of the
    remaining rows, as means over classes and draws."""

    sizes: tuple[int, ...]  #: numbers of rows [K]
    classes: Tensor  #: classes [M] with enough training rows for all sizes
    error: Tensor  #: means [K] of :math:`|R_n-\hat A|`
    error_sd: Tensor  #: standard deviations [K] of the error between classes
    predicted_bias: Tensor  #: of :math:`R_n`: :math:`\sqrt{\hat A^2+(1-\hat A^2)/n}-\hat A` [K]


@dataclass(frozen=True, eq=False)
class SelfInclusion(Result):
    """The increment of the own score of a query by being in its class (sec:self-inclusion)."""

    classes: Tensor  #: classes [M] of two rows or more
    count: Tensor  #: their fitted rows [M]
    queries: Tensor  #: sampled rows [M]
    exact: Tensor  #: mean increments [M] with a new direction and kappa
    exact_sd: Tensor  #: standard deviations [M] within the class
    predicted: Tensor  #: means [M] of :math:`X^\top(\bar X_n-\bar X_{-i})/\tau` by A and n
    history: Tensor | None  #: mean exact increments of whole identities; None if none repeats


@torch.no_grad()
def support_curve(
    space: FrozenSpace, sizes: tuple[int, ...] = SIZES, *, draws: int = 10, seed: int = 0
) -> SupportCurve:
    """Compare the resultant of n random training rows of a class with that of the other rows, in
    classes of at least twice the largest size; sizes too large for two classes are left out."""
    sizes = tuple(sorted(sizes))
    if not sizes or sizes[0] < 2 or draws < 1:
        raise ValueError(f"expected sizes >= 2 and draws >= 1, got {sizes} and {draws}")
    least = sizes[0]
    while sizes and int((space.counts >= 2 * sizes[-1]).sum()) < 2:
        sizes = sizes[:-1]
    if not sizes:
        most = int(space.counts.sort().values[-2:][0])
        rule = f"expected two classes of {2 * least} training rows or more"
        raise UnansweredError(f"{rule}, got {most} in the second largest class")
    generator = torch.Generator().manual_seed(seed)
    classes = (space.counts >= 2 * sizes[-1]).nonzero().squeeze(1)
    classes = classes[torch.randperm(len(classes), generator=generator)[:MOST_CLASSES]]
    classes = classes.sort().values
    n, most = torch.tensor(sizes, device=space.device), max(MOST_ROWS, 2 * sizes[-1])
    columns = []
    for c in classes.tolist():
        rows = (space.labels == c).nonzero().squeeze(1)
        rows = rows[torch.randperm(len(rows), generator=generator)[:most]].sort().values
        x = space.units("train", rows)
        orders = torch.stack([torch.randperm(len(x), generator=generator) for _ in range(draws)])
        # Sums [draws, sizes, p] of the rows of each support.
        support = (orders.argsort(1).to(x.device).unsqueeze(1) < n.unsqueeze(1)).double() @ x
        rest = len(x) - sizes[-1]
        _, R = fit_direction(x.sum(0) - support[:, -1], x.new_full((draws,), rest))
        A = _unbiased(R, torch.full_like(R, rest)).unsqueeze(1).expand(-1, len(n))
        _, length = fit_direction(support, n.double().expand(draws, -1))
        expected = expected_square_resultant(A, n).sqrt() - A
        columns.append(torch.stack([(length - A).abs().mean(0), expected.mean(0)]))
    by_class = torch.stack(columns)
    error, expected = by_class.mean(0)
    deviation = by_class[:, 0].std(0, correction=1)
    return SupportCurve(sizes, classes, error, deviation, expected)


@torch.no_grad()
def self_inclusion(space: FrozenSpace, most: int = 20_000, *, seed: int = 0) -> SelfInclusion:
    """Measure the effect of a fitted row on its own score, of about ``most`` rows, evenly over the
    classes of two rows or more."""
    count = space.state.count
    if not (count >= 2).any():
        raise UnansweredError("expected a class of two fitting rows or more, got none")
    labels = space.labels if space.fitting is None else space.labels[space.fitting]
    # Equally many rows per class.
    first = shuffled_ranks(labels, seed) < max(2, most // int((count >= 2).sum()))
    rows = (first & (count >= 2)[labels]).nonzero().squeeze(1)
    if space.fitting is not None:
        rows = space.fitting.nonzero().squeeze(1)[rows]
    y = space.labels[rows]
    statistics = space.statistics.to(space.device)
    histories = _histories(space, rows)
    columns = []
    for part in torch.arange(len(rows)).split(
        memory.rows_per_chunk(8 * space.dim, memory.ROW_BYTES, space.device)
    ):
        x, own = space.units("train", rows[part]), y[part].to(space.device)
        scores = leave_one_out_scores(
            x, own, statistics, space.tau, space.estimator, validate_args=False
        )
        exact = scores.included - scores.left_out
        history = torch.full_like(exact, torch.nan)
        if histories is not None:
            total, number = (a[part].to(space.device) for a in histories)
            mu, kappa = statistics.left_out(total / number[:, None], own, number, space.estimator)
            rho = (x * mu).sum(1).clamp(-1, 1)
            q = vmf_score(rho, kappa, space.tau, space.dim, validate_args=False)
            # NaN if the class has no other identity.
            history = scores.included - q.masked_fill(statistics.count[own] <= number, torch.nan)
        columns.append((exact, history))
    exact, history = (torch.cat(column).cpu() for column in zip(*columns, strict=True))
    classes, own, queries = y.unique(return_inverse=True, return_counts=True)
    count = count[classes]
    A = _unbiased(space.statistics.mean_length[classes], count)
    history = None if histories is None else class_means(history, own, len(classes))
    mean, deviation = _moments(exact, own)
    expected = expected_inclusion(A, space.tau, count)
    return SelfInclusion(classes, count, queries, mean, deviation, expected, history)


def _histories(space: FrozenSpace, rows: Tensor) -> tuple[Tensor, Tensor] | None:
    """Sum the fitted rows of the label and identity of sampled rows; None if none repeats."""
    if space.identities is None:
        return None
    owner = owners(space.labels, space.identities)
    if space.fitting is not None:
        owner = owner.masked_fill(~space.fitting, -1)
    number = torch.bincount(owner[owner >= 0], minlength=int(owner.max()) + 1)
    if int(number.max()) < 2:
        return None
    sampled, index = owner[rows].unique(return_inverse=True)
    members = torch.isin(owner, sampled).nonzero().squeeze(1)
    total = torch.zeros(len(sampled), space.dim, dtype=torch.float64)
    for part in members.split(memory.rows_per_chunk(8 * space.dim, memory.ROW_BYTES)):
        own = torch.searchsorted(sampled, owner[part])
        total.index_add_(0, own, space.units("train", part).cpu())
    return total[index], number[sampled][index].double()


def _unbiased(R: Tensor, n: Tensor) -> Tensor:
    """Return the unbiased estimate of A from a mean length R of n rows."""
    return unbiased_square_resultant(R, n).clamp_min(0).sqrt()


def _moments(values: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    """Return means and standard deviations [M] within classes own [N]; NaN of a single value."""
    number = torch.bincount(own)
    mean = class_means(values, own, len(number))
    squares = class_means((values - mean[own]).square(), own, len(number))
    return mean, (squares * number / (number - 1)).sqrt()
