"""Beyond the paper: when to edit the gain, how, by how much, and when not to.

What there is to go by is gathered here, and `resultant.paper.advice` puts it into sentences; where
nothing was measured they say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from statistics import fmean

import torch
from torch import Tensor

from resultant.evaluation import ESTIMATORS
from resultant.frozen import Decisions, FrozenSpace, Policy
from resultant.frozen.measures import NORMAL, calibration_error, confidence_bins
from resultant.gain import realize, target_gain
from resultant.paper import advice
from resultant.paper.advice import IDLE, STRENGTH, Effects, Reach, Sentence, whether
from resultant.paper.artefact import Artefact, Cell, Change, Outcome, Value
from resultant.paper.controls import control_config
from resultant.paper.estimators import KAPPAS, RULES, swapped, trained
from resultant.paper.evidence import BROUGHT, CONDITIONS, Evidence
from resultant.paper.failure import Trainings
from resultant.paper.intervals import Interval, over_queries, over_seeds, resampled
from resultant.paper.networks import Reader, at_path, by_place, less, on_grid, over_networks
from resultant.paper.plan import SETS, controlled, stronger_views
from resultant.paper.records import paired
from resultant.paper.rules import span, whole
from resultant.paper.summary import BETAS, SPACES
from resultant.paper.training import CHANGES, angular_training, of_cifar
from resultant.presets import TrainConfig

TRAINED = tuple(beta for beta in BETAS if beta != 1)

# The columns of the table: two rules and how their difference is read from a frozen summary.
NATIVE, ANGULAR = Policy("native").canonical, Policy("angular")
COMPARED: dict[str, tuple[Policy, Policy, Reader]] = {
    "PA - native": (ANGULAR, NATIVE, less("accuracy.angular", "accuracy.native")),
    **{f"beta {beta:g}": (Policy("angular", beta), NATIVE, on_grid(beta)) for beta in (0.5, 1.5)},
    **{
        f"gamma {g:g}": (Policy("angular", 0.0, g), Policy("native", 1.0, g), on_grid(0.0, g))
        for g in (-1.0, 1.0)
    },
    "PA - cosine": (ANGULAR, Policy("cosine"), less("accuracy.angular", "accuracy.cosine")),
    **{
        f"{rule} - PA": (Policy(rule), ANGULAR, less(f"accuracy.{rule}", "accuracy.angular"))
        for rule in ("temperature", "preserve")
    },
}


@torch.no_grad()
def reach(space: FrozenSpace) -> Reach:
    r"""Where the decisions of Pure Angular leave native, as beta goes from 1 to 0.

    At :math:`\beta=1-t` a score is :math:`q_c+t(\bar g-g_c)\rho_c`, so that a decision for w
    changes at the least positive :math:`(q_w-q_c)/(e_c-e_w)` with
    :math:`e_c=(\bar g-g_c)\rho_c`. The interval of the quantile is that of its rank.
    """
    rule = realize(space.state, space.tau)
    edit = target_gain(space.gain, 0.0) - space.gain
    queries = space.queries(dtype=torch.float64)
    first = torch.cat([_leaves(rule(z), z @ rule.mu.T * edit) for _, z, _ in queries])
    first, n = first.cpu().sort().values, len(first)
    at, reach = IDLE * n, NORMAL * (n * IDLE * (1 - IDLE)) ** 0.5
    ranks = torch.tensor([at, at - reach, at + reach]).long().clamp(0, n - 1)
    spread = float(space.gain.std(correction=0) / space.gain.mean())
    mean, low, high = first[ranks].tolist()
    changed = float((first < 1).double().mean())
    return Reach(spread, changed, Interval(mean, low, high, n))


def _leaves(q: Tensor, e: Tensor) -> Tensor:
    """The shares t [n] of the edits e [n, C] at which decisions by scores q [n, C] change, inf
    where they never do."""
    best = q.max(1, keepdim=True)
    gap, pull = best.values - q, e - e.gather(1, best.indices)
    return torch.where(pull > 0, gap / pull, torch.inf).amin(1)


def _calibration(decisions: Decisions, after: Policy, before: Policy) -> Interval:
    """The difference of calibration errors, queries resampled."""

    def error(policy: Policy, rows: Tensor) -> float:
        confidence = decisions.confidence[policy.canonical][rows]
        return calibration_error(*confidence_bins(confidence, decisions.right(policy)[rows]))

    n = len(decisions.labels)
    return resampled(n, lambda rows: error(after, rows) - error(before, rows))


def _places(evidence: Evidence) -> dict[str, tuple[str, str]]:
    """The frozen spaces at hand, store and space by the names that the guide has for them."""
    return {
        f"{BROUGHT.get(store, 'packaged')}, {space}": (store, space)
        for _, store, space in evidence.places
    }


def _networks(evidence: Evidence, read: Reader) -> dict[str, Interval]:
    return {place: i for place, i in over_networks(evidence, read).items() if i.n > 1}


def frozen(evidence: Evidence) -> dict[str, dict[str, Interval]]:
    """Differences between rules on frozen features by what is compared and place: of the stores
    over queries, of the records over networks where there are several."""
    found: dict[str, dict[str, Interval]] = {}
    decided = {place: evidence.decisions(*at) for place, at in _places(evidence).items()}
    for name, (after, before, read) in COMPARED.items():
        found[name] = {
            place: over_queries(d.right(after), d.right(before), 100.0)
            for place, d in decided.items()
            # There may be no temperature for a target.
            if after in d.prediction
        } | _networks(evidence, read)
    found["NLL"] = {
        place: over_queries(d.nll[ANGULAR], d.nll[NATIVE]) for place, d in decided.items()
    } | _networks(evidence, less("nll.angular", "nll.native", 1.0))
    found["ECE"] = {place: _calibration(d, ANGULAR, NATIVE) for place, d in decided.items()}
    return found


def same_decisions(evidence: Evidence) -> dict[str, float]:
    """The share of decisions that Pure Angular and cosine have in common, by place."""
    found = {
        place: evidence.summary(*at, ESTIMATORS[0])["cosine"]["agreement"]
        for place, at in _places(evidence).items()
    }
    shared = by_place(evidence, at_path("cosine.agreement"))
    return found | {", ".join(where): fmean(v) for where, v in shared.items() if len(v) > 1}


def table(found: Mapping[str, Effects], same: Mapping[str, float]) -> list[Cell]:
    """The differences with their intervals, a row for each place, with how many networks it has in
    brackets."""
    tails = {
        "PA - cosine": {place: f", {100 * share:.2f} % same" for place, share in same.items()},
        "NLL": {place: f", ECE {i.said(4)}" for place, i in found["ECE"].items()},
    }
    cells = []
    for place in dict.fromkeys(place for effects in found.values() for place in effects):
        known = {name: e.get(place) for name, e in found.items() if name != "ECE"}
        seeds = [float(i.n) for i in known.values() if i and i.seeds]
        row = f"{place} [{span(seeds, 0)}]" if seeds else place
        for name, i in known.items():
            if i is None:
                cells.append(Cell(row, name, None))
                continue
            text = i.said(4 if name == "NLL" else 2) + tails.get(name, {}).get(place, "")
            cells.append(Cell(row, name, None, Value(i.mean, n=i.n), text=text))
    return cells


def _tested(changes: Iterable[Change]) -> dict[str, Interval]:
    """Changes over seeds, where there are any, by place."""
    found = {}
    for c in changes:
        setting, _, space = c.row.rpartition(", ")
        if (i := over_seeds(c.differences)) is not None:
            found[f"{setting}, {space.lower()}"] = i
    return found


def _added(
    evidence: Evidence, config: TrainConfig, space: str, beta: float = 0.0
) -> Interval | None:
    """What Pure Angular adds to native in training, over seeds of long-tail probes."""
    path = f"probes.long_tail.{space}.accuracy"
    native = evidence.records.values(config, "native", 0.0, path)
    return over_seeds(paired(evidence.records.values(config, "angular", beta, path), native))


def _trained(evidence: Evidence, configs: Mapping[str, TrainConfig]) -> dict[str, Interval]:
    """What it adds by configuration and space."""
    return {
        f"{name}, {space}": i
        for name, config in configs.items()
        for space in SPACES
        if (i := _added(evidence, config, space)) is not None
    }


def _kappas(evidence: Evidence) -> dict[str, Interval]:
    """What another kappa than ProCo's changes, by kappa, rule and place."""
    return {
        f"{title} {rule} of {place}": swapped(evidence, *at, kappa, rule)
        for kappa, title in KAPPAS.items()
        if kappa != "proco"
        for rule in RULES
        for place, at in _places(evidence).items()
    }


