"""The failing state: the record of a training, computed again, and its claims."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from scipy.stats import t as student

from resultant import vmf_score
from resultant.special.bessel import bessel_ratio
from resultant.training.cifar import train_cifar
from resultant.training.config import Run
from resultant.training.evaluation import cifar_features
from resultant.training.job import Job
from resultant_reproduction import ARTEFACTS, Evidence, Records
from resultant_reproduction.failure import Training, Trainings, failing_claims
from resultant_reproduction.plan import PLANS, PlannedJob, controlled, missing
from resultant_reproduction.run import last_states
from tiny_cifar import tiny_cifar, tiny_config
from training_records import record

DATA = tiny_cifar(test=7, size=4)


@pytest.mark.slow
@pytest.mark.parametrize("prior", [0.0, 1.0])
def test_last_state(tmp_path: Path, prior: float) -> None:
    """Rules on five queries a class and the classes of the bank, by their formulas."""
    config = tiny_config(prior=prior, epochs=1)
    runs = (Run("native", 0.0, 0), Run("temperature", 0.0, 0), Run("angular", 0.0, 0))
    trained = train_cifar(Job(config, runs, tmp_path), DATA)
    features = cifar_features(trained, DATA)
    job = PlannedJob("tiny", config, runs, ended=("temperature",))
    (result,) = last_states(features, trained, job).items()
    assert result[0] == runs[1].name
    bank = trained.stacks[0].proco.bank.old[1]
    R = bank[:, :-1].norm(dim=1) / bank[:, -1]
    mu, kappa = F.normalize(bank[:, :-1], dim=1), 8 * R / (1 - R * R)
    A = bessel_ratio(torch.tensor(3.0, dtype=torch.float64), kappa)
    labels = DATA.test_labels
    rows = torch.cat([(labels == c).nonzero().squeeze(1)[:5] for c in range(4)])
    z = F.normalize(features.spaces["projection"][1][len(features.labels) :][rows].double(), dim=1)
    rho, zero, tau, y = z @ mu.T, torch.zeros_like(A), torch.full_like(A, 0.1), labels[rows]
    star = 0.1 * A / A.mean()
    native, hot = (vmf_score(rho, kappa, t, 8) for t in (tau, star))
    shift = vmf_score(zero, kappa, tau, 8) - vmf_score(zero, kappa, star, 8)
    scores = {
        "native": native,
        "temperature": hot,
        "preserve": hot + shift,
        "angular": native + (A.mean() - A) / 0.1 * rho,
    }
    counts = torch.bincount(DATA.train_labels[features.members], minlength=4)
    offset = prior * (counts / counts.sum()).double().log()
    for name, q in scores.items():
        row = result[1]["same_state"][name]
        assert row["cross_entropy"] == pytest.approx(float(F.cross_entropy(q + offset, y)))
        guesses = (q + offset).argmax(1)
        assert row["accuracy"] == pytest.approx(float((guesses == y).double().mean()))
        assert row["distinct"] == len(guesses.unique())
    worst = int(shift.abs().argmax())
    assert result[1]["focus"]["index"] == worst
    assert result[1]["focus"]["kappa"] == pytest.approx(float(kappa[worst]))
    assert result[1]["intercepts"]["temperature"] == pytest.approx(float(shift.abs().max()))


def network(realization: str, kappa: float, seed: int = 0, **more: Any) -> Any:
    config = controlled("cifar100", 10, prior=0.0)
    return record(config, realization, 0.0, seed, last={"kappa_min": kappa}, **more)


def networks(seed: int = 0) -> list[dict[str, Any]]:
    return [network("native", 86.0, seed), network("temperature", 5.4, seed)]


def ended(
    loss: float, classes: int, after: float, accuracy: float = 0.36, target: float = 7.2
) -> dict[str, Any]:
    losses = {"native": 2.2, "temperature": loss, "preserve": 2.1, "angular": 2.1}
    distinct = {"native": 90, "temperature": classes, "preserve": 95, "angular": 95}
    return {
        "same_state": {
            n: {"cross_entropy": losses[n], "distinct": distinct[n], "accuracy": accuracy}
            for n in losses
        },
        "intercepts": {"temperature": after, "preserve": 0.0, "angular": 0.0},
        "focus": {"intercepts": {"native": 0.4, "temperature": after}, "target_gain": target},
    }


def kept_of(evidence: Evidence) -> Training | None:
    result = Trainings.of(evidence)
    return result.ends()[0][0] if result else None


def test_claims() -> None:
    nothing = [c.verdict for c in failing_claims(Evidence(Records()))]
    assert nothing == ["not run yet"] * 6
    result = networks()
    least, *rest = failing_claims(Evidence(Records(result)))
    assert [least.verdict, *(c.verdict for c in rest)] == ["not settled", *["not run yet"] * 5]
    assert least.ours == "seed 0: 5.40 (native seed 0: 86.00); n = 1 and 1 (1 of 3)"
    # Each can be read alone.
    assert {c.text.partition(": ")[0] for c in (least, *rest)} == {
        "CIFAR-100 IF 10, uniform prior, direct temperature, at its end"
    }
    for state, verdict in (
        (ended(72.3, 1, 79.1), "holds where tested"),
        # Of one network that is not against it.
        (ended(2.3, 90, 0.5, 0.31, 9.4), "not settled"),
        (ended(math.inf, 1, 79.1), "holds where tested"),
    ):
        result[1]["ended"] = state
        evidence = Evidence(Records(result))
        assert (kept := kept_of(evidence)) and kept.state == state
        assert [c.verdict for c in failing_claims(evidence)][1:] == [verdict] * 5
    accuracy, target = [c.ours for c in failing_claims(evidence)][-2:]
    assert (accuracy, target) == ("36.0; n = 1, seed 0", "7.2000; n = 1, seed 0")


def test_several_seeds() -> None:
    def least(kappas: Sequence[float]) -> tuple[str, str]:
        records = [network("temperature", kappa, seed) for seed, kappa in enumerate(kappas)]
        claim = next(failing_claims(Evidence(Records([networks()[0], *records]))))
        return claim.verdict, claim.ours

    assert least((5.4, 6.1)) == (
        "holds where tested",
        "seed 0: 5.40; seed 1: 6.10 (native seed 0: 86.00); n = 2 and 1 (2 of 3)",
    )
    assert least((5.4, 6.1, 7.0)) == (
        "holds",
        "seed 0: 5.40; seed 1: 6.10; seed 2: 7.00 (native seed 0: 86.00); n = 3 and 1",
    )
    # More seeds than planned do not take it back.
    assert least((5.4, 6.1, 7.0, 7.1))[0] == "holds"
    assert least((80.0, 70.0))[0] == "does not hold" and least((80.0,))[0] == "not settled"
    assert least((80.0, 5.4, 6.1))[0] == "not settled"


def test_low_is_a_tenth_of_the_least_native_one() -> None:
    """8 is below a tenth of 120, and not of 60."""
    native = [network("native", kappa, seed) for seed, kappa in enumerate((120.0, 60.0))]
    for kappa, low in ((8.0, False), (5.9, True)):
        edited = [network("temperature", kappa, seed) for seed in (0, 1, 2)]
        result = Trainings.of(Evidence(Records([*native, *edited])))
        assert result and [*map(result.low, result.edited)] == [low] * 3
        claim = next(failing_claims(Evidence(Records([*native, *edited]))))
        assert claim.verdict == ("holds" if low else "does not hold")


def test_a_seed_that_was_trained_twice() -> None:
    """One training loses a class, another of the same seed does not: that leaves it open, and so
    does what the spared one does, until the end of the other is kept."""
    native, lost = networks()
    spared = network("temperature", 53.0, ended=ended(2.3, 90, 0.5))
    evidence = Evidence(Records([native, lost, spared]))
    least, *rest = failing_claims(evidence)
    # The one that was set aside first, whichever was trained first.
    assert least.ours == (
        "seed 0, 2 trainings: 5.40, 53.00 (native seed 0: 86.00); n = 2 and 1 (1 of 3)"
    )
    assert least.verdict == "not settled"
    assert [c.verdict for c in rest] == ["not settled"] * 5
    # Neither what it does as printed nor what it does not: its accuracy and gain are near.
    assert [c.ours for c in rest[-2:]] == ["36.0; n = 1, seed 0", "7.2000; n = 1, seed 0"]
    for claim in rest:
        assert claim.why.endswith(
            "; asked of one that kept its classes: none that lost one kept its last state"
        )
    lost["ended"] = ended(72.3, 1, 79.1)
    evidence = Evidence(Records([native, lost, spared]))
    assert (kept := kept_of(evidence)) and kept.state == lost["ended"]
    least, *rest = failing_claims(evidence)
    assert least.verdict == "not settled"
    assert [c.verdict for c in rest] == ["holds where tested"] * 5


def test_predictions_that_collapsed() -> None:
    """One class is predicted, though its kappa is not below a tenth of native's: it failed, and is
    shown before one of lower kappa that did not."""
    failed = network("temperature", 9.8, 2, ended=ended(23.4, 1, 28.9))
    spared = network("temperature", 9.0, 1, ended=ended(2.3, 90, 0.5))
    evidence = Evidence(Records([networks()[0], spared, failed]))
    result = Trainings.of(evidence)
    assert result and list(map(result.lost, result.edited)) == [False, True]
    assert not any(map(result.low, result.edited))
    assert [training.seed for training, _ in result.ends()] == [2]
    least, *rest = failing_claims(evidence)
    assert least.verdict == "does not hold"
    assert [c.verdict for c in rest[:3]] == ["holds where tested"] * 3


def test_several_that_failed() -> None:
    """All of them are judged: what is so of some and not of others is left open."""

    def lost(*losses: float) -> list[dict[str, Any]]:
        ends = zip((1, 2), (6.2, 8.1), losses, strict=False)
        return [network("temperature", k, seed, ended=ended(v, 1, 60.0)) for seed, k, v in ends]

    native, *_ = networks()
    spared = network("temperature", 53.0, ended=ended(2.3, 90, 0.5))
    evidence = Evidence(Records([native, spared, *lost(55.6, 21.4)[::-1]]))
    _, losses, *rest = failing_claims(evidence)
    assert losses.verdict == "not settled"
    assert losses.why.endswith("(2 of 2 that lost one); not met at seed 2, kappa 8.1")
    assert losses.ours == (
        "seed 1, kappa 6.2: 2.2000, 55.6000, 2.1000, 2.1000; seed 2, kappa 8.1: 2.2000, 21.4000, "
        "2.1000, 2.1000; n = 2"
    )
    assert [c.verdict for c in rest] == ["holds"] * 4
    whose = "the trainings that lost a class and kept their last state (2 of 2 that lost one)"
    assert all(c.why.endswith(f"; asked of {whose}") for c in rest)
    (note,) = ARTEFACTS["realization"].compute(evidence).notes
    # Native is of the same seed, or absent.
    assert "seed 1; a class collapsed there (least kappa 6.2, the least of 2 such states)" in note
    (note,) = (
        ARTEFACTS["realization"]
        .compute(Evidence(Records([native, network("native", 91.0, 1), *lost(55.6)])))
        .notes
    )
    assert "seed 1; a class collapsed there (least kappa 6.2, native of that seed 91);" in note

    def verdict(*records: dict[str, Any]) -> tuple[str, ...]:
        _, claim, *_ = failing_claims(Evidence(Records([native, spared, *records])))
        asked = claim.why.partition("last state (")[2].partition(" that lost")[0]
        return claim.verdict, claim.ours.partition("n = ")[2], asked

    assert verdict(*lost(55.6, 31.4)) == ("holds", "2", "2 of 2")
    assert verdict(*lost(15.6, 21.4)) == ("does not hold", "2", "2 of 2")
    # A run whose state is lost for good, its seed being done, is reported and not waited for.
    gone = network("temperature", 7.4)
    assert verdict(*lost(55.6, 31.4), gone) == ("holds", "2", "2 of 3")
    assert verdict(*lost(55.6), gone) == ("holds where tested", "1, seed 1", "1 of 2")
    # One of a seed that the plan trains again is.
    later = network("temperature", 7.4, 3)
    assert verdict(*lost(55.6, 31.4), later) == ("holds where tested", "2 (2 of 3)", "2 of 3")


def test_no_training_that_failed() -> None:
    """A state that kept its classes says nothing of one that did not, for or against."""
    spared = network("temperature", 53.0, ended=ended(2.3, 90, 0.5))
    _, *rest = failing_claims(Evidence(Records([networks()[0], spared])))
    assert [c.verdict for c in rest] == ["not settled"] * 5
    assert all(c.why.endswith("asked of one that kept its classes: none lost one") for c in rest)
    # Nor is it a part of what is asked.
    lost = network("temperature", 5.4, 1)
    _, *rest = failing_claims(Evidence(Records([networks()[0], spared, lost])))
    assert all(c.ours.endswith("; n = 1, seed 0") for c in rest)


def test_a_record_that_does_not_say_how_it_ended() -> None:
    """The record is left out without an error."""
    records = networks()
    for last in ({}, {"last": {}}, {"last": {"kappa_min": None}}, {"last": None}):
        broken = {**network("temperature", 1.0, 1), **last}
        broken = broken if last else {k: v for k, v in broken.items() if k != "last"}
        result = Trainings.of(Evidence(Records([*records, broken])))
        assert result and [t.seed for t in result.edited] == [0]
    assert Trainings.of(Evidence(Records([records[0], broken]))) is None


def test_changes_are_paired_by_seed() -> None:
    """A seed that was trained twice counts once, by its mean; one without native does not."""

    def probed(realization: str, seed: int, encoder: float, **more: Any) -> dict[str, Any]:
        probes = {"long_tail": {"encoder": {"accuracy": encoder}}}
        return network(realization, 50.0, seed, probes=probes, **more)

    records = [probed("native", seed, 0.50 + 0.05 * seed) for seed in range(3)]
    records += [
        probed("temperature", 0, 0.46),
        probed("temperature", 0, 0.44, ended=ended(2, 90, 1)),
    ]
    records += [probed("temperature", 1, 0.51), probed("temperature", 3, 0.1)]
    result = Trainings.of(Evidence(Records(records)))
    assert result and len(result.edited) == 4 and result.changes().keys() == {"encoder"}
    own = result.changes()["encoder"]
    # -5 and -4: 0.5 is the standard error of their mean.
    reach = 0.5 * float(student.ppf(0.975, 1))
    assert own.n == 2
    assert own[:3] == (
        pytest.approx(-4.5),
        pytest.approx(-4.5 - reach),
        pytest.approx(-4.5 + reach),
    )


def drawn_as(records: list[dict[str, Any]]) -> tuple[str, str, list[str]]:
    """The status of fig:realization, its note, and the legend of panel (b)."""
    artefact = ARTEFACTS["realization"]
    outcome = artefact.compute(Evidence(Records(records)))
    (note,) = outcome.notes
    assert outcome.draw is not None
    _, names = outcome.draw().axes[1].get_legend_handles_labels()
    return artefact.status(outcome), note, names


@pytest.mark.slow
def test_notes_of_the_figure() -> None:
    result = networks()
    status, note, names = drawn_as(result)
    assert status == "partly rerun (1 of 7)" and names == ["paper"]
    assert note.endswith(
        "panel (b) has the printed numbers alone until the failing state is trained."
    )
    result[1]["ended"] = ended(72.3, 1, 79.1)
    status, note, names = drawn_as(result)
    assert status == "rerun" and names == ["paper", "seed 0, least kappa 5.4"]
    assert (
        "seed 0; a class collapsed there (least kappa 5.4, native of that seed 86); cross" in note
    )
    assert "native 2.20, temperature 72.30, preserve 2.10, angular 2.10" in note
    assert note.endswith("a class collapsed in 1 of 1 such trainings, of seed 0.")


def test_figure_of_a_state_that_did_not_fail() -> None:
    """The state is not shown as failing if another training lost a class."""
    native, lost = networks()
    spared = network("temperature", 53.0, ended=ended(2.3, 90, 0.5))
    status, note, names = drawn_as([native, lost, spared])
    assert status == "partly rerun (1 of 7)" and names[1].endswith("kappa 53, kept its classes")
    assert (
        "it did not fail: every class was kept (least kappa 53, native of that seed 86), and a"
        in note
    )
    assert note.endswith("a class collapsed in 1 of 2 such trainings, of seed 0.")
    assert "did not keep its state" not in drawn_as([native, spared])[1]


class Quick(Evidence):
    """Without the packaged features."""

    def _summary(self, store: str, space: str, estimator: str) -> dict[str, Any]:
        return {}


def test_cells_of_the_states_that_failed() -> None:
    """A column each, the one that is drawn first; a state that kept its classes has none."""
    native, spared = networks()[0], network("temperature", 53.0, ended=ended(2.3, 90, 0.5))
    ends = ((2, 8.1, 21.4, 30.0), (1, 6.2, 55.6, 60.0))
    failed = [
        network("temperature", kappa, seed, ended=ended(loss, 1, after))
        for seed, kappa, loss, after in ends
    ]

    def sentence(*records: dict[str, Any]) -> dict[str, list[str]]:
        outcome = ARTEFACTS["realization"].compute(Quick(Records([native, spared, *records])))
        result: dict[str, list[str]] = {}
        for cell in outcome.cells:
            result.setdefault(cell.column, []).append(cell.content())
        return result

    same = {"native": "2.2452 / 2.2000", "edits": ["2.1502 / 2.1000", "2.1503 / 2.1000"]}
    assert sentence(*failed) == {
        f"seed {seed}, kappa {kappa}": [
            *(same["native"], f"72.3403 / {loss:.4f}", *same["edits"]),
            *("0.3888 / 0.4000", f"79.1456 / {after:.4f}"),
        ]
        for seed, kappa, loss, after in reversed(ends)
    }
    (column,) = sentence().values()
    assert [text.partition(" / ")[2] for text in column] == ["no record"] * 6


def test_a_record_without_the_last_state_is_missing() -> None:
    jobs, result = PLANS["failure"].jobs((0,)), networks()
    for records in result:
        records |= {"analysis": {}, "probes": {"long_tail": {}, "balanced": {}}}
    assert [len(job.runs) for job in missing(jobs, Records(result))] == [2]
    result[0]["ended"] = ended(2.3, 90, 0.5)
    (left,) = missing(jobs, Records(result))
    assert [run.realization for run in left.runs] == ["temperature"]
    result[1]["ended"] = ended(72.3, 1, 79.1)
    assert missing(jobs, Records(result)) == []
