"""The headline of the advice: what was found, what to do, what it is worth and to whom."""

from __future__ import annotations

from collections.abc import Sequence

from resultant.analysis.advice import Difference, RuleRow
from resultant.classifiers.choice import LOSS_MARGIN

BUYS = (
    "one pass over the rows, statistics that merge and grow with a stream, certificates of "
    "decisions, and no solver to tune"
)


# Half of the last digit of a log-loss.
ROUNDED = 0.0005


def percent(fraction: float) -> str:
    """Return a fraction in percent, with a space that does not break."""
    return f"{100 * fraction:.2f}\u00a0%"


def interval(d: Difference) -> str:
    """Return a difference in points with its interval."""
    return f"{100 * d.gain:+.2f} points [{100 * d.low:+.2f}, {100 * d.high:+.2f}]"


def rule_text(row: RuleRow) -> str:
    """Return the name of a vMF rule with the settings that it depends on."""
    s, parts = row.settings, []
    if row.key != "cosine":
        parts.append(f"temperature {s['temperature']:g}")
    if row.key not in ("native", "cosine", "mixture"):
        parts.append(f"beta {s['beta']:g}")
    if "components" in s:
        parts.append(f"{s['components']} components")
    if s["prior"]:
        parts.append(f"prior {s['prior']:g}")
    return f"{row.name} ({', '.join(parts)})" if parts else row.name


def headline(
    table: Sequence[RuleRow],
    advised: RuleRow,
    best_vmf: RuleRow,
    best_reference: RuleRow | None,
    lead: Difference | None,
    *,
    metric: str,
    margin: float,
    judged: int,
    how: str,
    whom: str,
) -> tuple[str, tuple[str, str, str]]:
    """Return the verdict and the three sentences.

    Args:
        table: All rules on the same rows.
        advised: The vMF rule that the choosing rows prefer.
        best_vmf: The vMF rule with the largest metric on the held-out rows.
        best_reference: The reference with the largest metric, or None.
        lead: Difference of this reference and the best vMF rule.
        metric: "accuracy" or "balanced".
        margin: Differences below are ties.
        judged: Number of held-out rows.
        how: The way the advised rule was chosen.
        whom: The groups and classes that gain or lose by the advised rule.
    """

    def number(row: RuleRow) -> float:
        return row.accuracy if metric == "accuracy" else row.balanced

    def value(row: RuleRow) -> str:
        return percent(number(row))

    word = "accuracy" if metric == "accuracy" else "balanced accuracy"
    rows = f"{judged:,} held-out rows"
    use, buy = f"Use {rule_text(advised)}, {how}", f"vMF rules {{}}buy {BUYS}"
    if advised.key == "mixture":
        plain = max((r for r in table if r.kind == "vmf" and r is not advised), key=number)
        buy = f"one distribution per class ({plain.name}, {value(plain)}) would buy {BUYS}"
    d = best_vmf.difference
    if d is not None and not d.tied:
        use += f"; on the held-out rows {best_vmf.name} has {interval(d)} over this choice"
    before, after = advised.before.nll, advised.after.nll
    calibrated = (
        f"its {_calibration(advised)} takes the log-loss of its probabilities "
        f"from {before:.3f} to {after:.3f}"
    )
    if after - before > LOSS_MARGIN * max(1, before):
        calibrated += ", which is worse: " + (
            "the rows that chose are few or unlike the held-out rows"
            if "calibration" not in advised.settings
            else "--calibration scale needs fewer rows"
        )
    elif after - before >= ROUNDED:
        calibrated += ", slightly worse"
    if best_reference is None:
        found = f"{advised.name} has {value(advised)} {word} on {rows}; no reference was run."
        return "alone", (found, f"{use}; {calibrated}.", f"{whom}; {buy.format('')}.")
    assert lead is not None
    verdict, still, cost = "tie", "also ", ""
    alone = f"For accuracy alone use {best_reference.name}; among vMF rules u{use[1:]}"
    d = best_reference.difference
    assert d is not None
    own = f"{rule_text(advised)} has {value(advised)}"
    if lead.verdict == "better":
        verdict, use, still = "reference", alone, "still "
        found = (
            f"{best_reference.name} is better than every vMF rule: {value(best_reference)} {word} "
            f"on {rows}, {interval(lead)} over {best_vmf.name} ({value(best_vmf)})."
        )
        cost = f" ({advised.fit_seconds:.2g} s of fit against {best_reference.fit_seconds:.2g} s)"
    elif any(r.difference.verdict == "better" for r in _references(table) if r.difference):
        use, other = alone, f"{best_vmf.name} ({value(best_vmf)}, {interval(lead)})"
        tie = f"it ties with the best vMF rule, {other}"
        if lead.verdict != "equivalent":
            tie = f"its lead over the best vMF rule, {other}, may be chance"
        found = (
            f"{best_reference.name} has {value(best_reference)} {word} on {rows}, more than the "
            f"advised {rule_text(advised)} with {value(advised)}; {tie}."
        )
    elif not any(r.difference.tied for r in _references(table) if r.difference):
        verdict = "vmf"
        behind = interval(Difference(-d.gain, -d.high, -d.low, "better"))
        found = (
            f"{rule_text(advised)} is better than every reference: {value(advised)} {word} on "
            f"{rows}, {behind} over {best_reference.name} ({value(best_reference)})."
        )
    elif d.gain >= margin:
        use = alone.replace("alone use", "alone try")
        found = (
            f"Undecided: {best_reference.name} is ahead with {value(best_reference)} {word} on "
            f"{rows}, and {own}; the difference, {interval(d)}, may be chance."
        )
    else:
        both = f"{own} {word} on {rows}, and the best reference, {best_reference.name}, "
        both += f"{value(best_reference)}; the difference is {interval(d)}"
        found = f"Undecided: {both}, too few rows to call it a tie."
        if d.verdict == "equivalent":
            found = f"A tie: {both}, below {100 * margin:g}."
    return verdict, (found, f"{use}; {calibrated}.", f"{whom}; {buy.format(still)}{cost}.")


def _references(table: Sequence[RuleRow]) -> list[RuleRow]:
    return [row for row in table if row.kind == "reference"]


def _calibration(row: RuleRow) -> str:
    """The calibration of a rule in words."""
    scale = f"fitted scale {row.settings['scale']:.3g}"
    method = row.settings.get("calibration")
    return scale if method is None else f"{method} calibration"
