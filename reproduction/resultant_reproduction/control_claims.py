"""Claims about the CIFAR-10 control matrix: priors, objectives, intercepts and gradients."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import copysign
from statistics import fmean, variance

from resultant.classes.rule import EDITED
from resultant_reproduction.claims import GRADIENTS_CLOSE, TWICE_PRINTED
from resultant_reproduction.controls import (
    COLUMNS,
    IMBALANCES,
    OBJECTIVES,
    POLICIES,
    READOUTS,
    REALIZATION,
    Changes,
    Differences,
    compare_controls,
    control_config,
    equalized,
    under,
)
from resultant_reproduction.courses import Course
from resultant_reproduction.evaluate import (
    FACTOR,
    SIGNS,
    Evaluation,
    all_of,
    conclude,
    statement,
    toward_text,
)
from resultant_reproduction.evidence import Evidence
from resultant_reproduction.formats import SIGNIFICANCE, network_counts
from resultant_reproduction.plan import PLANS
from resultant_reproduction.records import Records, dig, probe_path
from resultant_reproduction.spec import Claim
from resultant_reproduction.stats import (
    Interval,
    holm,
    over_settings,
    signs_hold,
    welch,
)
from resultant_reproduction.summarize import SPACES
from resultant_reproduction.value import Value

JOINT = "resultant reproduce run joint"
MATRIX = "; the sentence names no size, the numbers are those of the control matrix"

# Whether each readout meets a claim, None where that is open.
Met = Mapping[tuple[str, str], bool | None]


def _more_seeds(jobs: Sequence[str], known: Sequence[Collection[int]]) -> str:
    """Command for the seeds of the main plan that jobs lack, or for two more."""
    shared = set.intersection(*map(set, known))
    lacking = [seed for seed in PLANS["main"].seeds if seed not in shared]
    seeds = lacking or [max(shared) + 1, max(shared) + 2]
    numbers, names = " ".join(map(str, seeds)), " ".join(jobs)
    return f"resultant reproduce run controls --seeds {numbers} --jobs {names}"


def uniform_claims(evidence: Evidence) -> Iterator[Claim]:
    """sec:prior-support-extension prints numbers of probes on the long-tailed subset;
    sec:cifar10-cross-setting says that accuracy of probes on all images is reduced."""
    for name, pool, note in (
        ("uniform-lowers", "long_tail", ""),
        ("uniform-size", "long_tail", ""),
        ("uniform-lowers-balanced", "balanced", MATRIX),
    ):
        known = equalized(evidence, pool)
        evaluate = _sizes if name == "uniform-size" else _lowered
        yield conclude(statement(name), evaluate(known, note), "controls")


def _lowered(known: Differences, note: str) -> Evaluation | None:
    """All readouts are lower, whatever the size."""
    changes = under("u", known)
    seen = _significant(changes)
    met = {at: i.mean < 0 if at in seen else None for at, i in changes.items()}
    rule = (
        "every one negative by Holm's correction, by t tests over seeds; one that is so positive "
        f"is against it{note}"
    )
    return _uniform(known, changes, met, rule)


def _significant(changes: Changes) -> set[tuple[str, str]]:
    tested = [at for at, i in changes.items() if i.p is not None]
    kept = holm([changes[at].p or 0.0 for at in tested])
    return {at for at, keep in zip(tested, kept, strict=True) if keep}


def _sizes(known: Differences, note: str) -> Evaluation | None:
    """Each readout has the printed size."""
    printed = statement("uniform-size").numbers
    level = SIGNIFICANCE / len(printed)
    sizes = (sorted((v / FACTOR, v * FACTOR)) for v in printed)
    ends = dict(zip(READOUTS, sizes, strict=True))
    changes = under("u", known, level)
    met = {at: _inside(i, *ends[at]) for at, i in changes.items()}
    rule = (
        f"every {100 * (1 - level):.4g} % t interval over seeds (Bonferroni's for four) within a "
        f"factor of two of the printed number; one that is wholly beyond is against it{note}"
    )
    return _uniform(known, changes, met, rule)


def _inside(change: Interval, least: float, most: float) -> bool | None:
    """Test whether an interval lies between two numbers, None if partly."""
    if change.low is None or change.high is None:
        return None
    if least <= change.low and change.high <= most:
        return True
    return False if change.high < least or change.low > most else None


def _uniform(
    known: Differences, changes: Changes, met: Met, rule: str, extra: str = ""
) -> Evaluation | None:
    """Evaluate all readouts under a uniform prior."""
    if not changes:
        return None
    holds = all_of(met.values())
    rule += "; one seed is not tested" if any(i.n == 1 for i in changes.values()) else ""
    if holds is None:
        jobs = [f"{imbalance.lower()}-u-contrastive" for imbalance in IMBALANCES]
        rule += f"; more seeds: {_more_seeds(jobs, [known[*at, 'u'] for at in READOUTS])}"
    return Evaluation(f"{_readouts(changes)}{extra}", holds, rule, len(changes), len(READOUTS))


def _readouts(changes: Changes) -> str:
    """Encoder and Projection of each imbalance, and the numbers of seeds."""
    parts = []
    for imbalance in IMBALANCES:
        own = [changes.get((imbalance, space)) for space in SPACES]
        if any(own):
            parts.append(f"{imbalance} {' / '.join('–' if i is None else i.text() for i in own)}")
    return f"{'; '.join(parts)}; {network_counts(i.n for i in changes.values())}"


def setting_claims(evidence: Evidence) -> Iterator[Claim]:
    """sec:cifar10-cross-setting: the effect depends on the prior and on the objective."""
    yield conclude(statement("frequency-smaller"), _smaller(evidence), "controls")
    yield conclude(statement("objective"), _objective(evidence), "controls")


def _smaller(evidence: Evidence) -> Evaluation | None:
    """Under the frequency prior less than half of the effect under a uniform one."""
    known = equalized(evidence, "balanced")
    frequency = under("f", known)
    both = {at: i for at, i in under("u", known).items() if at in frequency}
    more = {at: _beyond_twice(known, *at) for at in both}
    seen = _significant(more)
    met = {at: i.mean > 0 if at in seen else None for at, i in more.items()}
    rule = (
        "every one less than half of that under the uniform prior in size, by Holm's correction "
        "(Welch's t tests of that less twice the other); one significantly larger than half speaks "
        "against it"
    )
    extra = f"; frequency {_readouts(frequency)}" if frequency else ""
    return _uniform(known, both, met, rule, extra)


def _beyond_twice(known: Differences, imbalance: str, space: str) -> Interval:
    """Size of a change under a uniform prior less twice that under the frequency prior."""
    u, f = ([*known[imbalance, space, prior].values()] for prior in "uf")
    size, sign = abs(fmean(u)), copysign(FACTOR, fmean(f))
    own = [(variance(u) / len(u), len(u) - 1.0)] if len(u) > 1 else []
    excess = over_settings([[size - sign * d for d in f]], printed=own)
    assert excess is not None
    return excess if own else excess._replace(low=None, high=None, p=None)


def _objective(evidence: Evidence) -> Evaluation | None:
    """Joint training under a uniform prior has another effect than contrastive training."""
    by_kind = [equalized(evidence, "balanced", kind) for kind in OBJECTIVES[::-1]]
    joint, alone = (
        {at: v for at in READOUTS if (v := Value.of([*known[*at, "u"].values()])) is not None}
        for known in by_kind
    )
    both = [at for at in READOUTS if at in joint and at in alone]
    if not both:
        return None
    texts = [
        f"{imbalance} {' / '.join(own[imbalance, space].text(2, sign=True) for space in SPACES)}"
        for own in (joint, alone)
        for imbalance in IMBALANCES
        if all((imbalance, space) in both for space in SPACES)
    ]
    half = len(texts) // 2
    counts = network_counts(own[at].n for own in (joint, alone) for at in both)
    tests = [welch(*([*known[*at, "u"].values()] for known in by_kind)) for at in both]
    kept = holm([p for p in tests if p is not None])
    return Evaluation(
        f"{'; '.join(texts[:half])} for {'; '.join(texts[half:])}; {counts}",
        True if len(kept) == len(both) and all(kept) else None,
        "every one differs by Holm's correction (Welch's t tests over seeds), in either direction, "
        "for the paper says only that the effect depends on the objective; nothing is against it, "
        f"and one seed is not tested{MATRIX}",
        *(len(both), len(READOUTS)),
    )


def joint_claims(evidence: Evidence) -> Iterator[Claim]:
    """sec:cifar10-cross-setting: joint readouts under the frequency prior. Partial editing is that
    of all three realizations at beta 0.5."""
    partial = tuple(f"{title} 0.5" for title in list(REALIZATION)[1:])
    for name, policies in (
        ("joint-if50", partial),
        ("joint-if100", ("Pure Angular 0", "Pure Angular 0.5")),
    ):
        table = f"c10-{name.removeprefix('joint-')}-f"
        yield conclude(statement(name), _joint(table, policies, evidence), "controls")


def _joint(table: str, policies: Sequence[str], evidence: Evidence) -> Evaluation | None:
    """All joint readouts of some policies have the printed signs. The policies share native
    networks and count as one setting, over the seeds that all of them have."""
    _, changes = compare_controls(table, evidence)
    changes = [c for c in changes if c.row in policies and c.what.startswith("joint")]
    changes.sort(key=lambda c: policies.index(c.row))
    known = [c for c in changes if c.differences]
    if not known:
        return None
    tested = [replace(c, row="") for c in known if len(c.differences) > 1]
    holds = signs_hold(tested)
    # One seed tests nothing, but with the other sign it forbids a verdict by the others.
    if holds and any(c.ours.mean * c.paper <= 0 for c in known if c.ours and c.paper):
        holds = None
    parts = [toward_text(tested)] if tested else []
    for policy in policies:
        own = [c.ours for c in known if c.row == policy and c.ours is not None]
        text = " / ".join(v.text(2, sign=True) for v in own)
        parts += [f"{policy}: {text}, {network_counts(v.n for v in own)}"] if own else []
    rule, lacking = SIGNS, _lacking(table, policies, evidence)
    if lacking:
        rule += f"; one seed is not tested, more of them: {', '.join(lacking)}"
    return Evaluation("; ".join(parts), holds, rule, len(tested or known), len(changes))


def _lacking(table: str, policies: Sequence[str], evidence: Evidence) -> list[str]:
    """Commands for more seeds of policies that have one; native and beta 0 are of the plan
    joint."""
    config = control_config(table, "joint")
    complete: list[Collection[int]] = []
    partial: list[Collection[int]] = []
    for policy, (objective, _, path) in product(policies, COLUMNS):
        if objective == "joint":
            title, _, beta = policy.rpartition(" ")
            kind = (REALIZATION[title], float(beta))
            complete.append(evidence.records.values(config, "native", 0.0, path))
            own = evidence.records.values(config, *kind, path)
            (partial if float(beta) else complete).append(own)
    commands = [JOINT] if min(map(len, complete)) < 2 else []
    if min(map(len, partial)) < 2:
        commands.append(_more_seeds([f"{table[4:]}-joint"], partial))
    return commands


def intercept_claim(records: Records) -> Claim:
    """sec:cifar10-local-mechanism: intercepts at the ends of CIFAR-10 trainings, and at the states
    before that a trajectory keeps."""
    ends: dict[str, list[float]] = {name: [] for name in EDITED}
    along: list[float] = []
    for record in records:
        name, drift = record["realization"], dig(record, "last.intercept_drift")
        if name not in ends or drift is None or record["config"]["dataset"] != "cifar10":
            continue
        ends[name].append(drift)
        if name != "temperature":
            course = record.get("trajectory", {})
            states = zip(course.get("epoch", ()), course.get("intercept_drift", ()), strict=False)
            last = record["config"]["epochs"]
            along += [v for epoch, v in states if epoch < last and v is not None]
    kept = [*ends["preserve"], *ends["angular"]]
    claim = statement("intercepts-kept")
    if not ends["preserve"] or not ends["angular"]:
        return conclude(claim, None, "main")
    ours = f"{max(kept):.3g} at the ends of {len(ends['preserve'])} and {len(ends['angular'])} runs"
    states = "state" if len(along) == 1 else "states"
    ours += f", {max(along):.3g} at {len(along)} {states} before" if along else ""
    if moved := ends["temperature"]:
        ours += f"; direct temperature {min(moved):.3g} to {max(moved):.3g} in {len(moved)}"
    evaluation = Evaluation(
        *(ours, max([*kept, *along]) <= 1e-9),
        "at most 1e-9 in every CIFAR-10 run, at its end and along trajectories, which the plan "
        "controls keeps; true by construction, so that it is a check of the code",
        *(1 + bool(along), 2),
    )
    return conclude(claim, evaluation, "main")


def gradient_claim(evidence: Evidence) -> Claim:
    """sec:cifar10-local-mechanism: leading gradients along fig:c10-trajectory, of policies whose
    representations end less accurate than native."""
    largest: dict[str, tuple[float, str]] = {}
    errors: list[float] = []
    seeds: list[int] = []
    for objective, (name, policy) in product(OBJECTIVES, list(POLICIES.items())[1:]):
        config = control_config("c10-if50-u", objective)
        kinds = (config, *policy), (config, "native", 0.0)
        lower = [
            d
            for space in SPACES
            for d in evidence.records.differences(*kinds, probe_path(space, "balanced")).values()
        ]
        course = Course.of(evidence.records.seeds(config, *policy), "gradient_error")
        if course is None or not lower or sum(lower) >= 0:
            continue
        own = {epoch: fmean(values) for epoch, values in course.values.items()}
        epoch = max(own, key=own.__getitem__)
        text = f"{objective} {own[epoch]:.2f} ({name}, epoch {epoch})"
        largest[objective] = max(largest.get(objective, (0.0, "")), (own[epoch], text))
        errors += own.values()
        seeds.append(len(course.seeds))
    claim = statement("gradients-close")
    if not errors:
        return conclude(claim, None, "controls")
    far = sum(v > GRADIENTS_CLOSE for v in errors)
    ours = f"{', '.join(text for _, text in largest.values())}; above {GRADIENTS_CLOSE:.2f} at "
    ours += f"{far} of {len(errors)} states of {len(seeds)} policies; {network_counts(seeds)}"
    rule = f"mean over networks at most {GRADIENTS_CLOSE:.2f} at every state{TWICE_PRINTED}"
    return conclude(claim, Evaluation(ours, not far, rule, networks=min(seeds)), "controls")
