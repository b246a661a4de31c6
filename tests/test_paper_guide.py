"""The sentences of the guide: what they advise follows the numbers, whichever way they point."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from scipy.stats import norm
from scipy.stats import t as student

from frozen_data import PER_CLASS, C, small_space
from resultant.frozen import FrozenSpace, Policy, Recommendation, decide, recommend
from resultant.frozen.measures import calibration_error, confidence_bins
from resultant.paper import advice, guide
from resultant.paper.advice import Reach, whether
from resultant.paper.artefact import Change
from resultant.paper.failure import Training, Trainings
from resultant.paper.intervals import Interval, over_queries, over_seeds
from resultant.paper.plan import IMBALANCES
from resultant.paper.summary import SPACES

UP, DOWN, FLAT = Interval(2, 1, 3, 99), Interval(-2, -3, -1, 99), Interval(1, -1, 3, 99)
ONE = Interval(1.5, None, None, 1, True)


def both(setting: str, effect: Interval) -> dict[str, Interval]:
    return {f"{setting}, {space}": effect for space in SPACES}


def test_named() -> None:
    places = both("CIFAR-10 / 10", UP) | both("CIFAR-10 / 50", UP) | both("packaged", UP)
    assert advice.named(places) == "CIFAR-10 / 10, 50 and packaged"
    assert advice.named(["CIFAR-10 / 10, encoder", "CIFAR-10 / 50, encoder"]) == (
        "CIFAR-10 / 10, 50 (encoder)"
    )
    assert advice.named([*both("CIFAR-10 / 10", UP), "CIFAR-10 / 50, projection"]) == (
        "CIFAR-10 / 10 and CIFAR-10 / 50 (projection)"
    )
    assert advice.named(["0.5", "1.5"]) == "0.5 and 1.5"


def test_agreed() -> None:
    assert advice.agreed([1, 0, None]) == 1 and advice.agreed([-1]) == -1
    assert advice.agreed([0, None]) == 0 and advice.agreed([]) == 0
    assert advice.agreed([1, -1]) is None


def test_p_value_of_an_interval() -> None:
    """That of the test whose interval it is."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        d = (torch.randn(5, generator=generator, dtype=torch.float64) + 0.8).tolist()
        own = over_seeds(d)
        assert own is not None
        p = Change("", "", None, tuple(d)).p_value
        assert advice.p_value(own) == pytest.approx(p, rel=1e-9)
        assert (advice.p_value(own) < 0.05) == bool(own.sign)
    after = torch.randn(400, generator=generator, dtype=torch.float64) + 0.1
    own = over_queries(after, torch.zeros(400))
    z = float(after.mean() / after.std(correction=0)) * 20
    assert advice.p_value(own) == pytest.approx(2 * norm.sf(abs(z)), rel=1e-6)
    # Nothing that differs, and a difference that is everywhere the same.
    assert advice.p_value(Interval(0, 0, 0, 9)) == 1 and advice.p_value(Interval(2, 2, 2, 9)) == 0


def test_one_of_many_intervals_is_not_advised_on() -> None:
    """An interval that leaves zero out by little counts alone, but not among others."""
    little = Interval(0.05, 0.01, 0.09, 99)
    assert little.sign == 1 and advice.corrected({"": {"A": little}}) == {"": {"A": 1}}
    effects = {"A, encoder": little} | {f"B{i}, encoder": FLAT for i in range(11)}
    assert set(advice.corrected({"": effects})[""].values()) == {0}
    text = advice.realized({"Temperature": {}, "Preserve": effects}).text
    assert text.startswith("Realize an edit of frozen features as you like: no difference was seen")
    assert "no effect seen on all 12" in text
    # What has no interval is no test.
    many = {"A": little} | {f"B{i}": ONE for i in range(11)}
    assert advice.corrected({"": many})[""] == {"A": 1} | {f"B{i}": None for i in range(11)}
    # Two comparisons of a sentence are corrected together.
    edge = Interval(1, 0.1, 1.9, 99)
    alone = advice.corrected({"this": {"A": edge}})
    both_ = advice.corrected({"this": {"A": edge}, "that": {"A": FLAT}})
    assert alone["this"]["A"] == 1 and both_["this"]["A"] == 0


