r"""What the support of a class does to its statistics (sec:finite-sample-diagnostics,
fig:finite-sample)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from resultant.frozen.result import Result


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
