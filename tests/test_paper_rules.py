"""What claims are judged by: corrections, means over settings, and the verdicts they lead to."""

from __future__ import annotations

import math
import re
import statistics
from itertools import combinations
from typing import Any

import pytest
import torch
from scipy.stats import t as student
from scipy.stats import ttest_1samp, ttest_ind

from frozen_data import small_space
from paper_evidence import OfSpaces, numbered
from resultant.paper import Evidence, Records, claims
from resultant.paper.artefact import Change, Claim
from resultant.paper.claims import boundary_claims, frozen_claims, prior_claims, theory_claims
from resultant.paper.intervals import over_alike, over_settings
from resultant.paper.plan import controlled, official
from resultant.paper.records import paired
from resultant.paper.rules import (
    alike,
    borne_out,
    by_network,
    holm,
    reaching,
    seen,
    within,
)
from resultant.presets import preset
from resultant.verify import Check
from training_records import record


def test_within_and_alike() -> None:
    rule = "means over networks in 0.5 to 2.5, the printed range widened by half its width"
    assert within([1.0, 2.0], 1.0, 2.0) == (True, rule)
    assert within([0.5, 2.5], 1.0, 2.0) == (True, f"{rule} (not all in it as it is)")
    assert not within([0.49], 1.0, 2.0)[0] and not within([2.51], 1.0, 2.0)[0]
    # There is no more than all.
    assert "in 98.5 to 100, " in within([99.5], 99.0, 100.0, 100)[1]
    assert alike(1.0, 2.0) and not alike(0.99, 2.0) and not alike(-2.0, 2.0)


def test_single_networks_are_shown() -> None:
    """A mean may be above what one of its networks is below."""
    said = reaching([[0.999948, 0.999954], [0.999997]], 6)
    assert said == "0.999951 to 0.999997; n = 1 to 2, single networks 0.999948 to 0.999997"


def test_holm_is_the_closed_test() -> None:
    """A test is left if Bonferroni rejects every set of tests that it is in."""
    generator = torch.Generator().manual_seed(0)
    kept = 0
    for _ in range(200):
        p = (0.06 * torch.rand(5, generator=generator) ** 2).tolist()
        sets = [s for k in range(1, 6) for s in combinations(range(5), k)]
        rejected = {s: min(p[i] for i in s) < 0.05 / len(s) for s in sets}
        closed = [all(rejected[s] for s in sets if i in s) for i in range(5)]
        assert holm(p) == closed
        kept += sum(closed)
    assert 0 < kept < 1000
    assert holm([]) == []


def test_mean_over_settings_by_welch() -> None:
    """Two settings, one of them turned, are Welch's test of their difference."""
    a, b = [0.3, 0.7, 0.2, 0.9, 0.4, 0.6], [-0.1, 0.25, 0.2]
    found = over_settings([a, [-v for v in b]])
    assert found is not None
    wanted: Any = ttest_ind(a, b, equal_var=False)
    low, high = wanted.confidence_interval(0.95)
    assert found.mean == pytest.approx((statistics.fmean(a) - statistics.fmean(b)) / 2)
    assert found[1:3] == (pytest.approx(low / 2), pytest.approx(high / 2))
    assert found.p == pytest.approx(wanted.pvalue) and found.n == 9
    # A single setting is the paired t test, and many networks do not make one count for more.
    alone = over_settings([a])
    assert alone is not None
    assert alone.p == pytest.approx(ttest_1samp(a, 0.0).pvalue)  # type: ignore[attr-defined]
    many = over_settings([[1.0, 1.2] * 6, [0.0, 0.2]])
    assert many is not None and many.mean == pytest.approx(0.6)
    assert over_settings([]) is None
    for known in ([[1.0], [0.5, 0.6]], [[1.0, 1.0], [2.0, 2.0]]):
        single = over_settings(known)
        assert single is not None and single.p is None and single.low is None


def test_readouts_of_a_network_count_once() -> None:
    changes = [
        Change("A / 1, Encoder", "", 1.0, numbered((1.0, 2.0))),
        Change("A / 1, Projection", "", 1.0, numbered((3.0, 6.0))),
        Change("B", "", 1.0, numbered((5.0,))),
        Change("C, Encoder", "", 1.0, numbered((5.0,))),
        Change("C, Projection", "", 1.0),
    ]
    assert by_network(changes) == [[2.0, 4.0], [5.0]]


