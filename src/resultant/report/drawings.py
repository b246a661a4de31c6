"""The figures of an analysis: each one panel, so that a phone can show it, and one sentence."""

from __future__ import annotations

from resultant.frozen import Analysis
from resultant.report import decision_figures, theory_figures
from resultant.report.drawing import Drawing

MAKERS = (
    decision_figures.gains,
    decision_figures.accuracy,
    decision_figures.groups,
    decision_figures.classes,
    decision_figures.calibration,
    decision_figures.prior,
    theory_figures.cosine,
    theory_figures.certificate,
    theory_figures.boundaries,
    theory_figures.margins,
    theory_figures.typical,
    theory_figures.intercepts,
    theory_figures.support,
    theory_figures.self_inclusion,
    theory_figures.fit,
)


def drawings(a: Analysis) -> list[Drawing]:
    """The figures of the questions that were answered."""
    return [d for d in (make(a) for make in MAKERS) if d is not None]
