"""Beyond the paper: when to edit the gain, how, by how much, and when not to.

The advice is written by hand in ``templates/guide.md`` for the packaged records; this module
gathers its numbers. Frozen effects are means over the settings of a dataset, because three networks
of one setting seldom settle anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from resultant.analysis import Policy
from resultant.classes.rule import EDITED
from resultant.training.evaluation import FROZEN_FITS
from resultant_reproduction.contrasts import added
from resultant_reproduction.controls import OBJECTIVES, any_edit, equalized, under
from resultant_reproduction.estimators import kappa_text, trained
from resultant_reproduction.evidence import (
    Evidence,
    Reader,
    by_condition,
    equalizations,
    kappa_changes,
    pooled,
    read_change,
    read_edit,
    read_path,
)
from resultant_reproduction.failure import Training, Trainings
from resultant_reproduction.formats import by_dataset, network_counts, seed_list
from resultant_reproduction.historical import heads
from resultant_reproduction.plan import controlled, missing, plan, stronger_views
from resultant_reproduction.spec import Cell, Outcome
from resultant_reproduction.stats import (
    Effects,
    Interval,
    by_network,
    change_effects,
    effects_text,
    over_queries,
    over_seeds,
    over_settings,
    several_seeds,
    significant,
)
from resultant_reproduction.summarize import BETAS, SPACES
from resultant_reproduction.tables import COLUMNS, angular_training, columns_less, joint_fc
from resultant_reproduction.templating import fill
from resultant_reproduction.value import Value

GAMMAS = (-1.0, 0.0, 1.0)
NATIVE, ANGULAR = Policy("native").canonical, Policy("angular")
PLANS = ("main", "joint", "controls", "power", "failure", "beyond")

# Columns of the table: two rules, and the reader of their difference in a frozen summary.
COMPARED: dict[str, tuple[Policy, Policy, Reader]] = {
    "PA - native": (ANGULAR, NATIVE, read_change("accuracy.angular", "accuracy.native")),
    **{f"beta {beta:g}": (Policy("angular", beta), NATIVE, read_edit(beta)) for beta in (0.5, 1.5)},
    **{
        f"gamma {g:g}": (Policy("angular", 0.0, g), Policy("native", 1.0, g), read_edit(0.0, g))
        for g in GAMMAS
        if g
    },
    "PA - cosine": (ANGULAR, Policy("cosine"), read_change("accuracy.angular", "accuracy.cosine")),
    **{
        f"{rule} - PA": (Policy(rule), ANGULAR, read_change(f"accuracy.{rule}", "accuracy.angular"))
        for rule in ("temperature", "preserve")
    },
}
NLL = "NLL, PA - native"


def over_records(evidence: Evidence) -> dict[str, dict[str, Interval]]:
    """Differences between rules by column and place, over the networks of the records."""
    readers = {name: read for name, (_, _, read) in COMPARED.items()}
    readers[NLL] = read_change("nll.angular", "nll.native", 1.0)
    return {name: pooled(evidence, read) for name, read in readers.items()}


def over_stores(evidence: Evidence) -> dict[str, dict[str, Interval]]:
    """The same over the queries of stores."""
    decided = {place: evidence.decisions(*at) for place, at in evidence.store_places.items()}
    effects = {
        name: {
            place: over_queries(d.right(after), d.right(before), 100.0)
            for place, d in decided.items()
            # A target may have no temperature.
            if after in d.prediction
        }
        for name, (after, before, _) in COMPARED.items()
    }
    effects[NLL] = {
        place: over_queries(d.nll[ANGULAR], d.nll[NATIVE]) for place, d in decided.items()
    }
    return effects


def native_accuracies(evidence: Evidence) -> dict[str, str]:
    """Accuracy of native by gamma (%), by place."""
    networks = [pooled(evidence, read_path(f"grid.native 1 {g:g}", 100.0)) for g in GAMMAS]
    values = {place: [own[place].mean for own in networks] for place in networks[1]}
    for place, at in evidence.store_places.items():
        decisions = evidence.decisions(*at)
        rules = [Policy("native", 1.0, g).canonical for g in GAMMAS]
        values[place] = [100 * float(decisions.right(rule).double().mean()) for rule in rules]
    return {place: ", ".join(f"{v:.1f}" for v in own) for place, own in values.items()}


def table(
    networks: Mapping[str, Effects], stores: Mapping[str, Effects], native: Mapping[str, str]
) -> list[Cell]:
    """Differences with their intervals, one row per place, with the number of networks."""
    cells = []
    for effects in (networks, stores):
        for place, first in effects["PA - native"].items():
            row = f"{place} [{first.n}]" if first.seeds else place
            for name, own in effects.items():
                i = own.get(place)
                text = "–" if i is None else i.text(4 if name == NLL else 2)
                ours = None if i is None else Value(i.mean, n=i.n)
                cells.append(Cell(row, name, None, ours, text=text))
            text = native.get(place, "–")
            cells.append(Cell(row, "native at gamma -1, 0, 1 (%)", None, text=text))
    return cells


def same_decisions(evidence: Evidence) -> float:
    """Smallest share, over networks, of equal decisions of Pure Angular and cosine."""
    shares = [min(v) for v in by_condition(evidence, read_path("cosine.agreement")).values()]
    for at in evidence.store_places.values():
        shares.append(evidence.summary(*at, FROZEN_FITS[0])["cosine"]["agreement"])
    return min(shares)


def by_setting(evidence: Evidence) -> dict[str, Interval]:
    """Pure Angular less native on frozen features, in each setting by itself."""
    values = by_condition(evidence, COMPARED["PA - native"][2])
    effects = {f"{c} {space}": over_seeds(own) for (c, space), own in values.items()}
    return {place: i for place, i in effects.items() if i is not None}


def _choices(evidence: Evidence) -> str:
    """The most accurate rule of each store without a prior, and its change from native."""
    parts = []
    for place, at in evidence.store_places.items():
        if (grid := evidence.analysis(*at).grid) is not None:
            known = [p for p in grid.points if not p.gamma and p.accuracy is not None]
            best = max(known, key=lambda p: p.accuracy or 0.0)
            beta = "" if best.realization in ("cosine", "native") else f" at beta {best.beta:g}"
            change = 100 * (best.change or 0.0)
            parts.append(f"{place}: {best.realization}{beta} ({change:+.2f} points)")
    return "; ".join(parts)


def _joint(outcome: Outcome) -> dict[str, Any]:
    """Effects of edits on classifiers of joint training, mean over the settings that all edits
    have."""
    known = [c for c in outcome.changes if c.differences]
    edits = dict.fromkeys(c.what for c in known)
    rows = {c.row: {other.what for other in known if other.row == c.row} for c in known}
    known, where = several_seeds([c for c in known if rows[c.row] == edits.keys()])
    by_edit = {
        edit.partition(" - ")[0]: over_settings(by_network([c for c in known if c.what == edit]))
        for edit in edits
    }
    seen = [f"{c.what}, {c.row} {c.ours.text(2, sign=True)}" for c in significant(known) if c.ours]
    return {
        "settings": where,
        "counts": network_counts(len(c.differences) for c in known) if known else "n = 0",
        "effects": {edit: i for edit, i in by_edit.items() if i is not None},
        "single": "; ".join(seen) or "none",
    }


def _groups(evidence: Evidence) -> str:
    """Pure Angular less native in the shot groups of the stores, over queries."""
    texts = []
    for place, at in evidence.store_places.items():
        space, decisions = evidence.space(*at), evidence.decisions(*at)
        group, effects = space.groups[decisions.labels], {}
        for g, name in enumerate(space.group_names):
            after, before = (decisions.right(rule)[group == g] for rule in (ANGULAR, NATIVE))
            if len(after):
                effects[name] = over_queries(after, before, 100.0)
        texts.append(f"{place} {effects_text(effects)}")
    return "; ".join(texts)


def _reach(evidence: Evidence) -> str:
    """Spread of the gains, and share of decisions that equalization changes."""
    texts = []
    for place, at in evidence.store_places.items():
        gain, prediction = evidence.space(*at).gain, evidence.decisions(*at).prediction
        spread = float(gain.std(correction=0) / gain.mean())
        changed = float((prediction[ANGULAR] != prediction[NATIVE]).double().mean())
        texts.append(f"{place}, whose gains spread by {100 * spread:.1f} %: {100 * changed:.1f} %")
    return "; ".join(texts)


def _any_edit(evidence: Evidence) -> str:
    parts, changes = [], any_edit(evidence)
    for objective, by_imbalance in changes.items():
        every = [change for own in by_imbalance.values() for change in own]
        below = f"{sum(change.mean < 0 for change in every)} of {len(every)} long-tail probes"
        means = ", ".join(
            f"{fmean(c.mean for c in own):+z.2f} at IF {imbalance:g}"
            for imbalance, own in by_imbalance.items()
        )
        parts.append(f"after {objective} training {below} are below ProCo's, by {means}")
    if not parts:
        return "nothing measured"
    numbers = [v.n for own in changes.values() for values in own.values() for v in values]
    return (
        f"{'; '.join(parts)} (points, mean over the edits; {network_counts(numbers)} of each, not "
        "tested; tab:c10-if10-u and others)"
    )


def _failing(trainings: Trainings | None) -> dict[str, Any]:
    """Direct temperature under a uniform prior (sec:same-state-diagnostic)."""
    if trainings is None:
        return {"effects": {}, "counts": "(no record)"}
    effects = {f"CIFAR-100 IF 10 {space}": i for space, i in trainings.changes().items()}
    lost = [t for t in trainings.edited if trainings.lost(t)]
    kept = [t for t in trainings.edited if not trainings.lost(t)]
    counts = f"{len(lost)} of {len(trainings.edited)} trainings of {seed_list(trainings.seeds)}"
    if lost and kept:
        kinds = {"where it did": lost, "where it did not": kept, "native": trainings.native}
        probes = (f"{kind} {text}" for kind, own in kinds.items() if (text := _probes(own)))
        counts += f"; probes {'; '.join(probes)}"
    return {"effects": effects, "counts": counts}


def _probes(trainings: Sequence[Training]) -> str:
    means = {s: [t.probes[s] for t in trainings if s in t.probes] for s in SPACES}
    return ", ".join(f"{space} {100 * fmean(v):.1f} %" for space, v in means.items() if v)


def _collapsed(trainings: Trainings | None) -> dict[str, str]:
    """Numbers of predicted classes where training lost a class, by rule."""
    ends = [] if trainings is None else [end for t, end in trainings.ends() if trainings.lost(t)]
    rules = [end["same_state"] for end in ends]
    return {
        rule: ", ".join(str(own[rule]["distinct"]) for own in rules)
        for rule in ("temperature", "angular")
    }


def numbers(evidence: Evidence, networks: Mapping[str, Effects]) -> dict[str, Any]:
    """Numbers of ``templates/guide.md``."""
    table = angular_training(evidence)
    training = {
        name: over_settings(by_network(columns_less(column, COLUMNS[0], evidence, table)))
        for name, column in zip(EDITED, COLUMNS[1:], strict=True)
    }
    by_gamma = [networks[f"gamma {g:g}" if g else "PA - native"] for g in GAMMAS]
    alone, joint = (
        {
            f"CIFAR-10 {imbalance} {space}": change
            for (imbalance, space), change in under("u", equalized(evidence, *kind)).items()
        }
        for kind in (("long_tail", objective) for objective in OBJECTIVES)
    )
    trainings, config = Trainings.of(evidence), controlled("cifar100", 100)
    return {
        "frozen": networks,
        "nll": NLL,
        "settings": by_setting(evidence),
        "choices": _choices(evidence),
        "training": {name: i for name, i in training.items() if i is not None},
        "joint": _joint(joint_fc(evidence)),
        "power": _joint(heads(evidence)),
        "views": added(evidence, stronger_views()),
        "same": f"{100 * same_decisions(evidence):.2f}",
        "realizations": {
            f"{rule}, {place}": i
            for rule in ("temperature", "preserve")
            for place, i in networks[f"{rule} - PA"].items()
        },
        "collapsed": _collapsed(trainings),
        "by_gamma": by_dataset(
            {
                place: ", ".join(
                    f"{own[place].mean:+z.2f}" if place in own else "–" for own in by_gamma
                )
                for place in by_gamma[1]
            }
        ),
        "kappas": kappa_text(kappa_changes(evidence), equalizations(evidence)),
        "estimators": change_effects(c for c in trained(evidence) if c.what.endswith("ProCo's")),
        "strengths": added(evidence, config, [b for b in BETAS if b != 1], "beta {beta:g} "),
        "groups": _groups(evidence),
        "uniform": alone,
        "uniform_joint": joint,
        "any_edit": _any_edit(evidence),
        "failing": _failing(trainings),
        "reach": _reach(evidence),
    }


def guide(evidence: Evidence) -> Outcome:
    """The advice by question, and the table that it comes from."""
    networks = over_records(evidence)
    note = (
        "Rows are frozen features (temperature 0.1, ProCo's kappa): of a data set the mean over "
        "its settings with the 95 % interval over networks (Welch), their number in brackets; "
        "packaged is one network of CIFAR-100 IF 100 with intervals over held-out queries. PA is "
        "Pure Angular at beta 0 without a prior unless the column says otherwise, accuracy in "
        "points. The intervals are plain; advice calls seen what Holm's correction at 5 % leaves "
        "of those of its sentence, and not seen is not the same as none: the intervals say how "
        "large an effect may be."
    )
    advice = fill("guide.md", **numbers(evidence, networks)).split("\n\n")
    parts = {name: not missing(plan(name).jobs(), evidence.records) for name in PLANS}
    cells = table(networks, over_stores(evidence), native_accuracies(evidence))
    return Outcome(cells, parts=parts, lead=advice, notes=[note])
