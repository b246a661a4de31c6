"""A frozen feature space: statistics of training rows and held-out queries (sec:frozen-states).

Features may be mapped from a file: they are read some rows at a time, taken to unit length on the
device of the space, and never held there as a whole. What is drawn at random is drawn on the CPU,
so that it is the same on every device.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from resultant._core import chunks
from resultant._core.arrays import (
    directions,
    require_labels,
    shape_of,
)
from resultant._core.device import require_device
from resultant._core.validation import COMPUTE_DTYPE
from resultant.analysis.result import Result
from resultant.analysis.sampling import split
from resultant.classes.gain import angular_gain, target_temperature
from resultant.classes.groups import GROUPS, one_size, shot_groups
from resultant.classes.statistics import ClassState, ClassStatistics
from resultant.decisions.pairs import SelectedPairs
from resultant.features.store import FeatureStore
from resultant.score.limits import require_temperature

# How many classes an error names.
NAMED = 8

Progress = Callable[[str, float], object]


class Vectors(Protocol):
    """Rows [N, p] of which some are asked for: a tensor, or rows that are elsewhere."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Any, /) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class SpaceSummary(Result):
    """What a space is made of: rows for fitting, for calibration and held out, classes by shot
    group (none if all are of about one size), classes of one training row, whose kappa is
    the cap."""

    name: str
    num_classes: int
    dim: int
    fitting: int
    calibration: int
    held_out: int
    tau: float
    estimator: str
    groups: dict[str, int]
    single: tuple[int, ...]