def test_unseen() -> None:
    """Half of a 95 % interval of one, and of one at the level over their number of several."""
    d = [0.1, -0.3, 0.4, 0.2]
    own = over_seeds(d)
    assert own is not None and own.high is not None
    assert advice.unseen({"": {"A": own}}) == [pytest.approx(own.high - own.mean)]
    reach = student.ppf(1 - 0.025 / 3, 3) * statistics.stdev(d) / 2
    none, wide = Interval(0, 0, 0, 99), Interval(0, -1, 1, 99)
    sizes = advice.unseen({"a": {"A": own, "B": none}, "b": {"A": wide, "C": ONE}})
    assert sizes == [pytest.approx(reach), pytest.approx(norm.ppf(1 - 0.025 / 3) / norm.ppf(0.975))]
    assert advice.unseen({"": {"A": none}}) == []


def said(effects: dict[str, Interval]) -> str:
    return whether("edit", {"less": effects}).text


def test_cosine_and_realizations() -> None:
    for effect, take in ((UP, "Take Pure Angular"), (DOWN, "Take cosine, not"), (FLAT, "Take cos")):
        text = advice.cosine(both("A", effect), 0.98652).text
        assert text.startswith(take) and "98.65 % of decisions or more are the same" in text
    assert advice.cosine({"A": UP, "B": DOWN}, 1.0).text.startswith("Measure before you choose")
    for effects, words in (
        ((FLAT, FLAT), "Realize an edit of frozen features as you like"),
        ((FLAT, UP), "Try temperature and preserve too"),
        ((DOWN, FLAT), "Take Pure Angular"),
        ((DOWN, UP), "Measure which realization"),
    ):
        found = {"temperature": {"A": effects[0]}, "preserve": {"A": effects[1]}}
        assert advice.realized(found).text.startswith(words)


def test_whether() -> None:
    """The advice, then the places by sign, with the least and largest mean."""
    more = Interval(5, 4, 6, 99)
    assert said({"A, encoder": UP, "A, projection": more, "B, encoder": FLAT}) == (
        "Edit where it was seen to help. less: better on A by +2.00 to +5.00; no effect seen on B "
        "(encoder) (table)."
    )
    assert said(both("A", DOWN)) == (
        "Do not edit where it was seen to harm. less: worse on A by -2.00 (table)."
    )
    assert said({"A, encoder": UP, "A, projection": DOWN}) == (
        "Measure before you edit: it helps here and harms there. less: better on A (encoder) by "
        "+2.00; worse on A (projection) by -2.00 (table)."
    )
    size = 2 * norm.ppf(1 - 0.025 / 3) / norm.ppf(0.975)
    assert said({**both("A", FLAT), "B, encoder": FLAT}) == (
        f"Edit or not: no effect was seen, but one below {size:.2f} points would go unseen (the "
        "median of 3). less: no effect seen on A and B (encoder) (means +1.00) (table)."
    )
    assert said({"A, encoder": FLAT}).startswith(
        "Edit or not: no effect was seen, but one below 2.00 points would go unseen (the one inter"
    )
    same = Interval(0, 0, 0, 99)
    assert said({"A, encoder": same}).startswith("Edit or not: no effect was seen. less: no effect")
    assert said({"A, encoder": ONE}) == (
        "Whether to edit: not tested yet, for want of seeds. less: not tested on A (encoder) by "
        "+1.50 (table)."
    )
    assert said({"A, encoder": ONE, "B, encoder": FLAT}).endswith(
        "no effect seen on B (encoder); not tested on A (encoder) by +1.50 (table)."
    )
    assert said({}) == "Whether to edit: nothing measured."
    rests = whether("edit", {"less": both("A", UP)}, alone="beta 0", note="Mean +2").text
    assert rests == (
        "Edit (tried: beta 0 alone) where it was seen to help. less: better on A by +2.00. Mean +2 "
        "(table)."
    )
    two = whether("edit", {"this": both("A", UP), "that": {}, "other": both("B", FLAT)}, "tab:x")
    assert two.text.endswith(
        "this: better on A by +2.00. other: no effect seen on B (means +1.00) (tab:x)."
    )


def test_whether_says_what_is_missing() -> None:
    assert (
        whether("edit", {"less": {}}, "", "main", 2)
        .said()
        .endswith("nothing measured. No record yet: resultant reproduce run main.")
    )
    begun = whether("edit", {"less": {"A, encoder": UP}}, "", "main", 2)
    assert begun.missing and begun.said().endswith(
        ". Not all records yet: resultant reproduce run main."
    )
    whole = whether("edit", {"less": both("A", UP)}, "", "main", 2)
    assert not whole.missing and whole.said() == whole.text


