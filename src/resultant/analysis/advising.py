"""The advice for one space: choose settings, fit references, judge all rules on held-out rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from resultant.analysis.advice import RULE_NAMES, Advice, RuleRow
from resultant.analysis.cautions import cautions, near_chance, seen_before
from resultant.analysis.choice import (
    ChoosingRows,
    Evidence,
    choose_settings,
    choosing_rows,
    gather_evidence,
    metric_of,
)
from resultant.analysis.gainers import gainers
from resultant.analysis.headline import headline
from resultant.analysis.judging import (
    Batch,
    FinishedRule,
    Judgement,
    compared,
    difference,
    judge,
    metric_weights,
)
from resultant.analysis.mixtures import MixtureChoice, choose_mixture
from resultant.analysis.plain import UnansweredError
from resultant.analysis.references import NAMES, References
from resultant.analysis.sampling import sample_rows
from resultant.analysis.snippet import Source, reference_snippet, vmf_snippet
from resultant.analysis.space import FrozenSpace, Progress, Vectors
from resultant.classes.realization import realize
from resultant.classes.rule import Rule
from resultant.classifiers.calibrators import METHODS, fit_calibrators
from resultant.classifiers.choice import ERRORS, LOSS_MARGIN, MARGIN, Choice, Search

# Held-out rows that judge at most with fast references, and these rows times classes.
JUDGED = 50_000
JUDGED_CELLS = 100_000_000


@dataclass(frozen=True, eq=False)
class Plan:
    """The rows that choose and judge; labels decide alone.

    Attributes:
        metric: "accuracy" or "balanced".
        rows: The rows that choose.
        judged: Held-out rows [N] that judge, or None for all.
    """

    metric: str
    rows: ChoosingRows
    judged: Tensor | None


def plan(space: FrozenSpace, most: int | None = JUDGED) -> Plan:
    """Draw the rows that choose, and ``most`` held-out rows that judge, fewer where classes are
    thousands; all for None.

    Raises:
        UnansweredError: There are fewer than two held-out rows.
    """
    if len(space.test) < 2:
        raise UnansweredError(f"expected two held-out rows or more, got {len(space.test)}")
    metric = metric_of(space)
    judged = None
    if most is not None:
        most = min(most, JUDGED_CELLS // space.num_classes)
        judged = sample_rows(len(space.test), most, 0) if len(space.test) > most else None
    return Plan(metric, choosing_rows(space, metric), judged)


@dataclass(frozen=True, eq=False)
class Settled:
    """The vMF rules of a space with their settings, judged on the held-out rows.

    Attributes:
        plan: The rows that chose and judged.
        evidence: The rows that chose, against classes without them.
        key: Key of the advised rule.
        tau: Temperature of the advised rule, or of the best one without mixtures.
        how: The way it was chosen, in words.
        accuracy: Its accuracy on the rows that chose, weighted by the metric.
        judgements: The rules on the held-out rows.
        seconds: Seconds of the choice.
    """

    plan: Plan
    evidence: Evidence
    key: str
    tau: float
    how: str
    accuracy: float
    judgements: list[Judgement]
    seconds: float

    def value(self, row: RuleRow) -> float:
        """The metric of a row of the table."""
        return row.accuracy if self.plan.metric == "accuracy" else row.balanced

    @property
    def row(self) -> RuleRow:
        """The advised rule on the held-out rows."""
        return next(j.row for j in self.judgements if j.row.key == self.key)

    def at(self, space: FrozenSpace) -> FrozenSpace:
        """Return the space at the temperature ``tau``."""
        return replace(space, tau=self.tau)


def settle(
    space: FrozenSpace,
    *,
    temperature: float | None = None,
    plan: Plan,
    evidence: Evidence | None = None,
    progress: Progress | None = None,
    mixtures: bool = True,
    calibration: str = "scale",
) -> Settled:
    """Choose the settings of the vMF rules of a space, and judge the rules; see `advise`.

    Args:
        space: The classes, the rows that choose and the held-out rows.
        temperature: A temperature that is given rather than chosen.
        plan: The rows that choose and judge.
        evidence: The result of `gather_evidence`, if already there.
        progress: Called with the name of the step and the fraction that is done.
        mixtures: Also try a mixture per class, where rows are few.
        calibration: Calibration of the vMF rules: ``scale``, ``sigmoid`` or ``isotonic``.
    """
    started = time.perf_counter()
    rows = plan.rows
    if evidence is None:
        evidence = gather_evidence(space, rows, progress)
    try:
        choices, chosen, best, search = choose_settings(
            space, rows, evidence.part, temperature=temperature, progress=progress
        )
    except ValueError as error:
        raise UnansweredError(str(error)) from None
    rules = [_vmf_rule(space, choice, search, calibration) for choice in choices.values()]
    key, tau, accuracy = chosen.point.realization, chosen.point.temperature, chosen.accuracy
    how = f"the best by {rows.described}"
    if chosen.point != best.point:
        how = f"the plainest rule that ties with {how}"
    mixture = choose_mixture(space, rows, temperature, calibration) if mixtures else None
    if mixture is not None:
        rules.append(mixture.rule)
        if _mixture_is_better(mixture, best, rows, ~evidence.part.absent()):
            key, accuracy = mixture.rule.key, mixture.accuracy
            how = f"the best by the first fold of {rows.described}"
            if rows.folds is None:
                how = f"the best by {rows.described}"
    seconds = time.perf_counter() - started
    judgements = judge(space, rules, plan.judged, progress)
    return Settled(plan, evidence, key, tau, how, accuracy, judgements, seconds)


def _mixture_is_better(
    mixture: MixtureChoice, best: Choice, rows: ChoosingRows, present: Tensor
) -> bool:
    """Return True if the loss of a mixture is smaller than the best by more than a tie."""
    losses = best.losses.new_full((len(rows.index),), float("nan"))
    losses[present] = best.losses
    d = mixture.losses - losses[mixture.rows].to(mixture.losses)
    known = ~d.isnan()
    weights = rows.weights[mixture.rows][known]
    weights = weights / weights.sum()
    mean = float(d[known] @ weights)
    error = float((weights * (d[known] - mean)).square().sum().sqrt())
    return mean < -max(ERRORS * error, LOSS_MARGIN * max(1.0, best.loss))


def advise(
    space: FrozenSpace,
    *,
    references: str = "fast",
    temperature: float | None = None,
    calibration: str = "scale",
    settled: Settled | None = None,
    fitted: References | None = None,
    hashes: Callable[[Vectors], Tensor] | None = None,
    source: Source | None = None,
    names: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> tuple[Advice, FrozenSpace]:
    """Advise which rule to use for the features of a space.

    Temperature, beta, prior and realization are chosen on val, else on training rows that are not
    fitted, else by cross-validation on the training rows. Held-out rows only judge.

    Args:
        space: The classes, the rows that choose and the held-out rows.
        references: Other classifiers to compare with: ``none``, ``fast`` or ``all``.
        temperature: A temperature that is given rather than chosen.
        calibration: Calibration of the vMF rules: ``scale``, or in addition scikit-learn's
            ``sigmoid`` or ``isotonic`` of each class. References have a scale.
        settled: The result of `settle`, if already there.
        fitted: The references, if already on the way.
        hashes: The function that hashes all rows, such as that of a cluster.
        source: Code that opens the features, for the snippet.
        names: Names of the classes, for the sentences.
        progress: Called with the name of the step and the fraction that is done.

    Returns:
        The advice, and the space at the temperature of the advised rule, or of the best one
        without mixtures.

    Raises:
        UnansweredError: There are fewer than two held-out rows, or no row can choose.

    Example:
        >>> import torch
        >>> from resultant.analysis import FrozenSpace, advise
        >>> z, y = torch.eye(4).repeat(9, 1) + 0.1 * torch.rand(36, 4), torch.arange(4).repeat(9)
        >>> advise(FrozenSpace.fit(z, y, z, y), references="none")[0].verdict
        'alone'
    """
    started = time.perf_counter()
    if settled is None:
        planned = plan(space, None if references == "all" else JUDGED)
        settled = settle(
            space,
            temperature=temperature,
            plan=planned,
            progress=progress,
            calibration=calibration,
        )
    value, metric, rows, judged = (
        *(settled.value, settled.plan.metric, settled.plan.rows, settled.plan.judged),
    )
    before = time.perf_counter()
    if fitted is None:
        fitted = References(space, rows, references, judged)
    others = judge(space, fitted.rules(), judged)
    others.sort(key=lambda judgement: list(NAMES).index(judgement.row.key))
    reference_seconds = time.perf_counter() - before
    if progress is not None:
        progress("references", 1.0)
    judgements = settled.judgements + others
    labels = space.test_labels if judged is None else space.test_labels[judged]
    key = settled.key
    table = compared(judgements, key, labels, metric, MARGIN)
    advised = next(row for row in table if row.key == key)
    best = max(table, key=value)
    best_vmf = max((row for row in table if row.kind == "vmf"), key=value)
    best_reference = max((r for r in table if r.kind == "reference"), key=value, default=None)
    lead, right = None, {j.row.key: j.prediction == labels for j in judgements}
    if best_reference is not None:
        lead = difference(
            right[best_reference.key],
            right[best_vmf.key],
            metric_weights(labels, metric),
            MARGIN,
            len(table) - 1,
        )
    # Without references, the nearest class direction is the plain alternative.
    plain = "native" if key == "cosine" else "cosine"
    other = best_reference or next((row for row in table if row.key == plain), advised)
    change = gainers(space, labels, right[key], right[other.key], MARGIN, names)
    verdict, sentences = headline(
        table,
        advised,
        best_vmf,
        best_reference,
        lead,
        metric=metric,
        margin=MARGIN,
        judged=len(labels),
        how=settled.how,
        whom=f"Against {other.name}, {advised.name} {change}",
    )
    warnings = cautions(space, settled.evidence, rows.weights, hashes=hashes, names=names)
    warnings += near_chance(best_vmf, labels, names)
    warnings += seen_before(settled.accuracy, value(advised), rows.split)
    snippet = reference = ""
    if source is not None:
        source = replace(source, judged=None if judged is None else len(judged))
        snippet = vmf_snippet(advised, source, metric)
        ahead = best is best_reference and value(best) - value(advised) >= MARGIN
        if ahead and best.rows == len(space.train):
            reference = reference_snippet(best, source)
    advice = Advice(
        headline=sentences,
        verdict=verdict,
        advised=key,
        best=best.key,
        metric=metric,
        margin=MARGIN,
        table=table,
        chosen_on=rows.described,
        split=rows.split,
        chosen_rows=len(rows.index),
        nearest=settled.evidence.nearest,
        judged_rows=len(labels),
        warnings=warnings,
        left_out=fitted.left_out,
        snippet=snippet,
        reference_snippet=reference,
        seconds={
            "choice": settled.seconds,
            "references": reference_seconds,
            "all": settled.seconds + time.perf_counter() - started,
        },
    )
    return advice, settled.at(space)


def _vmf_rule(space: FrozenSpace, choice: Choice, search: Search, calibration: str) -> FinishedRule:
    p = choice.point
    offset = space.offset(p.prior)
    rule = Rule(p.temperature, p.realization, p.beta, offset=offset)
    realization = realize(space.state, rule, dtype=space.dtype).to(space.device)

    def scores(batch: Batch) -> Tensor:
        return realization.at(batch.rho)

    fitted = len(space.train) if space.fitting is None else int(space.fitting.sum())
    settings: dict[str, Any] = {"temperature": p.temperature, "beta": p.beta, "prior": p.prior}
    calibrators = None
    if calibration in METHODS:
        settings["calibration"] = calibration
        s = choice.scale * search.scores(p)
        calibrators = fit_calibrators(s, search.part.y, search.weights, calibration)
    return FinishedRule(
        *(p.realization, RULE_NAMES[p.realization], "vmf", settings, choice.scale, scores),
        *(space.fit_seconds, fitted),
        calibrators=calibrators,
    )
