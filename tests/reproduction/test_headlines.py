"""The sentences that answer a question of an artefact, and where the whole shows them."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

from paper_evidence import probed
from resultant_reproduction import Evidence, Records
from resultant_reproduction.contrasts import views
from resultant_reproduction.plan import stronger_views
from resultant_reproduction.spec import printed_rows
from resultant_reproduction.tables import frozen_table

RESULTS = Path(__file__).parents[2] / "reproduction" / "results"


@pytest.mark.parametrize(
    ("differences", "words"),
    [
        ((1.0, 1.1, 1.2), "encoder rises by +1.10 [+0.85, +1.35] over 3 seeds; projection rises"),
        ((0.4,), "encoder +0.40, one seed: not tested; projection +0.40"),
    ],
)
def test_on_stronger_views(differences: tuple[float, ...], words: str) -> None:
    config = stronger_views()
    result = [probed(config, "native", seed, 0.72) for seed in range(len(differences))]
    result += [probed(config, "angular", s, 0.72 + d / 100) for s, d in enumerate(differences)]
    text = views(Evidence(Records(result))).headline
    assert text.startswith(f"Pure Angular less ProCo on stronger views (points): {words}")
    assert views(Evidence(Records())).headline == ""


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
