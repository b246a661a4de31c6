"""Claims about frozen features and priors, evaluated on native networks and stores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from statistics import fmean
from typing import Any

from resultant.analysis import Policy
from resultant_reproduction.evaluate import (
    DRAW,
    FACTOR,
    NO_IMAGES,
    POINT,
    SIGNS,
    SIZE,
    Evaluation,
    Statement,
    above,
    conclude,
    in_range,
    same_size,
    signs,
    statement,
    value,
    widened,
    with_draw,
)
from resultant_reproduction.evidence import (
    CONDITIONS,
    PACKAGED,
    Evidence,
    by_condition,
    is_external,
    read_change,
    read_path,
)
from resultant_reproduction.formats import network_counts, span, span_of_networks
from resultant_reproduction.historical import printed_last
from resultant_reproduction.spec import Change, Claim
from resultant_reproduction.stats import pooled_text
from resultant_reproduction.summarize import SPACES
from resultant_reproduction.tables import EQUALIZED
from resultant_reproduction.value import Value

CIFAR100 = tuple(name for name in CONDITIONS if name.startswith("CIFAR-100 "))
LARGE = tuple(filter(is_external, CONDITIONS))
EVERY = len(CONDITIONS) * len(SPACES)

# Twice the largest leading gradient error that is printed, of sec:historical-gradient.
GRADIENTS_CLOSE = FACTOR * max(map(float, printed_last("gradient_error")))
TWICE_PRINTED = (
    ", twice the largest error of leading gradients that the paper prints "
    "(sec:historical-gradient), of which it does not say whether it is stacked over queries as "
    "ours is"
)
THEORY = ("residual-orders", "second-order-error", "fixed-regime", "failure-state")


def theory_claims(evidence: Evidence) -> Iterator[Claim]:
    """Numbers of the theory, by the checks of ``theory``."""
    for name in THEORY:
        check = evidence.check(name)
        evaluation = Evaluation(check.ours, check.holds, str(check.details.get("rule", "")))
        yield conclude(Statement(check.label, check.claim, check.paper, []), evaluation, "")


# Conditions of the claims about pairs of classes, projection features.
PAIRS = {
    "cifar10": "CIFAR-10 / 100",
    "cifar100": "CIFAR-100 / 100",
    "imagenet": "ImageNet-LT",
    "inaturalist": "iNaturalist 2018",
}
# Path, scale and digits of what claims about pairs measure. sec:root-solving compares the linear
# mean on three datasets and the leading score on CIFAR-10; the caption of fig:main-boundaries is of
# a figure of the leading score.
MEASURED = {
    "largest": ("boundaries.joint_leading.largest", 1, 4),
    "mean": ("boundaries.linear_mean.mae", 1, 4),
    "leading": ("boundaries.joint_leading.mae", 1, 4),
    "direction": ("margins.agreement", 100, 2),
    "coverage": ("margins.coverage", 100, 2),
}
BOUNDARY_CLAIMS = (
    *("boundary-cifar10-leading", "boundary-cifar10-largest"),
    *(
        f"{kind}-{name}-{measure}"
        for name in ("cifar100", "imagenet", "inaturalist")
        for kind, measures in (
            ("boundary", ("mean", "leading")),
            ("margin", ("direction", "coverage")),
        )
        for measure in measures
    ),
)


def boundary_claims(evidence: Evidence) -> Iterator[Claim]:
    """Displacements and margin changes of selected pairs (sec:controlled-studies,
    sec:root-solving, sec:margin-change-protocol)."""

    def one(name: str, path: str, scale: float = 1.0) -> Value | None:
        numbers = by_condition(evidence, read_path(path), (PAIRS[name],), ("projection",))
        return Value.of([scale * v for own in numbers.values() for v in own])

    for claim in BOUNDARY_CLAIMS:
        _, name, measure = claim.split("-")
        path, scale, digits = MEASURED[measure]
        tolerance = POINT if scale == 100 else SIZE
        evaluation = value(statement(claim), [one(name, path, scale)], tolerance, digits)
        yield conclude(statement(claim), evaluation, _missing((PAIRS[name],)))
    for name, condition in PAIRS.items():
        right = one(name, "boundaries.joint_leading.same_direction")
        moved, born, gone = (
            one(name, f"boundaries.tally.{kind}") for kind in ("displaced", "created", "vanished")
        )
        wrong = one(name, "margins.certified_wrong")
        evaluation = certified = None
        if name == "cifar10" and moved is not None and right is not None:
            evaluation = Evaluation(
                f"{moved.text(1)} of 45; {100 * right.mean:.1f} %; {network_counts([moved.n])}",
                *(moved.mean == 45 and right.mean == 1, "every pair and every direction"),
                networks=moved.n,
            )
        elif right and born and gone and wrong:
            number = statement(f"pairs-{name}").numbers[0]
            evaluation = Evaluation(
                f"{100 * right.mean:.1f} %; {with_draw(born, number, 1)} of 60; "
                f"{network_counts([born.n])}",
                right.mean == 1 and gone.mean == 0 and same_size(born.mean, number),
                f"every direction, no root lost, and of those acquired {SIZE.rule}{DRAW}",
                networks=born.n,
            )
            certified = Evaluation(
                f"{wrong.mean:g}; {network_counts([wrong.n])}",
                *(wrong.mean == 0, "none on any network"),
                networks=wrong.n,
            )
        yield conclude(statement(f"pairs-{name}"), evaluation, _missing((condition,)))
        if name != "cifar10":
            yield conclude(statement(f"certified-{name}"), certified, _missing((condition,)))


def _missing(conditions: Iterable[str]) -> str:
    return NO_IMAGES if all(map(is_external, conditions)) else "main"


def frozen_claims(evidence: Evidence) -> Iterator[Claim]:
    """Agreement with cosine, certificates and gradients over the conditions of tab:frozen-vmf."""

    def read(path: str, conditions: Sequence[str] = tuple(CONDITIONS)) -> list[list[float]]:
        return list(by_condition(evidence, read_path(path), conditions).values())

    if100 = ("CIFAR-10 / 50", "CIFAR-10 / 100")
    for name, conditions in (("agreement", tuple(CONDITIONS)), ("agreement-cifar10", if100)):
        settings, of = read("cosine.agreement", conditions), len(conditions) * len(SPACES)
        evaluation = in_range(statement(name), settings, 2, scale=100, most=100, of=of)
        yield conclude(statement(name), evaluation, "main")
    name = "angular-less-cosine"
    gaps = by_condition(evidence, read_change("accuracy.angular", "accuracy.cosine"))
    evaluation = in_range(statement(name), list(gaps.values()), 3, sign="+", of=EVERY)
    yield conclude(statement(name), evaluation, "main")
    yield _certified(read("cosine.certified_disagreements"))
    yield _low_margin(evidence)
    yield _gradient_error("gradient-error-cifar100", read, CIFAR100, 2)
    yield leading_gradients(evidence)
    for name, conditions in (
        ("gradient-cosine-cifar100", CIFAR100),
        ("gradient-cosine-large", LARGE),
    ):
        settings = read("gradients.median_cosine", conditions)
        evaluation = above(settings, statement(name).numbers[0], 6, len(conditions) * len(SPACES))
        yield conclude(statement(name), evaluation, _missing(conditions))
    yield _gradient_error("gradient-error-large", read, LARGE, 3)
    yield _realizations_alike(evidence)
    for imbalance in (50, 100):
        yield _decrease(evidence, imbalance)


def _certified(settings: Sequence[Sequence[float]]) -> Claim:
    evaluation = None
    if settings:
        evaluation = Evaluation(
            span_of_networks(settings, 0),
            *(max(map(max, settings)) == 0, "none on any network", len(settings), EVERY),
            networks=min(map(len, settings)),
        )
    return conclude(statement("certified-disagreements"), evaluation, "main")


def _gradient_error(name: str, read: Any, conditions: Sequence[str], digits: int) -> Claim:
    settings = read("gradients.gradient_error", conditions)
    evaluation = in_range(statement(name), settings, digits, of=len(conditions) * len(SPACES))
    return conclude(statement(name), evaluation, _missing(conditions))


def _low_margin(evidence: Evidence) -> Claim:
    claim = statement("low-margin")
    low, every = (
        by_condition(evidence, read_path(f"cosine.{name}"))
        for name in ("low_margin", "disagreements")
    )
    shares = [100 * sum(v) / sum(every[at]) for at, v in low.items() if sum(every[at])]
    evaluation = None
    if shares:
        of = "shares of the counts of all networks"
        evaluation = Evaluation(
            f"{span(shares, 1)}; {network_counts(map(len, low.values()))}",
            *widened(shares, claim.numbers[0], claim.numbers[1], 100, of),
            *(len(shares), EVERY),
            networks=min(map(len, low.values())),
        )
    return conclude(claim, evaluation, "main")


def leading_gradients(evidence: Evidence) -> Claim:
    """Both leading scores on the native networks of all conditions (sec:gradient-protocol)."""
    leading = {"linear mean": "linear_error", "joint leading": "joint_error"}
    errors = {
        n: by_condition(evidence, read_path(f"gradients.{key}")) for n, key in leading.items()
    }
    settings = [values for own in errors.values() for values in own.values()]
    evaluation = None
    if settings:
        texts = [
            f"{space} {name} {span(means, 2)}"
            for space, (name, own) in product(SPACES, errors.items())
            if (means := [fmean(values) for (_, at), values in own.items() if at == space])
        ]
        evaluation = Evaluation(
            f"{', '.join(texts)}; {network_counts(map(len, settings))}",
            max(map(fmean, settings)) <= GRADIENTS_CLOSE,
            f"means over networks at most {GRADIENTS_CLOSE:.2f}{TWICE_PRINTED}; the paper does not "
            "say which leading score it takes, and both are asked",
            *(len({at for own in errors.values() for at in own}), EVERY),
            networks=min(map(len, settings)),
        )
    return conclude(statement("frozen-gradients"), evaluation, "main")


def _realizations_alike(evidence: Evidence) -> Claim:
    """Temperature and preserve decide as Pure Angular: accuracies of the records, decisions of the
    packaged network."""
    claim, others = statement("realizations-alike"), ("temperature", "preserve")
    gaps = [
        by_condition(evidence, read_change(f"accuracy.{rule}", "accuracy.angular"))
        for rule in others
    ]
    settings = [values for own in gaps for values in own.values()]
    if not settings:
        return conclude(claim, None, "main")
    shares = []
    for space in SPACES:
        prediction = evidence.decisions(PACKAGED, space).prediction
        shares += [
            100 * float((prediction[Policy(rule)] == prediction[Policy("angular")]).double().mean())
            for rule in others
            if Policy(rule) in prediction
        ]
    extra = f"; the same decision for {span(shares, 2)} % of the packaged queries"
    evaluation = in_range(claim, settings, 2, sign="+", extra=extra, tested=len(gaps[0]), of=EVERY)
    return conclude(claim, evaluation, "main")


def _decrease(evidence: Evidence, imbalance: int) -> Claim:
    condition, changes = f"CIFAR-10 / {imbalance}", []
    for space in SPACES:
        summaries = evidence.frozen(condition, space).items()
        by_seed = {seed: v for seed, s in summaries if (v := EQUALIZED(s)) is not None}
        if by_seed:
            changes.append(Change(f"{condition}, {space}", "", -1.0, by_seed))
    values = [v for c in changes if (v := c.ours) is not None]
    ours = ""
    if values:
        texts = " / ".join(v.text(2, sign=True) for v in values)
        ours = f"{texts}; {network_counts(v.n for v in values)}; mean of both "
        ours += pooled_text(changes)
    rule = f"{SIGNS}; one setting, the mean of both readouts"
    evaluation = signs(changes, ours, len(SPACES), rule=rule)
    return conclude(statement(f"decrease-if{imbalance}"), evaluation, "main")
