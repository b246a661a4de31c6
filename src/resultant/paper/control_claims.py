"""Sentences of the paper with a number in them, of the CIFAR-10 control matrix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from resultant.paper.artefact import SIGNIFICANCE, Change, Claim, judged, waiting
from resultant.paper.controls import COLUMNS, REALIZATION, control_changes, control_config
from resultant.paper.evidence import Evidence
from resultant.paper.intervals import Interval, over_alike
from resultant.paper.plan import REALIZATIONS
from resultant.paper.records import Records, dig, paired
from resultant.paper.rules import BORNE_OUT, FACTOR, borne_out, counted, holm, spared
from resultant.paper.summary import SPACES

IMBALANCES = ("IF50", "IF100")
MORE = "resultant reproduce run controls --seeds 1 2 --jobs"
JOINT = "resultant reproduce run joint"
POOLED = (
    "by t intervals whose sd over seeds is taken to be that of the same difference under the "
    "frequency prior (main), pooled over IF50 and IF100 and with what there is of its own"
)

# Changes by imbalance and space.
Uniform = dict[tuple[str, str], Interval]


def uniform_changes(evidence: Evidence, pool: str, level: float = SIGNIFICANCE) -> Uniform:
    """What contrastive Pure Angular changes from ProCo under a uniform prior, probes on a pool of
    images (points), with intervals of the ``level``. One seed has an interval too: the variance is
    pooled with that under the frequency prior, which has more of them."""
    known: dict[tuple[str, str, str], tuple[float, ...]] = {}
    for imbalance, prior, space in product(IMBALANCES, ("u", "f"), SPACES):
        config = control_config(f"c10-{imbalance.lower()}-{prior}", "contrastive")
        after, before = (
            evidence.records.values(config, r, 0.0, f"probes.{pool}.{space}.accuracy")
            for r in ("angular", "native")
        )
        known[imbalance, space, prior] = tuple(paired(after, before).values())
    found: Uniform = {}
    for imbalance, space in product(IMBALANCES, SPACES):
        own = (imbalance, space, "u")
        others = [d for at, d in known.items() if at != own and at[1] == space]
        change = over_alike(known[own], others, level)
        if change is not None:
            found[imbalance, space] = change
    return found


def _told(found: Uniform) -> str:
    """Encoder and Projection of each imbalance that there is, and over how many seeds."""
    parts = []
    for imbalance in IMBALANCES:
        own = [found.get((imbalance, space)) for space in SPACES]
        if any(own):
            parts.append(f"{imbalance} {' / '.join('–' if i is None else i.said() for i in own)}")
    return f"{'; '.join(parts)}; {counted(i.n for i in found.values())}"


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
    yield _lowered("sec:prior-support-extension", "long-tail", tail, evidence)
    yield _sized("sec:prior-support-extension", "long-tail", tail, evidence)
    yield _lowered("sec:cifar10-cross-setting", "balanced", matrix, evidence, size)


ASKED = f"{MORE} if50-u-contrastive if100-u-contrastive"


def _about(pool: str, what: str, printed: Sequence[float]) -> tuple[str, str]:
    text = f"CIFAR-10, uniform prior: Pure Angular {what}, {pool} E / P at IF50; IF100 (points)"
    return text, "{:+.2f} / {:+.2f}; {:+.2f} / {:+.2f}".format(*printed)


def _lowered(
    label: str, pool: str, printed: Sequence[float], evidence: Evidence, note: str = ""
) -> Claim:
    """Whether all readouts are lower, of whichever size."""
    about = (label, *_about(pool, "lowers accuracy", printed))
    found = uniform_changes(evidence, pool.replace("-", "_"))
    if not found:
        return waiting(*about, "controls")
    tested = {at: i.p for at, i in found.items() if i.p is not None}
    kept = holm(list(tested.values()))
    means = [found[at].mean for at, keep in zip(tested, kept, strict=True) if keep]
    holds = None
    if means and (max(means) > 0 or len(means) == len(found)):
        holds = max(means) < 0
    rule = f"every one negative by Holm's correction, {POOLED}"
    if any(i.n == 1 for i in found.values()) and means:
        rule += f": {spared(min(i.times or 0.0 for i in found.values()))}"
    rule += f"; one that is positive is against it{note}"
    rule += f"; more seeds: {ASKED}" if holds is None else ""
    return judged(*about, _told(found), holds, rule, tested=len(found), of=len(printed))


def _sized(label: str, pool: str, printed: Sequence[float], evidence: Evidence) -> Claim:
    """Whether each is of the printed size, which is of one run."""
    about = (label, *_about(pool, "less ProCo, of the printed size", printed))
    level = SIGNIFICANCE / len(printed)
    found = uniform_changes(evidence, pool.replace("-", "_"), level)
    if not found:
        return waiting(*about, "controls")
    wanted = zip(product(IMBALANCES, SPACES), printed, strict=True)
    kept = [_keeps(found[at], number) for at, number in wanted if at in found]
    holds = False if False in kept else True if all(kept) else None
    rule = (
        f"every {100 * (1 - level):.4g} % interval (Bonferroni's for four) within a factor of two "
        f"of the printed number, {POOLED}; one that is wholly beyond is against it"
    )
    rule += f"; more seeds: {ASKED}" if holds is None else ""
    return judged(*about, _told(found), holds, rule, tested=len(found), of=len(printed))


def _keeps(change: Interval, printed: float) -> bool | None:
    """Whether an interval keeps to the printed size within the factor, None if it is partly so."""
    if change.low is None or change.high is None:
        return None
    least, most = sorted((printed / FACTOR, printed * FACTOR))
    if change.high < least or change.low > most:
        return False
    return True if least <= change.low and change.high <= most else None


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
    config, changes, lacking = control_config(name, "joint"), [], []
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
        # Native and beta 0 are of the plan joint.
        partial = f"{MORE} {name[4:]}-joint" if float(beta) else JOINT
        lacking += [plan for plan, own in ((JOINT, before), (partial, after)) if len(own) < 2]
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
    rule = BORNE_OUT
    if lacking:
        rule += f"; one seed is not tested, more of them: {', '.join(dict.fromkeys(lacking))}"
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
    ours += f", {max(along):.3g} at {len(along)} states before" if along else ""
    if moved := ends["temperature"]:
        ours += f"; direct temperature {min(moved):.3g} to {max(moved):.3g} in {len(moved)}"
    return judged(
        *("sec:cifar10-local-mechanism", text, paper, ours, max([*kept, *along]) <= 1e-9),
        "at most 1e-9 in every run: at their ends, and along trajectories, which the plan controls "
        "keeps",
        tested=1 + bool(along),
        of=2,
    )
