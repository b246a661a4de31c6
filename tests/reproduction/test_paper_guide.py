"""The sentences of the guide: what is advised, from intervals made up for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from frozen_data import C, small_space
from resultant.analysis import FrozenSpace, Policy, Recommendation, decide, recommend
from resultant_reproduction import advice, guide, training_advice
from resultant_reproduction.advice import Reach, Seen, Sentence
from resultant_reproduction.artefact import Value
from resultant_reproduction.failure import Training, Trainings
from resultant_reproduction.intervals import Interval

UP, DOWN = Interval(2, 1, 3, 9, True, 1e-4), Interval(-2, -3, -1, 9, True, 1e-4)
FLAT, ONE = Interval(1, -1, 3, 9, True, 0.3), Interval(1.5, None, None, 1, True)
E10, P10, E100, P100 = (f"CIFAR-{n} {s}" for n in (10, 100) for s in ("encoder", "projection"))


def test_seen_after_correction() -> None:
    """Of two p values of .03 none is left, of one it is; what has no interval is not tested."""
    edge = Interval(1, 0.1, 1.9, 9, True, 0.03)
    assert Seen.of({"a": edge}) == (["a"], [], [], [])
    assert Seen.of({"a": edge, "b": edge}) == ([], [], ["a", "b"], [])
    assert Seen.of({"a": edge, "b": ONE}) == (["a"], [], [], ["b"])
    assert Seen.of({"a": UP, "b": DOWN, "c": FLAT}) == (["a"], ["b"], ["c"], [])
    assert not Seen.of({"a": FLAT}).any() and Seen.of({"a": DOWN}).any()
    assert Seen.of({"a": FLAT}).tested() and not Seen.of({"a": ONE}).tested()
    # Decisions that are all the same are known to be so.
    assert Seen.of({"a": Interval(0, 0, 0, 99)}).none == ["a"]


@pytest.mark.parametrize(
    "said",
    [
        advice.equalize({E10: ONE, P10: ONE}, {"CIFAR-10 / 10 encoder": ONE}),
        advice.keep({E10: ONE, P10: ONE}, {"CIFAR-10 / 10 encoder": ONE}),
        training_advice.training({"temperature": ONE, "angular": ONE}),
        training_advice.trained("t", "Doing it", {"encoder": ONE, "projection": ONE}, "tab:x"),
        training_advice.avoid("t", "do it", {"encoder": ONE}, "tab:x"),
        advice.realized({"temperature": {E10: ONE}, "preserve": {E10: ONE}}),
        advice.prior({0.0: {E10: ONE}, 1.0: {E10: ONE}}, {1.0: {E10: ONE}}),
        advice.strength({0.0: {E10: ONE}, 0.5: {E10: ONE}}),
        advice.confidence({E10: ONE}),
    ],
)
def test_what_is_not_tested_has_no_verdict(said: Sentence) -> None:
    """One seed is neither an effect nor the lack of one."""
    text = said.text.lower()
    assert any(words in text for words in ("not tested", "was tested", "no difference was tested"))
    assert "keep the gains" not in text
    for words in ("no effect", "none of them", "was seen", "expect little", "as you like"):
        assert words not in text


def test_places_and_numbers() -> None:
    assert advice.places([E10, P10, E100]) == "CIFAR-10 encoder, projection and CIFAR-100 encoder"
    assert advice.places(["temperature", "preserve"]) == "temperature, preserve"
    assert advice.numbers({E10: UP, P10: ONE, E100: DOWN}) == (
        "CIFAR-10 encoder +2.00 [+1.00, +3.00], projection +1.50; CIFAR-100 encoder -2.00 "
        "[-3.00, -1.00]"
    )


def test_what_is_missing_is_said() -> None:
    assert Sentence("a", "b.").said() == "b."
    assert Sentence("a", "b.", "main").said() == "b. No record yet: resultant reproduce run main."
    assert Sentence("a", "b.", "main", True).said().startswith("b. Not all records yet: ")
    none = advice.equalize({}, {}, "main")
    assert none.text == "Edit of frozen features: nothing measured." and not none.begun


def test_equalize_and_keep() -> None:
    """What helps is advised, what harms or is not seen to help stands under when not to; of single
    settings only what their data set does not say."""
    native = {E10: DOWN, P10: FLAT, E100: UP, P100: UP}
    up, down = "+2.00 [+1.00, +3.00]", "-2.00 [-3.00, -1.00]"
    assert advice.equalize(native, {}).text == (
        f"Equalize the gains of frozen features on CIFAR-100 encoder {up}, projection {up} (means "
        "over imbalances): Pure Angular at beta 0 less native, points."
    )
    assert advice.keep(native, {}).text == (
        f"Keep the gains of frozen features on CIFAR-10 encoder {down} (means over imbalances): "
        "Pure Angular at beta 0 less native, points. As a mean over imbalances no gain was seen on "
        "CIFAR-10 projection +1.00 [-1.00, +3.00]."
    )
    settings = {
        "CIFAR-10 / 10 encoder": UP,
        "CIFAR-10 / 100 encoder": DOWN,
        "CIFAR-10 / 50 projection": FLAT,
        "CIFAR-10 / 100 projection": DOWN,
        "CIFAR-100 / 10 encoder": UP,
    }
    text = advice.equalize(native, settings).text
    whole, alone = "(means over imbalances)", "(single imbalances)"
    assert f"projection {up} {whole}; on CIFAR-10 / 10 encoder {up} {alone}: Pure" in text
    text = advice.keep(native, settings).text
    assert f"CIFAR-10 encoder {down} {whole}; on CIFAR-10 / 100 projection {down} {alone}" in text
    for advise, one, verb in (
        (advice.keep, DOWN, "Keep the gains"),
        (advice.equalize, UP, "Equalize the gains"),
    ):
        text = advise({E10: FLAT}, {"CIFAR-10 / 100 encoder": one}).text
        said = f"{verb} of frozen features on CIFAR-10 / 100 encoder {one.said()} {alone}:"
        assert text.startswith(said)
    # One family of tests: what is seen alone is not as one of many.
    edge = Interval(-2, -3, -1, 9, True, 0.02)
    assert (
        "was not seen" in advice.keep({E10: FLAT, P10: FLAT}, {"CIFAR-10 / 100 encoder": edge}).text
    )
    assert advice.equalize({E10: DOWN}, {}).text.startswith(
        "Equalizing the gains of frozen features was not seen to help: "
    )
    assert advice.keep({E10: UP}, {}).text.endswith("does harm was not seen.")
    one = advice.equalize({E10: UP, P10: ONE}, {}).text
    assert one.endswith(" Not tested on CIFAR-10 projection.")
    assert advice.keep({}, {}, "main").missing == "main"


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"temperature": UP, "angular": FLAT}, "Under the frequency prior train with temperature:"),
        ({"temperature": DOWN, "angular": FLAT}, "Do not train with temperature under the freq"),
        ({"temperature": FLAT}, "Under the frequency prior expect little of training"),
    ],
)
def test_training(found: dict[str, Interval], words: str) -> None:
    text = training_advice.training(found).text
    assert text.startswith(words)
    assert ("none of them is seen" in text) == (not Seen.of(found).any())


def test_trained() -> None:
    text = training_advice.trained(
        "t", "Doing it", {"encoder": FLAT, "projection": ONE}, "tab:x"
    ).text
    assert text == (
        "Doing it: no effect was seen, means +1.00 points (encoder +1.00 [-1.00, +3.00]); not "
        "tested, of one seed each: projection +1.50 points (tab:x)."
    )
    text = training_advice.trained("t", "Doing it", {"a": FLAT, "b": FLAT, "c": FLAT}, "tab:x").text
    assert "means +1.00 points over 3 comparisons, each ± 2.0 (tab:x)." in text
    text = training_advice.trained("t", "Doing it", {"a": UP, "b": FLAT, "c": DOWN}, "tab:x").text
    assert text == (
        "Doing it: seen are a +2.00 [+1.00, +3.00], c -2.00 [-3.00, -1.00] points, of 3 "
        "comparisons (tab:x)."
    )
    text = training_advice.trained(
        "t", "Doing it", {"a": ONE, "b": ONE._replace(n=3)}, "tab:x"
    ).text
    assert text == "Doing it: not tested: a +1.50, b +1.50 points (tab:x)."


def test_avoid() -> None:
    """Advised by what is seen; one seed is not tested."""

    def text(**found: Interval) -> str:
        return training_advice.avoid("t", "do it", found, "tab:x").text

    assert text(a=DOWN, b=DOWN._replace(mean=-4, low=-5, high=-3)) == (
        "Do not do it: less ProCo on long-tail probes (points), a -2.00 [-3.00, -1.00], b -4.00 "
        "[-5.00, -3.00] (tab:x)."
    )
    some = text(a=DOWN, c=ONE, d=FLAT)
    assert some.startswith("Do not do it: ") and "; no effect was seen on d; " in some
    assert some.endswith("; not tested, of one seed each: c +1.50 points (tab:x).")
    assert text(a=UP).startswith("Do do it: ") and text(a=UP, b=DOWN).startswith("See first")
    assert text(a=FLAT).startswith("To do it: no effect was seen")
    assert text(a=ONE) == "To do it: not tested, of one seed each: a +1.50 points (tab:x)."
    none = training_advice.avoid("t", "do it", {}, "tab:x", "controls")
    assert none.missing == "controls"


def test_any_edit() -> None:
    """Counted over all edits, means by setting; what was not trained is said."""
    found = {
        "contrastive": {
            10.0: [Value(-1.0), Value(-0.5)],
            50.0: [Value(-2.0, 0.1, 3), Value(1.0)],
        },
        "joint": {50.0: [Value(0.25)]},
    }
    text = training_advice.any_edit(found, "controls").said()
    assert (
        "CIFAR-10: after contrastive training 3 of 4 long-tail probes are below ProCo's, by -0.75 "
        "at IF 10, -0.50 at IF 50; after joint training 0 of 1 long-tail probes are below "
        "ProCo's, by +0.25 at IF 50 (points, mean over the edits; n = 1 to 3 of each"
    ) in text
    assert text.endswith("Not all records yet: resultant reproduce run controls.")
    assert training_advice.any_edit({}, "controls").text.endswith("nothing measured.")


def test_cosine() -> None:
    text = advice.cosine({E10: DOWN, E100: FLAT}, 0.98654).text
    assert text.startswith(
        "Use cosine prototypes in place of Pure Angular at beta 0: of every network 98.65 % of "
    )
    text = advice.cosine({E10: DOWN, E100: UP}, 0.9).text
    assert text.startswith("Prefer Pure Angular at beta 0 to cosine on CIFAR-100 encoder alone: ")


def test_realized() -> None:
    small = Interval(0.01, -0.01, 0.03, 9, True, 0.2)
    text = advice.realized({"temperature": {E10: small}, "preserve": {E10: small}}).text
    assert text == (
        "Realize an edit of features of a native network as you like. Temperature and preserve "
        "less Pure Angular: +0.01 points."
    )
    lost = advice.realized({"temperature": {E10: small}}, [(1, 95), (3, 96)]).text
    assert lost.endswith(
        " Not by temperature where a class has lost its kappa: at the ends of trainings that lost "
        "one it predicts 1, 3 classes where Pure Angular predicts 95, 96 (fig:realization)."
    )
    text = advice.realized({"temperature": {E10: small}, "preserve": {E10: UP}}).text
    assert text.startswith("Compare realizations: a difference is seen of preserve, CIFAR-10 enc")


def test_prior() -> None:
    by_gamma = {-1.0: {E10: DOWN, P10: FLAT}, 0.0: {E10: UP, P10: UP}, 1.0: {E10: FLAT}}
    moved = {-1.0: {E10: FLAT, P10: FLAT}, 1.0: {E10: DOWN}}
    text = advice.prior(by_gamma, moved).text
    assert text == (
        "Choose the prior first: what the edit does depends on it on CIFAR-10 encoder. Pure "
        "Angular less native under gamma log prior, gamma -1, 0, 1 (points): CIFAR-10 encoder "
        "-2.00, +2.00, +1.00, projection +1.00, +2.00, –."
    )
    text = advice.prior(by_gamma, {1.0: {E10: FLAT}}).text
    assert text.startswith("That the edit depends on a prior was not seen. ")


def test_strength() -> None:
    more = Interval(5, 4, 6, 9, True, 1e-5)
    by_beta = {0.0: {E10: UP, P10: FLAT}, 0.5: {E10: more, P10: FLAT}, 1.5: {E10: DOWN}}
    assert advice.strength(by_beta).text == (
        "Of beta 0, 0.5, 1.5 take the one with the largest mean of those seen to help: 0.5 on "
        "CIFAR-10 encoder; none was seen to help on CIFAR-10 projection."
    )
    both = {0.0: {E10: more, P10: FLAT}, 0.5: {E10: UP, P10: UP}}
    assert advice.strength(both).text == (
        "Of beta 0, 0.5 take the one with the largest mean of those seen to help: 0 on CIFAR-10 "
        "encoder; 0.5 on CIFAR-10 projection."
    )
    none = advice.strength({0.0: {E10: DOWN}, 0.5: {E10: FLAT}}).text
    assert none == "No beta of 0, 0.5 was seen to help."


def test_kappas() -> None:
    """Decided by Holm's correction over all kappas and rules, and weighed against the edit."""
    same, edit = Interval(0, 0, 0, 99, p=1.0), {"a": Interval(3, 2, 4, 9, True, 1e-4)}
    text = advice.kappas({"MLE native of a": same, "MLE angular of a": FLAT}, edit).text
    assert text == (
        "Take any estimator of kappa on frozen features: another kappa than ProCo's moves the "
        "accuracy of a rule by +0.00 to +1.00 points, none seen (records and packaged; "
        "beyond:estimator)."
    )
    # Alone it would be seen; not as one of eight.
    edge = Interval(-0.1, -0.19, -0.01, 99, p=0.03)
    eight = {f"{k} {rule} of a": same for k in ("MLE", "Banerjee") for rule in "npta"}
    assert edge.sign == -1
    assert "none seen" in advice.weighed(eight | {"MLE n of a": edge}, edit)
    text = advice.kappas({"MLE native of a": DOWN}, edit).text
    assert text.startswith("Keep ProCo's kappa: ")
    assert "; seen: MLE native of a -2.00 [-3.00, -1.00], less than the edit there (+3" in text
    text = advice.kappas({"MLE native of a": UP}, {"a": FLAT}).text
    assert text.startswith("Compare estimators of kappa: ")
    assert ", as much as the edit there (+1.00)" in text
    # One that is larger than the edit at its own place is enough.
    both = advice.weighed({"MLE native of a": UP, "MLE native of b": UP}, edit | {"b": FLAT})
    assert ", as much as the edit" in both
    assert advice.spotted({"x a": UP, "x b": FLAT}) == "seen: x a"


