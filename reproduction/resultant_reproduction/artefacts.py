"""The table of all artefacts, and the claims of the prose."""

from __future__ import annotations

from resultant_reproduction import (
    baseline,
    contrasts,
    controls,
    estimators,
    failure,
    feature_figures,
    gain_prior,
    guide,
    historical,
    recipes,
    settings,
    tables,
    theory_figures,
)
from resultant_reproduction.claims import (
    boundary_claims,
    frozen_claims,
    theory_claims,
)
from resultant_reproduction.evidence import Evidence
from resultant_reproduction.failure import failing_claims
from resultant_reproduction.feature_figures import finite_sample_claims
from resultant_reproduction.prior_claims import prior_claims
from resultant_reproduction.records import Records
from resultant_reproduction.spec import Artefact, Claim, Outcome
from resultant_reproduction.training_claims import training_claims

_MADE = (
    *(*tables.ARTEFACTS, *controls.ARTEFACTS, *historical.ARTEFACTS, tables.CROSS_BACKBONE),
    *(*settings.ARTEFACTS, *feature_figures.ARTEFACTS, *gain_prior.ARTEFACTS),
    *(*failure.ARTEFACTS, *theory_figures.ARTEFACTS, *baseline.ARTEFACTS),
    *(*recipes.ARTEFACTS, *contrasts.ARTEFACTS, *estimators.ARTEFACTS, *guide.ARTEFACTS),
)

# Tables first, then figures, then questions beyond the paper.
ARTEFACTS: dict[str, Artefact] = {
    artefact.name: artefact
    for kind in ("tab", "fig", "beyond")
    for artefact in _MADE
    if artefact.label.startswith(kind)
}


def claims(evidence: Evidence) -> list[Claim]:
    """Evaluate the claims of the prose, in the order of the argument."""
    return [
        claim
        for evaluate in (
            theory_claims,
            failing_claims,
            boundary_claims,
            frozen_claims,
            finite_sample_claims,
            prior_claims,
            training_claims,
        )
        for claim in evaluate(evidence)
    ]


__all__ = ["ARTEFACTS", "Artefact", "Claim", "Evidence", "Outcome", "Records", "claims"]
