"""Spread of probes over seeds and over repeated trainings of one seed, and the gain of pairing by
seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import sqrt
from random import Random
from typing import Any, NamedTuple

import numpy as np

from resultant.classes.rule import EDITED
from resultant.training.config import TrainConfig
from resultant.training.records import identity, of_record
from resultant_reproduction.evidence import CONDITIONS, Evidence, trained_as
from resultant_reproduction.plan import RULES
from resultant_reproduction.records import dig, probe_path
from resultant_reproduction.summarize import SPACES

# Numbers of networks by rule and seed, one per readout.
Networks = Mapping[str, Mapping[int, Sequence[float]]]


class Pairing(NamedTuple):
    """Variance of paired changes over the sum of both variances, 1 where pairing gains nothing; the
    number of changes; and the ends of 95 % of the ratios for seeds dealt at random."""

    share: float
    number: int
    low: float
    high: float


def spread_notes(evidence: Evidence, pairs: Mapping[str, Pairing]) -> Iterator[str]:
    """Notes on repeated trainings of one seed, and on pairing."""
    again = repeated(evidence)
    if not again:
        return
    yield (
        "A seed does not fix a run: trained again with the same recipe and seed a probe has a "
        f"standard deviation of {deviation(again):.2f} points (that over seeds: [the headline]"
        f"(headline.md)). That is of {_number(len(again), 'run')} of tab:angular-training; the "
        "second time other kernels were fused, or more runs trained side by side, which should "
        "change nothing but rounding. Encoder / Projection, first of the record set aside:"
    )
    yield "\n".join(
        f"- {name} {', again '.join(' / '.join(f'{100 * v:.2f}' for v in run) for run in runs)}"
        for name, probes in again.items()
        for runs in (zip(*probes, strict=True),)
    )
    if pairs:
        shares = "; ".join(
            f"over {_number(own.number, 'change')} of {table} {own.share:.2f} times, where "
            f"{own.low:.2f} to {own.high:.2f} are 95 % of what seeds dealt at random make of it"
            for table, own in pairs.items()
        )
        yield (
            "Pairing by seeds, the variance of paired differences compared with the sum of both "
            f"variances: {shares}. Pairing {_helps(pairs)}."
        )


def deviation(again: Mapping[str, Sequence[tuple[float, float]]]) -> float:
    """Standard deviation (points) of probes of two trainings of one seed."""
    moved = [100 * (b - a) for pairs in again.values() for a, b in pairs]
    return sqrt(sum(d * d for d in moved) / (2 * len(moved)))


def weak_pairs(evidence: Evidence, pairs: Mapping[str, Pairing]) -> str:
    """A sentence on how far a seed fixes a run; empty where no run was trained twice."""
    again = repeated(evidence)
    if not again or not pairs:
        return ""
    texts = " and ".join(
        f"{own.share:.2f} times as large in {table} ({own.low:.2f} to {own.high:.2f} by chance)"
        for table, own in pairs.items()
    )
    return (
        " Trained again with the same seed a probe has a standard deviation of "
        f"{deviation(again):.2f} points, and pairing by seeds {_helps(pairs)}: it makes the "
        f"variance of a change {texts}. Tests over three seeds are weak."
    )


def repeated(evidence: Evidence) -> dict[str, list[tuple[float, float]]]:
    """Runs of tab:angular-training with two records: by name the probes of both in each space,
    first those of the record that was set aside."""
    kinds = {
        identity(trained_as(condition), realization, 0.0)
        for condition in CONDITIONS
        for realization in RULES
    }
    probes: dict[str, list[tuple[float, float]]] = {}
    for old in evidence.records.set_aside:
        kind, config = of_record(old), old["config"]
        new = evidence.records.by_kind[kind][old["seed"]]
        name = f"{config['dataset']} IF {config['imbalance']:g} {old['realization']}"
        for path in map(probe_path, SPACES):
            a, b = dig(old, path), dig(new, path)
            if kind in kinds and a is not None and b is not None:
                probes.setdefault(f"{name} seed {old['seed']}", []).append((a, b))
    return probes


def networks(evidence: Evidence, config: TrainConfig, paths: Sequence[str]) -> Networks:
    """Networks of a condition that have all readouts."""
    by_rule = {}
    for rule in RULES:
        records = evidence.records.seeds(config, rule, 0.0)
        values = {s: [v for p in paths if (v := dig(r, p)) is not None] for s, r in records.items()}
        by_rule[rule] = {seed: own for seed, own in values.items() if len(own) == len(paths)}
    return by_rule


def paired_share(
    conditions: Sequence[Networks], orders: Sequence[Mapping[str, Any]] | None = None
) -> tuple[Any, int]:
    """Pooled variance of paired changes over the sum of both variances, and the number of changes
    with two seeds. With ``orders`` of the seeds [draws, seeds], by condition and rule, one ratio
    per draw."""
    apart, together, number = np.zeros(()), np.zeros(()), 0
    for i, edited in product(range(len(conditions)), EDITED):
        own = conditions[i]
        seeds = [seed for seed in own[edited] if seed in own["native"]]
        if len(seeds) > 1:
            # Seeds by readouts, of every draw.
            after, before = (
                np.array([*own[rule].values()])[orders[i][rule] if orders else ...][
                    ..., [[*own[rule]].index(seed) for seed in seeds], :
                ]
                for rule in (edited, "native")
            )
            together = together + _squares(after - before)
            apart = apart + _squares(after) + _squares(before)
            number += after.shape[-1]
    shares = np.divide(together, apart, out=np.ones_like(apart), where=apart > 0)
    return shares.tolist(), number


def _squares(values: np.ndarray) -> np.ndarray:
    return ((values - values.mean(-2, keepdims=True)) ** 2).sum((-2, -1))


def dealt(conditions: Sequence[Networks], draws: int = 1000) -> list[float]:
    """Sorted shares of `paired_share` with the seeds of every kind of run dealt at random."""
    generator = Random(0)
    orders: list[dict[str, Any]] = [{rule: [] for rule in own} for own in conditions]
    for _, (own, kept) in product(range(draws), zip(conditions, orders, strict=True)):
        for rule, seeds in own.items():
            kept[rule].append(generator.sample(range(len(seeds)), len(seeds)))
    return sorted(paired_share(conditions, orders)[0])


def pairings(evidence: Evidence) -> dict[str, Pairing]:
    """Gain of pairing by table, for tables with changes of several seeds."""
    paths = [probe_path(space) for space in SPACES]
    tables = {
        "tab:angular-training": [networks(evidence, trained_as(c), paths) for c in CONDITIONS],
        "tab:joint-fc": [
            networks(evidence, trained_as(c, objective="joint"), ["last.accuracy"])
            for c in CONDITIONS
        ],
    }
    pairs = {}
    for table, conditions in tables.items():
        share, number = paired_share(conditions)
        if number:
            shares = dealt(conditions)
            cut = len(shares) // 40
            pairs[table] = Pairing(share, number, shares[cut], shares[-cut - 1])
    return pairs


def _helps(pairs: Mapping[str, Pairing]) -> str:
    tables = [table for table, own in pairs.items() if own.share < own.low]
    return f"is seen to help in {' and '.join(tables)}" if tables else "is not seen to help"


def _number(n: int, name: str) -> str:
    return f"{n} {name}{'s' if n > 1 else ''}"
