"""Sentences of the paper with a number in them: the frozen ones and those of the theory.

A rule says what "holds" asks for (`resultant_reproduction.rules`).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence

from resultant.analysis import Policy
from resultant_reproduction.artefact import Change, Claim, Value, judged, rows, untestable, waiting
from resultant_reproduction.evidence import CONDITIONS, PACKAGED, Evidence
from resultant_reproduction.failure import failing_claims
from resultant_reproduction.feature_figures import finite_sample_claims
from resultant_reproduction.frozen_tables import DIAGNOSTICS, REALIZED
from resultant_reproduction.mechanism_claims import frozen_gradient_claim
from resultant_reproduction.networks import at_path, by_place, less
from resultant_reproduction.rules import (
    BORNE_OUT,
    DRAWN,
    NO_IMAGES,
    POINT,
    SIZE,
    above,
    alike,
    borne_out,
    counted,
    drawn,
    of_networks,
    reaching,
    sized,
    span,
    whole,
    within,
)
from resultant_reproduction.summarize import SPACES

LARGE = tuple(name for name, kind in CONDITIONS.items() if isinstance(kind, str))
CIFAR100 = tuple(name for name in CONDITIONS if name.startswith("CIFAR-100 "))
# Where the main text names decreases, Encoder and Projection.
DECREASED = {
    name: " / ".join(texts[-1] for condition, _, *texts in rows(REALIZED) if condition == name)
    for name in ("CIFAR-10 / 50", "CIFAR-10 / 100")
}


def frozen_claims(evidence: Evidence) -> Iterator[Claim]:
    """Agreement with cosine, certificates and gradients over the conditions of tab:frozen-vmf."""
    everywhere = tuple(CONDITIONS)

    def ranged(
        label: str,
        text: str,
        paper: str,
        path: str,
        conditions: tuple[str, ...],
        judge: Callable[[list[list[float]]], tuple[bool | None, str]],
        digits: int = 2,
        scale: float = 1.0,
    ) -> Claim:
        known = list(by_place(evidence, at_path(path), conditions).values())
        if not known:
            lost = conditions == LARGE
            about = (label, text, paper)
            return untestable(*about, NO_IMAGES) if lost else waiting(*about, "main")
        ours, of = reaching(known, digits, scale), len(conditions) * len(SPACES)
        places = [[scale * v for v in values] for values in known]
        claim = judged(label, text, paper, ours, *judge(places), tested=len(known), of=of)
        return of_networks(claim, min(map(len, known)))

    yield ranged(
        *("sec:realization", "Cosine and Pure Angular agree in sixteen conditions (%)"),
        *("98.43 to 99.99", "cosine.agreement", everywhere),
        lambda v: within(_means(v), 98.43, 99.99, 100),
        scale=100,
    )
    yield ranged(
        *("sec:realization", "Cosine and Pure Angular agree on CIFAR-10 IF50, IF100 (%)"),
        *("99.46 to 99.95", "cosine.agreement", tuple(DECREASED)),
        lambda v: within(_means(v), 99.46, 99.95, 100),
        scale=100,
    )
    gaps = list(by_place(evidence, less("accuracy.angular", "accuracy.cosine")).values())
    text = "Accuracy of Pure Angular less cosine (points)"
    if gaps:
        claim = judged(
            *("sec:realization", text, "-0.170 to +0.110", reaching(gaps, 3, sign="+")),
            *within(_means(gaps), -0.170, 0.110),
            tested=len(gaps),
            of=len(everywhere) * len(SPACES),
        )
        yield of_networks(claim, min(map(len, gaps)))
    yield ranged(
        *("tab:cosine-diagnostics", "Certified queries on which Pure Angular and cosine differ"),
        *("0", "cosine.certified_disagreements", everywhere),
        lambda v: (max(map(max, v)) == 0, "none on any network"),
        digits=0,
    )
    yield from _low_margins(evidence)
    yield ranged(
        *("sec:realization", "Gradients of Pure Angular and cosine, CIFAR-100: error (%)"),
        *("1.45 to 1.62", "gradients.gradient_error", CIFAR100),
        lambda v: within(_means(v), 1.448, 1.624),
    )
    yield frozen_gradient_claim(evidence)
    for name, conditions in (("CIFAR-100", CIFAR100), ("ImageNet-LT and iNaturalist", LARGE)):
        yield ranged(
            *("sec:realization", f"Gradients of Pure Angular and cosine, {name}: median cosine"),
            *("> 0.99995", "gradients.median_cosine", conditions),
            lambda v: above(v, 0.99995),
            digits=6,
        )
    yield ranged(
        "sec:realization",
        "Gradients of Pure Angular and cosine, ImageNet-LT and iNaturalist: error (%)",
        *("0.12 to 0.15", "gradients.gradient_error", LARGE),
        lambda v: within(_means(v), 0.122, 0.146),
        digits=3,
    )
    yield from _alike(evidence)
    yield from _decreases(evidence)
    yield from finite_sample_claims(evidence)


def _means(places: Sequence[Sequence[float]]) -> list[float]:
    return [statistics.fmean(values) for values in places]


def _low_margins(evidence: Evidence) -> Iterator[Claim]:
    text = "Disagreements of Pure Angular and cosine in the lowest cosine-margin decile (%)"
    low, every = (
        by_place(evidence, at_path(f"cosine.{name}")) for name in ("low_margin", "disagreements")
    )
    printed = [100 * float(few) / float(all_) for _, _, all_, few, _ in rows(DIAGNOSTICS)]
    shares = [100 * sum(v) / sum(every[at]) for at, v in low.items() if sum(every[at])]
    if shares:
        claim = judged(
            *("tab:cosine-diagnostics", text, f"{span(printed, 1)}, of the printed counts"),
            f"{span(shares, 1)}; {counted(map(len, low.values()))}",
            *within(shares, min(printed), 100, 100, "shares of the counts of all networks"),
            tested=len(shares),
            of=len(CONDITIONS) * len(SPACES),
        )
        yield of_networks(claim, min(map(len, low.values())))


def _alike(evidence: Evidence) -> Iterator[Claim]:
    """sec:frozen-realization-comparison: the three rules decide alike; records have accuracies, and
    the packaged network the decisions."""
    label = "sec:frozen-realization-comparison"
    text = "Temperature and preserve decide as Pure Angular does: accuracy less that (points)"
    printed = [
        float(value) - float(angular)
        for _, _, _, *others, angular, _ in rows(REALIZED)
        for value in others
    ]
    places = [
        by_place(evidence, less(f"accuracy.{rule}", "accuracy.angular"))
        for rule in ("temperature", "preserve")
    ]
    gaps = [values for own in places for values in own.values()]
    if not gaps:
        yield waiting(label, text, _bounds(printed), "main")
        return
    shares = []
    for space in SPACES:
        told = evidence.decisions(PACKAGED, space).prediction
        edited = told[Policy("angular")]
        shares += [
            100 * float((told[Policy(rule)] == edited).double().mean())
            for rule in ("temperature", "preserve")
            if Policy(rule) in told
        ]
    ours = reaching(gaps, 2, sign="+")
    ours += f"; the same decision for {span(shares, 2)} % of the packaged queries"
    claim = judged(
        *(label, text, _bounds(printed), ours),
        *within(_means(gaps), min(printed), max(printed)),
        tested=len(places[0]),
        of=len(CONDITIONS) * len(SPACES),
    )
    yield of_networks(claim, min(map(len, gaps)))


def _bounds(printed: Sequence[float]) -> str:
    return f"{span(printed, 2, sign='+')}, of the printed accuracies"


def _decreases(evidence: Evidence) -> Iterator[Claim]:
    read = less("accuracy.angular", "accuracy.native")
    for condition, paper in DECREASED.items():
        text = f"{condition}: equalization lowers frozen accuracy, E / P (points)"
        changes = []
        for space in SPACES:
            frozen = evidence.frozen(condition, space).items()
            found = {seed: v for seed, s in frozen if (v := read(s)) is not None}
            if found:
                changes.append(Change(f"{condition}, {space}", "", -1.0, found))
        known = [v for c in changes if (v := c.ours) is not None]
        if not known:
            yield waiting("sec:realization", text, paper, "main")
            continue
        said = " / ".join(v.said(2, sign=True) for v in known)
        ours = f"{said}; {counted(v.n for v in known)}; mean of both {whole(changes)}"
        rule = f"{BORNE_OUT}; one setting, the mean of both readouts"
        about = ("sec:realization", text, paper, ours, borne_out(changes), rule)
        yield judged(*about, tested=len(known), of=len(SPACES))


# sec:root-solving compares the linear mean on three data sets, and sec:controlled-studies the
# leading score B0 on CIFAR-10; the caption of fig:main-boundaries is of a figure of B0.
BOUNDARIES: dict[str, dict[str, float]] = {
    "CIFAR-10 / 100": {"leading": 0.011627, "largest": 0.029000},
    "CIFAR-100 / 100": {"mean": 0.11986, "shown": 0.119, "agreement": 98.63, "coverage": 97.57},
    "ImageNet-LT": {"mean": 0.00272, "shown": 0.0027, "agreement": 99.92, "coverage": 99.83},
    "iNaturalist 2018": {"mean": 0.00419, "shown": 0.0042, "agreement": 100, "coverage": 100},
}
ROOTS, FIGURE = "sec:root-solving", "fig:main-boundaries"
STUDIES, MARGINS = "sec:controlled-studies", "sec:margin-change-protocol"
# What is compared, where it is printed, where records have it, its scale and digits.
MEASURED = {
    "leading": (
        *("Boundary displacement MAE, joint leading (degrees)", ROOTS),
        *("boundaries.joint_leading.mae", 1, 4),
    ),
    "largest": (
        *("Largest displacement error, joint leading (degrees)", ROOTS),
        *("boundaries.joint_leading.largest", 1, 4),
    ),
    "mean": (
        *("Boundary displacement MAE, linear mean (degrees)", ROOTS),
        *("boundaries.linear_mean.mae", 1, 4),
    ),
    "shown": (
        *("Boundary displacement MAE, joint leading (degrees)", FIGURE),
        *("boundaries.joint_leading.mae", 1, 4),
    ),
    "agreement": (
        *("Direction of margin changes predicted (%)", STUDIES, "margins.agreement", 100, 2),
    ),
    "coverage": (*("Margin-change certificate covers (%)", MARGINS, "margins.coverage", 100, 2),),
}


def boundary_claims(evidence: Evidence) -> Iterator[Claim]:
    """Displacements and margin changes of selected pairs (sec:controlled-studies, sec:root-solving,
    sec:margin-change-protocol), projection features."""

    def one(condition: str, path: str, scale: float = 1.0) -> Value | None:
        found = by_place(evidence, at_path(path), (condition,), ("projection",))
        return Value.of([scale * v for own in found.values() for v in own])

    def unknown(label: str, condition: str, text: str, paper: str) -> Claim:
        if condition in LARGE:
            return untestable(label, text, paper, NO_IMAGES)
        return waiting(label, text, paper, "main")

    for condition, values in BOUNDARIES.items():
        for key, number in values.items():
            text, label, path, scale, digits = MEASURED[key]
            text, ours = f"{condition}: {text}", one(condition, path, scale)
            if ours is None:
                yield unknown(label, condition, text, f"{number:g}")
                continue
            tolerance = POINT if scale == 100 else SIZE
            yield sized(label, text, [f"{number:g}"], [ours], tolerance, digits)
    label = STUDIES
    text = "CIFAR-10 / 100: pairs with one boundary before and after; their directions predicted"
    moved = one("CIFAR-10 / 100", "boundaries.tally.displaced")
    right = one("CIFAR-10 / 100", "boundaries.joint_leading.same_direction")
    if moved is None or right is None:
        yield waiting(label, text, "45 of 45; 100 %", "main")
    else:
        claim = judged(
            *(label, text, "45 of 45; 100 %"),
            f"{moved.said(1)} of 45; {100 * right.mean:.1f} %; {counted([moved.n])}",
            *(moved.mean == 45 and right.mean == 1, "every pair and every direction"),
        )
        yield of_networks(claim, moved.n)
    for condition, number in (("CIFAR-100 / 100", 7), ("ImageNet-LT", 8), ("iNaturalist 2018", 11)):
        text = f"{condition}: directions of displacement predicted; pairs that acquire a root"
        paper = f"100 %; {number} of 60"
        right, born, gone, wrong = (
            one(condition, path)
            for path in (
                "boundaries.joint_leading.same_direction",
                *("boundaries.tally.created", "boundaries.tally.vanished"),
                "margins.certified_wrong",
            )
        )
        wrongly = f"{condition}: certified margin changes that are wrong"
        if right is None or born is None or gone is None or wrong is None:
            yield unknown(label, condition, text, paper)
            yield unknown(MARGINS, condition, wrongly, "0")
            continue
        claim = judged(
            *(label, text, paper),
            f"{100 * right.mean:.1f} %; {drawn(born, number, 1)} of 60; {counted([born.n])}",
            right.mean == 1 and gone.mean == 0 and alike(born.mean, number),
            f"every direction, no root lost, and of those acquired {SIZE.rule}{DRAWN}",
        )
        yield of_networks(claim, born.n)
        claim = judged(
            *(MARGINS, wrongly, "0", f"{wrong.mean:g}; {counted([wrong.n])}"),
            *(wrong.mean == 0, "none on any network"),
        )
        yield of_networks(claim, wrong.n)


THEORY = ("residual-orders", "second-order-error", "fixed-regime", "failure-state")


def theory_claims(evidence: Evidence) -> Iterator[Claim]:
    """The numbers of the theory, by the checks of `theory`, and the failing state."""
    for name in THEORY:
        check = evidence.check(name)
        rule = str(check.details.get("rule", ""))
        yield judged(check.label, check.claim, check.paper, check.ours, check.holds, rule)
    yield from failing_claims(evidence)