def test_confidence() -> None:
    text = advice.confidence({E10: UP, E100: DOWN, P100: FLAT}).text
    assert text == (
        "Look at probabilities too where they matter. NLL rises on CIFAR-10 encoder; NLL falls on "
        "CIFAR-100 encoder; no effect on NLL was seen on CIFAR-100 projection. Pure Angular less "
        "native -2.0000 to +2.0000; calibration was not tried."
    )
    assert advice.confidence({}, "main").missing == "main"


def test_groups() -> None:
    text = advice.groups({"a encoder": {"head": UP, "tail": DOWN}, "b": {"medium": FLAT}}).text
    assert text == (
        "See which classes pay: Pure Angular at beta 0 less native, points, by shot group, each of "
        "one network: a encoder head +2.00 [+1.00, +3.00], tail -2.00 [-3.00, -1.00]; b medium "
        "+1.00 [-1.00, +3.00]."
    )
    assert advice.groups({}).text.endswith(": nothing measured.")


def test_choice_is_that_of_the_recommendation() -> None:
    own = recommend(small_space())
    assert isinstance(own, Recommendation)
    text = advice.choice({"packaged encoder": own}).text
    use = f"use {own.candidate}" if own.p_value < 0.05 and own.gain > 0 else "keep native"
    assert f"packaged encoder: {use}" in text and f"{100 * own.gain:+.2f} [" in text


