r"""Pairs of classes chosen from training geometry: boundaries, margins and errors
(sec:boundary-selection, sec:root-solving, sec:margin-change-protocol, fig:real-margin-app)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from resultant.frozen.result import Result


@dataclass(frozen=True, eq=False)
class PredictedDisplacement(Result):
    """Displacements by an approximate score: ``shift_degrees`` [P] (NaN unless displaced),
    ``change`` a pair, ``tally`` of them, and the error over ``comparable`` pairs, those displaced
    in both. ``same_direction`` is a share; NaN where none is comparable."""

    shift_degrees: Tensor
    change: tuple[str, ...]
    tally: dict[str, int]
    comparable: int
    mean_absolute_degrees: float
    largest_degrees: float
    same_direction: float


@dataclass(frozen=True, eq=False)
class BoundaryDisplacement(Result):
    r"""Boundaries on the short arc before (native) and after direct temperature equalization
    (fig:main-boundaries).

    ``pairs`` [P, 2] with their ``kind`` (HH to TT), ``closest`` [P] or random, prototype ``cosine``
    and arc ``theta_degrees`` [P]. ``before_degrees``, ``after_degrees`` and ``shift_degrees`` [P]
    from the first class, NaN unless unique; ``change`` is displaced, created, vanished, absent or
    multiple, ``tally`` counts them. ``predicted`` has ``linear_mean`` (:math:`g_c\rho_c`),
    ``linear_intercept`` (with the intercept :math:`q_c(0)`) and, for p >= 3, ``joint_leading``.
    """

    pairs: Tensor
    kind: tuple[str, ...]
    closest: Tensor
    cosine: Tensor
    theta_degrees: Tensor
    before_degrees: Tensor
    after_degrees: Tensor
    shift_degrees: Tensor
    change: tuple[str, ...]
    tally: dict[str, int]
    predicted: dict[str, PredictedDisplacement]
    undefined: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class MarginDirections(Result):
    r"""Whether :math:`\Delta m_{lin}` predicts the sign of exact margin changes, over the queries of
    both classes of every pair (sec:margin-change-protocol).

    ``agreement`` and ``coverage`` (of the certificate :math:`|\Delta m_{lin}|>|r|`) are shares of
    ``incidences``; ``certified_wrong`` is zero if the theory holds. ``by_kind`` has the same by pair
    type. ``linear`` and ``exact`` [S] are a sample of the changes, to draw. None without queries.
    """

    pairs: Tensor
    incidences: int
    agreement: float | None
    coverage: float | None
    certified_wrong: int
    by_kind: dict[str, dict[str, float | None]]
    linear: Tensor
    exact: Tensor
    undefined: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class TypicalMargins(Result):
    r"""Margins of pairs against their errors under the native score (sec:conditional-margin).

    All [P, 2], for the first class against the second and back: ``centre`` margins at the prototype,
    ``typical`` margins :math:`R_h, R_t`, ``observed`` errors among ``queries`` held-out ones (NaN
    without), ``gaussian`` and ``model`` errors of the matched binary model at this dimension (NaN
    where it is degenerate). Rank correlations with the observed error are Spearman's.
    """

    pairs: Tensor
    kind: tuple[str, ...]
    centre: Tensor
    typical: Tensor
    observed: Tensor
    queries: Tensor
    gaussian: Tensor
    model: Tensor
    centre_correlation: float | None
    typical_correlation: float | None
    model_correlation: float | None
