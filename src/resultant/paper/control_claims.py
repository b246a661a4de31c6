"""Sentences of the paper with a number in them, of the CIFAR-10 control matrix."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from resultant.paper.artefact import (
    HOLDS,
    SIGNIFICANCE,
    SO_FAR,
    Change,
    Claim,
    judged,
    waiting,
)
from resultant.paper.controls import COLUMNS, REALIZATION, control_changes, control_config
from resultant.paper.evidence import Evidence
from resultant.paper.intervals import Interval, over_alike
from resultant.paper.plan import PLANS, REALIZATIONS
from resultant.paper.records import Records, dig, paired, path_of
from resultant.paper.rules import BORNE_OUT, FACTOR, borne_out, counted, holm
from resultant.paper.summary import SPACES

IMBALANCES = ("IF50", "IF100")
JOINT = "resultant reproduce run joint"
# Where the sd over seeds of a single one is taken from.
ELSEWHERE = "under the frequency prior (main) or at the other imbalance"
BORROWED = (
    f"one seed has the sd over seeds of the same difference {ELSEWHERE}, pooled, and holds at most "
    "where tested"
)

# Changes by imbalance and space.
Uniform = dict[tuple[str, str], Interval]


def _more(jobs: Sequence[str], known: Sequence[Collection[int]]) -> str:
    """How to train the seeds of main that jobs of the control matrix do not all have, of which they
    have ``known`` ones; if they do, two more."""
    there = set.intersection(*map(set, known))
    lacking = [seed for seed in PLANS["main"].seeds if seed not in there]
    seeds = lacking or [max(there) + 1, max(there) + 2]
    numbers, names = " ".join(map(str, seeds)), " ".join(jobs)
    return f"resultant reproduce run controls --seeds {numbers} --jobs {names}"


def _differences(
    evidence: Evidence, imbalance: str, prior: str, space: str, pool: str
) -> dict[int, float]:
    """Contrastive Pure Angular less ProCo, probes on a pool of images (points), by seed."""
    config = control_config(f"c10-{imbalance.lower()}-{prior}", "contrastive")
    after, before = (
        evidence.records.values(config, r, 0.0, path_of(space, pool)) for r in ("angular", "native")
    )
    return paired(after, before)


def _asked(evidence: Evidence, pool: str) -> str:
    """How to train more seeds of contrastive networks under a uniform prior."""
    readouts = product(IMBALANCES, SPACES)
    known = [_differences(evidence, imbalance, "u", space, pool) for imbalance, space in readouts]
    return _more([f"{imbalance.lower()}-u-contrastive" for imbalance in IMBALANCES], known)


def uniform_changes(evidence: Evidence, pool: str, level: float = SIGNIFICANCE) -> Uniform:
    """What contrastive Pure Angular changes from ProCo under a uniform prior, probes on a pool of
    images (points), with intervals of the ``level``. One seed has an interval too, by the variance
    of the same difference where there are more of them (`over_alike`)."""
    known = {
        (imbalance, space, prior): [*_differences(evidence, imbalance, prior, space, pool).values()]
        for imbalance, space, prior in product(IMBALANCES, SPACES, ("u", "f"))
    }
    found: Uniform = {}
    for imbalance, space in product(IMBALANCES, SPACES):
        own = (imbalance, space, "u")
        others = [d for at, d in known.items() if at != own and at[1] == space]
        change = over_alike(known[own], others, level)
        if change is not None:
            found[imbalance, space] = change
    return found


def uniform_claims(evidence: Evidence) -> Iterator[Claim]:
    """sec:prior-support-extension, which prints numbers of probes on the long-tailed subset, and
    sec:cifar10-cross-setting, which says of those on all images that accuracy is reduced; the
    control matrix has the numbers of these."""
    matrix = [
        c.paper or 0.0
        for imbalance in IMBALANCES
        for c in control_changes(f"c10-{imbalance.lower()}-u", evidence)
        if c.row == "Pure Angular 0" and c.what.startswith("contrastive")
    ]
    tail = [-11.47, -14.51, -15.98, -18.31]
    size = "; the sentence names no size, the numbers are those of the control matrix"
    yield _lowered("sec:prior-support-extension", "long_tail", tail, evidence)
    yield _as_large("sec:prior-support-extension", "long_tail", tail, evidence)
    yield _lowered("sec:cifar10-cross-setting", "balanced", matrix, evidence, size)


def _about(pool: str, what: str, printed: Sequence[float]) -> tuple[str, str]:
    at = f"{pool.replace('_', '-')} E / P at IF50; IF100 (points)"
    text = f"CIFAR-10, uniform prior: Pure Angular {what}, {at}"
    return text, "{:+.2f} / {:+.2f}; {:+.2f} / {:+.2f}".format(*printed)


class Tested(NamedTuple):
    """A readout that was put to the test: whether it is as claimed, None where that is open, and
    how many times as large its sd might be for that to stay so."""

    change: Interval
    met: bool | None
    times: float = 0.0


def _lowered(
    label: str, pool: str, printed: Sequence[float], evidence: Evidence, note: str = ""
) -> Claim:
    """Whether all readouts are lower, of whichever size."""
    about = (label, *_about(pool, "lowers accuracy", printed))
    found = uniform_changes(evidence, pool)
    known = [at for at, i in found.items() if i.p is not None]
    kept = holm([found[at].p or 0.0 for at in known])
    left = {at for at, keep in zip(known, kept, strict=True) if keep}
    tested = {
        at: Tested(i, i.mean < 0, i.times or 0.0) if at in left else Tested(i, None)
        for at, i in found.items()
    }
    rule = (
        "every one negative by Holm's correction, by t intervals over seeds; one that is positive "
        f"is against it{note}"
    )
    return _judged(about, tested, rule, "zero is left out", _asked(evidence, pool))


def _as_large(label: str, pool: str, printed: Sequence[float], evidence: Evidence) -> Claim:
    """Whether each is of the printed size, which is of one run."""
    about = (label, *_about(pool, "less ProCo, of the printed size", printed))
    level = SIGNIFICANCE / len(printed)
    found = uniform_changes(evidence, pool, level)
    numbers = zip(product(IMBALANCES, SPACES), printed, strict=True)
    tested: dict[tuple[str, str], Tested] = {
        at: _keeps(found[at], number) for at, number in numbers if at in found
    }
    rule = (
        f"every {100 * (1 - level):.4g} % t interval over seeds (Bonferroni's for four) within a "
        "factor of two of the printed number; one that is wholly beyond is against it"
    )
    return _judged(about, tested, rule, "this stands", _asked(evidence, pool))


def _keeps(change: Interval, printed: float) -> Tested:
    """Whether an interval keeps to the printed size within the factor, None if it is partly so."""
    if change.low is None or change.high is None:
        return Tested(change, None)
    least, most = sorted((printed / FACTOR, printed * FACTOR))
    # From the mean to the nearer end of the sizes, in reaches of the interval.
    times = min(abs(change.mean - end) for end in (least, most)) / (change.high - change.mean)
    met = least <= change.mean <= most
    return Tested(change, met, times) if times > 1 else Tested(change, None)


def _judged(
    about: tuple[str, str, str],
    tested: Mapping[tuple[str, str], Tested],
    rule: str,
    stands: str,
    more: str,
) -> Claim:
    """A claim about all readouts under a uniform prior. What rests on one seed and the sd of others
    holds where tested at most, and says how much larger that sd might be while it ``stands``."""
    if not tested:
        return waiting(*about, "controls")
    every = list(tested.values())
    met, one = [t.met for t in every], [t for t in every if t.change.n == 1]
    holds = False if False in met else True if all(met) else None
    rule += f"; {BORROWED}" if one else ""
    against = [t for t in every if t.met is False]
    if one and (holds or (against and all(t.change.n == 1 for t in against))):
        times = min(t.times for t in one) if holds else max(t.times for t in against)
        rule += f"; {stands} unless that sd is {times:.1f} times as large"
    rule += f"; more seeds: {more}" if holds is None else ""
    ours = _readouts({at: t.change for at, t in tested.items()})
    claim = judged(*about, ours, holds, rule, tested=len(every), of=len(IMBALANCES) * len(SPACES))
    return replace(claim, verdict=SO_FAR) if one and claim.verdict == HOLDS else claim


def _readouts(found: Uniform) -> str:
    """Encoder and Projection of each imbalance that there is, and over how many seeds."""
    parts = []
    for imbalance in IMBALANCES:
        own = [found.get((imbalance, space)) for space in SPACES]
        if any(own):
            parts.append(f"{imbalance} {' / '.join('–' if i is None else i.said() for i in own)}")
    return f"{'; '.join(parts)}; {counted(i.n for i in found.values())}"


def joint_claims(evidence: Evidence) -> Iterator[Claim]:
    """sec:cifar10-cross-setting: the joint readouts under the frequency prior. Partial editing is
    that of all three realizations at beta 0.5."""
    partial = tuple(f"{title} 0.5" for title in list(REALIZATION)[1:])
    both = ("Pure Angular 0", "Pure Angular 0.5")
    yield _joint("IF50", partial, "all three realizations at 0.5 raise E, P, FC", evidence)
    yield _joint("IF100", both, "Pure Angular at 0 and 0.5 lowers E, P, FC", evidence)


def _joint(imbalance: str, policies: Sequence[str], what: str, evidence: Evidence) -> Claim:
    """Whether all joint readouts of some policies have the printed signs. The policies share native
    networks, so that they count as one setting, over the seeds that all of them have."""
    name = f"c10-{imbalance.lower()}-f"
    config, changes = control_config(name, "joint"), []
    # Native and beta 0 are of the plan joint.
    whole: list[Collection[int]] = []
    partial: list[Collection[int]] = []
    printed = {(c.row, c.what): c.paper or 0.0 for c in control_changes(name, evidence)}
    readouts = [each for each in COLUMNS if each[0] == "joint"]
    for policy, (objective, column, path) in product(policies, readouts):
        title, _, beta = policy.rpartition(" ")
        after, before = (
            evidence.records.values(config, *kind, path)
            for kind in ((REALIZATION[title], float(beta)), ("native", 0.0))
        )
        about = f"{objective} {column}"
        changes.append(Change(policy, about, printed[policy, about], paired(after, before)))
        whole.append(before)
        (partial if float(beta) else whole).append(after)
    paper = f"all {'positive' if all((c.paper or 0.0) > 0 for c in changes) else 'negative'}"
    text = f"CIFAR-10 joint, frequency prior, {imbalance}: {what} (points)"
    known = [c for c in changes if c.differences]
    if not known:
        return waiting("sec:cifar10-cross-setting", text, paper, "controls")
    tested = [replace(c, row="") for c in known if len(c.differences) > 1]
    holds = borne_out(tested)
    # One seed tests nothing, but of another sign it does not let the others speak for it.
    if holds and any(c.ours.mean * (c.paper or 0.0) <= 0 for c in known if c.ours is not None):
        holds = None
    parts = []
    for policy in policies:
        own = [c.ours for c in known if c.row == policy and c.ours is not None]
        said = " / ".join(v.said(2, sign=True) for v in own)
        parts += [f"{policy}: {said}, {counted(v.n for v in own)}"] if own else []
    rule, lacking = BORNE_OUT, [JOINT] if min(map(len, whole)) < 2 else []
    if min(map(len, partial)) < 2:
        lacking.append(_more([f"{name[4:]}-joint"], partial))
    if lacking:
        rule += f"; one seed is not tested, more of them: {', '.join(lacking)}"
    return judged(
        *("sec:cifar10-cross-setting", text, paper, "; ".join(parts), holds, rule),
        tested=len(tested or known),
        of=len(changes),
    )


def intercept_claim(records: Records) -> Claim:
    """sec:cifar10-local-mechanism: at the ends of trainings, and at the states before that a
    trajectory keeps."""
    text = "Intercepts at cosine zero are preserved at every recorded state: largest mean |drift|"
    paper = "0 under intercept-preserving and Pure Angular"
    ends: dict[str, list[float]] = {name: [] for name in REALIZATIONS[1:]}
    along: list[float] = []
    for record in records:
        name, drift = record["realization"], dig(record, "last.intercept_drift")
        if name not in ends or drift is None:
            continue
        ends[name].append(drift)
        if name != "temperature":
            told = record.get("trajectory", {})
            states = zip(told.get("epoch", ()), told.get("intercept_drift", ()), strict=False)
            last = record["config"]["epochs"]
            along += [v for epoch, v in states if epoch < last and v is not None]
    kept = [*ends["preserve"], *ends["angular"]]
    if not ends["preserve"] or not ends["angular"]:
        return waiting("sec:cifar10-local-mechanism", text, paper, "main")
    ours = f"{max(kept):.3g} at the ends of {len(ends['preserve'])} and {len(ends['angular'])} runs"
    states = "state" if len(along) == 1 else "states"
    ours += f", {max(along):.3g} at {len(along)} {states} before" if along else ""
    if moved := ends["temperature"]:
        ours += f"; direct temperature {min(moved):.3g} to {max(moved):.3g} in {len(moved)}"
    return judged(
        *("sec:cifar10-local-mechanism", text, paper, ours, max([*kept, *along]) <= 1e-9),
        "at most 1e-9 in every run: at their ends, and along trajectories, which the plan controls "
        "keeps",
        tested=1 + bool(along),
        of=2,
    )
