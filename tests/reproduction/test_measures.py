"""The headline and tables, recomputed from the lines of the records by plain loops."""

import json
import math
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from statistics import fmean, variance
from typing import Any

import pytest
from scipy.stats import t as student

from resultant_reproduction import Evidence, Records
from resultant_reproduction.cells.cells import printed_rows
from resultant_reproduction.studies import headline
from resultant_reproduction.studies.headline import answer, contrasts, effect

RESULTS = Path(__file__).parents[2] / "reproduction" / "results"
SPACES = ("encoder", "projection")
CONDITIONS = [(d, i) for d in ("cifar10", "cifar100") for i in (10, 50, 100)]
# What the controlled recipe and ProCo's public one have, where a claim says nothing else.
CONTROLLED = {"objective": "contrastive", "prior": 1.0, "estimator": "proco", "subset": 0}
CONTROLLED |= {"leave_out": False, "contrastive_view": "simclr", "classification_view": False}
CONTROLLED |= {"schedule": "cosine", "dim": 128, "alpha": 1.0, "classifier_views": 2}


@cache
def lines(second: bool) -> list[dict[str, Any]]:
    paths = sorted(RESULTS.glob("*.jsonl"))
    paths += [RESULTS / "second-round" / "headline.jsonl"] if second else []
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def runs(
    rule: str, beta: float = 0.0, second: bool = False, **settings: Any
) -> Iterator[dict[str, Any]]:
    """Every record of a kind, with defaults for settings that older records lack."""
    for record in lines(second):
        config = CONTROLLED | record["config"]
        family = config["family"] if rule == "native" else "linear"
        same = (record["realization"], record["beta"]) == (rule, beta)
        if same and all(config[key] == v for key, v in ({"family": family} | settings).items()):
            yield record


def by_seed(rule: str, beta: float = 0.0, **settings: Any) -> dict[int, dict[str, Any]]:
    """One record per seed: the fullest, and of equally full ones the last."""

    def fullness(record: dict[str, Any]) -> tuple[Any, ...]:
        own = ("ended" in record, "analysis" in record, "trajectory" in record)
        return *own, len(record.get("probes", {}))

    # Sorting keeps the order of equally full ones.
    return {r["seed"]: r for r in sorted(runs(rule, beta, **settings), key=fullness)}


def probes(rule: str, dataset: str, imbalance: int, **more: Any) -> dict[str, dict[int, float]]:
    """Long-tail probes of the controlled recipe (%), by space and seed."""
    own = by_seed(rule, dataset=dataset, imbalance=imbalance, **CONTROLLED, **more)
    return {
        s: {k: 100 * r["probes"]["long_tail"][s]["accuracy"] for k, r in own.items()}
        for s in SPACES
    }


def test_the_primary_contrast_by_hand(evidence: Evidence) -> None:
    """Mean of six differences of arm means, Welch's variance, Satterthwaite's degrees."""
    mean, terms, number = 0.0, [], 0
    for setting, (arm, sign) in product(CONDITIONS, (("angular", 1), ("native", -1))):
        by_space = probes(arm, *setting, second=True).values()
        own = [fmean(pair) for pair in zip(*(v.values() for v in by_space), strict=True)]
        mean += sign * fmean(own) / 6
        terms.append((variance(own) / len(own) / 36, len(own) - 1))
        number += len(own)
    total = sum(v for v, _ in terms)
    reach = student.ppf(0.975, total**2 / sum(v * v / n for v, n in terms)) * math.sqrt(total)
    ours = effect(evidence.every).ours
    assert ours is not None and ours.mean == pytest.approx(mean) and ours.n == number
    assert (ours.low, ours.high) == (pytest.approx(mean - reach), pytest.approx(mean + reach))
    rows = [row for row in printed_rows("angular-training") if row[0].startswith("CIFAR")]
    printed = [float(row[5].split()[0]) - float(row[2].split()[0]) for row in rows]
    assert effect(evidence.every).printed == pytest.approx(fmean(printed))


def test_the_answer_names_what_is_real(evidence: Evidence) -> None:
    text, every = answer(evidence.every), evidence.every
    for rows, of in ((headline.parts(every), "4 parts"), (headline.readouts(every), "12 readouts")):
        real = [row.title for row in rows if row.adjusted is not None and row.adjusted < 0.05]
        assert f"{len(real)} of its {of}" in text and all(title in text for title in real)
    assert answer(Records()) == ""


def test_a_gain_of_direct_temperature_is_against_the_text(evidence: Evidence) -> None:
    """The paper says that it lacks the gain: an effect of the printed size is no proof."""
    _, row, *_ = contrasts(evidence.every)
    ours = row.judgement.ours
    assert ours is not None and ours.contains(0.0) is False and ours.mean > 0
    assert row.judgement.verdict.endswith("lack of a gain not reproduced")
    assert answer(Records()) == ""
