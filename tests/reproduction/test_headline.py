"""The headline of the protocol, recomputed from the lines of the records."""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import fmean, variance
from typing import Any

import pytest
from scipy.stats import t as student

from resultant_reproduction import Evidence, Records
from resultant_reproduction.headline import answer, contrasts, effect, parts, readouts
from resultant_reproduction.spec import printed_rows

RESULTS = Path(__file__).parents[2] / "reproduction" / "results"
FILES = ("cifar-controlled.jsonl", "main.jsonl", "second-round/headline.jsonl")
KIND = {"objective": "contrastive", "prior": 1.0, "dim": 128, "contrastive_view": "simclr"}
USUAL = {"subset": 0, "leave_out": False, "estimator": "proco", "contrastive_view": "simclr"}
ARMS = {"native": 2, "angular": 5}


def probes() -> dict[tuple[str, float, str], list[float]]:
    """Mean of both probes (%) per network, by dataset, imbalance and arm."""
    chosen: dict[tuple[Any, ...], dict[str, Any]] = {}
    for name in FILES:
        for line in (RESULTS / name).read_text().splitlines():
            record = json.loads(line)
            config = USUAL | record["config"]
            if record["beta"] or any(config[key] != value for key, value in (USUAL | KIND).items()):
                continue
            run = (config["dataset"], config["imbalance"], record["realization"], record["seed"])
            full = ("analysis" in record, "trajectory" in record, len(record["probes"]))
            if run not in chosen or full >= chosen[run]["full"]:
                chosen[run] = record | {"full": full}
    values: dict[tuple[str, float, str], list[float]] = {}
    for (*kind, _), record in chosen.items():
        own = [record["probes"]["long_tail"][s]["accuracy"] for s in ("encoder", "projection")]
        values.setdefault(tuple(kind), []).append(100 * fmean(own))  # type: ignore[arg-type]
    return values


def test_the_primary_contrast_by_hand(evidence: Evidence) -> None:
    """Mean of six differences of arm means, Welch's variance, Satterthwaite's degrees."""
    settings = [(d, i) for d in ("cifar10", "cifar100") for i in (10.0, 50.0, 100.0)]
    known, mean, terms = probes(), 0.0, []
    for setting in settings:
        for arm, sign in (("angular", 1), ("native", -1)):
            own = known[*setting, arm]
            mean += sign * fmean(own) / 6
            terms.append((variance(own) / len(own) / 36, len(own) - 1))
    total = sum(v for v, _ in terms)
    reach = student.ppf(0.975, total**2 / sum(v * v / n for v, n in terms)) * math.sqrt(total)
    ours = effect(evidence.every).ours
    assert ours is not None and ours.mean == pytest.approx(mean)
    assert (ours.low, ours.high) == (pytest.approx(mean - reach), pytest.approx(mean + reach))
    assert ours.n == sum(len(known[*s, arm]) for s in settings for arm in ARMS)
    rows = [row for row in printed_rows("angular-training") if row[0].startswith("CIFAR")]
    printed = [float(row[5].split()[0]) - float(row[2].split()[0]) for row in rows]
    assert effect(evidence.every).printed == pytest.approx(fmean(printed))


def test_the_answer_names_what_is_real(evidence: Evidence) -> None:
    text = answer(evidence.every)
    for rows, of in ((parts(evidence.every), "4 parts"), (readouts(evidence.every), "12 readouts")):
        real = [row.title for row in rows if row.adjusted is not None and row.adjusted < 0.05]
        assert f"{len(real)} of its {of}" in text and all(title in text for title in real)
    assert answer(Records()) == ""


def test_a_gain_of_direct_temperature_is_against_the_text(evidence: Evidence) -> None:
    """The paper says that it lacks the gain: an effect of the printed size is no proof."""
    _, row, *_ = contrasts(evidence.every)
    ours = row.judgement.ours
    assert ours is not None and ours.contains(0.0) is False and ours.mean > 0
    assert row.judgement.verdict.endswith("lack of a gain not reproduced")
