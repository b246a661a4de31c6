"""Measures of claims, recomputed from the lines of the records by plain loops."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from resultant_reproduction import Evidence
from resultant_reproduction.measures import MEASURES, SPECIAL, arms
from resultant_reproduction.spec import load
from resultant_reproduction.value import contrast

RESULTS = Path(__file__).parents[2] / "reproduction" / "results"
CLAIMS = {entry["name"]: entry for entry in load("claims")["claim"] + load("claims")["fact"]}
SPACES = ("encoder", "projection")
CONDITIONS = [(d, i) for d in ("cifar10", "cifar100") for i in (10, 50, 100)]
# What the controlled recipe and ProCo's public one have, where a claim says nothing else.
CONTROLLED = {
    "objective": "contrastive",
    "prior": 1.0,
    "estimator": "proco",
    "subset": 0,
    "leave_out": False,
    "contrastive_view": "simclr",
    "classification_view": False,
    "schedule": "cosine",
    "dim": 128,
    "alpha": 1.0,
    "classifier_views": 2,
}
PUBLIC = {"objective": "joint", "classification_view": True, "schedule": "step", "warmup": 5}


@cache
def lines() -> list[dict[str, Any]]:
    paths = sorted(RESULTS.glob("*.jsonl"))
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def runs(rule: str, beta: float = 0.0, **settings: Any) -> Iterator[dict[str, Any]]:
    """Every record of a kind, with defaults for settings that older records lack."""
    for record in lines():
        config = CONTROLLED | record["config"]
        family = settings.get("family", config["family"] if rule == "native" else "linear")
        wanted = {"family": family} | settings
        if (record["realization"], record["beta"]) == (rule, beta) and all(
            config[name] == value for name, value in wanted.items()
        ):
            yield record


def by_seed(rule: str, beta: float = 0.0, **settings: Any) -> dict[int, dict[str, Any]]:
    """One record per seed: the fullest, and of equally full ones the last."""

    def parts(record: dict[str, Any]) -> tuple[Any, ...]:
        own = ("ended" in record, "analysis" in record, "trajectory" in record)
        return *own, len(record.get("probes", {}))

    chosen: dict[int, dict[str, Any]] = {}
    for record in runs(rule, beta, **settings):
        seed = record["seed"]
        if seed not in chosen or parts(record) >= parts(chosen[seed]):
            chosen[seed] = record
    return chosen


def summaries(dataset: str, imbalance: int, space: str, **settings: Any) -> dict[int, Any]:
    """Frozen summaries with ProCo's kappa; accuracies alone where nothing more was kept."""
    found = {}
    kinds = {"dataset": dataset, "imbalance": imbalance, **(settings or CONTROLLED)}
    for seed, record in by_seed("native", **kinds).items():
        if "analysis" in record:
            found[seed] = record["analysis"][space]["proco"]
        elif "frozen" in record:
            found[seed] = {"accuracy": record["frozen"][space]["proco"]}
    return found


def frozen_mean(
    conditions: list[tuple[str, int]],
    spaces: tuple[str, ...],
    read: Callable[[dict[str, Any]], float],
    **settings: Any,
) -> float:
    """Mean over conditions of the means over networks of the means over spaces."""
    total = 0.0
    for dataset, imbalance in conditions:
        values: dict[int, list[float]] = {}
        for space in spaces:
            for seed, summary in summaries(dataset, imbalance, space, **settings).items():
                try:
                    values.setdefault(seed, []).append(read(summary))
                except KeyError:
                    continue
        whole = [sum(own) / len(own) for own in values.values() if len(own) == len(spaces)]
        total += sum(whole) / len(whole) / len(conditions)
    return total


def trained_mean(rule: str, beta: float, paths: list[str], **settings: Any) -> float:
    """Mean over networks of the mean over paths."""
    totals = []
    for record in by_seed(rule, beta, **settings).values():
        own = []
        for path in paths:
            value: Any = record
            for part in path.split("."):
                value = value.get(part) if isinstance(value, dict) else None
            own.append(value)
        if None not in own:
            totals.append(sum(own) / len(own))
    return sum(totals) / len(totals)


