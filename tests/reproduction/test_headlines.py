"""The sentences that answer a question of an artefact, and where the whole shows them."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

from resultant_reproduction import Evidence, Records
from resultant_reproduction.spec import printed_rows
from resultant_reproduction.tables import frozen_table

RESULTS = Path(__file__).parents[2] / "reproduction" / "results"


@pytest.mark.slow
def test_of_frozen_features(evidence: Evidence) -> None:
    """The mean over imbalances and the mean of the printed changes, from the lines of results/."""
    text = frozen_table("frozen-vmf-realizations", evidence).headline
    by_imbalance: dict[float, list[float]] = {}
    for line in (RESULTS / "main.jsonl").read_text().splitlines():
        r = json.loads(line)
        config = r["config"]
        if config["dataset"] == "cifar100" and r["realization"] == "native":
            rules = r["analysis"]["encoder"]["proco"]["accuracy"]
            change = 100 * (rules["angular"] - rules["native"])
            by_imbalance.setdefault(config["imbalance"], []).append(change)
    mean = statistics.fmean(map(statistics.fmean, by_imbalance.values()))
    assert len(by_imbalance) == 3 and f"CIFAR-100 encoder {mean:+.2f} [" in text
    rows = printed_rows("frozen-vmf-realizations")
    printed = [row[-1] for row in rows if row[0].startswith("CIFAR-100 /") and row[1] == "Encoder"]
    assert len(printed) == 3
    whole = statistics.fmean(map(float, printed))
    assert f"(printed {whole:+.2f}); CIFAR-100 projection" in text
    assert frozen_table("cosine-gradients", Evidence(Records())).headline == ""
