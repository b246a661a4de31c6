"""The guide from records: its table, number by number, and sentences that stay short."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from scipy.stats import norm, ttest_ind

from frozen_data import PER_CLASS, C, log_softmax, scores, small_space
from paper_evidence import OfSpaces, probed, seeds
from resultant.classes.rule import EDITED
from resultant_reproduction import ARTEFACTS, guide
from resultant_reproduction.advice import Sentence
from resultant_reproduction.artefact import Outcome
from resultant_reproduction.controls import control_config
from resultant_reproduction.plan import IMBALANCES, SETS, controlled, official, stronger_views
from resultant_reproduction.summarize import SPACES
from resultant_reproduction.words import section
from training_records import record

QUESTIONS = ["When to edit", "How", "By how much", "When not to"]

PACKAGED = OfSpaces(lambda estimator: small_space(estimator=estimator))


def of_space(records: list[dict[str, Any]]) -> OfSpaces:
    """Records beside one small space, which is analyzed once for all tests."""
    evidence = OfSpaces(PACKAGED.make, records)
    for name in ("space", "decisions", "analysis", "summary"):
        setattr(evidence, name, getattr(PACKAGED, name))
    return evidence


# A step in points by data set, imbalance, space and what is measured.
Step = Callable[[str, int, str, str], float]


def frozen_record(dataset: str, imbalance: int, seed: int, step: Step) -> dict[str, Any]:
    """A native network with its frozen summaries; steps grow by a tenth a seed."""
    spaces = {}
    for space in SPACES:

        def at(what: str, space: str = space) -> float:
            return step(dataset, imbalance, space, what) * (1 + 0.1 * seed) / 100

        edited = 0.7 + at("native")
        summary = {
            "accuracy": {
                "native": 0.7,
                "angular": edited,
                "cosine": edited - at("cosine"),
                "temperature": edited + at("temperature"),
                "preserve": edited + at("preserve"),
            },
            "nll": {"native": 1.0, "angular": 1.0 + at("nll")},
            "grid": {
                **{f"native 1 {gamma}": 0.7 for gamma in (-1, 0, 1)},
                **{f"angular 0 {gamma}": 0.7 + at(f"gamma {gamma}") for gamma in (-1, 1)},
                **{f"angular {beta} 0": 0.7 + at(f"beta {beta}") for beta in (0.5, 1.5)},
            },
            "cosine": {"agreement": 0.99 + 0.001 * seed},
        }
        spaces[space] = {"proco": summary, "mle": summary}
    config = controlled(dataset, imbalance)
    return {**probed(config, "native", seed, 0.6), "analysis": spaces}


def all_records(step: Step) -> list[dict[str, Any]]:
    """Of every plan that the guide reads but the failing state."""
    records = []
    for dataset, imbalance, seed in product(SETS, IMBALANCES, range(3)):
        config = controlled(dataset, imbalance)
        records.append(frozen_record(dataset, imbalance, seed, step))
        for rule in EDITED:
            accuracy = {
                space: {
                    "accuracy": 0.6 + step(dataset, imbalance, space, rule) * (1 + 0.1 * seed) / 100
                }
                for space in SPACES
            }
            records.append(record(config, rule, 0.0, seed, probes={"long_tail": accuracy}))
    for imbalance in (50, 100):
        config = control_config(f"c10-if{imbalance}-u", "contrastive")
        records += seeds(config, (-11.0, -11.5, -12.0))
    records += seeds(stronger_views(), (0.1, -0.1, 0.2))
    own = controlled("cifar100", 100)
    for beta, seed in product((-0.5, 0.5, 1.5, 2.0), range(3)):
        records.append(probed(own, "angular", seed, 0.61 + 0.001 * seed, beta))
    for level, settings in ((0.6, {"estimator": "mle"}), (0.68, {"leave_out": True})):
        records += seeds(controlled("cifar100", 100, **settings), (0.1, 0.2, -0.2), level)
    return records


def by_data_set(dataset: str, imbalance: int, space: str, what: str) -> float:
    return 1.0 if dataset == "cifar100" else -0.5


def texts(evidence: OfSpaces) -> dict[str, Sentence]:
    told = guide.sentences(evidence, guide.over_records(evidence))
    assert list(told) == QUESTIONS
    return {s.topic: s for own in told.values() for s in own}


def test_guide_with_all_records() -> None:
    """Better on one data set, worse on the other, in everything but the packaged network."""
    evidence = of_space(all_records(by_data_set))
    outcome, sentences = guide.guide(evidence), texts(evidence)
    assert outcome.parts.keys() == sentences.keys()
    lacking = {topic for topic, s in sentences.items() if s.missing}
    assert lacking == {
        "Direct temperature under a uniform prior",
        "Any edit under a uniform prior",
        "Joint training with Pure Angular under a uniform prior",
        "Joint training with an edited gain",
        "Power family",
    }
    assert ARTEFACTS["guide"].status(outcome) == "partly rerun (16 of 21)"
    # Of Pure Angular at beta 0 alone, in two of the four settings.
    text = sentences["Any edit under a uniform prior"].text
    assert (
        "contrastive training 4 of 4 long-tail probes are below ProCo's, by -11.50 at IF 50, "
        "-11.50 at IF 100 (points"
    ) in text
    assert sentences["Edit of frozen features"].text.startswith(
        "Equalize the gains of frozen features on CIFAR-100 encoder +1.10 ["
    )
    assert sentences["Frozen features to leave alone"].text.startswith(
        "Keep the gains of frozen features on CIFAR-10 encoder -0.55 ["
    )
    # The MLE is as ProCo's in these records, and in the space.
    text = sentences["Estimator of kappa, frozen"].text
    assert text.startswith("Take any estimator of kappa on frozen features: ")
    text = sentences["Training with an edited gain"].text
    assert text.startswith("Under the frequency prior train with temperature, preserve, angular: ")
    assert "angular +0.27 [+0.23, +0.32]" in text
    text = sentences["Pure Angular under a uniform prior"].text
    start = "Do not train contrastively with Pure Angular under a uniform prior: less ProCo on"
    assert text.startswith(start)
    assert "CIFAR-10 IF50 encoder -11.50 [" in text and "one seed" not in text
    text = sentences["Pure Angular on stronger views"].text
    assert "no effect was seen, means +0.07 points (encoder +0.07 [" in text
    text = sentences["Strength in training"].text
    assert "seen are beta -0.5 encoder +1.10 [" in text and "of 10 comparisons" in text
    text = sentences["Estimator of kappa, trained"].text
    assert "query left out, native, encoder +" in text and "of 8 comparisons" in text
    assert "MLE" not in text.partition(":")[2]
    text = sentences["Probabilities"].text
    assert "NLL rises on CIFAR-100 encoder, projection; NLL falls on CIFAR-10" in text


def test_training_is_judged_by_realization() -> None:
    """Temperature that only helps and preserve that only harms: the helpful one is advised."""
    steps = {"temperature": 1.0, "preserve": -1.0}
    evidence = of_space(all_records(lambda dataset, imbalance, space, what: steps.get(what, 0.0)))
    text = texts(evidence)["Training with an edited gain"].text
    assert text.startswith("Under the frequency prior train with temperature: less ProCo")
    assert "preserve -1.10 [" in text


def test_uniform_prior_of_one_seed() -> None:
    """A fall of one seed is not tested, however large."""
    own = [
        r
        for imbalance in (50, 100)
        for r in seeds(control_config(f"c10-if{imbalance}-u", "contrastive"), (-8.0,))
    ]
    topic = "Pure Angular under a uniform prior"
    alone = texts(of_space(own))[topic].said()
    assert alone.startswith(
        "To train contrastively with Pure Angular under a uniform prior: not tested, of one "
    )
    assert "CIFAR-10 IF50 encoder -8.00, projection -8.00; CIFAR-10 IF100 encoder -8.00" in alone


def test_shot_groups() -> None:
    """Pure Angular less native in the head, the middle and the tail, by the scores themselves."""
    space = small_space(estimator="proco")
    labels = torch.cat([y for _, _, y in space.queries()]).numpy()
    z = torch.cat([z for _, z, _ in space.queries()])
    right = [scores(space, rule, 0.0, 0.0, z).argmax(1) == labels for rule in ("angular", "native")]
    after, before = (100.0 * hits for hits in right)
    counts = torch.bincount(space.labels).numpy()[labels]
    shots = {"head": counts > 100, "medium": (counts <= 100) & (counts >= 20), "tail": counts < 20}
    wanted = {name: (after - before)[own].mean() for name, own in shots.items() if own.any()}
    found = guide.by_group(of_space([]))
    assert len(found) == 2 and len(wanted) > 1
    for own in found.values():
        assert {name: i.mean for name, i in own.items()} == pytest.approx(wanted)


def test_joint_training_and_powers() -> None:
    """Means over the settings that all edits have, and which plan lacks."""
    joint = (
        controlled("cifar10", 10, objective="joint"),
        controlled("cifar100", 10, objective="joint"),
    )
    power = official("cifar100", 50, family="power")
    made = [
        record(config, *kind, 0, last={"accuracy": level})
        for config, kind, level in (
            *((config, ("native", 0.0), 0.8) for config in (*joint, power)),
            (joint[0], ("angular", 0.0), 0.81),
            (joint[1], ("angular", 0.0), 0.806),
            (joint[1], ("temperature", 0.0), 0.77),
            (power, ("temperature", 0.5), 0.798),
        )
    ]
    found = texts(of_space(made))
    said = found["Joint training with an edited gain"].said()
    assert said == (
        "Joint training under the frequency prior, classifiers less ProCo's, mean over settings, n "
        "= 1 a setting: not tested, of one seed each: Pure Angular +0.60; Direct temperature "
        "-3.00 points (tab:joint-fc). Not all records yet: resultant reproduce run joint."
    )
    said = found["Power family"].said()
    assert "not tested, of one seed each: Reduced gain disparity -0.20 points" in said
    assert said.endswith("resultant reproduce run power.")


def row(outcome: Outcome, name: str) -> dict[str, str]:
    return {cell.column: cell.said() for cell in outcome.cells if cell.row == name}


def interval(mean: float, reach: float, digits: int) -> str:
    ends = f"{mean - reach:+.{digits}f}, {mean + reach:+.{digits}f}"
    return f"{mean:+.{digits}f} [{ends}]"


def test_table_of_queries() -> None:
    """Every number of the packaged row by the scores of their definition."""
    space, outcome = small_space(estimator="proco"), guide.guide(of_space([]))
    n, labels = C * PER_CLASS, torch.cat([y for _, _, y in space.queries()]).numpy()
    z = torch.cat([z for _, z, _ in space.queries()])

    def made(rule: str, beta: float = 0.0, gamma: float = 0.0) -> Any:
        return scores(space, rule, beta, gamma, z)

    def difference(after: Any, before: Any, digits: int = 2) -> str:
        d = after - before
        return interval(d.mean(), norm.ppf(0.975) * d.std() / math.sqrt(n), digits)

    def less(after: Any, before: Any) -> str:
        return difference(*(100.0 * (s.argmax(1) == labels) for s in (after, before)))

    def nll(s: Any) -> Any:
        return -log_softmax(s)[range(n), labels]

    angular, native, cosine = made("angular"), made("native"), made("cosine")
    same = (angular.argmax(1) == cosine.argmax(1)).mean()
    assert guide.same_decisions(PACKAGED) == pytest.approx(same)
    right = [100 * (made("native", 1.0, g).argmax(1) == labels).mean() for g in (-1.0, 0.0, 1.0)]
    assert row(outcome, "packaged encoder") == {
        "PA - native": less(angular, native),
        "beta 0.5": less(made("angular", 0.5), native),
        "beta 1.5": less(made("angular", 1.5), native),
        "gamma -1": less(made("angular", 0.0, -1.0), made("native", 1.0, -1.0)),
        "gamma 1": less(made("angular", 0.0, 1.0), made("native", 1.0, 1.0)),
        "PA - cosine": less(angular, cosine),
        "temperature - PA": less(made("temperature"), angular),
        "preserve - PA": less(made("preserve"), angular),
        "NLL, PA - native": difference(nll(angular), nll(native), 4),
        "native at gamma -1, 0, 1 (%)": ", ".join(f"{v:.1f}" for v in right),
    }


def test_table_of_networks() -> None:
    """Every number of a row of the records: two settings count alike, whatever networks they have,
    and their interval is Welch's."""
    values = {"native": -1.0, "cosine": 0.3, "temperature": 0.2, "preserve": -0.1, "nll": 2.0}
    values |= {"gamma -1": 0.4, "gamma 1": -0.6, "beta 0.5": 0.7, "beta 1.5": -2.0}

    def step(dataset: str, imbalance: int, space: str, what: str) -> float:
        return values[what] * (1.0 if space == "encoder" else 3.0) * (2 if imbalance == 10 else 1)

    records = [frozen_record("cifar10", 100, seed, step) for seed in range(3)]
    records += [frozen_record("cifar10", 10, seed, step) for seed in range(2)]
    outcome = guide.guide(of_space(records))

    def said(value: float, digits: int = 2) -> str:
        many = [value * (1 + 0.1 * seed) for seed in range(3)]
        few = [-2 * value * (1 + 0.1 * seed) for seed in range(2)]
        wanted: Any = ttest_ind(many, few, equal_var=False)
        low, high = wanted.confidence_interval(0.95)
        return interval((low + high) / 4, (high - low) / 4, digits)

    assert row(outcome, "CIFAR-10 projection [5]") == {
        "PA - native": said(-3.0),
        "beta 0.5": said(2.1),
        "beta 1.5": said(-6.0),
        "gamma -1": said(1.2),
        "gamma 1": said(-1.8),
        "PA - cosine": said(0.9),
        "temperature - PA": said(0.6),
        "preserve - PA": said(-0.3),
        "NLL, PA - native": said(0.06, 4),
        "native at gamma -1, 0, 1 (%)": "70.0, 70.0, 70.0",
    }


