"""Sentences of the paper with a number in them, of the CIFAR-10 control matrix."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import copysign
from statistics import fmean, variance

from resultant_reproduction.artefact import (
    SIGNIFICANCE,
    Change,
    Claim,
    Value,
    judged,
    waiting,
)
from resultant_reproduction.controls import (
    COLUMNS,
    IMBALANCES,
    OBJECTIVES,
    REALIZATION,
    control_changes,
    control_config,
)
from resultant_reproduction.evidence import Evidence
from resultant_reproduction.intervals import Interval, over_settings
from resultant_reproduction.plan import PLANS
from resultant_reproduction.records import paired
from resultant_reproduction.rules import BORNE_OUT, FACTOR, borne_out, counted, holm, said_toward
from resultant_reproduction.spread import welch
from resultant_reproduction.summarize import SPACES
from resultant_reproduction.uniform import READOUTS, Changes, Differences, equalized, under

JOINT = "resultant reproduce run joint"
MATRIX = "; the sentence names no size, the numbers are those of the control matrix"

# Whether each readout is as claimed, None where that is open.
Met = Mapping[tuple[str, str], bool | None]


def _more(jobs: Sequence[str], known: Sequence[Collection[int]]) -> str:
    """How to train the seeds of main that jobs of the control matrix do not all have, of which they
    have ``known`` ones; if they do, two more."""
    there = set.intersection(*map(set, known))
    lacking = [seed for seed in PLANS["main"].seeds if seed not in there]
    seeds = lacking or [max(there) + 1, max(there) + 2]
    numbers, names = " ".join(map(str, seeds)), " ".join(jobs)
    return f"resultant reproduce run controls --seeds {numbers} --jobs {names}"


def _printed(prior: str, objective: str, evidence: Evidence) -> list[float]:
    """Pure Angular less ProCo in the tables of the matrix, E and P by imbalance."""
    return [
        c.paper or 0.0
        for imbalance in IMBALANCES
        for c in control_changes(f"c10-{imbalance.lower()}-{prior}", evidence)
        if c.row == "Pure Angular 0" and c.what in (f"{objective} E", f"{objective} P")
    ]


def uniform_claims(evidence: Evidence) -> Iterator[Claim]:
    """sec:prior-support-extension, which prints numbers of probes on the long-tailed subset, and
    sec:cifar10-cross-setting, which says of those on all images that accuracy is reduced; the
    control matrix has the numbers of these."""
    tail = [-11.47, -14.51, -15.98, -18.31]
    support, cross = "sec:prior-support-extension", "sec:cifar10-cross-setting"
    yield _lowered(support, "long_tail", tail, evidence)
    yield _as_large(support, "long_tail", tail, evidence)
    yield _lowered(cross, "balanced", _printed("u", "contrastive", evidence), evidence, MATRIX)


def _quoted(printed: Sequence[float]) -> str:
    return "{:+.2f} / {:+.2f}; {:+.2f} / {:+.2f}".format(*printed)


def _about(pool: str, what: str, printed: Sequence[float]) -> tuple[str, str]:
    at = f"{pool.replace('_', '-')} E / P at IF50; IF100 (points)"
    return f"CIFAR-10, uniform prior: Pure Angular {what}, {at}", _quoted(printed)


def _lowered(
    label: str, pool: str, printed: Sequence[float], evidence: Evidence, note: str = ""
) -> Claim:
    """Whether all readouts are lower, of whichever size."""
    known = equalized(evidence, pool)
    left = _left(found := under("u", known))
    met = {at: i.mean < 0 if at in left else None for at, i in found.items()}
    rule = (
        "every one negative by Holm's correction, by t tests over seeds; one that is so positive "
        f"is against it{note}"
    )
    about = (label, *_about(pool, "lowers accuracy", printed))
    return _judged(about, known, found, met, rule)


def _left(found: Changes) -> set[tuple[str, str]]:
    """The readouts that Holm's correction leaves."""
    known = [at for at, i in found.items() if i.p is not None]
    kept = holm([found[at].p or 0.0 for at in known])
    return {at for at, keep in zip(known, kept, strict=True) if keep}


def _as_large(label: str, pool: str, printed: Sequence[float], evidence: Evidence) -> Claim:
    """Whether each is of the printed size."""
    known, level = equalized(evidence, pool), SIGNIFICANCE / len(printed)
    sizes = (sorted((v / FACTOR, v * FACTOR)) for v in printed)
    ends = dict(zip(READOUTS, sizes, strict=True))
    found = under("u", known, level)
    met = {at: _inside(i, *ends[at]) for at, i in found.items()}
    rule = (
        f"every {100 * (1 - level):.4g} % t interval over seeds (Bonferroni's for four) within a "
        "factor of two of the printed number; one that is wholly beyond is against it"
    )
    about = (label, *_about(pool, "less ProCo, of the printed size", printed))
    return _judged(about, known, found, met, rule)


def _inside(change: Interval, least: float, most: float) -> bool | None:
    """Whether an interval keeps between two numbers, None if it is partly so."""
    if change.low is None or change.high is None:
        return None
    if least <= change.low and change.high <= most:
        return True
    return False if change.high < least or change.low > most else None


