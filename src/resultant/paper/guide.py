"""Beyond the paper: when to edit the gain, how, by how much, and when not to.

What there is to go by is gathered here, and `resultant.paper.advice` puts it into sentences; where
nothing was measured they say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import torch
from torch import Tensor

from resultant.frozen import Decisions, FrozenSpace, Policy
from resultant.frozen.measures import NORMAL, calibration_error, confidence_bins
from resultant.gain import realize, target_gain
from resultant.paper import advice
from resultant.paper.advice import BETAS, IDLE, Reach, Sentence
from resultant.paper.artefact import Artefact, Outcome
from resultant.paper.claims import measured
from resultant.paper.controls import control_config
from resultant.paper.estimators import in_short, trained
from resultant.paper.evidence import CONDITIONS, Evidence
from resultant.paper.failure import failing_state
from resultant.paper.intervals import Interval, over_queries, over_seeds, resampled
from resultant.paper.networks import Reader, less, on_grid, over_networks, several
from resultant.paper.plan import SETS, controlled, stronger_views
from resultant.paper.records import paired
from resultant.paper.summary import SPACES
from resultant.paper.training import CHANGES, angular_training, of_cifar
from resultant.presets import TrainConfig

K = TypeVar("K", str, float)


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
    return Reach(spread, changed, Interval(mean, low, high, n), n)


def _leaves(q: Tensor, e: Tensor) -> Tensor:
    """The shares t [n] of the edits e [n, C] at which decisions by scores q [n, C] change, inf
    where they never do."""
    best = q.max(1, keepdim=True)
    gap, pull = best.values - q, e - e.gather(1, best.indices)
    return torch.where(pull > 0, gap / pull, torch.inf).amin(1)


def _less(decisions: Decisions, after: Policy, before: Policy) -> Interval:
    return over_queries(decisions.right(after), decisions.right(before), 100.0)


def _calibration(decisions: Decisions, after: Policy, before: Policy) -> Interval:
    """The difference of calibration errors, queries resampled."""

    def error(policy: Policy, rows: Tensor) -> float:
        policy = policy.canonical
        right = decisions.right(policy)[rows]
        return calibration_error(*confidence_bins(decisions.confidence[policy][rows], right))

    n = len(decisions.labels)
    return resampled(n, lambda rows: error(after, rows) - error(before, rows))


def _trained(evidence: Evidence, configs: Mapping[str, TrainConfig]) -> dict[str, Interval]:
    """Pure Angular less native over seeds, long-tail probes, by configuration and space."""
    found = {}
    for name, config in configs.items():
        for space in SPACES:
            path = f"probes.long_tail.{space}.accuracy"
            after, before = (
                evidence.records.values(config, r, 0.0, path) for r in ("angular", "native")
            )
            if (i := over_seeds(paired(after, before))) is not None:
                found[f"{name}, {space}"] = i
    return found


def _swept(evidence: Evidence) -> dict[float, Interval]:
    config, path = controlled("cifar100", 100), "probes.long_tail.projection.accuracy"
    native = evidence.records.values(config, "native", 0.0, path)
    found = {
        beta: over_seeds(paired(evidence.records.values(config, "angular", beta, path), native))
        for beta in BETAS
    }
    return {beta: i for beta, i in found.items() if i is not None}


def _elsewhere(evidence: Evidence) -> tuple[dict[str, Interval], int]:
    """Pure Angular less native on the frozen features of records, and of how many CIFAR settings
    there are none."""
    found = over_networks(evidence, less("accuracy.angular", "accuracy.native"))
    asked = [f"{c}, {s}" for c, kind in CONDITIONS.items() for s in SPACES if kind[0] in SETS]
    return found, sum(name not in found for name in asked)


def _by_place(evidence: Evidence, readers: Mapping[K, Reader]) -> dict[str, dict[K, Interval]]:
    """Several numbers of the frozen summaries over networks, by condition and space."""
    found: dict[str, dict[K, Interval]] = {}
    for key, read in readers.items():
        for place, i in several(over_networks(evidence, read)).items():
            found.setdefault(place, {})[key] = i
    return found


def _shared(evidence: Evidence, path: str) -> dict[str, float]:
    """A number of the frozen summaries, mean over networks, by condition and space."""
    return {
        f"{condition}, {space}": value.mean
        for (condition, space), value in measured(evidence, path, tuple(CONDITIONS)).items()
    }


def sentences(evidence: Evidence) -> list[Sentence]:
    """The whole guide, question by question."""
    native, angular = Policy("native"), Policy("angular")
    at = {title: (store, space) for title, store, space in evidence.places}
    decided = {title: evidence.decisions(*place) for title, place in at.items()}
    asked = {title: evidence.analysis(*place) for title, place in at.items()}
    choices, agreement, drift = [], {}, {}
    for title, a in asked.items():
        assert a.recommendation is not None and a.cosine is not None and a.intercepts is not None
        choices.append(advice.choice(title, a.recommendation))
        agreement[title] = (a.cosine.agreement, a.cosine.coverage)
        drift[title] = a.intercepts.largest
    others = {
        title: {
            rule: _less(d, Policy(rule), angular)
            for rule in ("temperature", "preserve")
            if Policy(rule) in d.prediction
        }
        for title, d in decided.items()
    }
    betas = {
        title: {beta: _less(d, Policy("angular", beta), native) for beta in BETAS}
        for title, d in decided.items()
    }
    gammas = {
        title: {
            gamma: _less(d, Policy("angular", 0.0, gamma), Policy("native", 1.0, gamma))
            for gamma in (-1.0, 0.0, 1.0)
        }
        for title, d in decided.items()
    }
    n = native.canonical
    nll = {t: over_queries(d.nll[angular], d.nll[n]) for t, d in decided.items()}
    nll |= several(over_networks(evidence, less("nll.angular", "nll.native", 1.0)))
    plainer = {t: _less(d, angular, Policy("cosine")) for t, d in decided.items()}
    networks = several(over_networks(evidence, less("accuracy.angular", "accuracy.cosine")))
    same, certified = (_shared(evidence, f"cosine.{name}") for name in ("agreement", "certified"))
    queries = _shared(evidence, "cosine.queries")
    agreement |= {t: (same[t], certified[t] / queries[t]) for t in networks if t in queries}
    rules = ("temperature", "preserve")
    others |= _by_place(
        evidence, {rule: less(f"accuracy.{rule}", "accuracy.angular") for rule in rules}
    )
    for rule in (*rules, "angular"):
        for place, change in _shared(evidence, f"intercepts.{rule}").items():
            drift.setdefault(place, {})[rule] = change
    betas |= _by_place(evidence, {beta: on_grid(beta) for beta in BETAS})
    gammas |= _by_place(evidence, {gamma: on_grid(0.0, gamma) for gamma in (-1.0, 0.0, 1.0)})
    trained_table = angular_training(evidence)
    uniform = {f"CIFAR-10 IF {i}": control_config(f"c10-if{i}-u", "contrastive") for i in (50, 100)}
    answers = {
        "When to edit": (
            *choices,
            advice.elsewhere(*_elsewhere(evidence)),
            advice.training(of_cifar(trained_table)),
            advice.views(_trained(evidence, {"AutoAugment": stronger_views()})),
        ),
        "How": (
            advice.cosine(plainer | networks, agreement),
            advice.realization(others, drift),
            advice.other_trainings([c for w in CHANGES[:-1] for c in of_cifar(trained_table, w)]),
            advice.prior(gammas, _trained(evidence, uniform)),
            advice.estimator(
                [in_short(evidence, *place) for place in evidence.places], trained(evidence)
            ),
        ),
        "By how much": (advice.strength(betas, _swept(evidence)),),
        "When not to": (
            advice.confidence(
                nll, {t: _calibration(d, angular, native) for t, d in decided.items()}
            ),
            advice.failure(failing_state(evidence)),
            advice.restraint({title: reach(evidence.space(*place)) for title, place in at.items()}),
        ),
    }
    return [replace(s, question=q) for q, found in answers.items() for s in found]


def guide(evidence: Evidence) -> Outcome:
    """The advice by question, then the sentences with their numbers."""
    found = sentences(evidence)
    note = (
        "Encoder and Projection are the frozen features of the packaged network of CIFAR-100 IF "
        "100, with 95 % intervals over held-out queries (temperature 0.1, ProCo's kappa, Pure "
        "Angular at beta 0 unless it says otherwise); those named by data set and imbalance are of "
        "the records, with Student's interval over networks, as is what is trained, over paired "
        "seeds. Each interval is taken by itself. One with zero in it is no effect seen, which is "
        "not the same as none."
    )
    short: dict[str, list[str]] = {}
    for sentence in found:
        short.setdefault(sentence.question, []).append(sentence.short)
    notes = [note, *(f"{question}, in short. {' '.join(all_)}" for question, all_ in short.items())]
    notes += [f"{i}. {s.said()}" for i, s in enumerate(found, start=1)]
    return Outcome(parts={s.topic: not s.missing for s in found}, notes=notes)


ARTEFACTS = (
    Artefact(
        "guide",
        "beyond:guide",
        "When to edit the gain, how, by how much, and when not to",
        guide,
        ("main", "controls", "failure", "beyond"),
    ),
)
