"""Our baseline beside the paper's, and the numbers of results/ by another way."""

from __future__ import annotations

import json
import math
import re
import statistics
from pathlib import Path
from typing import Any

import pytest

from paper_evidence import probed
from resultant.paper import ARTEFACTS, Evidence, Records, controls, historical, training
from resultant.paper import baseline as baseline_module
from resultant.paper.artefact import Cell, Value, printed
from resultant.paper.baseline import baseline, gap
from resultant.paper.frozen_tables import frozen_table
from resultant.paper.plan import controlled

RESULTS = Path(__file__).parent.parent / "results"


def cell(paper: str, values: list[float]) -> Cell:
    return Cell("row", "ProCo", printed(paper), Value.of(values))


def tail(t: float, degrees: float) -> float:
    """Of Student's t beyond t, by the integral of its density."""
    import mpmath

    mp = mpmath.mp.clone()
    c = mp.gamma((degrees + 1) / 2) / (mp.sqrt(degrees * mp.pi) * mp.gamma(degrees / 2))
    beyond: Any = mp.quad(lambda x: c * (1 + x * x / degrees) ** (-(degrees + 1) / 2), [t, mp.inf])
    return float(beyond)


def test_gap_where_a_spread_is_printed() -> None:
    """Welch's test against three seeds, by its definition."""
    values = [71.1, 72.0, 72.7, 72.4]
    found = gap("tab", cell("72.65 ± 0.10", values))
    assert found is not None and found.p_value is not None
    d = statistics.fmean(values) - 72.65
    assert found.difference == pytest.approx(d) and found.times == pytest.approx(abs(d) / 0.1)
    a, b = statistics.variance(values) / 4, 0.1**2 / 3
    degrees = (a + b) ** 2 / (a * a / 3 + b * b / 2)
    assert found.p_value == pytest.approx(2 * tail(abs(d) / math.sqrt(a + b), degrees), rel=1e-6)
    assert found.verdict == "beyond its spread, could be chance"
    far = gap("tab", cell("80.00 ± 0.10", values))
    assert far is not None and far.verdict == "beyond its spread, differs"
    near = gap("tab", cell("72.10 ± 0.50", values))
    assert near is not None and near.verdict == "within its spread, could be chance"


def test_gap_to_a_single_run() -> None:
    """Whether it is one more draw of ours."""
    values = [52.62, 52.52, 52.7]
    found = gap("tab", cell("52.76", values))
    assert found is not None and found.times is None and found.p_value is not None
    t = abs(statistics.fmean(values) - 52.76) / (statistics.stdev(values) * math.sqrt(4 / 3))
    assert found.p_value == pytest.approx(2 * tail(t, 2), rel=1e-6)
    assert found.verdict == "single printed run, could be chance"
    far = gap("tab", cell("51.34", values))
    assert far is not None and far.verdict == "single printed run, differs"


def test_gap_of_one_seed_or_none() -> None:
    one = gap("tab", cell("72.65 ± 0.10", [72.0]))
    assert one is not None and one.verdict == "beyond its spread, one seed: not tested"
    assert gap("tab", cell("72.65 ± 0.10", [])) is None and gap("tab", cell("--", [1.0])) is None


def test_numbers_are_printed() -> None:
    """Those that the section repeats stand in the printed tables."""
    tables = (training.TRAINING, training.JOINT, historical.HEADS, controls.TABLES["c10-if100-f"])
    source = Path(baseline_module.__file__).read_text()
    repeated = re.findall(r"\b\d\d\.\d\d\b", source)
    assert len(repeated) >= 6 and all(n in "".join(tables) for n in repeated)


class OfProbes(Evidence):
    """Records without frozen features."""

    def frozen(self, condition: str, space: str, estimator: str = "") -> dict[int, dict[str, Any]]:
        return {}


def test_what_is_said() -> None:
    config = controlled("cifar10", 100)
    records = [probed(config, "native", seed, 0.60 + 0.01 * seed) for seed in range(3)]
    again = probed(config, "native", 0, 0.65)
    outcome = baseline(OfProbes(Records([again, *records])))
    rows = {(c.row, c.column): c.said() for c in outcome.cells}
    row = "tab:angular-training: CIFAR-10 / 100, Encoder"
    assert rows[row, "paper / ours"] == "68.24 ± 0.16 / 61.00 ± 1.00 [3]"
    assert rows[row, "ours less paper"] == "-7.24" and rows[row, "times its spread"] == "45.2"
    assert rows[row, "verdict"] == "beyond its spread, differs"
    text = "\n".join(outcome.notes)
    assert f"Beyond the printed spread: {row} -7.24; " in text
    assert "our standard deviation over seeds is 6.2 to 10.0 times" in text
    assert "cifar10 seed 0 65.00 / 65.00, again 60.00 / 60.00" in text
    for plan in ("beyond", "joint"):
        assert f"resultant reproduce run {plan}." in text
    assert "Other draws: no record yet, resultant reproduce run members." in text
    drawn = [
        probed(controlled("cifar100", 100, subset=draw), "native", seed, 0.3 + draw / 100)
        for draw in range(3)
        for seed in range(2)
    ]
    text = "\n".join(baseline(OfProbes(Records(drawn))).notes)
    assert "draw 0 30.00 ± 0.00 / 30.00 ± 0.00 [2]; draw 1 31.00 ± 0.00" in text
    artefact = ARTEFACTS["baseline"]
    assert artefact.status(outcome).startswith("partly rerun (")
    none = baseline(OfProbes(Records()))
    assert artefact.status(none) == "not run yet" and not none.cells
    assert none.notes[0] == "No native run has a record yet."


def lines() -> dict[tuple[Any, ...], dict[int, dict[str, Any]]]:
    """The records of main.jsonl by data set, imbalance, realization and seed."""
    found: dict[tuple[Any, ...], dict[int, dict[str, Any]]] = {}
    for line in (RESULTS / "main.jsonl").read_text().splitlines():
        r = json.loads(line)
        kind = (r["config"]["dataset"], r["config"]["imbalance"], r["realization"], r["beta"])
        assert r["config"]["objective"] == "contrastive" and r["config"]["prior"] == 1
        found.setdefault(kind, {})[r["seed"]] = r
    return found


NAMES = dict(zip(training.COLUMNS, ("native", "temperature", "preserve", "angular"), strict=True))


def test_the_table_of_the_records_by_hand() -> None:
    """Means, deviations and paired tests of tab:angular-training from the lines of main.jsonl."""
    known, ours = lines(), Evidence(Records.read(RESULTS))
    outcome, tested = training.angular_training(ours), 0
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
                assert change.p_value == pytest.approx(2 * tail(abs(t), n - 1), rel=1e-6)
                tested += 1
    assert tested >= 8


def test_the_frozen_changes_of_the_records_by_hand() -> None:
    known, ours = lines(), Evidence(Records.read(RESULTS))
    changes = {c.row: c for c in frozen_table("frozen-vmf-realizations", ours).changes}
    for condition, dataset in (("CIFAR-10 / 100", "cifar10"), ("CIFAR-100 / 100", "cifar100")):
        for space in ("Encoder", "Projection"):
            accuracies = [
                r["analysis"][space.lower()]["proco"]["accuracy"]
                for _, r in sorted(known[dataset, 100.0, "native", 0.0].items())
            ]
            gaps = [100 * (a["angular"] - a["native"]) for a in accuracies]
            change = changes[f"{condition}, {space}"]
            assert change.differences == pytest.approx(gaps)
            assert change.paper is not None and change.verdict == "holds"
