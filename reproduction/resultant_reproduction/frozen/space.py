"""A frozen feature space: classes of training rows, and held-out queries (sec:frozen-states)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from resultant._core import memory
from resultant._core.arrays import directions, require_labels, shape_of
from resultant._core.device import require_device
from resultant._core.text import listed
from resultant._core.validation import COMPUTE_DTYPE
from resultant.analysis.metrics import Result
from resultant.analysis.theory import GainDistribution, gain_distribution, named_groups
from resultant.classes.gain import angular_gain, class_gains, class_temperature
from resultant.classes.groups import shot_groups
from resultant.classes.statistics import ClassState, ClassStatistics
from resultant.classifiers.folds import ranks, shuffled_ranks
from resultant.score.limits import require_temperature

if TYPE_CHECKING:
    from resultant.features.store import FeatureStore


CPU = torch.device("cpu")


@dataclass(frozen=True, eq=False)
class SpaceSummary(Result):
    """The size of a space."""

    name: str
    num_classes: int
    dim: int
    fitting: int  #: number of fitted rows
    calibration: int  #: number of training rows that are not fitted
    held_out: int  #: number of queries
    tau: float
    estimator: str
    groups: dict[str, int]  #: number of classes per shot group, empty without groups
    single: tuple[int, ...]  #: classes with one fitted row, whose kappa is the cap


@dataclass(frozen=True, eq=False, kw_only=True)
class FrozenSpace:
    """Training rows, their fitted classes, and held-out queries; made by `FrozenSpace.fit`."""

    name: str
    train: Any  # training rows [N, p] of any length and dtype: a tensor, or rows in a file
    labels: Tensor  # their classes [N]
    test: Any  # held-out queries [M, p]
    test_labels: Tensor
    fitting: Tensor | None  # fitted rows [N] bool, the others calibrate; None if all are fitted
    identities: Tensor | None  # identities [N] of the training rows
    statistics: ClassStatistics  # sums of the fitted rows
    tau: float
    estimator: str
    dtype: torch.dtype  # dtype of the scores; the classes are in float64
    device: torch.device = CPU  # device that scores queries

    @staticmethod
    def fit(
        train: Any,
        labels: Tensor,
        test: Any,
        test_labels: Tensor,
        *,
        num_classes: int | None = None,
        name: str = "features",
        tau: float = 0.1,
        estimator: str = "mle",
        fitting_share: float | None = None,
        identities: Tensor | None = None,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> FrozenSpace:
        """Fit the classes of training rows.

        Args:
            train, labels: Training rows [N, p] of any length but zero, and classes [N], each
                with a row; a class of one row gets the capped concentration.
            test, test_labels: Held-out queries [M, p] and their classes [M].
            num_classes: C, by default one more than the largest label.
            name: The name of the features.
            tau, estimator: Temperature, and estimator of kappa, see `resultant.concentration`.
            fitting_share: Fraction of the identities, or else rows, of each class that are fitted,
                at least two (0.8 in sec:inat-realization-protocol); the others are for calibration.
            identities, seed: Identities [N], whose rows stay together, and seed of the division.
            dtype, device: torch.float32 or torch.float64, and device of the scores.

        Raises:
            ValueError: Shapes, labels or values do not fit; the message has the row.
        """
        device = require_device(device)
        labels, test_labels, C = _checked(train, labels, test, test_labels, num_classes)
        if dtype not in (torch.float32, torch.float64):
            raise ValueError(f"expected dtype to be torch.float32 or torch.float64, got {dtype}")
        require_temperature(tau, 1, labels.device, True, dtype=dtype)
        fitting = None
        if fitting_share is not None:
            fitting = split(labels, identities, fitting_share, seed)
        statistics, width = ClassStatistics(C, train.shape[1], device=device), 8 * train.shape[1]
        for rows in memory.row_slices(len(test), width, memory.ROW_BYTES, device):
            unit(test[rows], "test", torch.arange(len(test))[rows], device)
        for rows in memory.row_slices(len(train), width, memory.ROW_BYTES, device):
            x, y = unit(train[rows], "train", torch.arange(len(train))[rows], device), labels[rows]
            if fitting is not None:
                chosen = fitting[rows].nonzero().squeeze(1)
                x, y = x[chosen.to(device)], y[chosen]
            statistics.add(x, y.to(device))
        return FrozenSpace(
            name=name,
            train=train,
            labels=labels,
            test=test,
            test_labels=test_labels,
            fitting=fitting,
            identities=identities,
            statistics=statistics.to("cpu"),
            tau=float(tau),
            estimator=estimator,
            dtype=dtype,
            device=device,
        )

    @cached_property
    def state(self) -> ClassState:
        """The fitted classes in float64."""
        return self.statistics.state(self.estimator)

    @cached_property
    def counts(self) -> Tensor:
        """Training rows per class [C], fitted or not."""
        return torch.bincount(self.labels, minlength=self.num_classes)

    @cached_property
    def groups(self) -> Tensor:
        """Shot groups [C] of the counts, as indices of head, medium and tail."""
        return shot_groups(self.counts)

    @property
    def num_classes(self) -> int:
        return self.statistics.num_classes

    @property
    def dim(self) -> int:
        return self.statistics.dim

    @cached_property
    def gain(self) -> Tensor:
        r"""Gains :math:`g_c=A_c/\tau_0` [C] in float64."""
        return angular_gain(self.state, self.tau)

    @cached_property
    def group_names(self) -> tuple[str, ...]:
        """Names of the shot groups; none for one group or about one size."""
        return named_groups(self.counts)

    def gains(self) -> GainDistribution:
        """Return the gains of the classes and their spread."""
        return gain_distribution(self.statistics, self.counts, self.estimator, self.tau)

    @property
    def log_prior(self) -> Tensor:
        r""":math:`\log\pi_c` [C] of the training counts, in float64."""
        return (self.counts.double() / self.counts.sum()).log()

    @property
    def calibration(self) -> Tensor | None:
        """Indices [K] of the calibration rows of ``train``, or None if all rows are fitted."""
        return None if self.fitting is None else (~self.fitting).nonzero().squeeze(1)

    def units(self, split: str, rows: Tensor) -> Tensor:
        """Return rows [n] of ``train`` or ``test`` as float64 unit vectors [n, p] on the device."""
        return unit(getattr(self, split)[rows], split, rows, self.device)

    def queries(
        self, rows: Tensor | None = None, *, exact: bool = False
    ) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Yield positions, unit vectors [k, p] and labels [k] of the queries in chunks; exact ones
        in float64 on the CPU."""
        device, dtype = (CPU, torch.float64) if exact else (self.device, self.dtype)
        number = len(self.test) if rows is None else len(rows)
        width = 4 * max(self.num_classes, self.dim)
        for part in memory.row_slices(number, width, memory.MATRIX_BYTES, device):
            at = slice(part.start, min(part.stop, number))
            index = torch.arange(at.start, at.stop) if rows is None else rows[at]
            # A slice of mapped rows is not a copy.
            x = unit(self.test[at if rows is None else index], "test", index, device)
            yield at, x.to(dtype), self.test_labels[index].to(device)

    def summary(self) -> SpaceSummary:
        """Return the size of the space."""
        held = 0 if self.fitting is None else int((~self.fitting).sum())
        return SpaceSummary(
            name=self.name,
            num_classes=self.num_classes,
            dim=self.dim,
            fitting=len(self.train) - held,
            calibration=held,
            held_out=len(self.test),
            tau=self.tau,
            estimator=self.estimator,
            groups={n: int((self.groups == g).sum()) for g, n in enumerate(self.group_names)},
            single=tuple((self.state.count == 1).nonzero().squeeze(1).tolist()),
        )

    def untempered(self, beta: float) -> tuple[int, ...]:
        """Return the classes without a temperature at beta (`resultant.target_temperature`)."""
        target = class_gains(self.gain, beta, "linear").target
        star = class_temperature(self.tau, self.gain, target, self.dtype)
        return tuple(star.isnan().nonzero().squeeze(1).tolist())


