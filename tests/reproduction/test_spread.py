"""The gain of pairing by seeds, compared with random pairs."""

from __future__ import annotations

import statistics
from collections import Counter
from itertools import permutations
from pathlib import Path

import pytest

from paper_evidence import probed
from resultant_reproduction import Evidence, Records
from resultant_reproduction.plan import controlled
from resultant_reproduction.spread import dealt, paired_share, pairings
from training_records import record

RESULTS = Path(__file__).parents[2] / "reproduction" / "results"
RULES: tuple[str, ...] = ("native", "temperature", "preserve", "angular")


def test_seeds_dealt_at_random() -> None:
    """Two kinds of three seeds: the six pairings are equally frequent."""
    native, angular = (60.0, 61.0, 63.5), (60.5, 62.5, 63.0)
    none: dict[int, list[float]] = {}
    known = {
        "native": {seed: [v] for seed, v in enumerate(native)},
        "angular": {seed: [v] for seed, v in enumerate(angular)},
    }
    result = dealt([dict.fromkeys(RULES, none) | known], 600)
    both = statistics.variance(native) + statistics.variance(angular)
    ways = {
        round(statistics.variance([b - a for a, b in zip(native, p, strict=True)]) / both, 9)
        for p in permutations(angular)
    }
    times = Counter(round(share, 9) for share in result)
    assert len(ways) == 6 and times.keys() == ways and result == sorted(result)
    # A hundred each, with a standard deviation of nine.
    assert min(times.values()) > 60 and max(times.values()) < 140


def test_readouts_of_a_network_keep_together() -> None:
    """A second readout that turns the first round pairs as that does, whoever has which seed."""
    none: dict[int, list[float]] = {}
    one, two = dict.fromkeys(RULES, none), dict.fromkeys(RULES, none)
    for rule, values in (("native", (1.0, 2.0, 4.0)), ("angular", (1.5, 2.0, 5.0))):
        one[rule] = {seed: [v] for seed, v in enumerate(values)}
        two[rule] = {seed: [v, -v] for seed, v in enumerate(values)}
    assert dealt([two]) == pytest.approx(dealt([one]))
    assert paired_share([two]) == (pytest.approx(paired_share([one])[0]), 2)


def trained(tied: bool) -> Evidence:
    """Return four seeds of every kind of tab:angular-training on CIFAR: edits move all seeds
    equally, or one seed up and another down."""
    records = []
    for dataset in ("cifar10", "cifar100"):
        for imbalance in (10, 50, 100):
            config = controlled(dataset, imbalance)
            for i, rule in enumerate(RULES):
                for seed, step in enumerate((0.0, 1.0, 2.0, 4.0)):
                    turn = -1 if i and not tied and (dataset == "cifar10") == i % 2 else 1
                    records.append(probed(config, rule, seed, 0.5 + (turn * step + i) / 100))
    return Evidence(Records(records))


@pytest.mark.slow
def test_pairing_that_helps() -> None:
    """Runs that a seed ties together are paired better than by chance, and others are not."""
    (table, result), *others = pairings(trained(True)).items()
    assert (table, result.number, others) == ("tab:angular-training", 36, [])
    assert result.share == pytest.approx(0) and 0.3 < result.low < 1 < result.high
    (loose,) = pairings(trained(False)).values()
    assert loose.low < loose.share < loose.high
    assert pairings(Evidence(Records())) == {}
    joint = controlled("cifar10", 10, objective="joint")
    heads = [
        record(joint, rule, 0.0, seed, last={"accuracy": 0.8 + seed / 100})
        for rule in ("native", "preserve")
        for seed in range(2)
    ]
    (own,) = pairings(Evidence(Records(heads))).items()
    # Two seeds are paired or crossed: the variance is none, or twice the sum of both.
    assert own == ("tab:joint-fc", (pytest.approx(0), 1, pytest.approx(0), pytest.approx(2)))
