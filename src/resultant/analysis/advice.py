"""The advice about frozen features: plain results that the summary, the page and JSON show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from resultant.analysis.plain import Result

RULE_NAMES = {
    "native": "Native",
    "temperature": "Direct Temperature",
    "preserve": "Intercept-Preserving",
    "angular": "Pure Angular",
    "cosine": "Cosine",
}


@dataclass(frozen=True, eq=False)
class Difference(Result):
    """Accuracy of one rule minus that of another on the same held-out rows.

    Attributes:
        gain: The difference, between -1 and 1.
        low: Lower end of its paired interval.
        high: Upper end.
        verdict: "better" or "worse" if zero is outside the interval and the difference is at least
            the margin, "equivalent" if the interval is within the margin, else "undecided". The
            last two are ties.
    """

    gain: float
    low: float
    high: float
    verdict: str

    @property
    def tied(self) -> bool:
        """True unless one rule is better by the margin or more."""
        return self.verdict in ("equivalent", "undecided")


@dataclass(frozen=True, eq=False)
class Reliability(Result):
    """``count``, mean ``confidence`` and ``accuracy`` [15] in equal bins of the largest
    probability; NaN in an empty bin."""

    count: Tensor
    confidence: Tensor
    accuracy: Tensor


@dataclass(frozen=True, eq=False)
class Probabilities(Result):
    """Quality of probabilities on the held-out rows: mean cross-entropy in nats, and expected
    calibration error of 15 bins with these bins (None for fewer than 30 rows)."""

    nll: float
    ece: float | None = None
    reliability: Reliability | None = None


@dataclass(frozen=True, eq=False)
class RuleRow(Result):
    """One rule on the held-out rows: a row of the table of all rules.

    Attributes:
        key: Unique name: a realization (``native``, ..., ``cosine``), ``mixture`` (native with
            several components per class) or a reference (``logistic``,
            ``logistic-balanced``, ``lda``, ``lda-equal``, ``knn``, ``centroid``,
            ``tau-normalized``).
        name: Name for people.
        kind: "vmf" or "reference".
        settings: Chosen settings by name: temperature, beta, prior and scale of vMF rules.
        accuracy: Fraction of correct predictions, with a 95 % interval (``low``, ``high``).
        balanced: Mean over classes of the accuracy per class.
        groups: Accuracy per shot group, empty if all classes are of about one size.
        before: Probabilities as the rule gives them.
        after: Probabilities with the scale that was fitted on the rows that choose.
        fit_seconds: Seconds of the final fit, without the choice of settings.
        predict_seconds: Seconds to score all held-out rows.
        rows: Training rows that were fitted; fewer than all if sub-sampled.
        difference: This rule minus the advised rule in the metric of the advice; None for the
            advised rule itself.
        note: A sentence about sub-sampling, or "".
    """

    key: str
    name: str
    kind: str
    settings: dict[str, Any]
    accuracy: float
    low: float
    high: float
    balanced: float
    groups: dict[str, float | None]
    before: Probabilities
    after: Probabilities
    fit_seconds: float
    predict_seconds: float
    rows: int
    difference: Difference | None = None
    note: str = ""


@dataclass(frozen=True, eq=False)
class Caution(Result):
    """A warning about the data.

    Attributes:
        kind: Name of the check, such as "duplicates" or "few-rows".
        text: One or two sentences: what was found, and what to do.
    """

    kind: str
    text: str


@dataclass(frozen=True, eq=False)
class Advice(Result):
    """The advice for one feature space.

    Attributes:
        headline: Three sentences: what was found, what to do, what it is worth and to whom.
        verdict: "vmf" if the advised vMF rule is better than all references, "tie", "reference" if
            a reference is better than all vMF rules, or "alone" without references.
        advised: Key of the advised vMF rule in ``table``.
        best: Key of the rule with the largest metric on the held-out rows.
        metric: "accuracy" or "balanced", by which rules are chosen and compared.
        margin: Differences below this fraction are ties.
        table: All rules, those of vMF first.
        chosen_on: The rows that chose the settings, in a few words.
        split: Their split: "val", "calibration" (training rows that are not fitted) or "train".
        chosen_rows: Number of these rows.
        nearest: Accuracy of the nearest class direction on these rows, by the metric: among several
            features it chooses those of the headline.
        judged_rows: Number of held-out rows.
        warnings: Warnings about the data.
        left_out: A sentence about references that are too large, or "".
        snippet: Python that fits and saves the advised rule, and prints its accuracy.
        reference_snippet: Python that fits the best reference, if that is ahead by the margin or
            more, or "".
        seconds: Seconds for the choice of settings, the references and all together.
    """

    headline: tuple[str, ...]
    verdict: str
    advised: str
    best: str
    metric: str
    margin: float
    table: tuple[RuleRow, ...]
    chosen_on: str
    split: str
    chosen_rows: int
    nearest: float
    judged_rows: int
    warnings: tuple[Caution, ...]
    left_out: str
    snippet: str
    reference_snippet: str
    seconds: dict[str, float]

    def row(self, key: str) -> RuleRow:
        """Return the row of a rule."""
        return next(row for row in self.table if row.key == key)
