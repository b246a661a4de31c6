"""Which realization and beta to use, what it gains and what it costs."""

from __future__ import annotations

from dataclasses import dataclass

from resultant.frozen.result import Result


@dataclass(frozen=True, eq=False)
class ClassEffect(Result):
    """The accuracy of one class before (native) and after (the best candidate)."""

    index: int
    count: int
    group: str
    gain: float
    queries: int
    before: float
    after: float


@dataclass(frozen=True, eq=False)
class Recommendation(Result):
    """The candidate of highest accuracy, and whether it is worth leaving native.

    ``candidate`` (a realization at ``beta``) is the best on one random half of the held-out
    queries; ``gain`` over native, its 95 % interval (``low``, ``high``, paired normal) and the
    exact McNemar ``p_value`` are of the other half, with ``better`` and ``worse`` queries there, so
    the choice does not flatter them. ``realization`` is the candidate where p < 0.05 and the gain
    is positive, else native. The rest is over all queries: accuracies, mean NLL and calibration
    error before and after, ``groups`` the changes of accuracy by shot group, and the classes that
    ``gained`` and ``lost`` most. ``reason`` says it in a sentence.
    """

    realization: str
    beta: float
    gamma: float
    candidate: str
    candidate_beta: float
    gain: float
    low: float
    high: float
    p_value: float
    better: int
    worse: int
    queries: int
    accuracy_before: float
    accuracy_after: float
    nll_before: float
    nll_after: float
    ece_before: float
    ece_after: float
    groups: dict[str, float | None]
    gained: tuple[ClassEffect, ...]
    lost: tuple[ClassEffect, ...]
    reason: str
