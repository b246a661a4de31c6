"""Beyond the paper: when to edit the gain, how, by how much, and when not to.

What there is to go by is gathered here, and `advice` puts it into sentences; where
nothing was measured they say so. Frozen effects are means over the settings of a data set, for
three networks of one setting seldom settle anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from resultant.analysis import Decisions, FrozenSpace, Policy
from resultant.classes.rule import EDITED
from resultant.training.config import TrainConfig
from resultant.training.evaluation import FROZEN_FITS
from resultant_reproduction import advice, training_advice
from resultant_reproduction.advice import Effects, Reach, Sentence
from resultant_reproduction.artefact import Artefact, Cell, Outcome, Value
from resultant_reproduction.controls import OBJECTIVES, UNIFORM
from resultant_reproduction.estimators import TRAINED, trained
from resultant_reproduction.evidence import CONDITIONS, Evidence, foreign
from resultant_reproduction.failure import Trainings
from resultant_reproduction.historical import heads
from resultant_reproduction.intervals import Interval, over_queries, over_seeds, over_settings
from resultant_reproduction.networks import (
    Reader,
    apart,
    at_path,
    by_place,
    edited,
    less,
    on_grid,
    pooled,
    stores,
    swaps,
)
from resultant_reproduction.plan import controlled, missing, plan, stronger_views
from resultant_reproduction.records import paired, path_of
from resultant_reproduction.rules import by_network, counted, several, significant
from resultant_reproduction.summarize import BETAS, SPACES
from resultant_reproduction.training import COLUMNS, angular_training, joint_fc
from resultant_reproduction.training_advice import rerun
from resultant_reproduction.training_claims import columns_less
from resultant_reproduction.uniform import READOUTS, any_edit, equalized, under

GAMMAS = (-1.0, 0.0, 1.0)
NATIVE, ANGULAR = Policy("native").canonical, Policy("angular")

# The columns of the table: two rules and how their difference is read from a frozen summary.
COMPARED: dict[str, tuple[Policy, Policy, Reader]] = {
    "PA - native": (ANGULAR, NATIVE, less("accuracy.angular", "accuracy.native")),
    **{f"beta {beta:g}": (Policy("angular", beta), NATIVE, on_grid(beta)) for beta in (0.5, 1.5)},
    **{
        f"gamma {g:g}": (Policy("angular", 0.0, g), Policy("native", 1.0, g), on_grid(0.0, g))
        for g in GAMMAS
        if g
    },
    "PA - cosine": (ANGULAR, Policy("cosine"), less("accuracy.angular", "accuracy.cosine")),
    **{
        f"{rule} - PA": (Policy(rule), ANGULAR, less(f"accuracy.{rule}", "accuracy.angular"))
        for rule in ("temperature", "preserve")
    },
}
NLL = "NLL, PA - native"


def over_records(evidence: Evidence) -> dict[str, dict[str, Interval]]:
    """Differences between rules on frozen features, by what is compared and by data set and space,
    over the networks of the records."""
    readers = {name: read for name, (_, _, read) in COMPARED.items()}
    readers[NLL] = less("nll.angular", "nll.native", 1.0)
    return {name: pooled(evidence, read) for name, read in readers.items()}


def over_stores(evidence: Evidence) -> dict[str, dict[str, Interval]]:
    """The same of the stores, over queries."""
    decided = {place: evidence.decisions(*at) for place, at in stores(evidence).items()}
    found = {
        name: {
            place: over_queries(d.right(after), d.right(before), 100.0)
            for place, d in decided.items()
            # There may be no temperature for a target.
            if after in d.prediction
        }
        for name, (after, before, _) in COMPARED.items()
    }
    found[NLL] = {
        place: over_queries(d.nll[ANGULAR], d.nll[NATIVE]) for place, d in decided.items()
    }
    return found


def under_priors(evidence: Evidence) -> dict[str, str]:
    """The accuracy of native itself by gamma (%), by place."""
    networks = [pooled(evidence, at_path(f"grid.native 1 {g:g}", 100.0)) for g in GAMMAS]
    found = {place: [own[place].mean for own in networks] for place in networks[1]}
    for place, at in stores(evidence).items():
        decisions = evidence.decisions(*at)
        rules = [Policy("native", 1.0, g).canonical for g in GAMMAS]
        found[place] = [100 * float(decisions.right(rule).double().mean()) for rule in rules]
    return {place: ", ".join(f"{v:.1f}" for v in values) for place, values in found.items()}


def table(
    networks: Mapping[str, Effects], stores: Mapping[str, Effects], under: Mapping[str, str]
) -> list[Cell]:
    """The differences with their intervals, a row for each place, with how many networks it has in
    brackets."""
    cells = []
    for found in (networks, stores):
        for place, first in found["PA - native"].items():
            row = f"{place} [{first.n}]" if first.seeds else place
            for name, effects in found.items():
                i = effects.get(place)
                text = "–" if i is None else i.said(4 if name == NLL else 2)
                ours = None if i is None else Value(i.mean, n=i.n)
                cells.append(Cell(row, name, None, ours, text=text))
            cells.append(
                Cell(row, "native at gamma -1, 0, 1 (%)", None, text=under.get(place, "–"))
            )
    return cells


def same_decisions(evidence: Evidence) -> float:
    """The least share, of any network, of decisions that Pure Angular and cosine have in common."""
    shares = [min(v) for v in by_place(evidence, at_path("cosine.agreement")).values()]
    for at in stores(evidence).values():
        shares.append(evidence.summary(*at, FROZEN_FITS[0])["cosine"]["agreement"])
    return min(shares)


def by_setting(evidence: Evidence) -> dict[str, Interval]:
    """Pure Angular less native on frozen features in each setting by itself."""
    found = by_place(evidence, COMPARED["PA - native"][2])
    tested = {f"{c} {space}": over_seeds(values) for (c, space), values in found.items()}
    return {place: i for place, i in tested.items() if i is not None}


def moved_by_prior(evidence: Evidence) -> dict[float, dict[str, Interval]]:
    """By how much a log prior of gamma moves what Pure Angular adds to native."""
    return {
        gamma: pooled(evidence, apart(on_grid(0.0, gamma), on_grid(0.0)))
        for gamma in GAMMAS
        if gamma
    }


def reach(space: FrozenSpace, decisions: Decisions) -> Reach:
    """How far gains spread, and which share of decisions their equalization changes."""
    changed = decisions.prediction[ANGULAR] != decisions.prediction[NATIVE]
    spread = space.gain.std(correction=0) / space.gain.mean()
    return Reach(float(spread), float(changed.double().mean()))


def _added(
    evidence: Evidence, config: TrainConfig, betas: Iterable[float] = (0.0,), name: str = ""
) -> dict[str, Interval]:
    """What Pure Angular adds to native in training, over seeds of long-tail probes, by space."""
    found = {}
    for beta in betas:
        for space in SPACES:
            path = path_of(space)
            after, native = (
                evidence.records.values(config, *kind, path)
                for kind in (("angular", beta), ("native", 0.0))
            )
            which = name.format(beta=beta)
            found[f"{which}{space}"] = over_seeds([*paired(after, native).values()])
    return {place: i for place, i in found.items() if i is not None}


def _collapsed(evidence: Evidence) -> list[tuple[int, int]]:
    """How many classes temperature and Pure Angular predict where training lost one."""
    trainings = Trainings.of(evidence)
    ends = [] if trainings is None else [end for t, end in trainings.ends() if trainings.lost(t)]
    rules = [end["same_state"] for end in ends]
    return [(r["temperature"]["distinct"], r["angular"]["distinct"]) for r in rules]


def by_group(evidence: Evidence) -> dict[str, dict[str, Interval]]:
    """Pure Angular less native in the shot groups of the stores, over queries, by place."""
    found: dict[str, dict[str, Interval]] = {}
    for place, at in stores(evidence).items():
        space, decisions = evidence.space(*at), evidence.decisions(*at)
        own = space.groups[decisions.labels]
        for g, name in enumerate(space.group_names):
            after, before = (decisions.right(rule)[own == g] for rule in (ANGULAR, NATIVE))
            if len(after):
                found.setdefault(place, {})[name] = over_queries(after, before, 100.0)
    return found


def _failures(evidence: Evidence) -> str:
    """The plan of these trainings, unless it is done."""
    return "failure" if missing(plan("failure").jobs(), evidence.records) else ""


def sentences(evidence: Evidence, networks: Mapping[str, Effects]) -> dict[str, list[Sentence]]:
    """The whole guide by question, from what `over_records` found and what it asks for itself."""
    here = [condition for condition in CONDITIONS if not foreign(condition)]
    frozen = "" if all(evidence.frozen(c, s) for c in here for s in SPACES) else "main"
    return {
        "When to edit": _when(evidence, networks, frozen),
        "How": _how(evidence, networks, frozen),
        "By how much": _how_much(evidence, networks, frozen),
        "When not to": _when_not(evidence, networks, frozen),
    }


def _when(evidence: Evidence, networks: Mapping[str, Effects], frozen: str) -> list[Sentence]:
    choices = {}
    for place, at in stores(evidence).items():
        recommendation = evidence.analysis(*at).recommendation
        assert recommendation is not None
        choices[place] = recommendation
    changes = angular_training(evidence)
    by_column = {
        name: over_settings(by_network(columns_less(column, COLUMNS[0], evidence, changes)))
        for name, column in zip(EDITED, COLUMNS[1:], strict=True)
    }
    main = "" if all(c.differences for c in changes.changes if "CIFAR" in c.row) else "main"
    views = _added(evidence, stronger_views())
    return [
        advice.equalize(networks["PA - native"], by_setting(evidence), frozen),
        advice.choice(choices),
        training_advice.training({n: i for n, i in by_column.items() if i is not None}, main),
        _joint(
            "Joint training with an edited gain",
            "Joint training under the frequency prior",
            joint_fc(evidence),
            "tab:joint-fc",
            "joint",
        ),
        _joint(
            "Power family",
            "Joint training by powers of the temperature, public recipe",
            heads(evidence),
            "tab:historical-power-temperature",
            "power",
        ),
        training_advice.trained(
            "Pure Angular on stronger views",
            "Training with Pure Angular on AutoAugment and Cutout views, CIFAR-10 IF 100",
            views,
            "beyond:stronger-views",
            "" if rerun(evidence, stronger_views()) else "beyond",
        ),
    ]


def _joint(topic: str, what: str, found: Outcome, source: str, own: str) -> Sentence:
    """What edits do to the classifier of joint training, mean over settings, of a plan ``own``."""
    known = [c for c in found.changes if c.differences]
    edits = dict.fromkeys(c.what for c in known)
    # Of the settings that all edits have.
    rows = {c.row: {other.what for other in known if other.row == c.row} for c in known}
    known = [c for c in known if rows[c.row] == edits.keys()]
    known, where = several(known)
    by_edit = {
        edit.partition(" - ")[0]: over_settings(by_network([c for c in known if c.what == edit]))
        for edit in edits
    }
    seeds = counted(len(c.differences) for c in known) if known else ""
    sentence = training_advice.trained(
        topic,
        f"{what}, classifiers less ProCo's, mean over {where}, {seeds} a setting",
        {edit: i for edit, i in by_edit.items() if i is not None},
        source,
        own if any(c.begun or c.ours is None for c in found.cells if not c.foreign) else "",
    )
    if all(c.p_value is None for c in known):
        return sentence
    alone = [f"{c.what}, {c.row} {c.ours.said(2, sign=True)}" for c in significant(known) if c.ours]
    told = "; ".join(alone) or "none"
    return replace(sentence, text=f"{sentence.text} Seen in single settings: {told}.")


def _how(evidence: Evidence, networks: Mapping[str, Effects], frozen: str) -> list[Sentence]:
    statistics = [c for c in trained(evidence) if c.what.endswith("ProCo's")]
    estimated = training_advice.over_seeds_of(statistics)
    by_gamma = {g: networks[f"gamma {g:g}" if g else "PA - native"] for g in GAMMAS}
    others = {rule: networks[f"{rule} - PA"] for rule in ("temperature", "preserve")}
    return [
        advice.cosine(networks["PA - cosine"], same_decisions(evidence), frozen),
        advice.realized(others, _collapsed(evidence), frozen),
        advice.prior(by_gamma, moved_by_prior(evidence), frozen),
        advice.kappas(swaps(evidence), edited(evidence)),
        training_advice.trained(
            "Estimator of kappa, trained",
            "Training with the MLE of kappa, or with the query left out, CIFAR-100 IF 100",
            estimated,
            "beyond:estimator",
            ""
            if all(rerun(evidence, controlled("cifar100", 100, **own)) for own in TRAINED.values())
            else "beyond",
        ),
    ]


def _how_much(evidence: Evidence, networks: Mapping[str, Effects], frozen: str) -> list[Sentence]:
    by_beta = {b: networks[f"beta {b:g}" if b else "PA - native"] for b in (0.0, 0.5, 1.5)}
    swept, config = [beta for beta in BETAS if beta != 1], controlled("cifar100", 100)
    found = _added(evidence, config, swept, "beta {beta:g} ")
    kinds = [("angular", beta) for beta in swept]
    return [
        advice.strength(by_beta, frozen),
        training_advice.trained(
            "Strength in training",
            "Training with Pure Angular at beta -0.5 to 2, CIFAR-100 IF 100",
            found,
            "beyond:beta-sweep",
            "" if rerun(evidence, config, [("native", 0.0), *kinds]) else "beyond",
        ),
    ]


def _when_not(evidence: Evidence, networks: Mapping[str, Effects], frozen: str) -> list[Sentence]:
    alone, joint = (
        {
            f"CIFAR-10 {imbalance} {space}": change
            for (imbalance, space), change in under("u", equalized(evidence, *kind)).items()
        }
        for kind in (("long_tail", objective) for objective in OBJECTIVES)
    )
    edits = any_edit(evidence)
    whole = sum(map(len, edits.values())) == len(OBJECTIVES) * len(UNIFORM)
    reaches = {
        place: reach(evidence.space(*at), evidence.decisions(*at))
        for place, at in stores(evidence).items()
    }
    return [
        advice.keep(networks["PA - native"], by_setting(evidence), frozen),
        advice.groups(by_group(evidence)),
        training_advice.avoid(
            "Pure Angular under a uniform prior",
            "train contrastively with Pure Angular under a uniform prior",
            alone,
            "tab:c10-if50-u, tab:c10-if100-u",
            "" if len(alone) == len(READOUTS) else "controls",
        ),
        training_advice.trained(
            "Joint training with Pure Angular under a uniform prior",
            "Joint training with Pure Angular under a uniform prior, long-tail probes less ProCo's",
            joint,
            "tab:c10-if50-u, tab:c10-if100-u",
            "" if len(joint) == len(READOUTS) else "controls",
        ),
        training_advice.any_edit(edits, "" if whole else "controls"),
        training_advice.failure(Trainings.of(evidence), _failures(evidence)),
        advice.confidence(networks[NLL], frozen),
        advice.restraint(reaches),
    ]


def guide(evidence: Evidence) -> Outcome:
    """The advice by question, and the table that it comes from."""
    networks = over_records(evidence)
    told = sentences(evidence, networks)
    note = (
        "Rows are frozen features (temperature 0.1, ProCo's kappa): of a data set the mean over "
        "its settings with the 95 % interval over networks (Welch), their number in brackets; "
        "packaged is one network of CIFAR-100 IF 100 with intervals over held-out queries. PA is "
        "Pure Angular at beta 0 without a prior unless the column says otherwise, accuracy in "
        "points. The intervals are plain; advice calls seen what Holm's correction at 5 % leaves "
        "of those of its sentence, and not seen is not the same as none: the intervals say how "
        "large an effect may be."
    )
    answers = []
    for question, all_ in told.items():
        answers += [f"{question}:", "\n".join(f"- {sentence.said()}" for sentence in all_)]
    parts = {s.topic: not s.missing for all_ in told.values() for s in all_}
    cells = table(networks, over_stores(evidence), under_priors(evidence))
    return Outcome(cells, parts=parts, lead=answers, notes=[note])


ARTEFACTS = (
    Artefact(
        "guide",
        "beyond:guide",
        "When to edit the gain, how, by how much, and when not to",
        guide,
        ("main", "joint", "controls", "power", "failure", "beyond"),
    ),
)
