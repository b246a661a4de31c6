"""Both linear means of the paper: gains alone, as in its numbers, and with the intercepts of its
text."""

from __future__ import annotations

from collections.abc import Mapping

from resultant.analysis import margin_directions
from resultant_reproduction.evidence import PACKAGED, Evidence, by_condition, read_path
from resultant_reproduction.spec import say
from resultant_reproduction.templating import markdown_table
from resultant_reproduction.value import Value

HEADING = "The two linear means"
WITHOUT = "without intercepts, b_c + g_c rho (as printed)"
WITH = "with intercepts, b_c + q_c(0) + g_c rho (as in the text)"
# Errors of boundaries predicted by each, in degrees.
ERRORS = [read_path(f"boundaries.{name}.mae") for name in ("linear_mean", "linear_intercept")]
# Printed mean errors of boundaries in degrees (sec:root-solving), by condition.
BOUNDARIES = {
    "CIFAR-10 / 100": "0.011627",
    "CIFAR-100 / 100": "0.11986 (imbalance not stated)",
    "CIFAR-100 / 50": "0.11986 (imbalance not stated)",
    "ImageNet-LT": "0.00272",
    "iNaturalist 2018": "0.00419",
}
# Printed directions (sec:controlled-studies) and coverage (sec:margin-change-protocol) of margin
# changes in percent, by dataset.
MARGINS = {
    "CIFAR-100-LT": ("98.63", "97.57"),
    "ImageNet-LT": ("99.92", "99.83"),
    "iNaturalist 2018": ("100", "100"),
}


def boundary_means(evidence: Evidence) -> str:
    """Table of the errors of predicted boundaries by either linear mean, over the networks of the
    records and of the packaged network."""
    rows = []
    for condition, printed in BOUNDARIES.items():
        found = (by_condition(evidence, read, (condition,), ("projection",)) for read in ERRORS)
        own = [Value.of(values.get((condition, "projection"), [])) for values in found]
        rows.append((condition, printed, *(f"{v.text(4)} [{v.n}]" if v else "–" for v in own)))
    packaged = [read(evidence.summary(PACKAGED, "projection", "proco")) for read in ERRORS]
    texts = ("–" if error is None else f"{error:.4f}" for error in packaged)
    rows.append(("CIFAR-100 / 100, the packaged network", "–", *texts))
    table = markdown_table(rows, ("mean error (degrees)", "paper", WITHOUT, WITH))
    return f"{say('linear-means')} In brackets: networks.\n\n{table}"


def margin_means(evidence: Evidence, stores: Mapping[str, str]) -> str:
    """Table of the predicted directions of margin changes by either linear mean, on the features
    that are available."""
    rows = []
    for title, store in stores.items():
        if not evidence.has(store, "projection"):
            continue
        space = evidence.space(store, "projection")
        own = [margin_directions(space, intercept=intercept) for intercept in (False, True)]
        shares = {"directions": [m.agreement for m in own], "covered": [m.coverage for m in own]}
        for (what, values), printed in zip(shares.items(), MARGINS[title], strict=True):
            texts = (f"{100 * v:.2f}" if v is not None else "–" for v in values)
            rows.append((f"{title}: {what} (%)", printed, *texts))
        wrong = (f"{m.certified_wrong} of {m.incidences:,}" for m in own)
        rows.append((f"{title}: covered and wrong", "0", *wrong))
    table = markdown_table(rows, ("margin changes", "paper", WITHOUT, WITH))
    return f"{say('linear-means')} {say('margin-means')}\n\n{table}"
