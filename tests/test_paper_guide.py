"""The guide: what it advises follows the numbers, whichever way they point."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from frozen_data import PER_CLASS, C, small_space
from paper_evidence import OfSpaces, probed, seeds
from resultant.frozen import FrozenSpace, Policy, Recommendation, decide, recommend
from resultant.frozen.measures import calibration_error, confidence_bins
from resultant.paper import ARTEFACTS, advice, guide
from resultant.paper.advice import Reach
from resultant.paper.artefact import Change
from resultant.paper.controls import control_config
from resultant.paper.intervals import Interval
from resultant.paper.plan import IMBALANCES, SETS, controlled, stronger_views

UP, DOWN, FLAT = Interval(2, 1, 3, 99), Interval(-2, -3, -1, 99), Interval(1, -1, 3, 99)
ONE = Interval(1.5, None, None, 1, True)


def chosen(gain: float, low: float, high: float, candidate: str = "cosine") -> Recommendation:
    made: dict[str, Any] = {"candidate": candidate, "candidate_beta": 0.5, "queries": 5000}
    return replace(recommend(small_space()), gain=gain, low=low, high=high, **made)


@pytest.mark.parametrize(
    ("numbers", "candidate", "said"),
    [
        (
            (0.03, 0.02, 0.04),
            "cosine",
            "use cosine there; cosine less native: accuracy rises by +3.0",
        ),
        (
            (0.01, -0.01, 0.03),
            "angular",
            "keep native there; angular at beta = 0.5 less native: no",
        ),
        ((-0.03, -0.04, -0.02), "cosine", "keep native there; cosine less native: accuracy falls"),
        ((0.0, 0.0, 0.0), "native", "keep native there, the most accurate"),
    ],
)
def test_choice(numbers: tuple[float, float, float], candidate: str, said: str) -> None:
    sentence = advice.choice("Encoder", chosen(*numbers, candidate))
    assert sentence.text.startswith(said) and "5,000 queries" in sentence.text
    assert not sentence.missing


def test_agreed() -> None:
    assert advice.agreed([UP, FLAT, ONE]) == 1 and advice.agreed([DOWN]) == -1
    assert advice.agreed([FLAT, ONE]) == 0 and advice.agreed([]) == 0
    assert advice.agreed([UP, DOWN]) is None


def test_elsewhere() -> None:
    assert "higher in all of them (" in advice.elsewhere({"a": UP, "b": FLAT}, 0).text
    alone = advice.elsewhere({"a": ONE}, 3)
    assert "higher in all of them, of one network each" in alone.text
    assert alone.said().endswith("Not all records yet: resultant reproduce run main.")
    assert "not higher in all of them" in advice.elsewhere({"a": DOWN}, 0).text
    assert "the measured sign differs" in advice.elsewhere({"a": UP, "b": DOWN}, 0).text
    none = advice.elsewhere({}, 1)
    assert none.said().endswith("nothing measured. No record yet: resultant reproduce run main.")


def test_confidence() -> None:
    text = advice.confidence({"E": FLAT, "P": DOWN}, {"E": UP, "P": FLAT}).text
    assert text.startswith("calibrate after Pure Angular, or keep native, on E (")
    assert "E: no effect on NLL seen" in text and "P: NLL falls by" in text
    # Networks of the records have no calibration error.
    text = advice.confidence({"E": FLAT, "CIFAR-10": UP}, {"E": FLAT}).text
    assert text.startswith("calibrate after Pure Angular, or keep native, on CIFAR-10 (")
    text = advice.confidence({"E": FLAT}, {"E": DOWN}).text
    assert text.startswith("Pure Angular was not seen to harm them (")


@pytest.mark.parametrize(
    ("less", "said"),
    [
        ({"E": FLAT, "P": FLAT}, "either will do"),
        ({"E": UP, "P": FLAT}, "take Pure Angular"),
        ({"E": DOWN, "P": FLAT}, "take cosine"),
        ({"E": UP, "P": DOWN}, "they differ by place"),
    ],
)
def test_cosine(less: dict[str, Interval], said: str) -> None:
    text = advice.cosine(less, {"E": (0.99, 0.7), "P": (0.98, 0.8)}).text
    assert text.startswith(said)
    assert "99.00 % of decisions the same, 70.00 % certified" in text
    seen = any(i.sign for i in less.values())
    assert ("where a difference is seen it is 2.00 points at most" in text) == seen


def test_realization() -> None:
    drift = {"E": {"native": 0.0, "temperature": 79.1, "preserve": 0.0, "angular": 0.0}}
    text = advice.realization({"E": {"temperature": FLAT, "preserve": FLAT}}, drift).text
    assert text.startswith("on a native state the three do not differ visibly")
    assert "79 under temperature" in text
    text = advice.realization({"E": {"temperature": DOWN, "preserve": UP}}, drift).text
    assert text.startswith(
        "temperature on E is worse than Pure Angular; preserve on E is better than Pure Angular"
    )
    # Where no temperature realizes the target there is nothing to compare.
    text = advice.realization({"E": {}}, {"E": {"native": 0.0, "angular": 0.0}}).text
    assert "nan" not in text and "temperature" not in text


def test_failure() -> None:
    assert advice.failure(None).missing == "failure"
    losses = {"native": 2.2452, "temperature": 72.3403, "preserve": 2.1502, "angular": 2.1503}

    def state(losses: dict[str, float]) -> dict[str, Any]:
        rows = {rule: {"cross_entropy": loss} for rule, loss in losses.items()}
        return {"same_state": rows, "intercepts": {"temperature": 79.1}}

    failed = advice.failure(state(losses))
    assert failed.text.startswith("it fails") and "temperature 72.34" in failed.text
    assert not failed.missing
    assert advice.failure(state(losses | {"temperature": 2.3})).text.startswith("no failure seen")


def test_strength() -> None:
    frozen = {"E": {0.0: UP, 0.5: FLAT, 1.5: DOWN, 2.0: FLAT}}
    text = advice.strength(frozen, {}).said()
    assert "E: beta 0 is most accurate, beta above 1 harms" in text
    assert text.endswith("No record yet: resultant reproduce run beyond.")
    text = advice.strength({"E": {0.0: DOWN, 1.5: UP}}, {0.0: UP, 0.5: ONE}).text
    assert "E: beta 1.5 is most accurate, beta above 1 helps" in text
    assert advice.strength(frozen, {0.5: UP}).begun and not advice.strength(frozen, {0.0: UP}).begun
    assert "0 accuracy rises by +2.00" in text and "one seed: not tested" in text
    text = advice.strength({"E": {0.0: FLAT, 1.5: FLAT}}, {}).text
    assert "E: none beats native, beta above 1 shows no effect" in text
    assert "may help or harm" in advice.strength({"E": {1.5: DOWN, 2.0: UP}}, {}).text
    assert not advice.strength(frozen, dict.fromkeys(advice.BETAS, UP)).missing


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (((0.5, 0.6, 0.7), (0.1, -0.2, 0.3)), "use it where it was seen to help"),
        (((-0.5, -0.6, -0.7),), "do not where it was seen to harm"),
        (((0.5, 0.6, 0.7), (-0.5, -0.6, -0.7)), "it depends on the data"),
        (((0.1, -0.2, 0.3), (2.0,)), "no effect seen in any setting that could be tested"),
        (((2.0,),), "not tested yet, for want of seeds"),
        (((),), "nothing measured."),
    ],
)
def test_training(steps: tuple[tuple[float, ...], ...], said: str) -> None:
    changes = [Change(f"row {i}", "", 0.5, step) for i, step in enumerate(steps)]
    sentence = advice.training(changes)
    assert sentence.text.startswith(said)
    assert bool(sentence.missing) == (() in steps)


def test_other_trainings() -> None:
    changes = [
        Change("row", f"{name} - ProCo", 0.5, steps)
        for name, steps in (
            ("Direct temperature", (0.5, 0.6, 0.7)),
            ("Intercept-preserving", (0.1, -0.2, 0.3)),
        )
    ]
    sentence = advice.other_trainings(changes)
    assert sentence.text.startswith("better than ProCo: Direct temperature on row (")
    assert not sentence.missing
    assert sentence.short == (
        "Training with temperature or preserve: better than ProCo: Direct temperature on row."
    )
    assert advice.other_trainings(changes[1:]).text.startswith("no effect seen in any setting")
    worse = Change("row", "Direct temperature - ProCo", 0.5, (-0.5, -0.6, -0.7))
    assert advice.other_trainings([worse]).text.startswith("worse than ProCo: Direct temp")
    none = advice.other_trainings([Change("row", "Direct temperature - ProCo", 0.5)])
    assert none.text == "nothing measured." and none.missing == "main"


def frozen_record(seed: int, step: float) -> dict[str, Any]:
    """Of a network of CIFAR-10 IF 100 on which Pure Angular is so many points worse."""
    accuracy = {"native": 0.7, "temperature": 0.6, "preserve": 0.6, "angular": 0.7 - step / 100}
    accuracy["cosine"] = accuracy["angular"] + 0.001 + 0.0001 * seed
    grid = {f"native 1 {gamma}": 0.7 for gamma in (-1, 0, 1)}
    grid |= {f"angular 0 {gamma}": 0.7 - step * (gamma or 1) / 100 for gamma in (-1, 0, 1)}
    grid["angular 1.5 0"] = 0.7 + step / 100
    summary = {
        "accuracy": accuracy,
        "grid": grid,
        "nll": {"native": 1.0, "angular": 1.0 + step / 10},
        "cosine": {"agreement": 0.99, "certified": 9000, "queries": 10000},
        "intercepts": {"temperature": 0.25, "preserve": 0.0, "angular": 0.0},
    }
    spaces = {space: {"proco": summary, "mle": summary} for space in ("encoder", "projection")}
    return {**probed(controlled("cifar10", 100), "native", seed, 0.6), "analysis": spaces}


def test_guide_follows_the_networks_of_the_records() -> None:
    """Advice that one packaged network bears does not stand where records say otherwise."""
    records = [frozen_record(seed, step) for seed, step in enumerate((1.0, 1.1, 1.2))]
    said = {s.topic: s.text for s in guide.sentences(of_space(records))}
    place = "CIFAR-10 / 100, encoder"
    assert f"{place}: accuracy falls by -1.10 [" in said["Frozen features of several networks"]
    assert place in said["Probabilities"].partition("(")[0]
    assert f"{place}: NLL rises by +0.1100" in said["Probabilities"]
    assert f"{place}: accuracy falls by -0.11 [" in said["Pure Angular at beta 0 or cosine"]
    assert (
        "99.00 % of decisions the same, 90.00 % certified"
        in (said["Pure Angular at beta 0 or cosine"])
    )
    assert f"temperature on {place}" in said["Temperature, preserve or Pure Angular"]
    assert "0.25 under temperature" in said["Temperature, preserve or Pure Angular"]
    assert f"{place}: beta 1.5 is most accurate, beta above 1 helps" in said["Strength"]
    assert f"{place}: the sign turns with the prior" in said["Prior"]


def test_prior() -> None:
    sentence = advice.prior({"E": {-1.0: DOWN, 0.0: UP}, "P": {0.0: UP, 1.0: FLAT}}, {})
    assert "E: the sign turns with the prior" in sentence.text
    assert "P: helps where an effect is seen" in sentence.text and sentence.missing == "controls"
    sentence = advice.prior({"E": {0.0: FLAT}}, dict.fromkeys("abcd", DOWN))
    assert "no effect seen at any prior" in sentence.text and not sentence.missing
    assert "do not train with it under a uniform prior" in sentence.text
    for effect, said in ((UP, "it helps there too"), (FLAT, "is not settled")):
        assert said in advice.prior({"E": {0.0: DOWN}}, {"a": effect}).text


@pytest.mark.parametrize(
    ("effect", "said"),
    [
        (UP, "Pure Angular helps there too"),
        (DOWN, "drop Pure Angular there"),
        (FLAT, "no effect of Pure Angular seen there"),
        (ONE, "not tested yet"),
    ],
)
def test_views(effect: Interval, said: str) -> None:
    assert advice.views({"AutoAugment, encoder": effect}).text.startswith(said)
    assert advice.views({}).missing == "beyond"


def test_estimator() -> None:
    changes = [
        Change("native, encoder", f"{name} - ProCo's", 0.0, step)
        for name, step in (("MLE of kappa", (0.1, -0.1, 0.2)), ("query left out", ()))
    ]
    sentence = advice.estimator(["E: so much"], changes)
    assert sentence.missing == "beyond"
    assert "trained, MLE of kappa - ProCo's, native, encoder: no effect on accuracy" in (
        sentence.text
    )
    both = [changes[0], Change("native, encoder", "query left out - ProCo's", 0.0, (1.0, 1.1))]
    sentence = advice.estimator([], both)
    assert not sentence.missing and "left out - ProCo's, native, encoder: accuracy rises" in (
        sentence.text
    )


def test_restraint() -> None:
    some = Reach(0.06, 0.14, Interval(0.1, 0.05, 0.2, 1000), 1000)
    none = Reach(0.001, 0.002, Interval(3.0, 2.0, 4.0, 1000), 1000)
    text = advice.restraint({"E": some, "P": none}).text
    assert "E: complete equalization changes 14.0 % of the decisions" in text
    assert "as equal as sd / mean 0.006 (" in text
    assert "P: do not bother, not even 1 % of the decisions change" in text


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
    assert found.queries == N and changed[0] == int(advice.IDLE * N) < changed[1]
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
    assert "do not bother" in advice.restraint({"E": found}).text


def test_calibration_by_its_definition() -> None:
    made = decide(small_space(), [Policy("native"), Policy("angular")])
    found = guide._calibration(made, Policy("angular"), Policy("native"))
    errors = [
        calibration_error(*confidence_bins(made.confidence[p], made.right(p)))
        for p in (Policy("angular"), Policy("native").canonical)
    ]
    assert found.mean == pytest.approx(errors[0] - errors[1])


def of_space(records: list[dict[str, Any]]) -> OfSpaces:
    return OfSpaces(lambda estimator: small_space(estimator=estimator), records)


def test_guide_without_records() -> None:
    artefact = ARTEFACTS["guide"]
    outcome = artefact.compute(of_space([]))
    first, *short, one = outcome.notes[:6]
    assert len(outcome.notes) == 19 and one.startswith("1. Frozen features, Encoder: ")
    asked = ["When to edit", "How", "By how much", "When not to"]
    assert [note.partition(", in short. ")[0] for note in short] == asked and "95 %" in first
    text = "\n".join(outcome.notes)
    for plan in ("controls", "failure", "beyond"):
        assert f"No record yet: resultant reproduce run {plan}." in text
    # Of main the packaged network is one, whose frozen features are at hand.
    assert "Not all records yet: resultant reproduce run main." in text
    assert artefact.status(outcome) == "partly rerun (6 of 14)"
    assert "nan" not in text and "None" not in text


def test_guide_with_records() -> None:
    """Trainings of every plan that the guide reads: better on one data set, worse on the other."""
    records = []
    for dataset in SETS:
        sign = 1 if dataset == "cifar10" else -1
        for imbalance in IMBALANCES:
            steps = [sign * step for step in (0.5, 0.6, 0.7)]
            records += seeds(controlled(dataset, imbalance), steps)
    for imbalance in (50, 100):
        config = control_config(f"c10-if{imbalance}-u", "contrastive")
        records += seeds(config, (-11.0, -12.0))
    records += seeds(stronger_views(), (0.1, -0.1, 0.2))
    for beta in (-0.5, 0.5, 1.5, 2.0):
        found = seeds(controlled("cifar100", 100), (1.0, 1.1, 1.2), beta=beta)
        records += [r for r in found if r["realization"] == "angular"]
    for settings in ({"estimator": "mle"}, {"leave_out": True}):
        config = controlled("cifar100", 100, **settings)
        records += [probed(config, "native", seed, 0.6) for seed in range(3)]
    said = {s.topic: s for s in guide.sentences(of_space(records))}
    text = said["Training with Pure Angular"].text
    assert text.startswith("it depends on the data") and "12 of 12 readouts" in text
    assert "CIFAR-100 / 50, Encoder: accuracy falls by -0.60 [" in text
    assert "0.5 accuracy rises by +1.10" in said["Strength"].text
    assert "0 accuracy falls by -0.60" in said["Strength"].text
    assert "do not train with it under a uniform prior" in said["Prior"].text
    assert said["Stronger views"].text.startswith("no effect of Pure Angular seen there")
    assert "query left out - ProCo's, native, encoder" in said["Estimator"].text
    lacking = {topic for topic, s in said.items() if s.missing}
    # Frozen summaries are not among these records, nor is the failing state.
    assert lacking == {
        "Frozen features of several networks",
        "Training with temperature or preserve",
        "When direct temperature fails",
    }
