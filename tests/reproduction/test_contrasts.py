"""The sweep of beta and ProCo's public recipe: the best strength and its tests."""

from __future__ import annotations

from statistics import fmean
from typing import Any

import pytest
import torch
from scipy.stats import ttest_1samp
from torch import Tensor
from torch.nn.functional import normalize

from frozen_data import small_space
from paper_evidence import OfSpaces, probed
from resultant.analysis import FrozenSpace
from resultant.classes.realization import class_scores
from resultant_reproduction import ARTEFACTS, Evidence, Records
from resultant_reproduction.contrasts import sweep
from resultant_reproduction.plan import controlled, official
from resultant_reproduction.recipes import recipe
from resultant_reproduction.spec import parse_cell
from resultant_reproduction.summarize import SPACES
from training_records import record

CONFIG = controlled("cifar100", 100)
OWN = small_space()
SWEPT = OfSpaces(lambda estimator: OWN)


def of(records: list[dict[str, Any]]) -> OfSpaces:
    """Return evidence of records and one small space."""
    SWEPT.records = Records(records)
    return SWEPT


def right(space: FrozenSpace, beta: float) -> Tensor:
    z = normalize(torch.as_tensor(space.test).double())
    return class_scores(z, space.state, 0.1, "angular", beta).argmax(1) == space.test_labels


def network(seed: int, **changes: float) -> dict[str, Any]:
    """Return a native network with Pure Angular at 0, 0.5 and 1.5 at given differences from native
    (points), in both spaces."""
    betas = {"none": "0", "half": "0.5", "more": "1.5"}
    grid = {"native 1 0": 0.4} | {
        f"angular {betas[k]} 0": 0.4 + v / 100 for k, v in changes.items()
    }
    both = {space: {"proco": {"grid": grid, "cosine": {}}} for space in SPACES}
    return record(CONFIG, "native", 0.0, seed, analysis=both)


def test_the_best_of_networks() -> None:
    """The best strength by the mean over networks, with Student's intervals."""
    noise = (0.0, 0.1, -0.1, 0.08)
    clear = [network(s, none=3 + e, half=2 - e, more=-2 - e) for s, e in enumerate(noise)]

    def interval(values: list[float]) -> str:
        low, high = ttest_1samp(values, 0.0).confidence_interval()  # type: ignore[attr-defined]
        return f"{fmean(values):+.2f} [{low:+.2f}, {high:+.2f}]"

    lead, over = interval([3 + e for e in noise]), interval([1 + 2 * e for e in noise])
    assert sweep(of(clear)).headline.startswith(
        "The best beta on frozen features is (points) 0 on encoder "
        f"({lead} less native, {over} less 0.5; 4 networks) and 0 on projection ({lead} less native"
    )
    harmed = [network(s, none=e - 3, half=e - 2, more=e - 4) for s, e in enumerate(noise)]
    lead = interval([2 - e for e in noise])
    assert f"1 on encoder ({lead} less 0.5; 4 networks)" in sweep(of(harmed)).headline
    assert sweep(of([])).headline == "Trained at these strengths, less native: nothing measured."


@pytest.mark.slow
def test_which_beta_in_training() -> None:
    """None where nothing is seen, and the one that is; a strength lacks until it has its seeds."""
    native = [probed(CONFIG, "native", seed, 0.34) for seed in range(3)]
    steps = (-0.01, 0.01, 0.003)
    flat = [probed(CONFIG, "angular", seed, 0.34 + d, 0.5) for seed, d in enumerate(steps)]
    far = [probed(CONFIG, "angular", seed, 0.39 + seed / 10_000) for seed in range(3)]
    text = sweep(of(native + flat)).headline
    assert text.endswith("less native: +0.10 points; Holm's correction leaves 0 of 2 differences.")
    outcome = sweep(of(native + flat[:2] + far))
    assert "2 of 4 differences (beta 0 encoder; beta 0 projection)." in outcome.headline
    done = {name for name, there in outcome.parts.items() if there}
    assert done == {f"{space} {beta}" for space in SPACES for beta in (0, 1)}
    assert ARTEFACTS["beta-sweep"].status(outcome) == "partly rerun (4 of 12)"


def test_public_recipe() -> None:
    """The logs of both imbalances that are planned, with fewer seeds marked."""
    records = [
        record(official(name, imbalance), "native", 0.0, 0, last={"accuracy": 0.5})
        for name, imbalance in (("cifar10", 50), ("cifar100", 100))
    ]
    outcome = recipe(Evidence(Records(records)))
    cells = {(c.row, c.column): c for c in outcome.cells}
    assert {row for row, _ in cells} == {f"CIFAR-{n} / {i}" for n in (10, 100) for i in (50, 100)}
    assert cells["CIFAR-10 / 50", "last epoch"].content() == "88.07 / 50.00 [1 of 3]"
    assert cells["CIFAR-100 / 50", "last epoch"].content() == "56.82 / no record"
    assert cells["CIFAR-100 / 50", "best epoch"].paper == parse_cell("57.13")
    assert outcome.partial == 2
