"""Parts of records of the third round: the temperature path and the course of a training."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.special import ive

from resultant import ClassStatistics
from resultant.training.config import Run
from resultant.training.records import read_lines
from resultant_reproduction.frozen.temperature_path import PATH, temperature_path
from resultant_reproduction.runs import run
from resultant_reproduction.runs.plans import PLANS, ROUND, Plan, PlannedJob
from resultant_reproduction.runs.records import round_folder
from tiny_cifar import one_thread, tiny_cifar, tiny_config

_one_thread = pytest.fixture(autouse=True, scope="module")(one_thread)
TEMPERATURE = Run("temperature", 0.0, 0)


def rows(seed: int, C: int = 5, p: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    """Unit vectors about class directions, tight and wide in turn, and their classes."""
    generator = torch.Generator().manual_seed(seed)
    centers = torch.randn(C, p, generator=torch.Generator().manual_seed(0))
    y = torch.randint(C, (200,), generator=generator)
    noise = torch.randn(200, p, generator=generator) * (0.4 + y[:, None] % 3)
    return F.normalize(centers[y] + noise, dim=-1), y


def test_path_ends_at_the_means_and_at_the_likelihood() -> None:
    (x, y), (queries, labels) = rows(1), rows(2)
    result = temperature_path(x, y, queries, labels)
    state = ClassStatistics(5, 12).update(x, y).state("proco")
    kappa, nu, rho = state.kappa.numpy(), 5.0, (queries.double() @ state.mu.T).numpy()
    A = ive(nu + 1, kappa) / ive(nu, kappa)
    log_f = kappa * rho + nu * np.log(kappa) - np.log(ive(nu, kappa)) - kappa
    means, likelihood = (A * rho).argmax(-1), log_f.argmax(-1)
    expected = {
        n: (a == labels.numpy()).mean() for n, a in zip("ml", (means, likelihood), strict=True)
    }
    assert result["accuracy"]["means"] == pytest.approx(expected["m"])
    assert result["accuracy"]["likelihood"] == pytest.approx(expected["l"])
    # The limits differ, and the path goes from one to the other.
    assert (means == likelihood).mean() < 0.95
    agrees = result["agrees"]
    assert PATH[0] == 100.0 and agrees["means"][0] == 1.0 and agrees["means"][-1] < 0.95
    assert PATH[-1] == 1e-5 and agrees["likelihood"][-1] == 1.0 and agrees["likelihood"][0] < 0.95
    assert result["fitted"] == pytest.approx(A.mean())
    own = rho[np.arange(len(labels)), labels.numpy()]
    assert result["held_out"] == pytest.approx(
        np.mean([own[labels.numpy() == c].mean() for c in range(5)])
    )


@pytest.mark.slow
def test_records_of_followed_trainings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def make(seeds: Any) -> Any:
        runs = (TEMPERATURE, Run("native", 0.0, 0))
        parts: Any = {"analyzed": (), "followed": True, "probed": False}
        yield PlannedJob(
            "job", tiny_config(), runs, path=("native",), ended=("temperature",), **parts
        )

    monkeypatch.setattr(run, "plan", lambda name: Plan(name, "", (0,), make))
    monkeypatch.setattr(run, "load_cifar", lambda name, root: tiny_cifar(size=4))
    where = tmp_path, tmp_path / "out", tmp_path, "cpu"
    assert run.run_plan("collapse", *where, say=lambda text: None) == 0
    edited, native = read_lines(round_folder(tmp_path, 3) / "collapse.jsonl")
    epochs = tiny_config().epochs
    for record in (edited, native):
        assert "probes" not in record and record["course"]["epoch"] == [*range(1, epochs + 1)]
        for name in ("kappa_min", "gain_mean"):
            assert record["course"][name][-1] == record["last"][name]
    assert "path" not in edited and native["path"].keys() == {"encoder", "projection"}
    assert edited["ended"]["same_state"]["temperature"]["distinct"] >= 1 and "ended" not in native


def test_plans_of_the_third_round() -> None:
    jobs = {name: PLANS[name].jobs() for name, number in ROUND.items() if number == 3}
    assert {n: sum(len(job.runs) for job in own) for n, own in jobs.items()} == {
        "path": 24,
        "collapse": 24,
        "score": 135,
        "gradients": 9,
    }
    seeds = {name: {run.seed for job in own for run in job.runs} for name, own in jobs.items()}
    earlier = {s for n, plan in PLANS.items() if ROUND[n] < 3 for s in plan.seeds}
    assert not earlier & set.union(*seeds.values())