def sentences(
    evidence: Evidence, found: Mapping[str, Effects], same: Mapping[str, float]
) -> dict[str, list[Sentence]]:
    """The whole guide by question, from what `frozen` and `same_decisions` found."""
    choices, reaches = {}, {}
    for place, at in _places(evidence).items():
        recommendation = evidence.analysis(*at).recommendation
        assert recommendation is not None
        choices[place], reaches[place] = recommendation, reach(evidence.space(*at))
    places = {f"{c}, {s}" for c, kind in CONDITIONS.items() for s in SPACES if kind[0] in SETS}
    native, above, own = found["PA - native"], found["beta 1.5"], controlled("cifar100", 100)
    by_beta = {f"{beta:g}": _added(evidence, own, "projection", beta) for beta in TRAINED}
    swept = {beta: i for beta, i in by_beta.items() if i is not None}
    strengths = "" if len(swept) > 1 else f"beta {', '.join(swept)}, "
    changes, label = angular_training(evidence), "tab:angular-training"
    probes = "Less ProCo on long-tail probes (points)"
    realized: dict[str, str] = dict(
        zip(("temperature", "preserve", "Pure Angular"), CHANGES, strict=True)
    )

    def training(name: str) -> Sentence:
        """Whether to train with a realization, and its mean over settings."""
        own = [c for c in of_cifar(changes, realized[name]) if c.differences]
        found, together = {probes: _tested(own)}, f"Mean over settings {whole(own)}"
        told = (label, "main", len(places))
        return whether(f"train with {name}", found, *told, note=together)

    uniform = {f"CIFAR-10 / {i}": control_config(f"c10-if{i}-u", "contrastive") for i in (50, 100)}
    views = {"CIFAR-10 / 100": stronger_views()}
    estimated = [
        replace(c, row=f"{c.what.partition(' - ')[0]}, {c.row}")
        for c in trained(evidence)
        if c.what.endswith("ProCo's")
    ]
    return {
        "When to edit": [
            whether(
                "edit frozen features",
                {"Pure Angular less native (points)": native},
                *("table", "main", len(native.keys() | places)),
            ),
            advice.choice(choices),
            training("Pure Angular"),
            whether(
                "train with Pure Angular on stronger views",
                {probes: _trained(evidence, views)},
                *("beyond:stronger-views", "beyond", len(SPACES)),
                alone=" and ".join(views),
            ),
        ],
        "How": [
            advice.cosine(found["PA - cosine"], min(same.values())),
            advice.realized(
                {
                    "Temperature less Pure Angular (points)": found["temperature - PA"],
                    "Preserve": found["preserve - PA"],
                }
            ),
            advice.prior({-1.0: found["gamma -1"], 0.0: native, 1.0: found["gamma 1"]}),
            *(training(rule) for rule in ("temperature", "preserve")),
            whether(
                "train with Pure Angular under a uniform prior",
                {probes: _trained(evidence, uniform)},
                *("tab:c10-if50-u, tab:c10-if100-u", "controls", len(uniform) * len(SPACES)),
            ),
            whether(
                "use another kappa than ProCo's on frozen features",
                {"By kappa, rule and space (points)": _kappas(evidence)},
                "beyond:estimator",
            ),
            whether(
                "train with other statistics than ProCo's",
                {"Changes of long-tail probes (points)": _tested(estimated)},
                *("beyond:estimator", "beyond", len(estimated)),
                alone="CIFAR-100 / 100",
            ),
        ],
        "By how much": [
            advice.strength({0.0: native, 0.5: found["beta 0.5"], 1.5: above}),
            whether(
                "take beta above 1", {"Beta 1.5 less native (points)": above}, alone="beta 1.5"
            ),
            whether(
                "train at another beta than 1",
                {probes: swept},
                *("beyond:beta-sweep", "beyond", len(TRAINED), STRENGTH),
                alone=f"{strengths}projection of CIFAR-100 / 100",
            ),
        ],
        "When not to": [
            advice.confidence(found["NLL"], found["ECE"]),
            advice.failure(Trainings.of(evidence)),
            advice.restraint(reaches),
        ],
    }