class FrozenSpace:
    r"""Training rows, the classes fitted to them, and held-out queries. Made by `FrozenSpace.fit`.

    ``train`` [N, p] and ``test`` [M, p] as they came, ``labels`` [N] and ``test_labels`` [M];
    ``fitting`` [N] bool says which rows the ``statistics`` and the ``state`` come from, the others
    are for calibration. ``counts`` [C] are of all training rows: they make the shot ``groups`` [C]
    and the prior :math:`\pi_c`. Scores are in ``dtype``, ``state`` is in float64. ``identities``
    are [N] or None. ``pairs`` are those chosen so far.

    The ``statistics`` and the ``state`` are on the ``device``, and so are queries and scores. All
    that goes by row of ``train`` or ``test`` or is a count is on the CPU, and so are results.
    """

    def __init__(
        self,
        name: str,
        train: Vectors,
        labels: Tensor,
        test: Vectors,
        test_labels: Tensor,
        fitting: Tensor | None,
        identities: Tensor | None,
        statistics: ClassStatistics,
        tau: float,
        estimator: str,
        dtype: torch.dtype,
    ) -> None:
        self.name, self.train, self.labels = name, train, labels
        self.test, self.test_labels = test, test_labels
        self.fitting, self.identities, self.statistics = fitting, identities, statistics
        self.tau, self.estimator, self.dtype = tau, estimator, dtype
        self.state: ClassState = statistics.state(estimator)
        self.counts = torch.bincount(labels, minlength=statistics.num_classes)
        self.groups = shot_groups(self.counts)
        # By number and seed: the closest take a look at all pairs of classes.
        self.pairs: dict[tuple[int, int], SelectedPairs] = {}

    @staticmethod
    def fit(
        train: Vectors,
        labels: Tensor,
        test: Vectors,
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
        progress: Progress | None = None,
    ) -> FrozenSpace:
        """Fit the classes of training rows ``train`` [N, p], ``labels`` [N], to be asked about
        queries ``test`` [M, p], ``test_labels`` [M]. Rows need no unit length.

        ``fitting_share`` (0.8 in sec:inat-realization-protocol) of the ``identities`` [N], or rows,
        of each class, and two at the least, are fitted; the others are calibration queries. Every
        class in [0, C) must have a training row. One row only gives the capped concentration.
        The work is done on ``device``; the rows may be anywhere. ``progress`` is called with a name
        and a share.
        """
        for what, z in (("train", train), ("test", test)):
            known = getattr(z, "dtype", None) in COMPUTE_DTYPE
            if not known or len(z.shape) != 2:
                raise ValueError(f"expected {what} [N, p] of a floating dtype, got {shape_of(z)}")
            if not len(z):
                raise ValueError(f"expected a row or more in {what}, got none")
        for what, y in (("labels", labels), ("test_labels", test_labels)):
            if not isinstance(y, Tensor) or y.dim() != 1 or not len(y):
                raise ValueError(f"expected {what} [N], one a row, got {shape_of(y)}")
        labels, test_labels = labels.cpu(), test_labels.cpu()
        if train.shape[1] != test.shape[1]:
            got = f"{train.shape[1]} and {test.shape[1]}"
            raise ValueError(f"expected train and test of one dimension, got {got}")
        if dtype not in (torch.float32, torch.float64):
            raise ValueError(f"expected dtype to be torch.float32 or torch.float64, got {dtype}")
        require_temperature(tau, 1, labels.device, True, dtype=dtype)
        device = require_device(device)
        C = num_classes if num_classes is not None else int(labels.max()) + 1
        require_labels(labels, len(train), C, labels.device, True, name="labels")
        _require_known(test_labels, C)
        require_labels(test_labels, len(test), C, labels.device, True, name="test_labels")
        fitting = None
        if fitting_share is not None:
            fitting = split(labels, identities, fitting_share, seed)
        _require_trained(labels, test_labels, C)
        statistics = ClassStatistics(C, train.shape[1], device=device)
        height = chunks.rows_per_chunk(8 * train.shape[1], chunks.ROW_BYTES, device)
        for top in range(0, len(test), height):
            z = test[top : top + height]
            # The largest entry is a length that costs nothing more than the reading.
            _require_directions(_largest(z), z, "test", torch.arange(top, top + len(z)))
        for top in range(0, len(train), height):
            rows = slice(top, min(top + height, len(train)))
            x = unit(train[rows], "train", torch.arange(top, rows.stop), device)
            y = labels[rows]
            if fitting is not None:
                chosen = fitting[rows].nonzero().squeeze(1)
                x, y = x[chosen.to(device)], y[chosen]
            statistics.update(x, y.to(device), validate_args=False)
            if progress is not None:
                progress("statistics", rows.stop / len(train))
        return FrozenSpace(
            *(name, train, labels, test, test_labels, fitting, identities, statistics),
            *(float(tau), estimator, dtype),
        )

    @staticmethod
    def from_store(
        store: FeatureStore,
        feature: str,
        *,
        train: str = "train",
        test: str = "test",
        tau: float = 0.1,
        estimator: str = "mle",
        fitting_share: float | None = None,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        progress: Progress | None = None,
    ) -> FrozenSpace:
        """The space of one feature (``encoder``, ``projection``) of a store; arguments as in
        `fit`. The store's identities, if any, keep views of one image on one side of a split."""
        names = f"{train}/identities"
        identities = None
        if names in store:
            identities = store[names]
        return FrozenSpace.fit(
            store.vectors(f"{train}/{feature}"),
            store[f"{train}/labels"],
            store.vectors(f"{test}/{feature}"),
            store[f"{test}/labels"],
            num_classes=store.num_classes,
            name=feature,
            tau=tau,
            estimator=estimator,
            fitting_share=fitting_share,
            identities=identities,
            seed=seed,
            dtype=dtype,
            device=device,
            progress=progress,
        )

    @property
    def device(self) -> torch.device:
        return self.state.mu.device

    @property
    def host(self) -> FrozenSpace:
        """The same space on the CPU: for questions so small that they would only wait elsewhere."""
        if self.device.type == "cpu":
            return self
        host = copy.copy(self)
        host.statistics, host.state = self._on_host
        return host

    @cached_property
    def _on_host(self) -> tuple[ClassStatistics, ClassState]:
        return self.statistics.to("cpu"), self.state.to("cpu")

    @property
    def num_classes(self) -> int:
        return self.state.num_classes

    @property
    def dim(self) -> int:
        return self.state.dim

    @property
    def gain(self) -> Tensor:
        r"""The gains :math:`g_c=A_c/\tau_0` [C] in float64."""
        return angular_gain(self.state, self.tau)

    @property
    def log_prior(self) -> Tensor:
        r""":math:`\log\pi_c` [C] of the training counts, in float64."""
        return (self.counts.double() / self.counts.sum()).log().to(self.device)

    @property
    def calibration(self) -> Tensor | None:
        """The calibration rows of ``train``, [K] int64, or None without a split."""
        return None if self.fitting is None else (~self.fitting).nonzero().squeeze(1)

    @property
    def group_names(self) -> tuple[str, ...]:
        """Those of the ``groups``; none where all classes are of about one size."""
        return () if one_size(self.counts) else GROUPS

    def group_means(self, values: Tensor) -> dict[str, float | None]:
        """The means of ``values`` [C] by shot group, NaN left out, None where nothing is left; none
        where all classes are of about one size."""
        found: dict[str, float | None] = {}
        values = values.cpu().double()
        for g, name in enumerate(self.group_names):
            mean = float(values[self.groups == g].nanmean())
            found[name] = None if math.isnan(mean) else mean
        return found

    def units(self, split: str, rows: Tensor) -> Tensor:
        """The chosen ``rows`` [n] of ``train`` or ``test`` as float64 unit vectors [n, p]."""
        return unit(getattr(self, split)[rows], split, rows, self.device)

    def queries(
        self,
        rows: Tensor | None = None,
        *,
        dtype: torch.dtype | None = None,
        chunk: int | None = None,
    ) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """All held-out queries, or the chosen ``rows`` [n]: where they stand, unit vectors [k, p]
        and labels [k], ``chunk`` at a time, by default 32 MiB of float32 cosines, on a device
        256 MiB."""
        if chunk is None:
            width = 4 * max(self.num_classes, self.dim)
            chunk = chunks.rows_per_chunk(width, chunks.MATRIX_BYTES, self.device)
        number = len(self.test) if rows is None else len(rows)
        for top in range(0, number, chunk):
            at = slice(top, min(top + chunk, number))
            of = torch.arange(top, at.stop) if rows is None else rows[at]
            # A slice of what may be mapped is not a copy.
            x = unit(self.test[at if rows is None else of], "test", of, self.device)
            yield at, x.to(dtype or self.dtype), self.test_labels[of].to(self.device)

    def summary(self) -> SpaceSummary:
        held = 0 if self.fitting is None else int((~self.fitting).sum())
        return SpaceSummary(
            *(self.name, self.num_classes, self.dim, len(self.train) - held, held, len(self.test)),
            *(self.tau, self.estimator),
            {name: int((self.groups == g).sum()) for g, name in enumerate(self.group_names)},
            tuple((self.state.count == 1).nonzero().squeeze(1).tolist()),
        )

    def untempered(self, beta: float) -> tuple[int, ...]:
        """The classes without a temperature at beta (`resultant.target_temperature`)."""
        star = target_temperature(self.state, self.tau, beta, dtype=self.dtype, validate_args=False)
        return tuple(star.isnan().nonzero().squeeze(1).tolist())

    def offset(self, gamma: float) -> Tensor | None:
        r""":math:`\gamma\log\pi_c` [C], None for zero."""
        return None if gamma == 0 else gamma * self.log_prior