def test_choice_by_the_exact_test() -> None:
    """Whatever the normal interval says, corrected for how many places there are."""
    own = replace(recommend(small_space()), candidate="cosine", gain=0.02, low=0.001, high=0.039)
    for p, places, use in ((0.06, 1, "keep native"), (0.04, 1, "use cosine"), (0.04, 2, "keep")):
        text = advice.choice({f"place {i}": replace(own, p_value=p) for i in range(places)}).text
        assert text.count(f": {use}") == places
    assert ": keep native" in advice.choice({"a": replace(own, gain=-0.02, p_value=0.01)}).text


def trainings(drop: float, kappas: tuple[float, ...], seeds: int = 3) -> Trainings:
    """Native networks, and as many by direct temperature that have so many points less, with some
    noise; the least kappas of these."""
    native = [Training(86.0, None, s, {"encoder": 0.5, "projection": 0.4}) for s in range(seeds)]
    edited = [
        Training(
            *(kappa, None, i % seeds),
            {space: v - (drop + 0.1 * i) / 100 for space, v in native[0].probes.items()},
        )
        for i, kappa in enumerate(kappas)
    ]
    return Trainings(edited, native)


def test_failure_is_advised_by_accuracy() -> None:
    """Whether a class collapsed or not, a fall that is seen is one; and the other way round."""
    assert training_advice.failure(None).missing == "failure"
    what = "train contrastively by direct temperature under a uniform prior"
    start = f"Do not {what}: less ProCo on long-tail"
    for kappas, lost in (((53.0, 54.0, 55.0), "none"), ((5.0, 6.0, 7.0), "3")):
        said = training_advice.failure(trainings(10.0, kappas))
        assert said.text.startswith(start) and not said.missing
        assert said.text.endswith(f" A class collapsed in {lost} of 3 trainings of seeds 0, 1, 2.")
        assert "CIFAR-100 IF 10 encoder -10.10 [-10.35, -9.85], projection -10.10 [" in said.text
        flat = training_advice.failure(trainings(-0.1, kappas)).text
        assert flat.startswith(f"To {what}: no effect was")
        assert f"A class collapsed in {lost} of" in flat


