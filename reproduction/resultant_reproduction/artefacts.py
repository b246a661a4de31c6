"""The table of all artefacts, and the claims of the prose."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

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
from resultant_reproduction.catalog import catalog
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

_COMPUTE: dict[str, Callable[[Evidence], Outcome]] = {
    "angular-training": tables.angular_training,
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
    **{name: partial(theory_figures.theory_figure, name) for name in theory_figures.FIGURES},
    "baseline": baseline.baseline,
    "joint-protocol": recipes.trials,
    "official-recipe": recipes.recipe,
    "beta-sweep": contrasts.sweep,
    "stronger-views": contrasts.views,
    "estimator": estimators.estimators,
    "guide": guide.guide,
}

# Tables first, then figures, then questions beyond the paper.
ARTEFACTS = {name: Artefact(entry, _COMPUTE[name]) for name, entry in catalog().items()}


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
