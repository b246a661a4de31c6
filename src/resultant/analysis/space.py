"""Fitted vMF classes, of which the theory is asked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from resultant.classes.gain import angular_gain
from resultant.classes.groups import GROUPS, one_size, shot_groups
from resultant.classes.statistics import ClassState, ClassStatistics

CPU = torch.device("cpu")


@dataclass(frozen=True, eq=False, kw_only=True)
class VMFClasses:
    """Fitted vMF classes, and test rows in the same metric, which a subclass reads."""

    statistics: ClassStatistics  # sums of the fitted rows
    test_labels: Tensor  # classes [M] of the test rows
    tau: float
    estimator: str
    device: torch.device = CPU  # device that scores rows

    @cached_property
    def counts(self) -> Tensor:
        """Training rows per class [C]."""
        raise NotImplementedError

    def test_units(self, rows: Tensor) -> Tensor:
        """Return test rows [n] as float64 unit vectors [n, p] on the device."""
        raise NotImplementedError

    @cached_property
    def state(self) -> ClassState:
        """The fitted classes in float64."""
        return self.statistics.state(self.estimator)

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

    def group_means(self, values: Tensor) -> dict[str, float | None]:
        """Return means of ``values`` [C] per shot group without NaN; None for an empty group."""
        names = enumerate(self.group_names)
        means = {name: float(values[self.groups == g].nanmean()) for g, name in names}
        return {name: None if math.isnan(mean) else mean for name, mean in means.items()}


def named_groups(counts: Tensor) -> tuple[str, ...]:
    """Return the names of the shot groups of counts [C]; none for one group or about one size."""
    alone = len(shot_groups(counts).unique()) < 2
    return () if alone or one_size(counts) else GROUPS
