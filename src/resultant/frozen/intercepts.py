r"""What direct temperature does to the score at cosine zero (fig:realization,
sec:same-state-diagnostic)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from resultant.frozen.result import Result


@dataclass(frozen=True, eq=False)
class InterceptDrift(Result):
    r"""The intercepts :math:`h_c^0=q_c(0;\tau_0)` ``native`` [C] and
    :math:`h_c^\star=q_c(0;\tau_c^\star)` ``temperature`` [C], and the ``temperatures``
    :math:`\tau_c^\star` [C].

    ``largest`` and ``mean`` of :math:`|h_c-h_c^0|` by realization; ``worst_class`` drifts most under
    temperature. Where ``undefined`` classes have no temperature, its entries are missing or NaN.
    """

    beta: float
    native: Tensor
    temperature: Tensor
    temperatures: Tensor
    largest: dict[str, float]
    mean: dict[str, float]
    worst_class: int | None
    undefined: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class SameStateRow(Result):
    """One realization on the fixed queries: mean cross-entropy, accuracy, how many distinct
    classes are predicted, and the class predicted most with its share."""

    realization: str
    cross_entropy: float
    accuracy: float
    distinct: int
    top_class: int
    top_share: float


@dataclass(frozen=True, eq=False)
class FocusClass(Result):
    r"""One class under all realizations: ``intercepts`` at cosine zero and ``slopes`` there, by
    realization, beside :math:`\kappa_c`, :math:`A_c`, :math:`\tau_c^\star`, :math:`g_c` and
    :math:`g_c^\star`."""

    index: int
    count: int
    kappa: float
    resultant: float
    target_temperature: float
    gain: float
    target_gain: float
    intercepts: dict[str, float]
    slopes: dict[str, float]


@dataclass(frozen=True, eq=False)
class SameState(Result):
    """The failure state's table: the first queries of each class, only the realization changes.

    ``focus`` is the class whose intercept drifts most, None where temperatures are undefined.
    """

    beta: float
    gamma: float
    queries: int
    rows: tuple[SameStateRow, ...]
    focus: FocusClass | None
    undefined: tuple[int, ...] = ()