def test_readouts_are_paired_by_seed() -> None:
    """Over the seeds in common, in whichever order they come."""
    gaps = paired({0: 2.0, 1: 4.0, 2: 9.0}, {2: 1.0, 1: 1.0, 0: 1.0, 5: 0})
    one, two = (
        Change(f"A, {space}", "", 1.0, found)
        for space, found in (("Encoder", gaps), ("Projection", {2: 6.0, 1: 5.0}))
    )
    assert one.differences == (1.0, 3.0, 8.0)
    found = by_network([one, two])
    assert found == [[4.0, 7.0]] and sorted(by_network([two, one])[0]) == [4.0, 7.0]
    assert by_network([one, Change("A, Projection", "", 1.0, {7: 6.0})]) == []


def test_mean_of_one_seed_by_the_spread_of_others() -> None:
    """The pooled variance of all, by least squares on the means of the groups."""
    own, others = [-8.0], [[0.1, 0.5, 0.9], [1.0, 2.0]]
    found = over_alike(own, others)
    assert found is not None and (found.mean, found.n, found.seeds) == (-8.0, 1, True)
    # Deviations 0.4, 0, 0.4 and 0.5, 0.5; 2 + 1 degrees of freedom.
    error = math.sqrt((0.32 + 0.5) / 3)
    reach = float(student.ppf(0.975, 3)) * error
    assert found[1:3] == (pytest.approx(-8 - reach), pytest.approx(-8 + reach))
    assert found.p == pytest.approx(2 * student.sf(8 / error, 3)) and found.sign == -1
    assert found.times == pytest.approx(8 / reach)
    wide = over_alike(own, others, 0.05 / 4)
    assert wide is not None and wide.low is not None and found.low is not None
    assert wide.low < found.low and wide.p == found.p
    assert over_alike([], others) is None
    for known in ([], [[1.0]], [[1.0, 1.0]]):
        one = over_alike(own, known)
        assert one is not None and one.low is one.p is one.times is None


@pytest.mark.parametrize("own", [(-8.0, -9.0), (-1.2, -5.8, 0.2)])
def test_seeds_of_its_own_are_judged_by_their_own_spread(own: tuple[float, ...]) -> None:
    """Others that are quiet do not make it so: Student's test, at whichever level."""
    quiet = [[0.1, 0.2, 0.3], [1.0, 1.1, 1.2]]
    found: Any = over_alike(own, quiet)
    assert found == pytest.approx(over_settings([own]))
    assert found.p == pytest.approx(Change("", "", 0.0, numbered(own)).p_value) and found.p > 0.03
    wide = over_alike(own, quiet, 0.05 / 4)
    error = statistics.stdev(own) / math.sqrt(len(own))
    reach = float(student.ppf(1 - 0.05 / 8, len(own) - 1)) * error
    assert wide is not None and wide.high == pytest.approx(statistics.fmean(own) + reach)
    same = over_alike([-1.0, -1.0], quiet)
    assert same is not None and same.low is same.p is None


