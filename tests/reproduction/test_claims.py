"""Claims of the theory, of frozen features and of priors, from artificial records."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from frozen_data import small_space
from paper_evidence import OfSpaces
from resultant.training.config import preset
from resultant.training.records import identity
from resultant_reproduction import Evidence, Records
from resultant_reproduction.artefacts import claims
from resultant_reproduction.claims import boundary_claims, frozen_claims, theory_claims
from resultant_reproduction.plan import PLANS, controlled, official
from resultant_reproduction.prior_claims import ANALYZED, prior_claims
from resultant_reproduction.spec import Claim
from resultant_reproduction.theory import Check
from training_records import record


def of_records(records: list[dict[str, Any]]) -> OfSpaces:
    return OfSpaces(lambda estimator: small_space(estimator=estimator), records)


def claims_by_text(built: Any) -> dict[str, Claim]:
    return {claim.text: claim for claim in built}


def public(change: float, seed: int) -> dict[str, Any]:
    accuracy = {"native": 0.44, "temperature": 0.44 + change / 100}
    config, frozen = official("cifar100", 100), {"projection": {"proco": accuracy}}
    return record(config, "native", 0.0, seed, frozen=frozen)


def contrastive(seed: int) -> dict[str, Any]:
    """A native network with what the claims read of its frozen summaries."""
    grid = {"native 1 0": 0.4, "temperature 0 0": 0.407, "native 1 -1": 0.4}
    built = {
        "accuracy": {"native": 0.4, "angular": 0.395 - 0.001 * seed, "cosine": 0.4},
        "grid": grid | {"temperature 0 -1": 0.38},
        "cosine": {
            "agreement": 0.995 + 0.001 * seed,
            "certified_disagreements": 0,
            "low_margin": 9,
            "disagreements": 10,
        },
        "gradients": {"gradient_error": 1.5, "median_cosine": 0.99996 - 0.000018 * seed},
    }
    return {space: {"proco": built} for space in ("encoder", "projection")}


def test_network_that_is_not_named() -> None:
    """On a recipe that is guessed the sign decides, if it is seen, and no size does."""
    own = [record(controlled("cifar100", 100), "native", 0.0, 0, analysis=contrastive(0))]
    key = "CIFAR-100, network not named: equalization at gamma = {}, projection (points)"
    for change, verdict, result in (
        (1.75, "holds where tested", "sign and order of size agree"),
        (0.7, "holds where tested", "the sign agrees, the size does not"),
        (0.01, "not settled", "the sign agrees, the size does not, but is not seen"),
        (-2.0, "does not hold", "the sign does not agree"),
        (-0.01, "not settled", "the sign does not agree, but is not seen"),
    ):
        both = public(change - 0.02, 1), public(change + 0.02, 2)
        every = claims_by_text(prior_claims(of_records([*own, *both])))
        claim = every[key.format(0)]
        assert claim.why.startswith(f"{result}; ")
        assert claim.verdict == verdict and f"recipe {change:+.2f} ± 0.03, n = 2" in claim.ours
        assert claim.ours.endswith("contrastive-only +0.70, n = 1")
        other = every[key.format(-1)]
        assert (other.verdict, other.ours) == ("not settled", "contrastive-only -2.00, n = 1")
        assert "no record" in other.why and "reproduced" not in other.why
        assert f"; more seeds: {ANALYZED}" in other.why
    assert claims_by_text(prior_claims(of_records(own)))[key.format(0)].verdict == "not settled"
    for change in (-0.01, -5.0, 5.0):
        claim = claims_by_text(prior_claims(of_records([*own, public(change, 1)])))[key.format(0)]
        assert claim.verdict == "not settled" and "but is not tested; " in claim.why


def test_seeds_without_an_analysis() -> None:
    """The command that gives it is named, and is one of the plan, until all seeds have it."""
    key = "CIFAR-100, network not named: equalization at gamma = 0, projection (points)"
    for seeds in (2, 3):
        records = [public(1.7 + 0.02 * seed, seed) for seed in range(seeds)]
        records.append(
            record(controlled("cifar100", 100), "native", 0.0, 0, analysis=contrastive(0))
        )
        claim = claims_by_text(prior_claims(Evidence(Records(records))))[key]
        assert claim.verdict == "holds where tested" and (ANALYZED in claim.why) == (seeds == 2)
    name = ANALYZED.rpartition("--jobs ")[2]
    (job,) = (job for job in PLANS["power"].jobs() if job.name == name)
    kinds = {(identity(job.config, r.realization, r.beta), r.seed) for r in job.runs}
    assert {(identity(official("cifar100", 100), "native", 0.0), seed) for seed in range(3)} < kinds
    assert "native" in job.analyzed


def test_nll_of_cifar_is_shown_with_inaturalist() -> None:
    """The mean over two settings, one with more networks; no text without values."""
    text = "iNaturalist E / P: equalization raises accuracy (points) and NLL"

    def claim(**steps: tuple[float, ...]) -> Claim:
        records = []
        for name, own in steps.items():
            for seed, step in enumerate(own):
                # With a cosine, so that the packaged network is not asked.
                built = {
                    "nll": {"native": 2.0, "angular": 2.0 + step} if step else {},
                    "cosine": {},
                }
                analysis = {space: {"proco": built} for space in ("encoder", "projection")}
                config = controlled("cifar100", int(name[2:]))
                records.append(record(config, "native", 0.0, seed, analysis=analysis))
        return claims_by_text(prior_claims(Evidence(Records(records))))[text]

    result = claim(if50=(-0.02, -0.04), if100=(-0.01, -0.02, 0.03))
    assert result.verdict == "cannot be tested here"
    assert re.search(r"judged: CIFAR-100 -0.0150 \[.*\] / -0.0150 \[.*\]; 7.165 here", result.why)
    assert "NLL of ours" not in claim(if100=(0.0,)).why


def test_the_sign_that_turns() -> None:
    """Contrastive networks, with an effect at both strengths of the prior."""
    key = "CIFAR-100, network not named: equalization at gamma = {}, projection (points)"

    def why(after: tuple[float, ...], gamma: int = -1) -> str:
        records = [contrastive(seed) for seed in range(3)]
        for seed, (one, value) in enumerate(zip(records, after, strict=True)):
            grid = one["projection"]["proco"]["grid"]
            grid |= {"temperature 0 0": 0.407 + 0.0001 * seed, "temperature 0 -1": value}
        config = controlled("cifar100", 100)
        own = [record(config, "native", 0.0, i, analysis=a) for i, a in enumerate(records)]
        return claims_by_text(prior_claims(of_records(own)))[key.format(gamma)].why

    turned = "that the sign turns from gamma = 0 is reproduced on contrastive-only networks"
    assert turned in why((0.38, 0.381, 0.382)) and turned not in why((0.38, 0.381, 0.382), 0)
    assert turned not in why((0.38, 0.4, 0.41)) and turned not in why((0.42, 0.421, 0.422))


@pytest.mark.slow
def test_authors_backbones() -> None:
    """The changes of tab:cross-backbone, not those of a contrastive network."""
    key = "ImageNet-LT, ResNet-50 / ResNeXt-50: equalization at gamma = {}, {} (points)"
    lost = claims_by_text(prior_claims(of_records([])))
    for at in ((0, "projection"), (-1, "projection"), (0, "encoder")):
        assert lost[key.format(*at)].verdict == "cannot be tested here"
    assert lost[key.format(0, "encoder")].paper == "+2.020 / +1.635"
    grid = {"native 1 0": 0.5, "temperature 0 0": 0.502, "native 1 -1": 0.5}
    analysis = {"projection": {"proco": {"grid": grid | {"temperature 0 -1": 0.503}}}}
    records = [
        record(preset("imagenet-lt", architecture=name), "native", 0.0, 0, analysis=analysis)
        for name in ("resnet50", "resnext50_32x4d")
    ]
    result = claims_by_text(prior_claims(of_records(records)))
    zero, minus = result[key.format(0, "projection")], result[key.format(-1, "projection")]
    assert (zero.paper, zero.ours) == ("+0.195 / +0.315", "+0.200 / +0.200; n = 1")
    # One network of each.
    assert (zero.verdict, minus.verdict) == ("holds where tested", "not settled")


def test_frozen_claims_are_of_means() -> None:
    """One network of two is below the cosine that their mean is above: it is not cleared."""
    settings = (("cifar10", 50), ("cifar10", 100), ("cifar100", 50), ("cifar100", 100))
    records = [
        record(controlled(*setting), "native", 0.0, seed, analysis=contrastive(seed))
        for setting in settings
        for seed in (0, 1)
    ]
    result = claims_by_text(frozen_claims(Evidence(Records(records))))
    cosine = result["Gradients of Pure Angular and cosine, CIFAR-100: median cosine"]
    assert cosine.ours == "0.999951; n = 2, single networks 0.999942 to 0.999960 (4 of 6)"
    assert cosine.verdict == "not settled" and "spread at 4 of 4" in cosine.why
    agreement = result["Cosine and Pure Angular agree on CIFAR-10 IF50, IF100 (%)"]
    assert agreement.ours == "99.55; n = 2, single networks 99.50 to 99.60"
    assert agreement.verdict == "holds" and " to 100, " in agreement.why
    shares = result[
        "Disagreements of Pure Angular and cosine in the lowest cosine-margin decile (%)"
    ]
    assert shares.verdict == "does not hold" and "95.95 to 100" in shares.why
    key = "CIFAR-10 / {}: equalization lowers frozen accuracy, E / P (points)"
    lower = result[key.format(100)]
    assert lower.ours.startswith("-0.55 ± 0.07 / -0.55 ± 0.07; n = 2; mean of both -0.55 [")
    assert (lower.paper, lower.verdict) == ("-0.74 / -0.23", "not settled")


@pytest.mark.slow
def test_decreases_by_imbalance() -> None:
    """One setting is seen, the other is not: neither speaks for the other."""
    steps = {50: (-0.004, 0.001, -0.001), 100: (-0.004, -0.005, -0.0045)}
    records = []
    for imbalance, own in steps.items():
        for seed, step in enumerate(own):
            analysis = contrastive(0)
            for space in analysis.values():
                space["proco"]["accuracy"] = {"native": 0.4, "angular": 0.4 + step, "cosine": 0.4}
            config = controlled("cifar10", imbalance)
            records.append(record(config, "native", 0.0, seed, analysis=analysis))
    result = claims_by_text(frozen_claims(Evidence(Records(records))))
    key = "CIFAR-10 / {}: equalization lowers frozen accuracy, E / P (points)"
    assert [result[key.format(i)].verdict for i in steps] == ["not settled", "holds"]
    assert "p = 0." in result[key.format(50)].ours


@pytest.mark.slow
def test_numbers_that_are_printed_twice() -> None:
    """2.297 and 2.350, 7.165 and 7.15 of the same thing."""
    records = list(prior_claims(Evidence(Records())))
    twice = {c.paper: c.why for c in records if "2.350" in c.why}
    pair = "63.072, 65.422; 49.169, 49.226"
    assert list(twice) == ["+2.297", pair, "+7.165 / +2.297; +0.0521 / +0.0097"]
    assert [paper for paper, why in twice.items() if "7.15 in" in why] == [list(twice)[-1]]
    first, second = (float(v) for v in re.findall(r"6\d\.\d+", twice["+2.297"]))
    assert f"= {first - second:+.3f} " in twice["+2.297"]


def test_boundaries_by_comparator() -> None:
    """0.11986 is of the linear mean, 0.119 and the number of CIFAR-10 of the leading score."""

    def records(imbalance: float, linear: float, leading: float) -> list[dict[str, Any]]:
        margins = {"agreement": 0.99, "coverage": 0.97, "certified_wrong": 0}
        result = []
        for dataset in ("cifar10", "cifar100"):
            boundaries = {
                name: {"mae": own, "largest": 2 * own, "same_direction": 1.0}
                for name, own in (("linear_mean", linear), ("joint_leading", leading))
            } | {"tally": {"displaced": 45, "created": 7, "vanished": 0}}
            summary = {"boundaries": boundaries, "margins": margins}
            analysis = {"projection": {"proco": summary}, "encoder": {"proco": summary}}
            config = controlled(dataset, imbalance)
            result += [record(config, "native", 0.0, s, analysis=analysis) for s in (1, 2)]
        return result

    result = boundary_claims(Evidence(Records(records(100, 0.11, 0.012))))
    known = {(c.label, c.paper): c for c in result if c.ours}
    verdicts = {
        ("sec:root-solving", "0.011627"): "holds",
        ("sec:root-solving", "0.029"): "holds",
        ("sec:root-solving", "0.11986"): "holds",
        ("fig:main-boundaries", "0.119"): "does not hold",
        ("sec:controlled-studies", "98.63"): "holds",
        ("sec:margin-change-protocol", "97.57"): "holds",
    }
    assert {at: known[at].verdict for at in verdicts} == verdicts
    assert not any("0.120" in c.why for c in known.values())


@pytest.mark.slow
def test_realizations_that_decide_alike() -> None:
    """Accuracies of both less Pure Angular's, by place; the decisions are of the packaged one."""
    text = "Temperature and preserve decide as Pure Angular does: accuracy less that (points)"

    def claim(gap: float) -> Claim:
        records = []
        for seed in (0, 1):
            analysis = contrastive(seed)
            own = {"native": 0.4, "cosine": 0.4, "angular": 0.41, "temperature": 0.4101}
            for space in analysis.values():
                space["proco"]["accuracy"] = {**own, "preserve": 0.41 - gap / 100}
            config = controlled("cifar100", 100)
            records.append(record(config, "native", 0.0, seed, analysis=analysis))
        return next(c for c in frozen_claims(of_records(records)) if c.text == text)

    assert claim(0.1).verdict == "holds where tested" and claim(0.5).verdict == "does not hold"
    # The printed ones are of 16 rows and two rules; a tenth of a point is the most.
    assert claim(0.1).paper == "-0.10 to +0.10, of the printed accuracies"
    assert claim(0.1).ours.startswith("-0.10 to +0.01; n = 2, single networks -0.10 to +0.01; the")
    assert "of the packaged queries (2 of 16)" in claim(0.1).ours


@pytest.mark.parametrize("holds", [True, False, None])
def test_claims_of_the_theory_are_those_of_the_checks(
    holds: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    evidence, check = of_records([]), Check("", "", "error", "", "", holds, {"rule": "small"})
    monkeypatch.setattr(evidence, "check", lambda name: check)
    result = list(theory_claims(evidence))[:4]
    assert {(c.verdict, c.why) for c in result} == {(check.verdict, "small")}


@pytest.mark.slow
def test_claims_without_records() -> None:
    """Every claim once, and what the packaged network says alone."""
    records = claims(Evidence(Records()))
    assert len({(c.label, c.text) for c in records}) == len(records)
    support = claims_by_text(records)[
        "CIFAR-100 projection: support from 5 to 100 reduces the error of the resultant"
    ]
    few, _, many = support.ours.partition(",")[0].partition(" to ")
    # The error falls with the root of the support.
    assert math.isclose(float(few) / float(many), math.sqrt(100 / 5), rel_tol=0.25)
    assert support.verdict == "holds where tested" and "one network" in support.why