def unit(z: Tensor, name: str, rows: Tensor, device: torch.device | str = "cpu") -> Tensor:
    """Scale ``z`` [n, p] to float64 unit vectors on a device; errors number them by ``rows``."""
    x, length = directions(z.to(device))
    bad = ~((length > 0) & length.isfinite())
    if bad.any():
        i = int(bad.nonzero()[0])
        infinite = z[i][~z[i].isfinite()]
        got = f"{float(infinite[0])}" if len(infinite) else "a zero vector"
        raise ValueError(f"expected {name} finite and not zero, got {got} in row {int(rows[i])}")
    return x


def load_space(
    store: FeatureStore, feature: str, *, train: str = "train", test: str = "test", **options: Any
) -> FrozenSpace:
    """Fit the space of one feature of a store, with its identities.

    Args:
        store: The store.
        feature: The name of the feature, such as ``encoder`` or ``projection``.
        train, test: The splits of the training rows and of the queries.
        **options: Keyword arguments of `FrozenSpace.fit`.
    """
    if f"{train}/identities" in store:
        options["identities"] = store[f"{train}/identities"]
    x, y = store.vectors(f"{train}/{feature}"), store[f"{train}/labels"]
    q, labels = store.vectors(f"{test}/{feature}"), store[f"{test}/labels"]
    options |= {"num_classes": store.num_classes, "name": feature}
    return FrozenSpace.fit(x, y, q, labels, **options)


