"""The figures of the theory, drawn by the checks of `resultant_reproduction.theory`."""

from __future__ import annotations

from functools import partial

from resultant_reproduction.artefact import Artefact, Outcome
from resultant_reproduction.evidence import Evidence

# Figures by name: their titles and the checks that compute and draw them.
FIGURES = {
    "joint-validation": (
        "Accuracy and residual orders of the joint expansion",
        ("regime-map", "residual-orders"),
    ),
    "factor-app": ("Factors that move boundaries", ("boundary-factors",)),
    "synthetic-transition": (
        "Error transition",
        ("error-transition", "error-exponents", "rule-agreement"),
    ),
    "prior-control-app": ("The prior orders the exponents", ("prior-reversal",)),
    "softmax-coupling": (
        "Variance coupling in the multiclass expansion",
        ("softmax-coupling",),
    ),
}


def theory_figure(names: tuple[str, ...], evidence: Evidence) -> Outcome:
    checks = [evidence.check(name) for name in names]
    notes = [f"{c.claim}: paper {c.paper}; ours {c.ours}; {c.verdict}." for c in checks]
    drawings = {c.name: c.draw for c in checks if c.draw is not None}
    return Outcome(drawings=drawings, parts=dict.fromkeys(names, True), notes=notes)


ARTEFACTS = tuple(
    Artefact(name, f"fig:{name}", title, partial(theory_figure, checks))
    for name, (title, checks) in FIGURES.items()
)
