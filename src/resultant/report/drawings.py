"""The figures of an analysis: each one panel, so that a phone can show it, and one sentence."""

from __future__ import annotations

from collections.abc import Sequence

from resultant.analysis import Analysis
from resultant.report import decision_figures, theory_figures
from resultant.report.drawing import Drawing


def drawings(a: Analysis, names: Sequence[str]) -> list[Drawing]:
    """The figures of the questions that were answered; ``names`` [C] of the classes."""
    found = [
        decision_figures.gains(a),
        decision_figures.accuracy(a),
        decision_figures.groups(a),
        decision_figures.classes(a),
        decision_figures.calibration(a),
        decision_figures.prior(a),
        theory_figures.cosine(a),
        theory_figures.certificate(a),
        theory_figures.boundaries(a),
        theory_figures.margins(a),
        theory_figures.typical(a),
        theory_figures.intercepts(a, names),
        theory_figures.support(a),
        theory_figures.self_inclusion(a),
        theory_figures.fit(a),
    ]
    return [drawing for drawing in found if drawing is not None]
