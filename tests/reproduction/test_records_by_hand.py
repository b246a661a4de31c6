"""The tables of the packaged records, computed another way."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path
from typing import Any

import pytest

from paper_evidence import angular_training, tail
from resultant.training.records import read_lines
from resultant_reproduction import ARTEFACTS, Evidence, Records, headline, tables
from resultant_reproduction.spec import printed_rows
from resultant_reproduction.tables import frozen_table

RESULTS = Path(__file__).parents[2] / "reproduction" / "results"


def lines() -> dict[tuple[Any, ...], dict[int, dict[str, Any]]]:
    """The records of main.jsonl by data set, imbalance, realization and seed."""
    result: dict[tuple[Any, ...], dict[int, dict[str, Any]]] = {}
    for line in (RESULTS / "main.jsonl").read_text().splitlines():
        r = json.loads(line)
        kind = (r["config"]["dataset"], r["config"]["imbalance"], r["realization"], r["beta"])
        assert r["config"]["objective"] == "contrastive" and r["config"]["prior"] == 1
        result.setdefault(kind, {})[r["seed"]] = r
    return result


NAMES = dict(zip(tables.COLUMNS, ("native", "temperature", "preserve", "angular"), strict=True))


@pytest.mark.slow
def test_spread_of_the_records(evidence: Evidence) -> None:
    """The spread of results/ computed another way."""
    variances, printed = [], []
    for (dataset, imbalance, name, beta), own in lines().items():
        if name in headline.TRAINED and beta == 0 and len(own) > 1:
            for space in ("encoder", "projection"):
                values = [100 * r["probes"]["long_tail"][space]["accuracy"] for r in own.values()]
                variances += [statistics.variance(values)] * (len(values) - 1)
                row = [f"CIFAR-{dataset[5:]} / {imbalance:g}", space.capitalize()]
                column = headline.ARMS[name]
                (cell,) = (c[column] for c in printed_rows("angular-training") if c[:2] == row)
                printed.append(float(cell.partition("± ")[2]) ** 2)
    result = headline.spread(evidence.records)
    assert result is not None and len(printed) >= 12
    ours, theirs = statistics.fmean(variances), statistics.fmean(printed)
    expected = (ours / theirs, math.sqrt(ours), math.sqrt(theirs))
    assert (result[0], *result[3:]) == pytest.approx(expected)
    assert result[0] > 5


def test_the_table_of_the_records_by_hand(evidence: Evidence) -> None:
    """Means, deviations and paired tests of tab:angular-training from the lines of main.jsonl."""
    known = lines()
    outcome, tested = angular_training(evidence.records), 0
    for condition, dataset, imbalance in (
        ("CIFAR-10 / 100", "cifar10", 100.0),
        ("CIFAR-100 / 100", "cifar100", 100.0),
    ):
        for space in ("Encoder", "Projection"):
            values = {
                column: {
                    seed: 100 * r["probes"]["long_tail"][space.lower()]["accuracy"]
                    for seed, r in known.get((dataset, imbalance, name, 0.0), {}).items()
                }
                for column, name in NAMES.items()
            }
            row = f"{condition}, {space}"
            cells = {c.column: c.ours for c in outcome.cells if c.row == row}
            for column, by_seed in values.items():
                if len(by_seed) < 2:
                    assert cells[column] is None
                    continue
                mean, sd = statistics.fmean(by_seed.values()), statistics.stdev(by_seed.values())
                assert cells[column] == (pytest.approx(mean), pytest.approx(sd), len(by_seed))
            for change in (c for c in outcome.changes if c.row == row and c.differences):
                after, before = values[change.what.removesuffix(" - ProCo")], values["ProCo"]
                gaps = [after[seed] - before[seed] for seed in sorted(after.keys() & before)]
                n = len(gaps)
                t = statistics.fmean(gaps) / (statistics.stdev(gaps) / math.sqrt(n))
                assert change.interval and change.interval.p == pytest.approx(
                    2 * tail(abs(t), n - 1), rel=1e-6
                )
                tested += 1
    assert tested >= 8


def test_the_frozen_changes_of_the_records_by_hand(evidence: Evidence) -> None:
    known = lines()
    changes = {c.row: c for c in frozen_table("frozen-vmf-realizations", evidence).changes}
    for condition, dataset in (("CIFAR-10 / 100", "cifar10"), ("CIFAR-100 / 100", "cifar100")):
        for space in ("Encoder", "Projection"):
            accuracies = [
                r["analysis"][space.lower()]["proco"]["accuracy"]
                for _, r in sorted(known[dataset, 100.0, "native", 0.0].items())
            ]
            gaps = [100 * (a["angular"] - a["native"]) for a in accuracies]
            change = changes[f"{condition}, {space}"]
            assert change.differences == pytest.approx(gaps)
            assert change.verdict in ("confirmed", "same direction, other size")


def test_changes_by_beta_and_prior_by_hand() -> None:
    """From the lines themselves: joint networks of the public recipe, native, CIFAR-100 IF 100."""
    lines = [line for path in sorted(RESULTS.glob("*.jsonl")) for line in read_lines(path)]
    kind = {"dataset": "cifar100", "imbalance": 100, "classification_view": True}
    grids = {
        r["seed"]: r["analysis"]["projection"]["proco"]["grid"]
        for r in lines
        if r["realization"] == "native" and "analysis" in r
        if kind.items() <= r["config"].items()
    }
    outcome = ARTEFACTS["gain-prior"].compute(Evidence(Records(lines)))
    cells = [c.content() for c in outcome.cells if c.row == "CIFAR-100-LT, ProCo's public recipe"]
    for text, gamma, number in zip(cells, ("0", "-1"), ("+2.57", "-5.35"), strict=True):
        changes = [
            100 * (g[f"temperature 0 {gamma}"] - g[f"native 1 {gamma}"]) for g in grids.values()
        ]
        mean, sd = statistics.fmean(changes), statistics.stdev(changes)
        assert text == f"{number} / {mean:+.2f} ± {sd:.2f} [{len(grids)}]"