HUNDRED = [("cifar100", 10), ("cifar100", 50), ("cifar100", 100)]
BOTH = ["probes.long_tail.encoder.accuracy", "probes.long_tail.projection.accuracy"]
POWER = {"dataset": "cifar100", "imbalance": 100, "family": "power", **PUBLIC}


def effect(prior: float, imbalance: int) -> float:
    kind = {"dataset": "cifar10", "imbalance": imbalance, **CONTROLLED, "prior": prior}
    return trained_mean("angular", 0.0, BOTH, **kind) - trained_mean("native", 0.0, BOTH, **kind)


def policies(path: str) -> list[float]:
    """A number of the last epoch under the three policies of the power family."""
    kinds = (("native", 0.0), ("temperature", 0.5), ("temperature", 1.5))
    return [trained_mean(*kind, [path], **POWER) for kind in kinds]


def failing() -> list[dict[str, Any]]:
    """Trainings by direct temperature that may lose a class, repetitions of a seed included."""
    kind = {"dataset": "cifar100", "imbalance": 10, **CONTROLLED, "prior": 0.0}
    return [r for r in runs("temperature", **kind) if "kappa_min" in r["last"]]


def least_kappa() -> float:
    seeds: dict[int, dict[float, float]] = {}
    for r in failing():
        # A training that two files hold counts once.
        seeds.setdefault(r["seed"], {})[r["last"]["kappa_min"]] = math.log(r["last"]["kappa_min"])
    means = [sum(own.values()) / len(own) for own in seeds.values()]
    return sum(means) / len(means)


def lost() -> list[dict[str, Any]]:
    kind = {"dataset": "cifar100", "imbalance": 10, **CONTROLLED, "prior": 0.0}
    native = min(r["last"]["kappa_min"] for r in runs("native", **kind) if "kappa_min" in r["last"])
    states = [r["ended"]["same_state"] for r in failing() if "ended" in r]
    low = [r["last"]["kappa_min"] < native / 10 for r in failing() if "ended" in r]
    few = [state["temperature"]["distinct"] < 10 for state in states]
    return [s for s, a, b in zip(states, low, few, strict=True) if a or b]


def increments() -> float:
    values = []
    for rule, beta in (("native", 0.0), ("temperature", 0.5), ("temperature", 1.5)):
        for record in by_seed(rule, beta, **POWER).values():
            last = record["trajectory"].get("mean_increment_error", [None])[-1]
            if last is not None:
                values.append((last["reduced"] + last["increased"]) / 2)
    return sum(values) / len(values)


def largest() -> float:
    kind = {"dataset": "cifar10", "imbalance": 50, **CONTROLLED, "prior": 0.0}
    tops = [
        max(v for v in r["trajectory"]["gradient_error"] if v is not None)
        for r in by_seed("angular", **kind).values()
        if "trajectory" in r
    ]
    return sum(tops) / len(tops)


