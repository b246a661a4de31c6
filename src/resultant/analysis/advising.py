"""The advice for one space: choose settings, fit references, judge all rules on held-out rows."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torch import Tensor

from resultant.analysis.advice import RULE_NAMES, Advice, RuleRow
from resultant.analysis.cautions import cautions, seen_before
from resultant.analysis.choice import ChoosingRows, choose_settings, choosing_rows, metric_of
from resultant.analysis.headline import headline
from resultant.analysis.judging import (
    FinishedRule,
    Judgement,
    compared,
    difference,
    judge,
    metric_weights,
)
from resultant.analysis.references import BUDGETS, reference_rules
from resultant.analysis.result import UnansweredError
from resultant.analysis.sampling import sample_rows
from resultant.analysis.snippet import Source, reference_snippet, vmf_snippet
from resultant.analysis.space import FrozenSpace, Progress
from resultant.classes.realization import realize
from resultant.classes.rule import Rule

if TYPE_CHECKING:
    from resultant.classifiers.choice import Choice

MARGIN = 0.005

# Held-out rows that judge at most with fast references.
JUDGED = 50_000


@dataclass(frozen=True, eq=False)
class Settled:
    """The vMF rules of a space with their settings, judged on the held-out rows.

    Attributes:
        metric: "accuracy" or "balanced".
        rows: The rows that chose.
        chosen: The preferred rule.
        judged: Held-out rows [N] that judge, or None for all.
        judgements: The rules on these rows.
        seconds: Seconds of the choice.
    """

    metric: str
    rows: ChoosingRows
    chosen: Choice
    judged: Tensor | None
    judgements: list[Judgement]
    seconds: float

    def value(self, row: RuleRow) -> float:
        """The metric of a row of the table."""
        return row.accuracy if self.metric == "accuracy" else row.balanced

    @property
    def quality(self) -> float:
        """The metric of the preferred rule on the held-out rows."""
        key = self.chosen.point.realization
        return next(self.value(j.row) for j in self.judgements if j.row.key == key)


def settle(
    space: FrozenSpace,
    *,
    temperature: float | None = None,
    most: int | None = JUDGED,
    seed: int = 0,
    progress: Progress | None = None,
) -> Settled:
    """Choose the settings of the vMF rules of a space, and judge the rules; see `advise`.

    Args:
        space: The classes, the rows that choose and the held-out rows.
        temperature: A temperature that is given rather than chosen.
        most: The most held-out rows that judge; None for all.
        seed: Seed of all draws.
        progress: Called with the name of the step and the fraction that is done.
    """
    if len(space.test) < 2:
        raise UnansweredError(f"expected two held-out rows or more, got {len(space.test)}")
    started = time.perf_counter()
    metric = metric_of(space)
    rows = choosing_rows(space, metric, seed=seed)
    try:
        choices, chosen = choose_settings(space, rows, temperature=temperature, progress=progress)
    except ValueError as error:
        raise UnansweredError(str(error)) from None
    seconds = time.perf_counter() - started
    judged = None
    if most is not None and len(space.test) > most:
        judged = sample_rows(len(space.test), most, seed)
    rules = [_vmf_rule(space, choice) for choice in choices.values()]
    return Settled(metric, rows, chosen, judged, judge(space, rules, judged, progress), seconds)


def advise(
    space: FrozenSpace,
    *,
    references: str = "fast",
    temperature: float | None = None,
    settled: Settled | None = None,
    margin: float = MARGIN,
    source: Source | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[Advice, FrozenSpace]:
    """Advise which rule to use for the features of a space.

    Temperature, beta, prior and realization are chosen on val, else on training rows that are not
    fitted, else by cross-validation on the training rows. Held-out rows only judge.

    Args:
        space: The classes, the rows that choose and the held-out rows.
        references: Classifiers of scikit-learn to compare with: ``none``, ``fast`` or ``all``.
        temperature: A temperature that is given rather than chosen.
        settled: The result of `settle`, if already there.
        margin: Differences of accuracy below this fraction are ties.
        source: Code that opens the features, for the snippet.
        seed: Seed of all draws.
        progress: Called with the name of the step and the fraction that is done.

    Returns:
        The advice, and the space at the temperature of the advised rule.

    Raises:
        UnansweredError: There are fewer than two held-out rows, or no row can choose.

    Example:
        >>> z, y = torch.eye(4).repeat(9, 1) + 0.1 * torch.rand(36, 4), torch.arange(4).repeat(9)
        >>> advise(FrozenSpace.fit(z, y, z, y), references="none")[0].verdict
        'alone'
    """
    started = time.perf_counter()
    if settled is None:
        most = None if references == "all" else JUDGED
        options = {"temperature": temperature, "most": most, "seed": seed}
        settled = settle(space, **options, progress=progress)
    value, metric, rows, judged = settled.value, settled.metric, settled.rows, settled.judged
    before = time.perf_counter()
    others = reference_rules(space, rows, references, progress)
    reference_seconds = time.perf_counter() - before
    judgements = settled.judgements
    if others:
        judgements = judgements + judge(space, others, judged, progress)
    labels = space.test_labels if judged is None else space.test_labels[judged]
    key = settled.chosen.point.realization
    table = compared(judgements, key, labels, metric, margin)
    advised = next(row for row in table if row.key == key)
    best_vmf = max((row for row in table if row.kind == "vmf"), key=value)
    best_reference = max((r for r in table if r.kind == "reference"), key=value, default=None)
    lead = None
    if best_reference is not None:
        right = {j.row.key: j.prediction == labels for j in judgements}
        lead = difference(
            right[best_reference.key],
            right[best_vmf.key],
            metric_weights(labels, metric),
            margin,
            len(table) - 1,
        )
    verdict, sentences = headline(
        table,
        advised,
        best_vmf,
        best_reference,
        lead,
        metric=metric,
        margin=margin,
        judged=len(labels),
        chosen_on=rows.described,
    )
    warnings = cautions(space) + seen_before(settled.chosen.accuracy, value(advised), rows.split)
    snippet = reference = ""
    if source is not None:
        snippet = vmf_snippet(advised, source)
        if verdict == "reference" and best_reference and best_reference.rows == len(space.train):
            iterations = BUDGETS[references].iterations
            reference = reference_snippet(best_reference, source, iterations)
    advice = Advice(
        headline=sentences,
        verdict=verdict,
        advised=key,
        best=max(table, key=value).key,
        metric=metric,
        margin=margin,
        table=table,
        chosen_on=rows.described,
        chosen_rows=len(rows.index),
        judged_rows=len(labels),
        warnings=warnings,
        snippet=snippet,
        reference_snippet=reference,
        seconds={
            "choice": settled.seconds,
            "references": reference_seconds,
            "all": settled.seconds + time.perf_counter() - started,
        },
    )
    return advice, replace(space, tau=settled.chosen.point.temperature)


def _vmf_rule(space: FrozenSpace, choice: Choice) -> FinishedRule:
    p = choice.point
    offset = space.offset(p.prior)
    rule = Rule(p.temperature, p.realization, p.beta, offset=offset)
    scores = realize(space.state, rule, dtype=space.dtype).to(space.device).at
    fitted = len(space.train) if space.fitting is None else int(space.fitting.sum())
    settings = {"temperature": p.temperature, "beta": p.beta, "prior": p.prior}
    return FinishedRule(
        *(p.realization, RULE_NAMES[p.realization], "vmf", settings, choice.scale, scores),
        *(space.fit_seconds, fitted),
    )
