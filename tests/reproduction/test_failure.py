"""The failing state: the record of a training, computed again, and its claims."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from resultant import vmf_score
from resultant.special.bessel import bessel_ratio
from resultant.training.cifar import train_cifar
from resultant.training.config import Run
from resultant.training.evaluation import network_features
from resultant.training.job import Job
from resultant_reproduction import ARTEFACTS, Evidence, Records
from resultant_reproduction.failure import Trainings
from resultant_reproduction.plan import PlannedJob, controlled
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
    features = network_features(trained, DATA)
    job = PlannedJob("tiny", config, runs, ended=("temperature",))
    (result,) = last_states(features, trained, job).items()
    assert result[0] == runs[1].name
    bank = trained.stacks[0].proco.bank.sums()[1]
    R = bank[:, :-1].norm(dim=1) / bank[:, -1]
    mu, kappa = F.normalize(bank[:, :-1], dim=1), 8 * R / (1 - R * R)
    A = bessel_ratio(torch.tensor(3.0, dtype=torch.float64), kappa)
    labels = DATA.test_labels
    rows = torch.cat([(labels == c).nonzero().squeeze(1)[:5] for c in range(4)])
    z = F.normalize(features.test.spaces["projection"][1][rows].double(), dim=1)
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
    counts = torch.bincount(features.train.labels, minlength=4)
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


def test_a_record_that_does_not_say_how_it_ended() -> None:
    """The record is left out without an error."""
    records = networks()
    for last in ({}, {"last": {}}, {"last": {"kappa_min": None}}, {"last": None}):
        broken = {**network("temperature", 1.0, 1), **last}
        broken = broken if last else {k: v for k, v in broken.items() if k != "last"}
        result = Trainings.of(Evidence(Records([*records, broken])))
        assert result and [t.seed for t in result.edited] == [0]
    assert Trainings.of(Evidence(Records([records[0], broken]))) is None


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