def unit(z: Tensor, name: str, rows: Tensor, device: torch.device | str = "cpu") -> Tensor:
    """Rows ``z`` [n, p] as float64 unit vectors on the device; without direction they are an error
    that says which of ``rows`` [n]."""
    x, length = directions(z.to(device))
    _require_directions(length, z, name, rows)
    return x


def _require_directions(length: Tensor, z: Tensor, name: str, rows: Tensor) -> None:
    """Raise unless the rows ``z`` [n, p] are finite and not zero, as a ``length`` [n] tells."""
    bad = ~((length > 0) & length.isfinite())
    if bad.any():
        i = int(bad.nonzero()[0])
        strange = z[i][~z[i].isfinite()]
        what = f"{float(strange[0])}" if len(strange) else "a zero vector"
        raise ValueError(f"expected {name} finite and not zero, got {what} in row {int(rows[i])}")


def _largest(z: Tensor) -> Tensor:
    """The largest magnitudes [n] of rows [n, p], NaN where one is."""
    least, most = z.aminmax(dim=1)
    return torch.maximum(-least, most)


def named(classes: list[int]) -> str:
    rest = ", ..." if len(classes) > NAMED else ""
    return ", ".join(map(str, classes[:NAMED])) + rest


def _require_known(test_labels: Tensor, C: int) -> None:
    """Raise where a query is of a class beyond those of training, naming the classes."""
    beyond = test_labels[test_labels >= C].unique().tolist()
    if beyond:
        what = f"classes {named(beyond)} of {C}"
        raise ValueError(f"expected queries of classes seen in training, got {what}")


def _require_trained(labels: Tensor, test_labels: Tensor, C: int) -> None:
    empty = torch.bincount(labels, minlength=C) == 0
    if not empty.any():
        return
    asked = torch.bincount(test_labels, minlength=C) > 0
    missing, both = (a.nonzero().squeeze(1).tolist() for a in (empty, empty & asked))
    got = f"none of {len(missing)}: {named(missing)}"
    got += f" (queries ask for {named(both)})" if both else ""
    raise ValueError(f"expected a training row of each of {C} classes, got {got}")
