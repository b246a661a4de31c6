"""Table 1 over the networks of both rounds, unpaired as in ``protocol.md``."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from statistics import fmean

from resultant_reproduction import headline
from resultant_reproduction.evidence import Evidence
from resultant_reproduction.figures import intervals
from resultant_reproduction.formats import p_text, span
from resultant_reproduction.headline import ARMS, SETTINGS, SPACES, TITLES
from resultant_reproduction.spec import Cell, Outcome
from resultant_reproduction.tables import COLUMNS, angular_training
from resultant_reproduction.templating import markdown_table
from resultant_reproduction.value import Value
from resultant_reproduction.verdicts import Judgement

HEADINGS = ("", "change", "paper", "ours", "95 % interval", "networks", "p", "verdict")
EDITED = [arm for arm in ARMS if arm != "native"]
NAMES = {
    f"{setting}, {space.capitalize()}": (setting, space) for setting in SETTINGS for space in SPACES
}


def training_table(evidence: Evidence) -> Outcome:
    """tab:angular-training: all networks of the recipe."""
    first, records = angular_training(evidence), evidence.every
    judged = {
        (row, arm): headline.effect(records, arm, "native", (setting,), (space,))
        for row, arm in product(dict.fromkeys(cell.row for cell in first.cells), EDITED)
        if row in NAMES
        for setting, space in (NAMES[row],)
    }
    cells = [_cell(evidence, cell, judged) for cell in first.cells]
    tested = [
        (
            *(row, f"{TITLES[arm]} - {TITLES['native']}", f"{j.printed:+.2f}"),
            *(f"{j.ours.mean:+.2f}", j.ours.interval(2), str(j.ours.n)),
            *(p_text(j.ours.p), j.text),
        )
        for (row, arm), j in judged.items()
        if j.ours is not None
    ]
    about = (
        "Unpaired: the difference of arm means with Welch's interval. Networks are those of both "
        "arms. Each change by itself; neither intervals nor verdicts are corrected for their "
        "number.\n\n"
    )
    effects = {row: j for (row, arm), j in judged.items() if arm == "angular"}
    return replace(
        first,
        cells=cells,
        changes=(),
        draw=lambda: intervals(
            {"Pure Angular less ProCo": {f"{row} [{j.n}]": j.pair for row, j in effects.items()}},
            "percentage points",
        ),
        sections={"Test": about + markdown_table(tested, HEADINGS)} if tested else {},
        headline=_headline(evidence, effects),
        notes=[
            "Probes of the last epoch. Δ is the difference of the two means, with the networks of "
            "both in brackets. The second round trained no intercept-preserving networks."
        ],
    )


def _cell(evidence: Evidence, cell: Cell, judged: dict[tuple[str, str], Judgement]) -> Cell:
    """The same cell with all networks."""
    if cell.row not in NAMES:
        return cell
    if cell.column not in COLUMNS:
        ours = judged[cell.row, "angular"].ours
        return replace(cell, ours=Value(ours.mean, None, ours.n) if ours else None, planned=0)
    setting, space = NAMES[cell.row]
    arm = [*ARMS][COLUMNS.index(cell.column)]
    values = headline.readout(evidence.every, setting, arm, space)
    return replace(cell, ours=Value.of([*values.values()]))


def _headline(evidence: Evidence, effects: dict[str, Judgement]) -> str:
    whole = headline.effect(evidence.every)
    paper = [j.printed for j in effects.values() if j.printed is not None]
    if whole.ours is None:
        return ""
    rise = sum(j.ours is not None and j.ours.mean > 0 for j in effects.values())
    return (
        "Training with Pure Angular in place of ProCo changes long-tail probes by "
        f"{whole.ours.text(2)} points, mean of {len(effects)} readouts over {whole.ours.n} "
        f"networks of both rounds (printed {fmean(paper):+.2f}): {whole.verdict}. {rise} of "
        f"{len(effects)} readouts rise; printed are {span(paper, 2, sign='+')}, and "
        f"{sum(v > 0 for v in paper)} rise."
    )
