"""Figures of features: their checks, their pair of classes, and their texts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from scipy.special import ive

from resultant.analysis import boundary_displacement
from resultant.analysis.pairs import choose_pairs
from resultant.score.exact import vmf_score
from resultant.special.bessel import bessel_ratio
from resultant_reproduction import ARTEFACTS, Evidence, Records
from resultant_reproduction.evidence import PACKAGED, packaged, trained_as
from resultant_reproduction.feature_figures import boundary_means, closest_pair, margin_means
from training_records import record

NAN = float("nan")


def pair(kinds: str, cosines: list[float], shifts: list[float]) -> int:
    kind, cosine, shift = tuple(kinds.split()), torch.tensor(cosines), torch.tensor(shifts)
    result: Any = SimpleNamespace(kind=kind, cosine=cosine, shift_degrees=shift)
    return closest_pair(SimpleNamespace(boundaries=result))  # type: ignore[arg-type]


def test_the_pair_that_is_drawn() -> None:
    """The closest head and tail with boundaries to draw, however far they move."""
    cosines = [0.9, 0.7, 0.8, 0.6]
    assert pair("HH HT HT TT", cosines, [9.0, 8.0, 0.1, 7.0]) == 2
    assert pair("HH HT HT TT", cosines, [9.0, 8.0, NAN, 7.0]) == 1
    assert pair("HH HT HT TT", cosines, [NAN, NAN, NAN, 7.0]) == 3
    assert pair("HH MM TT TT", cosines, [0.0, 8.0, 1.0, 7.0]) == 0
    assert pair("HH HT HT TT", cosines, [NAN] * 4) == 0


def displaced(mae: float, pairs: int) -> dict[str, Any]:
    """Return the part of a frozen summary that the caption of fig:main-boundaries reads."""
    return {"boundaries": {"joint_leading": {"mae": mae, "comparable": pairs}}}


def test_data_sets_that_the_paper_names_are_counted() -> None:
    """The paper names CIFAR-100 for fig:finite-sample, and no dataset for two figures."""
    evidence = Evidence(Records())
    counted = {name: ARTEFACTS[name].compute(evidence) for name in ARTEFACTS if name in STATUS}
    assert {name: ARTEFACTS[name].status(o) for name, o in counted.items()} == STATUS


STATUS = {
    "gain-discovery": "partly rerun (1 of 3; 2 need data we may not ship)",
    "finite-sample": "rerun",
    "real-scope-app": "rerun",
    "real-margin-app": "rerun",
}


def test_gains_of_the_packaged_network() -> None:
    """A_c / tau_0 from features: kappa = p R / (1 - R^2), and the ratio of its Bessel functions."""
    outcome = ARTEFACTS["gain-discovery"].compute(Evidence(Records()))
    cells = {(cell.row, cell.column): cell.content() for cell in outcome.cells}
    with packaged() as store:
        labels = store["train/labels"]
        for space in ("projection", "encoder"):
            x = store[f"train/{space}"].double()
            units = (x / x.norm(dim=1, keepdim=True)).numpy()
            R = np.array([np.linalg.norm(units[labels == c].mean(0)) for c in range(100)])
            p = x.shape[1]
            kappa = p * R / (1 - R * R)
            gain = ive(p / 2, kappa) / ive(p / 2 - 1, kappa) / 0.1
            row = f"CIFAR-100-LT, {space.capitalize()}"
            expected = {"least": gain.min(), "mean": gain.mean(), "largest": gain.max()}
            expected["standard deviation"] = gain.std()
            assert {column: cells.pop((row, column)) for column in expected} == {
                column: f"{value:.2f}" for column, value in expected.items()
            }
    assert not cells


def test_the_caption_of_boundaries() -> None:
    """All four data sets are counted, CIFAR-10 from records alone."""
    figure, evidence = ARTEFACTS["main-boundaries"], Evidence(Records())

    def text() -> tuple[dict[tuple[str, str], str], str]:
        outcome = figure.compute(evidence)
        return {(c.row, c.column[:3]): c.content() for c in outcome.cells}, figure.status(outcome)

    cells, status = text()
    assert cells["CIFAR-10 / 100", "MAE"] == "0.0116 / no record"
    assert cells["ImageNet-LT", "pai"] == "52 of 60 / not shipped"
    assert status.startswith("partly rerun (2 of 8, 2 with fewer seeds than planned; 4 need data")
    config = trained_as("CIFAR-10 / 100")
    evidence.records = Records(
        [
            record(config, "native", 0.0, seed, analysis={"projection": {"proco": displaced(*of)}})
            for seed, of in enumerate(((0.01, 45), (0.012, 45), (0.014, 44)))
        ]
    )
    cells, status = text()
    assert cells["CIFAR-10 / 100", "MAE"] == "0.0116 / 0.0120 ± 0.0020 [3]"
    assert cells["CIFAR-10 / 100", "pai"] == "45 of 45 / 44.7 ± 0.6 [3]"
    assert status.startswith("partly rerun (4 of 8")


def test_both_linear_means_of_margins() -> None:
    """Directions and coverage on the packaged network, from exact scores and their intercepts."""
    evidence, tau = Evidence(Records()), 0.1
    space = evidence.space(PACKAGED, "projection")
    mu, kappa, p = space.state.mu, space.state.kappa, space.dim
    g = bessel_ratio(p / 2 - 1, kappa) / tau
    cooled = g * tau / g.mean()
    with packaged() as store:
        queries = torch.as_tensor(store["test/projection"]).double()
    rho = torch.nn.functional.normalize(queries, dim=1) @ mu.T
    exact = vmf_score(rho, kappa, cooled, p) - vmf_score(rho, kappa, tau, p)
    moved = vmf_score(0.0, kappa, cooled, p) - vmf_score(0.0, kappa, tau, p)
    shown = []
    for shift in (torch.zeros_like(moved), moved):
        linear, signs = (g.mean() - g) * rho + shift, []
        for a, b in choose_pairs(space).pairs.tolist():
            rows = (space.test_labels == a) | (space.test_labels == b)
            m, lin = (x[rows, a] - x[rows, b] for x in (exact, linear))
            signs.append(torch.stack([m.sign() == lin.sign(), lin.abs() > (m - lin).abs()]))
        shown.append([f"{100 * v:.2f}" for v in torch.cat(signs, 1).double().mean(1).tolist()])
    assert shown == [["98.90", "97.85"], ["99.93", "99.88"]]
    text = margin_means(evidence, {"CIFAR-100-LT": PACKAGED})
    for what, printed, own in zip(
        ("directions", "covered"), ("98.63", "97.57"), zip(*shown, strict=True), strict=True
    ):
        assert f"| CIFAR-100-LT: {what} (%) | {printed} | {' | '.join(own)} |" in text
    assert "| CIFAR-100-LT: covered and wrong | 0 | 0 of 12,000 | 0 of 12,000 |" in text


def test_both_linear_means_of_boundaries() -> None:
    evidence = Evidence(Records())
    predicted = boundary_displacement(evidence.space(PACKAGED, "projection")).predicted
    own = [predicted[n].mean_absolute_degrees for n in ("linear_mean", "linear_intercept")]
    assert [f"{v:.4f}" for v in own] == ["0.0854", "0.0081"]
    text = boundary_means(evidence)
    assert "| CIFAR-100 / 100, the packaged network | – | 0.0854 | 0.0081 |" in text
    assert "| CIFAR-100 / 100 | 0.11986 (imbalance not stated) | 0.0854 [1] | 0.0081 [1] |" in text
    assert "| ImageNet-LT | 0.00272 | – | – |" in text