def guide(evidence: Evidence) -> Outcome:
    """The advice by question, and the table that it comes from."""
    found, same = frozen(evidence), same_decisions(evidence)
    told = sentences(evidence, found, same)
    note = (
        "Rows are frozen features (temperature 0.1, ProCo's kappa): packaged is one network of "
        "CIFAR-100 IF 100 with 95 % intervals over held-out queries, the others have their number "
        "of networks in brackets and Student's intervals over networks; trainings are over paired "
        "seeds. PA is Pure Angular, less native at beta 0 and gamma 0 (no log prior) unless the "
        "column says otherwise, accuracy in points. The intervals of the table are plain; advice "
        "counts as an effect what Holm's correction at 5 % leaves of the intervals of its "
        'sentence, and what follows "by" is the least and the largest mean of these. No effect '
        "seen is not the same as none: below half of an interval, widened to the first of Holm's "
        "levels, it would go unseen, and this is said of the median of those that vary."
    )
    answers = []
    for question, all_ in told.items():
        answers += [f"{question}:", "\n".join(f"- {sentence.said()}" for sentence in all_)]
    parts = {s.topic: not s.missing for all_ in told.values() for s in all_}
    return Outcome(table(found, same), parts=parts, lead=answers, notes=[note])


ARTEFACTS = (
    Artefact(
        "guide",
        "beyond:guide",
        "When to edit the gain, how, by how much, and when not to",
        guide,
        ("main", "controls", "failure", "beyond"),
    ),
)
