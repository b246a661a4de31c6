"""The state that fails: what is kept of a training, computed again, and what is said of it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from resultant import vmf_score
from resultant.bessel import bessel_ratio
from resultant.evaluation import cifar_features
from resultant.paper import Evidence, Records
from resultant.paper.failure import Training, Trainings, failing_claims, realization
from resultant.paper.plan import PLANS, PlannedJob, controlled, missing
from resultant.paper.run import last_states
from resultant.presets import Run
from resultant.train import Job, train_cifar
from tiny_cifar import tiny_cifar, tiny_config
from training_records import record

DATA = tiny_cifar(test=7)


@pytest.mark.parametrize("prior", [0.0, 1.0])
def test_last_state(tmp_path: Path, prior: float) -> None:
    """Rules on five queries a class and the classes of the bank, by their formulas."""
    config = tiny_config(prior=prior)
    runs = (Run("native", 0.0, 0), Run("temperature", 0.0, 0), Run("angular", 0.0, 0))
    trained = train_cifar(Job(config, runs, tmp_path), DATA)
    features = cifar_features(trained, DATA)
    job = PlannedJob("tiny", config, runs, ended=("temperature",))
    (found,) = last_states(features, trained, job).items()
    assert found[0] == runs[1].name
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
        row = found[1]["same_state"][name]
        assert row["cross_entropy"] == pytest.approx(float(F.cross_entropy(q + offset, y)))
        guesses = (q + offset).argmax(1)
        assert row["accuracy"] == pytest.approx(float((guesses == y).double().mean()))
        assert row["distinct"] == len(guesses.unique())
    worst = int(shift.abs().argmax())
    assert found[1]["focus"]["index"] == worst
    assert found[1]["focus"]["kappa"] == pytest.approx(float(kappa[worst]))
    assert found[1]["intercepts"]["temperature"] == pytest.approx(float(shift.abs().max()))


def network(realization: str, kappa: float, loss: float, **others: Any) -> dict[str, Any]:
    config, last = controlled("cifar100", 10, prior=0.0), {"kappa_min": kappa, "loss": loss}
    return record(config, realization, 0.0, 0, last=last, **others)


def networks() -> list[dict[str, Any]]:
    return [network("native", 86.0, 1.5), network("temperature", 5.4, 21.8)]


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
    found = Trainings.of(evidence)
    return found and found.kept()


def test_claims() -> None:
    nothing = [c.verdict for c in failing_claims(Evidence(Records()))]
    assert nothing == ["not run yet"] * 6
    found = networks()
    least, *rest = failing_claims(Evidence(Records(found)))
    assert [least.verdict, *(c.verdict for c in rest)] == ["holds", *["not run yet"] * 5]
    assert least.ours == "5.4 (native 86); n = 1 and 1" and least.text.endswith("at its end")
    for state, verdict in (
        (ended(72.3, 1, 79.1), "holds"),
        (ended(2.3, 90, 0.5, 0.31, 9.4), "does not hold"),
        (ended(math.inf, 1, 79.1), "holds"),
    ):
        found[1]["ended"] = state
        evidence = Evidence(Records(found))
        assert (kept := kept_of(evidence)) and kept.state == state
        assert [c.verdict for c in failing_claims(evidence)][1:] == [verdict] * 5
    accuracy, target = [c.ours for c in failing_claims(evidence)][-2:]
    assert (accuracy, target) == ("36.0; n = 1", "7.2000; n = 1")
    flat = [found[0], network("temperature", 80.0, 1.6)]
    assert next(failing_claims(Evidence(Records(flat)))).verdict == "does not hold"


def test_a_seed_that_was_trained_twice() -> None:
    """One training loses a class, another of the same seed does not: that leaves it open, and so
    does what the spared one does, until the end of the other is kept."""
    native, lost = networks()
    spared = network("temperature", 53.0, 2.0, ended=ended(2.3, 90, 0.5))
    evidence = Evidence(Records([native, lost, spared]))
    least, *rest = failing_claims(evidence)
    assert least.ours == "53, 5.4 (native 86); n = 2 and 1" and least.verdict == "not settled"
    assert [c.verdict for c in rest] == ["not settled"] * 5
    # Neither what it does as printed nor what it does not: its accuracy and gain are near.
    assert [c.ours for c in rest[-2:]] == ["36.0; n = 1", "7.2000; n = 1"]
    for claim in rest:
        assert claim.why.endswith("it kept its classes, and none that lost one has its end")
    lost["ended"] = ended(72.3, 1, 79.1)
    evidence = Evidence(Records([native, lost, spared]))
    assert (kept := kept_of(evidence)) and kept.state == lost["ended"]
    assert [c.verdict for c in failing_claims(evidence)] == ["not settled", *["holds"] * 5]


def test_figure_says_what_it_shows() -> None:
    found = networks()
    (note,) = realization(Evidence(Records(found))).notes
    assert note.endswith("panel (b) is of a native state until the failing one is trained.")
    found[1]["ended"] = ended(72.3, 1, 79.1)
    outcome = realization(Evidence(Records(found)))
    assert "star and panel (b): the last state" in outcome.notes[0]
    assert outcome.parts["failing state"]


def test_a_record_without_the_last_state_is_missing() -> None:
    jobs, found = PLANS["failure"].jobs((0,)), networks()
    assert [len(job.runs) for job in missing(jobs, Records(found))] == [2]
    found[0]["ended"] = ended(2.3, 90, 0.5)
    (left,) = missing(jobs, Records(found))
    assert [run.realization for run in left.runs] == ["temperature"]
    found[1]["ended"] = ended(72.3, 1, 79.1)
    assert missing(jobs, Records(found)) == []