def test_many_names_are_counted() -> None:
    """A list that would be a wall says how many there are."""
    places = [f"Setting {i}, encoder" for i in range(12)]
    text = said({place: DOWN if i < 9 else UP for i, place in enumerate(places)})
    assert "worse on 9 of 12 by" in text and "better on Setting 9 (encoder) and Setting 10" in text
    # Those without effect are the rest, and sooner counted.
    text = said({place: FLAT if i < 3 else UP for i, place in enumerate(places)})
    assert "no effect seen on 3 of 12" in text
    assert "worse on all 12 by" in said(dict.fromkeys(places, DOWN))


def test_short() -> None:
    """Names give way to numbers where two comparisons together would be long."""
    places = [f"CIFAR-{n} / {i}, {s}" for n, i, s in product((10, 100), IMBALANCES, SPACES)]
    effects = {place: UP if "encoder" in place else DOWN for place in places}
    one, two = (whether("edit", dict.fromkeys(names, effects)).text for names in ("a", "ab"))
    names = "CIFAR-10 / 10, 50, 100 (projection) and CIFAR-100 / 10, 50, 100 (projection)"
    assert f"worse on {names} by -2.00" in one
    assert two.count("worse on 6 of 12 by -2.00") == 2


@pytest.mark.parametrize(
    ("nll", "ece", "advised"),
    [
        (FLAT, UP, "Calibrate after Pure Angular"),
        (UP, DOWN, "Calibrate after Pure Angular"),
        (DOWN, FLAT, "Probabilities do not speak against"),
        (FLAT, FLAT, "No effect of Pure Angular on probabilities was seen"),
    ],
)
def test_confidence(nll: Interval, ece: Interval, advised: str) -> None:
    assert advice.confidence({"A, encoder": nll}, {"A, encoder": ece}).text.startswith(advised)


def test_confidence_in_numbers() -> None:
    small = Interval(-0.0123, -0.02, -0.01, 3, True)
    text = advice.confidence({"A, encoder": small, "B, encoder": UP}, {"B, encoder": FLAT}).text
    assert "NLL: higher on B (encoder) by +2.0000; lower on A (encoder) by -0.0123." in text
    assert text.endswith("ECE: no effect seen on B (encoder) (mean +1.0000) (table).")


def chosen(gain: float, low: float, high: float, candidate: str = "cosine") -> Recommendation:
    made: dict[str, Any] = {"candidate": candidate, "candidate_beta": 0.5, "queries": 5000}
    return replace(recommend(small_space()), gain=gain, low=low, high=high, **made)


@pytest.mark.parametrize(
    ("numbers", "candidate", "expected"),
    [
        ((0.03, 0.02, 0.04), "cosine", "use cosine (cosine less native +3.00 [+2.00, +4.00] poi"),
        ((0.01, -0.01, 0.03), "angular", "keep native (angular at beta 0.5 less native +1.00 ["),
        ((-0.03, -0.04, -0.02), "cosine", "keep native (cosine less native -3.00"),
        ((0.0, 0.0, 0.0), "native", "keep native."),
    ],
)
def test_choice(numbers: tuple[float, float, float], candidate: str, expected: str) -> None:
    sentence = advice.choice({"packaged, encoder": chosen(*numbers, candidate)})
    assert f"So judged, packaged (encoder): {expected}" in sentence.text
    assert not sentence.missing


def test_choice_is_corrected() -> None:
    """A gain that is seen alone is not among twelve."""
    few = chosen(0.01, 0.001, 0.019)
    assert "use cosine" in advice.choice({"A, encoder": few}).text
    places = {f"A{i}, encoder": few if not i else chosen(0.0, -0.01, 0.01) for i in range(12)}
    assert "use cosine" not in advice.choice(places).text


def test_prior() -> None:
    one, two = both("A", UP), both("B", FLAT)
    text = advice.prior({-1.0: both("A", DOWN), 0.0: one | two, 1.0: two}).text
    assert text == (
        "Decide on edit and prior together. Over gamma -1, 0, 1 the sign of Pure Angular less "
        "native, where seen, turns on A; is not seen on B (table)."
    )
    text = advice.prior({-1.0: {}, 0.0: one | both("B", DOWN), 1.0: both("A", FLAT)}).text
    assert text.startswith("No turn of the edit by the prior was seen. ")
    assert text.endswith("is plus on A; is minus on B (table).")


