"""The third round: the temperature path, the course of a training, and how they are judged."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.special import ive
from scipy.stats import ttest_ind

from resultant import ClassStatistics
from resultant.training.config import Run
from resultant.training.records import read_lines
from resultant_reproduction.cells.statistics import over_settings
from resultant_reproduction.frozen.temperature_path import PATH, temperature_path
from resultant_reproduction.runs import run
from resultant_reproduction.runs.plans import Plan, PlannedJob
from resultant_reproduction.runs.records import round_folder
from resultant_reproduction.studies import training_score
from resultant_reproduction.studies.collapse_law import Course, exponent, law, threshold
from resultant_reproduction.studies.training_gradients import PRINTED, Fit, verdict
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


def test_the_law_of_collapse_is_judged_by_every_epoch() -> None:
    """A training passes by the gain of the same epoch; the law needs both outcomes."""
    # Its threshold is sqrt(32 * 4 / 2) = 8 in the first epoch, sqrt(32 * 1 / 2) = 4 in the second.
    passed, kept = Course(32, 0, [7.9, 9], [4, 1], 3), Course(32, 1, [8.1, 4.1], [4, 1], 97)
    assert passed.passed and passed.collapsed and not kept.passed and not kept.collapsed
    assert (passed.least, kept.least) == (7.9, 4.1) and kept.depth == pytest.approx(8.1 / 8)
    back = Course(32, 2, [7.9, 4.1], [4, 1], 97)
    assert back.passed and not back.below_at_end and not back.collapsed
    assert not passed.below_at_end and passed._replace(kappas=[7.9, 3.9]).below_at_end
    assert law([passed, kept]) == "the law holds"
    assert law([kept, kept]) == "open"
    other = kept._replace(distinct=9)
    assert law([passed, kept] * 5 + [other]) == "open"
    assert law([passed, kept] * 4 + [other]) == "the law fails"


def test_exponent_of_the_threshold() -> None:
    """Thresholds that grow as p^0.5 have the exponent one half; it needs all dimensions."""
    found = [
        Course(dim, seed, [kappa * dim**0.5], [10.0], distinct)
        for dim in (32, 128, 512)
        for seed, (kappa, distinct) in enumerate(((1.0, 2), (1.5, 5), (2.5, 90), (6.0, 99)))
    ]
    assert threshold(found[:4]) == (1.5 * 32**0.5, 2.5 * 32**0.5)
    assert exponent(found) == pytest.approx(0.5)
    assert exponent(found[:8]) is None


@pytest.mark.parametrize(
    ("gradients", "increments", "expected"),
    [
        ((4.8, 4.9, 5.1), (9.4, 9.5, 9.7), "confirmed"),
        ((4.8, 4.9, 5.1), (4.9, 5.0, 5.1), "not reproduced"),
        ((4.0, 4.9, 6.1), (9.4, 9.5, 9.7), "inconclusive"),
    ],
)
def test_both_printed_errors_need_one_definition(
    gradients: Sequence[float], increments: Sequence[float], expected: str
) -> None:
    def fit(values: Sequence[float], kind: str) -> Fit:
        ours = over_settings([values])
        assert ours is not None
        return Fit(ours, PRINTED[kind])

    both = {"gradient": fit(gradients, "gradient"), "increment": fit(increments, "increment")}
    neither = {"gradient": fit((1, 2, 3), "gradient"), "increment": fit(increments, "increment")}
    assert verdict({"first": neither, "second": both}) == expected


def scores(cosine: float, deviation: float = 0.2) -> Any:
    """Fifteen networks of each arm and setting, alike but for the mean of an arm."""
    spread = np.random.default_rng(0).normal(size=15) * deviation
    means = {"native": 70.0, "angular": 70.2, "cosine": cosine}
    own = {arm: [*(mean + np.roll(spread, i))] for i, (arm, mean) in enumerate(means.items())}
    return dict.fromkeys(training_score.SETTINGS, own)


@pytest.mark.parametrize(
    ("cosine", "deviation", "expected"),
    [(70.25, 0.2, "equivalent"), (70.6, 0.2, "different"), (70.25, 1.0, "open")],
)
def test_the_need_of_the_score_is_judged_by_equivalence(
    cosine: float, deviation: float, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Welch's intervals of the settings alike, against scipy's of one setting."""
    found, first = scores(cosine, deviation), training_score.SETTINGS[0]
    apart = training_score.effect(found, "cosine", "angular", training_score.SETTINGS)
    one = training_score.effect(found, "cosine", "angular", (first,))
    pair = [found[first][arm] for arm in ("cosine", "angular")]
    interval = ttest_ind(*pair, equal_var=False).confidence_interval()
    assert (one.low, one.high) == pytest.approx((interval.low, interval.high))
    assert one.error is not None and apart.error == pytest.approx(one.error / 3**0.5)
    assert training_score.verdict(apart) == expected
    monkeypatch.setattr(training_score, "recorded", lambda evidence: found)
    assert expected in training_score.training_score(cast(Any, None)).headline
    # Nothing is judged while a network is missing.
    found[first] = {arm: own[:14] for arm, own in found[first].items()}
    assert not training_score.training_score(cast(Any, None)).headline