# Claims of every kind of measure: a path, a difference, a ratio of counts, an edit under a prior, a
# sum of two measures, another recipe, terms, and the special ones that read records.
NAIVE: dict[str, Callable[[], float]] = {
    "agreement": lambda: frozen_mean(CONDITIONS, SPACES, lambda s: 100 * s["cosine"]["agreement"]),
    "boundary-cifar10": lambda: frozen_mean(
        [("cifar10", 100)], SPACES[1:], lambda s: s["boundaries"]["joint_leading"]["mae"]
    ),
    "frozen-cifar100-encoder": lambda: frozen_mean(
        HUNDRED, SPACES[:1], lambda s: 100 * (s["accuracy"]["angular"] - s["accuracy"]["native"])
    ),
    "low-margin": lambda: frozen_mean(
        HUNDRED,
        SPACES[:1],
        lambda s: 100 * s["cosine"]["low_margin"] / s["cosine"]["disagreements"],
    ),
    "certified-wrong": lambda: (
        frozen_mean(CONDITIONS, SPACES, lambda s: s["cosine"]["certified_disagreements"])
        + frozen_mean([HUNDRED[2]], SPACES[1:], lambda s: s["margins"]["certified_wrong"])
    ),
    "gamma-minus": lambda: frozen_mean(
        HUNDRED, SPACES[1:], lambda s: 100 * (s["grid"]["angular 0 -1"] - s["grid"]["native 1 -1"])
    ),
    "prior-minus": lambda: frozen_mean(
        [HUNDRED[2]],
        SPACES[1:],
        lambda s: 100 * (s["grid"]["temperature 0 -1"] - s["grid"]["native 1 -1"]),
        **PUBLIC,
    ),
    "uniform-long-tail": lambda: 50 * (effect(0.0, 50) + effect(0.0, 100)),
    "power-applied-gain": lambda: (
        policies("last.applied_gain_sd")[2] - policies("last.applied_gain_sd")[1]
    ),
    "power-gradient-error": lambda: sum(policies("last.mean_gradient_error")) / 3,
    "failing-kappa": least_kappa,
    "failing-loss": lambda: (
        sum(
            math.log(s["temperature"]["cross_entropy"] / s["native"]["cross_entropy"])
            for s in lost()
        )
        / len(lost())
    ),
    "failing-classes": lambda: sum(s["temperature"]["distinct"] for s in lost()) / len(lost()),
    "power-increments": increments,
    "gradients-close": largest,
}


@pytest.mark.parametrize("name", NAIVE)
def test_measures_by_plain_loops(name: str, evidence: Evidence) -> None:
    terms = arms(evidence, CLAIMS[name])
    assert contrast(terms).mean == pytest.approx(NAIVE[name](), rel=1e-9, abs=1e-12)


def test_measures_of_the_packaged_features(evidence: Evidence) -> None:
    """Both numbers that no record has, from the analysis that they summarize."""
    from resultant.features.packaged import PACKAGED

    a = evidence.analysis(PACKAGED, "projection")
    assert a.support is not None and a.self_inclusion is not None
    errors = dict(zip(a.support.sizes, a.support.error.tolist(), strict=True))
    assert SPECIAL["support"](evidence) == [pytest.approx(errors[100] / errors[5])]
    own = a.self_inclusion
    shifts = zip(own.exact.tolist(), own.predicted.tolist(), strict=True)
    expected = [abs(exact / predicted - 1) for exact, predicted in shifts]
    assert SPECIAL["self-inclusion"](evidence) == pytest.approx(expected)


def test_every_kind_is_recomputed(evidence: Evidence) -> None:
    """Every key that a measure reads is in a claim above, and every special measure is tested."""
    special = {CLAIMS[name].get("special") for name in NAIVE} | {"support", "self-inclusion"}
    # Those of the released classifier are tested with the stores that a user adds.
    special |= {name for name in SPECIAL if name.startswith("released-")}
    assert set(SPECIAL) <= special
    assert {kind for name in NAIVE for kind in MEASURES if kind in CLAIMS[name]} == set(MEASURES)

    def keys(entries: Iterator[dict[str, Any]]) -> set[str]:
        parts = (
            own
            for entry in entries
            for kind in ("frozen", "trained")
            for own in (entry[kind] if isinstance(entry.get(kind), list) else [entry.get(kind, {})])
        )
        return {key for own in parts for key in own}

    used = keys(iter(CLAIMS.values()))
    assert used - keys(CLAIMS[name] for name in NAIVE) <= {"objective"}
    # An absent arm leaves no measure.
    for name in ("imagenet-training", "imagenet-backbones"):
        assert arms(evidence, CLAIMS[name]) == []
