"""Sentences of the paper with a number in them: the frozen ones and those of the theory.

A rule says what "holds" asks for. The tolerances are ours, for the paper gives none: a range holds
if all of ours lie within it when it is widened by half of its width on both sides, a size if it is
the same within a factor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from resultant.paper.artefact import Change, Claim, Value, judged, untestable, waiting
from resultant.paper.evidence import CONDITIONS, Evidence
from resultant.paper.failure import failing_claims
from resultant.paper.records import dig
from resultant.paper.summary import SPACES

# How far a size may be from the printed one to be the same.
FACTOR = 2.0

FOREIGN = "asks for images of ImageNet-LT or iNaturalist 2018: see below"
LARGE = tuple(name for name, kind in CONDITIONS.items() if isinstance(kind, str))
CIFAR100 = tuple(name for name in CONDITIONS if name.startswith("CIFAR-100 "))


def measured(
    evidence: Evidence, path: str, conditions: tuple[str, ...], spaces: tuple[str, ...] = SPACES
) -> dict[tuple[str, str], Value]:
    """A number of the frozen summaries, mean over seeds, where it is known."""
    found = {}
    for condition in conditions:
        for space in spaces:
            by_seed = evidence.frozen(condition, space).values()
            value = Value.of([v for s in by_seed if (v := dig(s, path)) is not None])
            if value is not None:
                found[condition, space] = value
    return found


def span(values: list[float], digits: int, scale: float = 1.0, sign: str = "") -> str:
    """Least and largest of values, in words."""
    low, high = (format(scale * f(values), f"{sign}.{digits}f") for f in (min, max))
    return low if low == high else f"{low} to {high}"


def counted(values: list[Value]) -> str:
    """Over how many seeds values are."""
    low, high = (f(v.n for v in values) for f in (min, max))
    return f"n = {low}" if low == high else f"n = {low} to {high}"


def spread(values: list[Value], digits: int, scale: float = 1.0, sign: str = "") -> str:
    """Least and largest of means, over how many seeds they are, and their largest deviation."""
    said = f"{span([v.mean for v in values], digits, scale, sign)}; {counted(values)}"
    known = [v.sd for v in values if v.sd is not None]
    return said + (f", sd up to {scale * max(known):.{digits}f}" if known else "")


def within(values: list[float], low: float, high: float) -> tuple[bool, str]:
    """Whether values keep to a printed range widened by half of its width, and the rule."""
    wide = (high - low) / 2
    inside = low <= min(values) and max(values) <= high
    rule = (
        f"in the printed range widened by half its width{'' if inside else ' (not in it as it is)'}"
    )
    return low - wide <= min(values) and max(values) <= high + wide, rule


def alike(ours: float, paper: float) -> bool:
    """The same sign, and the same size within the factor."""
    return ours * paper > 0 and 1 / FACTOR <= ours / paper <= FACTOR


def frozen_claims(evidence: Evidence) -> Iterator[Claim]:
    """Agreement with cosine, certificates and gradients over the conditions of tab:frozen-vmf."""
    everywhere = tuple(CONDITIONS)
    number = len(everywhere) * len(SPACES)

    def ranged(
        label: str,
        text: str,
        paper: str,
        path: str,
        conditions: tuple[str, ...],
        judge: Callable[[list[float]], tuple[bool, str]],
        digits: int = 2,
        scale: float = 1.0,
    ) -> Claim:
        known = list(measured(evidence, path, conditions).values())
        found = [scale * v.mean for v in known]
        if not found:
            lost = conditions == LARGE
            about = (label, text, paper)
            return untestable(*about, FOREIGN) if lost else waiting(*about, "main")
        of = len(conditions) * len(SPACES)
        ours = spread(known, digits, scale)
        return judged(label, text, paper, ours, *judge(found), tested=len(found), of=of)

    yield ranged(
        *("sec:realization", "Cosine and Pure Angular agree in sixteen conditions (%)"),
        *("98.43 to 99.99", "cosine.agreement", everywhere),
        lambda v: within(v, 98.43, 99.99),
        scale=100,
    )
    gaps = less(evidence, "angular", "cosine", everywhere)
    text = "Accuracy of Pure Angular less cosine (points)"
    if gaps:
        means = [Value.of(gap) for gap in gaps.values()]
        known = [v for v in means if v is not None]
        yield judged(
            *("sec:realization", text, "-0.170 to +0.110", spread(known, 3, sign="+")),
            *within([v.mean for v in known], -0.170, 0.110),
            tested=len(known),
            of=number,
        )
    yield ranged(
        *("tab:cosine-diagnostics", "Certified queries on which the two rules differ", "0"),
        *("cosine.certified_disagreements", everywhere),
        lambda v: (max(v) == 0, "none"),
        digits=0,
    )
    low = measured(evidence, "cosine.low_margin", everywhere)
    all_ = measured(evidence, "cosine.disagreements", everywhere)
    shares = [v.mean / all_[at].mean for at, v in low.items() if all_[at].mean]
    if shares:
        yield judged(
            *("tab:cosine-diagnostics", "Disagreements in the lowest cosine-margin decile (%)"),
            *("97.3 to 100", f"{span(shares, 1, 100)}; {counted(list(low.values()))}"),
            *within([100 * v for v in shares], 97.3, 100),
            tested=len(shares),
            of=number,
        )
    yield ranged(
        *("sec:realization", "Gradients of Pure Angular and cosine, CIFAR-100: error (%)"),
        *("1.45 to 1.62", "gradients.gradient_error", CIFAR100),
        lambda v: within(v, 1.448, 1.624),
    )
    yield ranged(
        *("sec:realization", "Median cosine between these gradients, CIFAR-100"),
        *("> 0.99995", "gradients.median_cosine", CIFAR100),
        lambda v: (min(v) > 0.99995, "above 0.99995"),
        digits=6,
    )
    yield ranged(
        *("sec:realization", "The same on ImageNet-LT and iNaturalist: error (%)"),
        *("0.12 to 0.15", "gradients.gradient_error", LARGE),
        lambda v: within(v, 0.122, 0.146),
        digits=3,
    )
    yield _decreases(evidence)


def less(
    evidence: Evidence, after: str, before: str, conditions: tuple[str, ...]
) -> dict[tuple[str, str], tuple[float, ...]]:
    """The frozen accuracy of one rule less that of another in points, network by network, where
    there are any."""
    found = {}
    for condition in conditions:
        for space in SPACES:
            accuracies = [s["accuracy"] for s in evidence.frozen(condition, space).values()]
            if accuracies:
                gaps = tuple(100 * (a[after] - a[before]) for a in accuracies)
                found[condition, space] = gaps
    return found


def _decreases(evidence: Evidence) -> Claim:
    text = "CIFAR-10 IF50, IF100: equalization lowers frozen accuracy, E / P (points)"
    paper, conditions = "-0.75 / -0.14, -0.74 / -0.23", ("CIFAR-10 / 50", "CIFAR-10 / 100")
    found = less(evidence, "angular", "native", conditions)
    changes = {at: Change("", "", -1.0, gaps) for at, gaps in found.items()}
    if not changes:
        return waiting("sec:realization", text, paper, "main")
    ours = ", ".join(
        f"IF{c.rpartition(' ')[2]} {s[0].upper()} {v.ours.said(2, sign=True)}"
        for (c, s), v in changes.items()
        if v.ours is not None
    )
    ours += f"; {counted([v.ours for v in changes.values() if v.ours is not None])}"
    verdicts = [v.verdict for v in changes.values()]
    holds = True if all(v == "holds" for v in verdicts) else None
    holds = False if any(v.startswith("does not") for v in verdicts) else holds
    rule = "each negative with p < 0.05 over networks; one positive with p < 0.05 is against it"
    return judged(*("sec:realization", text, paper, ours, holds, rule), tested=len(changes), of=4)


def boundary_claims(evidence: Evidence) -> Iterator[Claim]:
    """Displacements and margin changes of selected pairs (sec:root-solving,
    sec:margin-change-protocol), projection features."""

    def one(condition: str, path: str) -> Value | None:
        return measured(evidence, path, (condition,), ("projection",)).get(
            (condition, "projection")
        )

    printed: dict[str, dict[str, Any]] = {
        "CIFAR-10 / 100": {"mae": 0.011627, "largest": 0.029000},
        "CIFAR-100 / 100": {"mae": 0.11986, "agreement": 98.63, "coverage": 97.57},
        "ImageNet-LT": {"mae": 0.00272, "agreement": 99.92, "coverage": 99.83},
        "iNaturalist 2018": {"mae": 0.00419, "agreement": 100.0, "coverage": 100.0},
    }
    paths = {
        "mae": ("Boundary displacement MAE (degrees)", "boundaries.joint_leading.mae", 1, 4),
        "largest": (
            "Largest displacement error (degrees)",
            "boundaries.joint_leading.largest",
            1,
            4,
        ),
        "agreement": ("Direction of margin changes predicted (%)", "margins.agreement", 100, 2),
        "coverage": ("Margin-change certificate covers (%)", "margins.coverage", 100, 2),
    }
    for condition, values in printed.items():
        for key, number in values.items():
            text, path, scale, digits = paths[key]
            label = "sec:root-solving" if digits == 4 else "sec:margin-change-protocol"
            text, found = f"{condition}: {text}", one(condition, path)
            if found is None:
                store = isinstance(CONDITIONS[condition], str)
                yield (
                    untestable(label, text, f"{number:g}", FOREIGN)
                    if store
                    else waiting(label, text, f"{number:g}", "main")
                )
                continue
            ours = Value(scale * found.mean, found.sd and scale * found.sd, found.n)
            if digits == 4:
                holds, rule = alike(ours.mean, number), "the same size within a factor of two"
            else:
                holds, rule = abs(ours.mean - number) <= 1, "within one point"
            said = f"{ours.said(digits)}; {counted([ours])}"
            yield judged(label, text, f"{number:g}", said, holds, rule)
    text = "CIFAR-10 / 100: pairs with one boundary before and after; their directions predicted"
    moved = one("CIFAR-10 / 100", "boundaries.tally.displaced")
    right = one("CIFAR-10 / 100", "boundaries.joint_leading.same_direction")
    if moved is None or right is None:
        yield waiting("sec:controlled-studies", text, "45 of 45; 100 %", "main")
    else:
        yield judged(
            *("sec:controlled-studies", text, "45 of 45; 100 %"),
            f"{moved.said(1)} of 45; {100 * right.mean:.1f} %; {counted([moved])}",
            *(moved.mean == 45 and right.mean == 1, "every pair and every direction"),
        )
    text = "CIFAR-100 / 100: directions of displacement predicted; pairs that acquire a root"
    right = one("CIFAR-100 / 100", "boundaries.joint_leading.same_direction")
    born = one("CIFAR-100 / 100", "boundaries.tally.created")
    gone = one("CIFAR-100 / 100", "boundaries.tally.vanished")
    wrong = one("CIFAR-100 / 100", "margins.certified_wrong")
    if right is None or born is None or gone is None or wrong is None:
        yield waiting("sec:controlled-studies", text, "100 %; 7 of 60", "main")
        return
    yield judged(
        *("sec:controlled-studies", text, "100 %; 7 of 60"),
        f"{100 * right.mean:.1f} %; {born.said(1)} of 60; {counted([born])}",
        right.mean == 1 and gone.mean == 0,
        "every direction; roots are born, none is lost",
    )
    yield judged(
        *("sec:margin-change-protocol", "CIFAR-100 / 100: certified margin changes that are wrong"),
        *("0", f"{wrong.mean:g}; {counted([wrong])}", wrong.mean == 0, "none"),
    )


def prior_claims(evidence: Evidence) -> Iterator[Claim]:
    """sec:prior-dependent-frozen, sec:inat-realization-protocol and calibration."""
    for condition, gamma, paper in (
        ("CIFAR-100 / 100", 0.0, 2.57),
        ("CIFAR-100 / 100", -1.0, -5.35),
        ("ImageNet-LT", 0.0, 0.195),
        ("iNaturalist 2018", 0.0, 2.297),
        ("ImageNet-LT", -1.0, -1.665),
    ):
        text = f"{condition}: equalization at gamma = {gamma:g}, projection (points)"
        yield _equalized(evidence, condition, gamma, paper, text)
    yield from _inaturalist(evidence)


def _equalized(evidence: Evidence, condition: str, gamma: float, paper: float, text: str) -> Claim:
    """What direct temperature at beta = 0 changes, of a network that the paper does not name."""
    label = "sec:prior-dependent-frozen"
    grids = [s["grid"] for s in evidence.frozen(condition, "projection").values() if "grid" in s]
    keys = (f"temperature 0 {gamma:g}", f"native 1 {gamma:g}")
    ours = Value.of([100 * (g[keys[0]] - g[keys[1]]) for g in grids if g.get(keys[0]) is not None])
    if ours is None:
        return untestable(label, text, f"{paper:+g}", FOREIGN)
    # On contrastive-only networks, such as ours, tab:frozen-vmf itself has other numbers.
    holds = True if alike(ours.mean, paper) else None if ours.mean * paper > 0 else False
    rule = "the same size within a factor of two; another sign is against it (network not named)"
    said = f"{ours.said(2, sign=True)}; {counted([ours])}"
    return judged(label, text, f"{paper:+g}", said, holds, rule)


def _inaturalist(evidence: Evidence) -> Iterator[Claim]:
    text = "iNaturalist projection: native and Pure Angular at zero and frequency offset (%)"
    paper = "63.072, 65.422; 49.169, 49.226"
    changes = "iNaturalist E / P: equalization raises accuracy (points) and NLL"
    printed = "+7.165 / +2.297; +0.0521 / +0.0097"
    if not evidence.has("inaturalist18"):
        yield untestable("sec:inat-realization-protocol", text, paper, FOREIGN)
        yield untestable("sec:backbone-calibration-extension", changes, printed, FOREIGN)
        return
    grid = evidence.analysis("inaturalist18", "projection").grid
    assert grid is not None
    ours = [
        100 * (grid.point(r, 0.0, g).accuracy or 0) for g in (0, 1) for r in ("native", "angular")
    ]
    wanted = (63.072, 65.422, 49.169, 49.226)
    near = all(abs(a - b) <= 0.5 for a, b in zip(ours, wanted, strict=True))
    said = ", ".join(f"{v:.3f}" for v in ours)
    label = "sec:inat-realization-protocol"
    yield judged(label, text, paper, said, near, "each within half a point")
    summaries = [evidence.summary("inaturalist18", space, "proco") for space in SPACES]
    gains = [100 * (s["accuracy"]["angular"] - s["accuracy"]["native"]) for s in summaries]
    costs = [s["nll"]["angular"] - s["nll"]["native"] for s in summaries]
    said = f"{gains[0]:+.3f} / {gains[1]:+.3f}; {costs[0]:+.4f} / {costs[1]:+.4f}"
    yield judged(
        *("sec:backbone-calibration-extension", changes, printed, said),
        *(min(gains) > 0 and min(costs) > 0, "accuracy and NLL both rise"),
    )


THEORY = ("residual-orders", "second-order-error", "fixed-regime", "failure-state")


def theory_claims(evidence: Evidence) -> Iterator[Claim]:
    """The numbers of the theory, by the checks of `resultant.verify`, and the failing state."""
    for name in THEORY:
        check = evidence.check(name)
        rule = str(check.details.get("rule", ""))
        yield judged(check.label, check.claim, check.paper, check.ours, check.holds, rule)
    yield from failing_claims(evidence)
