"""The table of all artefacts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from resultant_reproduction import (
    beyond,
    controls,
    failure,
    feature_figures,
    gain_prior,
    historical,
    settings,
    stand_in,
    tables,
    training_table,
    tuned,
)
from resultant_reproduction.catalog import Entry, catalog
from resultant_reproduction.evidence import Evidence
from resultant_reproduction.figures import draw_charts
from resultant_reproduction.in_text import with_text
from resultant_reproduction.records import Records
from resultant_reproduction.spec import Outcome

# Figures of the theory, and the layout of their panels.
_LAYOUTS: dict[str, dict[str, Any]] = {
    "joint-validation": {"columns": 2, "width": 4.2, "height": 3.4, "under": True},
    "factor-app": {"columns": 3, "width": 2.9, "height": 2.5},
    "synthetic-transition": {"columns": 3, "width": 3.3, "height": 3.2, "legend": 2, "under": True},
    "prior-control-app": {"width": 4.6, "height": 3.2, "legend": 4},
    "softmax-coupling": {"width": 4.6, "height": 3.2, "legend": 2},
}


def _theory(name: str, evidence: Evidence) -> Outcome:
    """Draw the panels of the checks of an artefact together, and list the verdicts of those."""
    checks = [check for c in catalog()[name].checks if (check := evidence.check(c)).panels]
    return Outcome(
        draw=lambda: draw_charts(
            [p for c in checks for p in (c.panels or list)()], **_LAYOUTS[name]
        ),
        parts={c.name: True for c in checks},
        notes=[f"{c.claim}: paper {c.paper}; ours {c.ours}; {c.verdict}." for c in checks],
    )


_COMPUTE: dict[str, Callable[[Evidence], Outcome]] = {
    "angular-training": training_table.training_table,
    "joint-fc": tables.joint_fc,
    **{name: partial(tables.frozen_table, name) for name in tables.FROZEN},
    **{name: partial(controls.control_table, name) for name in controls.TABLES},
    "historical-power-temperature": historical.heads,
    "cross-backbone": tables.cross_backbone,
    "training-hyperparameters": settings.training,
    "frozen-hyperparameters": settings.frozen,
    **{name: partial(controls.change_map, *of) for name, of in controls.MAPS.items()},
    "c10-trajectory": controls.trajectory,
    "training-gain": historical.training_gain,
    "common-readouts": historical.common_readouts,
    "gain-discovery": feature_figures.gain_discovery,
    "main-boundaries": feature_figures.main_boundaries,
    "finite-sample": feature_figures.finite_sample,
    "real-scope-app": feature_figures.real_scope,
    "real-margin-app": feature_figures.real_margin,
    "gain-prior": gain_prior.gain_prior,
    "realization": failure.realization,
    **{name: partial(_theory, name) for name in _LAYOUTS},
    "tuned-rules": tuned.tuned_rules,
    "stand-in": stand_in.photographs,
    **{name: partial(beyond.answer, name) for name, entry in catalog().items() if entry.final},
}


@dataclass(frozen=True)
class Artefact:
    """A table or figure of the paper, or a question beyond it, with the function from the evidence
    to the outcome."""

    entry: Entry
    compute: Callable[[Evidence], Outcome]

    def lacking(self, outcome: Outcome) -> tuple[int, int]:
        """Number of results that need training, and number that need external data."""
        done, of = outcome.done
        external = outcome.external if self.entry.plans else of - done
        return of - done - external + outcome.partial, external

    def status(self, outcome: Outcome) -> str:
        """Describe how far the artefact is rerun."""
        if self.entry.final:
            return "final"
        (done, of), (_, external) = outcome.done, self.lacking(outcome)
        if done == of and not outcome.partial:
            return "rerun"
        if not done:
            return "not run yet" if self.entry.plans else "needs data we may not ship"
        rest = f", {outcome.partial} with fewer seeds than planned" if outcome.partial else ""
        if external:
            rest += f"; {external} need{'s' * (external == 1)} data we may not ship"
        return f"partly rerun ({done} of {of}{rest})"


# Tables first, then figures, then questions beyond the paper.
ARTEFACTS = {
    name: Artefact(entry, with_text(name, _COMPUTE[name])) for name, entry in catalog().items()
}

__all__ = ["ARTEFACTS", "Artefact", "Evidence", "Outcome", "Records"]
