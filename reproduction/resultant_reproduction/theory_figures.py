"""The figures of the theory, drawn by the checks of `resultant_reproduction.theory`."""

from __future__ import annotations

from functools import partial

from resultant_reproduction.evidence import Evidence
from resultant_reproduction.spec import Outcome, make_artefact

# Checks that compute and draw each figure.
FIGURES = {
    "joint-validation": ("regime-map", "residual-orders"),
    "factor-app": ("boundary-factors",),
    "synthetic-transition": ("error-transition", "error-exponents", "rule-agreement"),
    "prior-control-app": ("prior-reversal",),
    "softmax-coupling": ("softmax-coupling",),
}


def theory_figure(names: tuple[str, ...], evidence: Evidence) -> Outcome:
    """Outcome of the checks of one figure."""
    checks = [evidence.check(name) for name in names]
    notes = [f"{c.claim}: paper {c.paper}; ours {c.ours}; {c.verdict}." for c in checks]
    drawings = {c.name: c.draw for c in checks if c.draw is not None}
    return Outcome(drawings=drawings, parts=dict.fromkeys(names, True), notes=notes)


ARTEFACTS = tuple(
    make_artefact(f"fig:{name}", partial(theory_figure, checks)) for name, checks in FIGURES.items()
)
