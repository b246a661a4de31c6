"""The guide from records: its table, number by number, and sentences that stay short."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from scipy.stats import norm
from scipy.stats import t as student

from frozen_data import PER_CLASS, C, log_softmax, scores, small_space
from paper_evidence import OfSpaces, probed, seeds
from resultant.frozen import Policy, decide
from resultant.paper import ARTEFACTS, guide
from resultant.paper.advice import Sentence
from resultant.paper.artefact import Outcome
from resultant.paper.controls import control_config
from resultant.paper.plan import EDITED, IMBALANCES, SETS, controlled, stronger_views
from resultant.paper.summary import SPACES
from resultant.paper.words import section
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


def bullets(outcome: Outcome) -> list[str]:
    return [line for note in outcome.lead for line in note.splitlines() if line.startswith("- ")]


def by_data_set(dataset: str, imbalance: int, space: str, what: str) -> float:
    return 1.0 if dataset == "cifar100" else -0.5


def test_guide_with_all_records() -> None:
    """Better on one data set, worse on the other, in everything but the packaged network."""
    evidence = of_space(all_records(by_data_set))
    outcome = guide.guide(evidence)
    told = guide.sentences(evidence, guide.frozen(evidence), guide.same_decisions(evidence))
    sentences: dict[str, Sentence] = {s.topic: s for own in told.values() for s in own}
    assert list(told) == QUESTIONS and outcome.parts.keys() == sentences.keys()
    assert {topic for topic, s in sentences.items() if s.missing} == {
        "Failure of direct temperature"
    }
    assert ARTEFACTS["guide"].status(outcome) == "partly rerun (17 of 18)"
    text = sentences["Whether to train with Pure Angular"].text
    assert text == (
        "Measure before you train with Pure Angular: it helps here and harms there. Less ProCo on "
        "long-tail probes (points): better on CIFAR-100 / 10, 50, 100 by +1.10; worse on CIFAR-10 "
        "/ 10, 50, 100 by -0.55. Mean over settings +0.27 [+0.23, +0.32], p < 0.001 "
        "(tab:angular-training)."
    )
    text = sentences["Whether to edit frozen features"].text
    assert "CIFAR-100 / 10, 50, 100" in text and "worse on CIFAR-10 / 10, 50, 100" in text
    text = sentences["Whether to train with Pure Angular under a uniform prior"].text
    assert text.startswith("Do not train with Pure Angular under a uniform prior where it was ")
    assert "worse on CIFAR-10 / 50, 100 by -11.50" in text
    text = sentences["Whether to train with Pure Angular on stronger views"].text
    assert "no effect seen on CIFAR-10 / 100 (means +0.07) (beyond:stronger-views)" in text
    assert text.startswith(
        "Train with Pure Angular on stronger views (tried: CIFAR-10 / 100 alone) or"
    )
    text = sentences["Whether to train at another beta than 1"].text
    assert "better at -0.5 and 0 and 0.5 and 1.5 and 2 by +1.10 (beyond:beta-sweep)" in text
    text = sentences["Whether to train with other statistics than ProCo's"].text
    assert "(points): better on query left out, native and query left out, angular by" in text
    assert "no effect seen on 4 of 8" in text
    assert "higher on CIFAR-100 / 10, 50, 100" in sentences["Probabilities"].text
    assert all(len(line) <= 450 for line in bullets(outcome))


def test_each_training_has_its_sentence() -> None:
    """Temperature that only helps and preserve that only harms are not said to do both."""
    steps = {"temperature": 1.0, "preserve": -1.0}
    evidence = of_space(all_records(lambda dataset, imbalance, space, what: steps.get(what, 0.0)))
    told = guide.sentences(evidence, guide.frozen(evidence), guide.same_decisions(evidence))
    texts = {s.topic: s.text for own in told.values() for s in own}
    hot, kept = (texts[f"Whether to train with {rule}"] for rule in steps)
    assert hot.startswith("Train with temperature where it was seen to help.")
    assert kept.startswith("Do not train with preserve where it was seen to harm.")


@pytest.mark.parametrize("period", [2, 3, 5])
def test_bullets_stay_short(period: int) -> None:
    """Whatever the mix of verdicts over twelve settings."""

    def step(dataset: str, imbalance: int, space: str, what: str) -> float:
        at = 6 * SETS.index(dataset) + 2 * IMBALANCES.index(imbalance) + SPACES.index(space)
        return (-1.0, 1.0, 1e-9)[(at // period + len(what)) % 3]

    found = bullets(guide.guide(of_space(all_records(step))))
    assert len(found) == 18
    assert max(len(line) for line in found) <= 450, max(found, key=len)


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
    same = 100 * (angular.argmax(1) == cosine.argmax(1)).mean()
    own = row(outcome, "packaged, encoder")
    ece = own.pop("NLL").removeprefix(difference(nll(angular), nll(native), 4))
    assert ece.startswith(", ECE ") and float(ece.split()[2]) == pytest.approx(
        guide._calibration(
            decide(space, [Policy("native"), Policy("angular")]),
            Policy("angular"),
            Policy("native"),
        ).mean,
        abs=5e-5,
    )
    assert own == {
        "PA - native": less(angular, native),
        "beta 0.5": less(made("angular", 0.5), native),
        "beta 1.5": less(made("angular", 1.5), native),
        "gamma -1": less(made("angular", 0.0, -1.0), made("native", 1.0, -1.0)),
        "gamma 1": less(made("angular", 0.0, 1.0), made("native", 1.0, 1.0)),
        "PA - cosine": f"{less(angular, cosine)}, {same:.2f} % same",
        "temperature - PA": less(made("temperature"), angular),
        "preserve - PA": less(made("preserve"), angular),
    }


def test_table_of_networks() -> None:
    """Every number of a row of the records, and that one network alone makes none."""
    values = {"native": -1.0, "cosine": 0.3, "temperature": 0.2, "preserve": -0.1, "nll": 2.0}
    values |= {"gamma -1": 0.4, "gamma 1": -0.6, "beta 0.5": 0.7, "beta 1.5": -2.0}

    def step(dataset: str, imbalance: int, space: str, what: str) -> float:
        return values[what] * (1.0 if space == "encoder" else 3.0)

    records = [frozen_record("cifar10", 100, seed, step) for seed in range(3)]
    records.append(frozen_record("cifar10", 10, 0, step))
    evidence = of_space(records)
    outcome = guide.guide(evidence)

    def said(value: float, digits: int = 2) -> str:
        d = [value * (1 + 0.1 * seed) for seed in range(3)]
        reach = float(student.ppf(0.975, 2)) * statistics.stdev(d) / math.sqrt(3)
        return interval(statistics.fmean(d), reach, digits)

    assert row(outcome, "CIFAR-10 / 100, projection [3]") == {
        "PA - native": said(-3.0),
        "beta 0.5": said(2.1),
        "beta 1.5": said(-6.0),
        "gamma -1": said(1.2),
        "gamma 1": said(-1.8),
        "PA - cosine": f"{said(0.9)}, 99.10 % same",
        "temperature - PA": said(0.6),
        "preserve - PA": said(-0.3),
        "NLL": said(0.06, 4),
    }
    rows = [f"{place}, {space}" for place in ("packaged", "CIFAR-10 / 100") for space in SPACES]
    assert [r.partition(" [")[0] for r in dict.fromkeys(c.row for c in outcome.cells)] == rows
    assert guide.same_decisions(evidence).keys() == set(rows)


def test_table_of_older_records() -> None:
    """Records that have accuracies alone fill what cells they can, and say how many they are."""
    records = [frozen_record("cifar10", 100, seed, by_data_set) for seed in range(3)]
    for seed in (0, 1):
        spaces = records[seed].pop("analysis")
        records[seed]["frozen"] = {s: {"proco": spaces[s]["proco"]["accuracy"]} for s in SPACES}
    own = row(guide.guide(of_space(records)), "CIFAR-10 / 100, encoder [3]")
    assert own["PA - native"].startswith("-0.55 [") and own["beta 0.5"] == own["NLL"] == "–"


def test_guide_without_records() -> None:
    artefact = ARTEFACTS["guide"]
    outcome = artefact.compute(of_space([]))
    (note,) = outcome.notes
    assert [question.removesuffix(":") for question in outcome.lead[::2]] == QUESTIONS
    assert "95 %" in note and "Holm" in note and note.count(". ") == 3
    text = "\n".join(outcome.lead)
    for plan in ("controls", "failure", "beyond"):
        assert f"No record yet: resultant reproduce run {plan}." in text
    # Of main the packaged network is one, whose frozen features are at hand.
    assert "Not all records yet: resultant reproduce run main." in text
    assert "Whether to train with Pure Angular: nothing measured. No record yet" in text
    assert artefact.status(outcome) == "partly rerun (9 of 18)"
    assert "nan" not in text and "None" not in text
    # Each list is one of Markdown: a blank line, then its lines; the table comes after them.
    whole = section(artefact, outcome)
    assert "\n\nWhen to edit:\n\n- " in whole
    assert whole.index("When not to:") < whole.index("| packaged, encoder") < whole.index(note)
