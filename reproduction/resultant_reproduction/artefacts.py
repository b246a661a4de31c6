"""The table of all artefacts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from resultant_reproduction import (
    baseline,
    calibration,
    contrasts,
    controls,
    dimension,
    estimators,
    failure,
    feature_figures,
    frozen_rules,
    gain_prior,
    historical,
    other_losses,
    recipes,
    settings,
    stand_in,
    tables,
    theory_figures,
    training_table,
    tuned_rules,
)
from resultant_reproduction.catalog import catalog
from resultant_reproduction.evidence import Evidence
from resultant_reproduction.in_text import with_text
from resultant_reproduction.records import Records
from resultant_reproduction.spec import Artefact, Outcome

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
    **{name: partial(theory_figures.theory_figure, name) for name in theory_figures.FIGURES},
    "baseline": baseline.baseline,
    "joint-protocol": recipes.trials,
    "official-recipe": recipes.recipe,
    "beta-sweep": contrasts.sweep,
    "stronger-views": contrasts.views,
    "estimator": estimators.estimators,
    "frozen-rules": frozen_rules.frozen_rules,
    "tuned-rules": tuned_rules.tuned_rules,
    "calibration": calibration.calibration,
    "stand-in": stand_in.photographs,
    "dimension": dimension.dimension,
    "losses": other_losses.losses,
}

# Tables first, then figures, then questions beyond the paper.
ARTEFACTS = {
    name: Artefact(entry, with_text(name, _COMPUTE[name])) for name, entry in catalog().items()
}

__all__ = ["ARTEFACTS", "Artefact", "Evidence", "Outcome", "Records"]
