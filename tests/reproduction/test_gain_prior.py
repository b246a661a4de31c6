"""fig:gain-prior: the networks compared with the printed changes, and the figure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from resultant.training.config import TrainConfig
from resultant.training.records import read_lines
from resultant_reproduction import ARTEFACTS, Evidence, Records
from resultant_reproduction.evidence import PACKAGED
from resultant_reproduction.plan import official
from training_records import record

FIGURE = ARTEFACTS["gain-prior"]
PACKAGED_ROW = "CIFAR-100-LT, contrastive-only (packaged)"
PUBLIC_ROW = "CIFAR-100-LT, ProCo's public recipe"


def grid(*changes: float) -> dict[str, Any]:
    """A summary whose accuracies change so much at beta = 0, by gamma = -1, 0 and 1 (points)."""
    result = {}
    for gamma, change in zip((-1, 0, 1), changes, strict=True):
        result |= {f"native 1 {gamma}": 0.4, f"temperature 0 {gamma}": 0.4 + change / 100}
        # Half of it at 0.5; another rule is not to be read.
        result |= {f"temperature 0.5 {gamma}": 0.4 + change / 200, f"temperature 1 {gamma}": 0.4}
        result |= {f"angular 0 {gamma}": 0.9}
    return {"grid": result}


class Made(Evidence):
    """Evidence with a packaged network of an artificial grid."""

    def _summary(self, store: str, space: str, estimator: str) -> dict[str, Any]:
        assert (store, space, estimator) == (PACKAGED, "projection", "proco")
        return grid(-0.9, 0.4, 0.1)


def analyzed(config: TrainConfig, summaries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        record(config, "native", 0.0, seed, analysis={"projection": {"proco": summary}})
        for seed, summary in enumerate(summaries)
    ]


PUBLIC = analyzed(official("cifar100", 100), [grid(-3, 1, 0), grid(-4, 2, 0), grid(-5, 3, 0)])


def cells_and_status(records: Sequence[dict[str, Any]]) -> tuple[dict[str, list[str]], str]:
    """Cells by row, and the status."""
    outcome = FIGURE.compute(Made(Records(records)))
    result: dict[str, list[str]] = {}
    for cell in outcome.cells:
        result.setdefault(cell.row, []).append(cell.content())
    return result, FIGURE.status(outcome)


def test_printed_numbers_are_compared_with_the_public_recipe() -> None:
    cells, status = cells_and_status(PUBLIC)
    assert cells == {
        PUBLIC_ROW: ["+2.57 / +2.00 ± 1.00 [3]", "-5.35 / -4.00 ± 1.00 [3]"],
        PACKAGED_ROW: ["+0.40", "-0.90"],
        "ImageNet-LT, authors' ResNet-50": ["+0.195 / not shipped", "-1.665 / not shipped"],
        "iNaturalist 2018, authors' network": ["+2.297 / not shipped", "–"],
    }
    assert status == "partly rerun (2 of 5; 3 need data we may not ship)"
    notes = FIGURE.compute(Made(Records(PUBLIC))).notes
    assert notes[0].startswith(
        f"{PUBLIC_ROW}: points from ProCo, gamma = -1: -4.00 ± 1.00 at beta = 0, -2.00 ± 0.50 at "
        "beta = 0.5; gamma = 0: +2.00 ± 1.00 at beta = 0, "
    )
    assert notes[1].startswith(f"{PACKAGED_ROW}: points from ProCo, gamma = -1: -0.90 at beta = 0")
    assert len(notes) == 2


def test_changes_of_the_packaged_records() -> None:
    """From the lines themselves: joint networks of the public recipe, native, CIFAR-100 IF 100."""
    folder = Path(__file__).parents[2] / "reproduction" / "results"
    lines = [line for path in sorted(folder.glob("*.jsonl")) for line in read_lines(path)]
    kind = {"dataset": "cifar100", "imbalance": 100, "classification_view": True}
    grids = {
        r["seed"]: r["analysis"]["projection"]["proco"]["grid"]
        for r in lines
        if r["realization"] == "native" and "analysis" in r
        if kind.items() <= r["config"].items()
    }
    cells, _ = cells_and_status(lines)
    for text, gamma, number in zip(cells[PUBLIC_ROW], ("0", "-1"), ("+2.57", "-5.35"), strict=True):
        changes = [
            100 * (g[f"temperature 0 {gamma}"] - g[f"native 1 {gamma}"]) for g in grids.values()
        ]
        mean, sd = statistics.fmean(changes), statistics.stdev(changes)
        assert text == f"{number} / {mean:+.2f} ± {sd:.2f} [{len(grids)}]"