def test_strength() -> None:
    low = Interval(1, 0.5, 1.5, 99)
    by_beta = {
        0.0: both("A", UP) | both("B", FLAT) | both("D", low),
        0.5: both("A", low) | both("B", low) | both("D", DOWN),
        1.5: both("A", DOWN) | both("B", DOWN) | both("D", UP) | {"E, encoder": UP},
    }
    by_beta[0.0] |= {**both("C", DOWN), "E, encoder": UP}
    assert advice.strength(by_beta).text == (
        "Start from beta 0. Of beta 0, 0.5, 1.5 the most accurate, where it beats native, is 0 on "
        "A and E (encoder); 1.5 on D; none on B and C (table)."
    )
    none = advice.strength({0.0: {"A, encoder": FLAT}, 0.5: {}, 1.5: {"A, encoder": ONE}}).text
    assert none.startswith("Keep native. ") and none.endswith("is none on A (encoder) (table).")


def test_failure() -> None:
    assert advice.failure(None).missing == "failure"
    native, spared = Training(86.0, 1.53, None), Training(53.0, 2.05, None)
    failed = advice.failure(Trainings([spared, Training(7.4, 21.8, None)], [native]))
    assert failed.text.startswith("Do not train with direct temperature on CIFAR-100 IF 10 with a")
    assert "in 1 of 2 trainings, which end at a loss of 2.05, 21.8, native ones at" in failed.text
    assert not failed.missing and len(failed.text) < 350
    kept = advice.failure(Trainings([spared], [native])).text
    assert kept.startswith("Direct temperature did not fail on") and "in 0 of 1" in kept


def test_restraint() -> None:
    some = Reach(0.06, 0.14, Interval(0.1, 0.05, 0.2, 1000))
    none = Reach(0.001, 0.002, Interval(math.inf, 2.0, math.inf, 1000))
    text = advice.restraint({"A, encoder": some, "A, projection": none}).text
    assert "0.0060 [0.0030, 0.012] on A (encoder), whose own 0.0600 changes 14.0 %" in text
    assert text.endswith("none on A (projection), whose own 0.0010 changes 0.2 %.")


def test_reach_by_decisions() -> None:
    """The share of decisions that differ from native at beta = 1 - t is that which left before."""
    space = small_space()
    found = guide.reach(space)
    t = found.idle.mean
    assert 0 < t < 1
    shares = (0.999 * t, 1.001 * t, 1.0)
    policies = [Policy("native"), *(Policy("angular", 1 - share) for share in shares)]
    made = decide(space, policies)
    native = made.prediction[policies[0].canonical]
    changed = [int((made.prediction[p.canonical] != native).sum()) for p in policies[1:]]
    N = C * PER_CLASS
    assert found.idle.n == N and changed[0] == int(advice.IDLE * N) < changed[1]
    assert found.changed == pytest.approx(changed[2] / N)
    g = space.gain
    assert found.spread == pytest.approx(float(g.std(correction=0) / g.mean()))


def test_equal_gains_are_left_alone() -> None:
    """Classes that are turned copies of each other have one concentration."""
    generator = torch.Generator().manual_seed(0)
    base = torch.tensor([3.0, 0, 0, 0]) + torch.randn(20, 4, generator=generator)
    train = torch.cat([base.roll(k, 1) for k in range(4)]).double()
    labels = torch.arange(4).repeat_interleave(20)
    space = FrozenSpace.fit(train, labels, train, labels, dtype=torch.float64)
    found = guide.reach(space)
    assert found.idle.mean > 1 and found.changed == 0
    assert "is none on A (encoder), " in advice.restraint({"A, encoder": found}).text


def test_calibration_by_its_definition() -> None:
    made = decide(small_space(), [Policy("native"), Policy("angular")])
    found = guide._calibration(made, Policy("angular"), Policy("native"))
    errors = [
        calibration_error(*confidence_bins(made.confidence[p], made.right(p)))
        for p in (Policy("angular"), Policy("native").canonical)
    ]
    assert found.mean == pytest.approx(errors[0] - errors[1])