def test_table_of_older_records() -> None:
    """Records that have accuracies alone fill what cells they can, and say how many they are."""
    records = [frozen_record("cifar10", 100, seed, by_data_set) for seed in range(3)]
    for seed in range(3):
        spaces = records[seed].pop("analysis")
        records[seed]["frozen"] = {
            s: {kappa: spaces[s][kappa]["accuracy"] for kappa in ("proco", "mle")} for s in SPACES
        }
    outcome = guide.guide(of_space(records))
    own = row(outcome, "CIFAR-10 encoder [3]")
    assert own["PA - native"].startswith("-0.55 [")
    assert own["beta 0.5"] == own["NLL, PA - native"] == own["native at gamma -1, 0, 1 (%)"] == "–"
    assert "None" not in "".join(outcome.lead)


def test_guide_without_records() -> None:
    artefact = ARTEFACTS["guide"]
    outcome = artefact.compute(of_space([]))
    (note,) = outcome.notes
    assert [question.removesuffix(":") for question in outcome.lead[::2]] == QUESTIONS
    assert "95 %" in note and "Holm" in note
    text = "\n".join(outcome.lead)
    for plan in ("controls", "failure", "beyond", "main", "joint", "power"):
        assert f"No record yet: resultant reproduce run {plan}." in text
    # The packaged network is one of main, whose frozen features are at hand.
    assert "Not all records yet: resultant reproduce run main." in text
    assert artefact.status(outcome) == "partly rerun (4 of 21)"
    assert "nan" not in text and "None" not in text
    # Each list is one of Markdown: a blank line, then its lines; the table comes after them.
    whole = section(artefact, outcome)
    assert "\n\nWhen to edit:\n\n- " in whole
    assert whole.index("When not to:") < whole.index("| packaged encoder") < whole.index(note)