def test_failure_says_where_classes_collapsed() -> None:
    some = training_advice.failure(trainings(10.0, (53.0, 6.0, 7.0, 8.0)), "failure")
    assert some.text.endswith(
        " (fig:realization). A seed that was trained twice counts once, by its mean. A class "
        "collapsed in 3 of 4 trainings of seeds 0, 1, 2; probes where it did encoder 39.8 %, "
        "projection 29.8 %; where it did not encoder 40.0 %, projection 30.0 %; native encoder "
        "50.0 %, projection 40.0 %."
    )
    assert some.missing == "failure" and some.begun
    one = training_advice.failure(trainings(10.0, (6.0,), 1)).text
    assert one.startswith(
        "To train contrastively by direct temperature under a uniform prior: not tested, of one"
    )
    bare = Trainings([Training(6.0, None, 0, {})], [Training(86.0, None, 0, {})])
    assert training_advice.failure(bare).text == (
        "Direct temperature under a uniform prior: no probes to compare. A class collapsed in 1 of "
        "1 trainings of seed 0."
    )


def test_restraint_counts_decisions() -> None:
    """Of a small space by its decisions, and of classes that are turned copies of each other, which
    have one concentration."""
    space = small_space()
    made = decide(space, [Policy("native"), Policy("angular")])
    found = guide.reach(space, made)
    native, edited = (made.prediction[p.canonical] for p in (Policy("native"), Policy("angular")))
    assert found.changed == int((native != edited).sum()) / len(native) > 0
    assert found.spread == pytest.approx(float(space.gain.std(correction=0) / space.gain.mean()))
    assert len(space.gain) == C
    text = advice.restraint({"A encoder": Reach(0.008, 0.298)}).text
    assert text.endswith("Changed are, of A encoder, whose gains spread by 0.8 %: 29.8 %.")
    generator = torch.Generator().manual_seed(0)
    base = torch.tensor([3.0, 0, 0, 0]) + torch.randn(20, 4, generator=generator)
    train = torch.cat([base.roll(k, 1) for k in range(4)]).double()
    labels = torch.arange(4).repeat_interleave(20)
    even = FrozenSpace.fit(train, labels, train, labels, dtype=torch.float64)
    alike = guide.reach(even, decide(even, [Policy("native"), Policy("angular")]))
    assert alike.changed == 0 and alike.spread < 1e-12