def _whole(met: Met) -> bool | None:
    """All of them are needed for a claim, and one is enough against it."""
    return False if False in met.values() else True if all(met.values()) else None


def _judged(
    about: tuple[str, str, str],
    known: Differences,
    found: Changes,
    met: Met,
    rule: str,
    beside: str = "",
) -> Claim:
    """A claim about all readouts under a uniform prior, and which of them have ``met`` it."""
    if not found:
        return waiting(*about, "controls")
    holds = _whole(met)
    rule += "; one seed is not tested" if any(i.n == 1 for i in found.values()) else ""
    if holds is None:
        jobs = [f"{imbalance.lower()}-u-contrastive" for imbalance in IMBALANCES]
        rule += f"; more seeds: {_more(jobs, [known[*at, 'u'] for at in READOUTS])}"
    ours = f"{_readouts(found)}{beside}"
    return judged(*about, ours, holds, rule, tested=len(found), of=len(READOUTS))


def _readouts(found: Changes) -> str:
    """Encoder and Projection of each imbalance that there is, and over how many seeds."""
    parts = []
    for imbalance in IMBALANCES:
        own = [found.get((imbalance, space)) for space in SPACES]
        if any(own):
            parts.append(f"{imbalance} {' / '.join('–' if i is None else i.said() for i in own)}")
    return f"{'; '.join(parts)}; {counted(i.n for i in found.values())}"


def setting_claims(evidence: Evidence) -> Iterator[Claim]:
    """sec:cifar10-cross-setting: that the effect depends on the prior and on the objective."""
    yield _smaller(evidence)
    yield _objective(evidence)


def _smaller(evidence: Evidence) -> Claim:
    """Much smaller under the frequency prior: less than half of the effect under a uniform one."""
    known = equalized(evidence, "balanced")
    frequency = under("f", known)
    both = {at: i for at, i in under("u", known).items() if at in frequency}
    more = {at: _more_than_twice(known, *at) for at in both}
    left = _left(more)
    met = {at: i.mean > 0 if at in left else None for at, i in more.items()}
    about = (
        "sec:cifar10-cross-setting",
        "CIFAR-10: Pure Angular less ProCo is much smaller under the frequency prior than under a "
        "uniform one, balanced E / P at IF50; IF100 (points)",
        "; frequency ".join(_quoted(_printed(p, "contrastive", evidence)) for p in "uf"),
    )
    rule = (
        "every one less than half of that under the uniform prior in size, by Holm's correction "
        "(Welch's t tests of that less twice the other); one significantly larger than half speaks "
        "against it"
    )
    beside = f"; frequency {_readouts(frequency)}" if frequency else ""
    return _judged(about, known, both, met, rule, beside)


def _more_than_twice(known: Differences, imbalance: str, space: str) -> Interval:
    """The size of a change under a uniform prior less twice that under the frequency prior."""
    u, f = ([*known[imbalance, space, prior].values()] for prior in "uf")
    size, sign = abs(fmean(u)), copysign(FACTOR, fmean(f))
    own = [(variance(u) / len(u), len(u) - 1.0)] if len(u) > 1 else []
    found = over_settings([[size - sign * d for d in f]], printed=own)
    assert found is not None
    return found if own else found._replace(low=None, high=None, p=None)


def _objective(evidence: Evidence) -> Claim:
    """Joint training under a uniform prior: the effect is not that of contrastive training."""
    about = (
        "sec:cifar10-cross-setting",
        "CIFAR-10, uniform prior: Pure Angular changes joint training otherwise than contrastive, "
        "balanced E / P at IF50; IF100 (points)",
        " for ".join(_quoted(_printed("u", kind, evidence)) for kind in OBJECTIVES[::-1]),
    )
    by_kind = [equalized(evidence, "balanced", kind) for kind in OBJECTIVES[::-1]]
    joint, alone = (
        {at: v for at in READOUTS if (v := Value.of([*known[*at, "u"].values()])) is not None}
        for known in by_kind
    )
    both = [at for at in READOUTS if at in joint and at in alone]
    if not both:
        return waiting(*about, "controls")
    said = [
        f"{imbalance} {' / '.join(own[imbalance, space].said(2, sign=True) for space in SPACES)}"
        for own in (joint, alone)
        for imbalance in IMBALANCES
        if all((imbalance, space) in both for space in SPACES)
    ]
    half = len(said) // 2
    seeds = counted(own[at].n for own in (joint, alone) for at in both)
    ours = f"{'; '.join(said[:half])} for {'; '.join(said[half:])}; {seeds}"
    tests = [welch(*([*known[*at, "u"].values()] for known in by_kind)) for at in both]
    kept = holm([p for p in tests if p is not None])
    return judged(
        *about,
        ours,
        True if len(kept) == len(both) and all(kept) else None,
        "every one differs by Holm's correction (Welch's t tests over seeds), in either direction, "
        "for the paper says only that the effect depends on the objective; nothing is against it, "
        f"and one seed is not tested{MATRIX}",
        tested=len(both),
        of=len(READOUTS),
    )


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
    if holds and any(c.ours.mean * c.paper <= 0 for c in known if c.ours and c.paper):
        holds = None
    parts = [said_toward(tested)] if tested else []
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
