"""The table of all artefacts, and the claims of the prose."""

from __future__ import annotations

from resultant_reproduction import (
    backbones,
    baseline,
    beyond,
    controls,
    estimators,
    failure,
    feature_figures,
    frozen_tables,
    gain_prior,
    guide,
    historical,
    joint_trials,
    settings,
    theory_figures,
    training,
)
from resultant_reproduction.artefact import Artefact, Claim, Outcome
from resultant_reproduction.claims import boundary_claims, frozen_claims, theory_claims
from resultant_reproduction.evidence import Evidence
from resultant_reproduction.prior_claims import prior_claims
from resultant_reproduction.records import Records
from resultant_reproduction.training_claims import training_claims

MODULES = (
    *(training, frozen_tables, controls, historical, backbones, settings),
    *(feature_figures, gain_prior, failure, theory_figures, baseline, joint_trials),
    *(beyond, estimators, guide),
)

# Tables first, then figures, then what the paper does not have.
ARTEFACTS: dict[str, Artefact] = {
    artefact.name: artefact
    for kind in ("tab", "fig", "beyond")
    for module in MODULES
    for artefact in module.ARTEFACTS
    if artefact.label.startswith(kind)
}


def claims(evidence: Evidence) -> list[Claim]:
    """Evaluate the claims of the prose, in the order of the argument."""
    return [
        claim
        for make in (theory_claims, boundary_claims, frozen_claims, prior_claims, training_claims)
        for claim in make(evidence)
    ]


__all__ = ["ARTEFACTS", "Artefact", "Claim", "Evidence", "Outcome", "Records", "claims"]
