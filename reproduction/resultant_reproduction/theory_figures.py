"""The figures of the theory, drawn by the checks of `resultant_reproduction.theory`."""

from __future__ import annotations

from typing import Any, NamedTuple

from resultant_reproduction.evidence import Evidence
from resultant_reproduction.figures import draw_charts
from resultant_reproduction.spec import Outcome


class Theory(NamedTuple):
    """The checks that compute and draw a figure, and the layout of their panels."""

    checks: tuple[str, ...]
    layout: dict[str, Any]


WIDE = {"width": 4.6, "height": 3.2}
FIGURES = {
    "joint-validation": Theory(
        ("regime-map", "residual-orders"),
        {"columns": 2, "width": 4.2, "height": 3.4, "under": True},
    ),
    "factor-app": Theory(("boundary-factors",), {"columns": 3, "width": 2.9, "height": 2.5}),
    "synthetic-transition": Theory(
        ("error-transition", "error-exponents", "rule-agreement"),
        {"columns": 3, "width": 3.3, "height": 3.2, "legend": 2, "under": True},
    ),
    "prior-control-app": Theory(("prior-reversal",), WIDE | {"legend": 4}),
    "softmax-coupling": Theory(("softmax-coupling",), WIDE | {"legend": 2}),
}


def theory_figure(name: str, evidence: Evidence) -> Outcome:
    """Outcome of the checks of one figure: their panels together, and their verdicts."""
    names, layout = FIGURES[name]
    checks = [evidence.check(check) for check in names]
    notes = [f"{c.claim}: paper {c.paper}; ours {c.ours}; {c.verdict}." for c in checks]
    return Outcome(
        draw=lambda: draw_charts([p for c in checks for p in (c.panels or list)()], **layout),
        parts=dict.fromkeys(names, True),
        notes=notes,
    )