def _checked(
    train: Any, labels: Tensor, test: Any, test_labels: Tensor, num_classes: int | None
) -> tuple[Tensor, Tensor, int]:
    """Check shapes and labels; return the labels on the CPU and C."""
    for name, z, y_name, y in (
        ("train", train, "labels", labels),
        ("test", test, "test_labels", test_labels),
    ):
        if getattr(z, "dtype", None) not in COMPUTE_DTYPE or len(z.shape) != 2:
            raise ValueError(f"expected {name} [N, p] of a floating dtype, got {shape_of(z)}")
        if not len(z):
            raise ValueError(f"expected a row or more in {name}, got none")
        if not isinstance(y, Tensor) or y.dim() != 1 or not len(y):
            raise ValueError(f"expected {y_name} [N], one per row, got {shape_of(y)}")
    if train.shape[1] != test.shape[1]:
        got = f"{train.shape[1]} and {test.shape[1]}"
        raise ValueError(f"expected train and test of one dimension, got {got}")
    labels, test_labels = labels.cpu(), test_labels.cpu()
    C = num_classes if num_classes is not None else int(labels.max()) + 1
    require_labels(labels, len(train), C, labels.device, True, name="labels")
    if beyond := test_labels[test_labels >= C].unique().tolist():
        got = f"classes {listed(map(str, beyond))} of {C}"
        raise ValueError(f"expected queries of classes seen in training, got {got}")
    require_labels(test_labels, len(test), C, labels.device, True, name="test_labels")
    present, asked = (set(y.tolist()) for y in (labels, test_labels))
    if missing := sorted(set(range(C)) - present):
        both = listed(str(c) for c in missing if c in asked)
        got = f"none of {len(missing)}: {listed(map(str, missing))}"
        got += f" (queries ask for {both})" if both else ""
        raise ValueError(f"expected a training row of each of {C} classes, got {got}")
    return labels, test_labels, C


def rank_in_class(labels: Tensor) -> Tensor:
    """Return the number [N] of earlier rows of the same class."""
    return ranks(labels, torch.arange(len(labels)))


def owners(labels: Tensor, identities: Tensor) -> Tensor:
    """Number the pairs of label and identity from zero, [N] int64."""
    _, dense = identities.cpu().unique(return_inverse=True)
    return (labels * (int(dense.max()) + 1) + dense).unique(return_inverse=True)[1]


def split(labels: Tensor, identities: Tensor | None, share: float, seed: int) -> Tensor:
    """Return the fitted rows, [N] bool: a share of the identities of each class, at least two."""
    if not 0 < share < 1:
        raise ValueError(f"expected fitting_share in (0, 1), got {share!r}")
    if identities is not None and identities.shape != labels.shape:
        raise ValueError(f"expected identities [{len(labels)}], got {shape_of(identities)}")
    number, own = torch.arange(len(labels)), labels
    if identities is not None:
        number = owners(labels, identities)
        own = torch.empty(int(number.max()) + 1, dtype=torch.int64)
        own[number] = labels
    rank = shuffled_ranks(own, seed)
    # A single row would have a resultant of one.
    return (rank < (share * torch.bincount(own)).ceil().clamp_min(2)[own])[number]