def test_borne_out() -> None:
    """Signs that are printed, whichever they are."""
    near, far = (0.5, 0.52, 0.54), (0.2, -0.1, 0.15)

    def found(*changes: tuple[float, tuple[float, ...]]) -> bool | None:
        return borne_out([Change(f"{i}", "", p, numbered(d)) for i, (p, d) in enumerate(changes)])

    def turned(d: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(-v for v in d)

    assert found((1.0, near), (1.0, far)) is True
    assert found((1.0, near), (-1.0, turned(far))) is True
    # One mean of the other sign leaves it open, unless it is seen by itself or in the whole.
    assert found((1.0, near), (1.0, turned(far))) is None
    assert found((1.0, near), (1.0, turned(near))) is False
    assert found((1.0, turned(near)), (1.0, far)) is False
    assert found((1.0, far), (1.0, far)) is None
    assert found((1.0, (0.5,)), (1.0, (0.5,))) is None
    assert seen(
        [Change("", "", None, numbered(near)), Change("", "", None, numbered(turned(near)))]
    ) == (1, 1)
    # Alone it would be seen, of twelve it is not.
    some = Change("", "", None, numbered((0.5, 0.7, 0.9)))
    assert seen([some]) == (1, 0) and seen([some] + [Change("", "", None, numbered(far))] * 11) == (
        0,
        0,
    )


def of_records(records: list[dict[str, Any]]) -> OfSpaces:
    return OfSpaces(lambda estimator: small_space(estimator=estimator), records)


def told(made: Any) -> dict[str, Claim]:
    return {claim.text: claim for claim in made}


def public(change: float, seed: int) -> dict[str, Any]:
    accuracy = {"native": 0.44, "temperature": 0.44 + change / 100}
    config, frozen = official("cifar100", 100), {"projection": {"proco": accuracy}}
    return record(config, "native", 0.0, seed, frozen=frozen)


def contrastive(seed: int) -> dict[str, Any]:
    """A native network with what the claims read of its frozen summaries."""
    grid = {"native 1 0": 0.4, "temperature 0 0": 0.407, "native 1 -1": 0.4}
    made = {
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
    return {space: {"proco": made} for space in ("encoder", "projection")}


def test_network_that_is_not_named() -> None:
    """On a recipe that is guessed the other sign decides, if it is seen, and no size does."""
    own = [record(controlled("cifar100", 100), "native", 0.0, 0, analysis=contrastive(0))]
    key = "CIFAR-100, network not named: equalization at gamma = {}, projection (points)"
    for change, verdict, found in (
        (1.75, "not settled", "sign and order of size agree"),
        (0.7, "not settled", "the sign agrees, the size does not"),
        (-2.0, "does not hold", "the sign does not agree"),
        (-0.01, "not settled", "the sign does not agree, but is not seen"),
    ):
        both = public(change - 0.02, 1), public(change + 0.02, 2)
        every = told(prior_claims(of_records([*own, *both])))
        claim = every[key.format(0)]
        assert claim.why.startswith(f"{found}; ")
        assert claim.verdict == verdict and f"recipe {change:+.2f} ± 0.03, n = 2" in claim.ours
        assert claim.ours.endswith("contrastive-only +0.70, n = 1")
        other = every[key.format(-1)]
        assert (other.verdict, other.ours) == ("not settled", "contrastive-only -2.00, n = 1")
        assert "no record" in other.why and "reproduced" not in other.why
    assert told(prior_claims(of_records(own)))[key.format(0)].verdict == "not settled"
    for change in (-0.01, -5.0):
        claim = told(prior_claims(of_records([*own, public(change, 1)])))[key.format(0)]
        assert claim.verdict == "not settled" and "but is not tested; " in claim.why


def test_the_sign_that_turns() -> None:
    """Of contrastive networks, where it is seen at both strengths of the prior."""
    key = "CIFAR-100, network not named: equalization at gamma = {}, projection (points)"

    def why(after: tuple[float, ...], gamma: int = -1) -> str:
        made = [contrastive(seed) for seed in range(3)]
        for seed, (one, value) in enumerate(zip(made, after, strict=True)):
            grid = one["projection"]["proco"]["grid"]
            grid |= {"temperature 0 0": 0.407 + 0.0001 * seed, "temperature 0 -1": value}
        config = controlled("cifar100", 100)
        own = [record(config, "native", 0.0, i, analysis=a) for i, a in enumerate(made)]
        return told(prior_claims(of_records(own)))[key.format(gamma)].why

    turned = "that the sign turns from gamma = 0 is reproduced on contrastive-only networks"
    assert turned in why((0.38, 0.381, 0.382)) and turned not in why((0.38, 0.381, 0.382), 0)
    assert turned not in why((0.38, 0.4, 0.41)) and turned not in why((0.42, 0.421, 0.422))


def test_authors_backbones() -> None:
    """The changes of tab:cross-backbone, not those of a contrastive network."""
    key = "ImageNet-LT, ResNet-50 / ResNeXt-50: equalization at gamma = {}, {} (points)"
    lost = told(prior_claims(of_records([])))
    for at in ((0, "projection"), (-1, "projection"), (0, "encoder")):
        assert lost[key.format(*at)].verdict == "cannot be tested here"
    assert lost[key.format(0, "encoder")].paper == "+2.020 / +1.635"
    grid = {"native 1 0": 0.5, "temperature 0 0": 0.502, "native 1 -1": 0.5}
    analysis = {"projection": {"proco": {"grid": grid | {"temperature 0 -1": 0.503}}}}
    records = [
        record(preset("imagenet-lt", architecture=name), "native", 0.0, 0, analysis=analysis)
        for name in ("resnet50", "resnext50_32x4d")
    ]
    found = told(prior_claims(of_records(records)))
    zero, minus = found[key.format(0, "projection")], found[key.format(-1, "projection")]
    assert (zero.paper, zero.ours) == ("+0.195 / +0.315", "+0.200 / +0.200; n = 1")
    assert (zero.verdict, minus.verdict) == ("holds", "does not hold")


def test_frozen_claims_are_of_means() -> None:
    """One network of two is below the cosine that their mean is above."""
    settings = (("cifar10", 50), ("cifar10", 100), ("cifar100", 50), ("cifar100", 100))
    records = [
        record(controlled(*setting), "native", 0.0, seed, analysis=contrastive(seed))
        for setting in settings
        for seed in (0, 1)
    ]
    found = told(frozen_claims(Evidence(Records(records))))
    cosine = found["Median cosine between these gradients, CIFAR-100"]
    assert cosine.ours == "0.999951; n = 2, single networks 0.999942 to 0.999960 (4 of 6)"
    assert cosine.verdict == "holds where tested" and "means over networks" in cosine.why
    agreement = found["The same on CIFAR-10 IF50, IF100 (%)"]
    assert agreement.ours == "99.55; n = 2, single networks 99.50 to 99.60"
    assert agreement.verdict == "holds" and " to 100, " in agreement.why
    shares = found["Disagreements in the lowest cosine-margin decile (%)"]
    assert shares.verdict == "does not hold" and "95.95 to 100" in shares.why
    key = "CIFAR-10 / {}: equalization lowers frozen accuracy, E / P (points)"
    lower = found[key.format(100)]
    assert lower.ours.startswith("-0.55 ± 0.07 / -0.55 ± 0.07; n = 2; mean of both -0.55 [")
    assert (lower.paper, lower.verdict) == ("-0.74 / -0.23", "not settled")


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
    found = told(frozen_claims(Evidence(Records(records))))
    key = "CIFAR-10 / {}: equalization lowers frozen accuracy, E / P (points)"
    assert [found[key.format(i)].verdict for i in steps] == ["not settled", "holds"]
    assert "p = 0." in found[key.format(50)].ours


def test_numbers_that_are_printed_twice() -> None:
    """2.297 and 2.350, 7.165 and 7.15, 0.119 and 0.11986 of the same thing."""
    made = [
        *prior_claims(Evidence(Records())),
        *boundary_claims(Evidence(Records())),
    ]
    twice = {c.paper: c.why for c in made if "2.350" in c.why}
    pair = "63.072, 65.422; 49.169, 49.226"
    assert list(twice) == ["+2.297", pair, "+7.165 / +2.297; +0.0521 / +0.0097"]
    assert [paper for paper, why in twice.items() if "7.15 in" in why] == [list(twice)[-1]]
    first, second = (float(v) for v in re.findall(r"6\d\.\d+", twice["+2.297"]))
    assert f"= {first - second:+.3f} " in twice["+2.297"]
    assert [c.paper for c in made if "0.119 in" in c.why] == ["0.11986"]


@pytest.mark.parametrize("holds", [True, False, None])
def test_claims_of_the_theory_are_those_of_the_checks(
    holds: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    evidence, check = of_records([]), Check("", "", "error", "", "", holds, {"rule": "small"})
    monkeypatch.setattr(evidence, "check", lambda name: check)
    found = list(theory_claims(evidence))[:4]
    assert {(c.verdict, c.why) for c in found} == {(check.verdict, "small")}


def test_claims_without_records() -> None:
    """Every claim once, and what the packaged network says alone."""
    made = claims(Evidence(Records()))
    assert len({(c.label, c.text) for c in made}) == len(made)
    support = told(made)[
        "CIFAR-100 projection: support from 5 to 100 reduces the error of the resultant"
    ]
    few, _, many = support.ours.partition(",")[0].partition(" to ")
    # The error falls with the root of the support.
    assert math.isclose(float(few) / float(many), math.sqrt(100 / 5), rel_tol=0.25)
    assert support.verdict == "holds"
