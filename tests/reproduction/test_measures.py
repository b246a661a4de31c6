"""Claims, tables and the headline, recomputed from the lines of the records by plain loops."""

import json
import math
import statistics
from collections.abc import Callable, Iterable, Iterator
from functools import cache, reduce
from itertools import product
from operator import getitem
from pathlib import Path
from statistics import fmean, variance
from typing import Any, cast

import pytest
from scipy.stats import t as student

from resultant.features.packaged import PACKAGED
from resultant_reproduction import ITEMS, Evidence, Records
from resultant_reproduction.cells.cells import load, printed_rows
from resultant_reproduction.cells.statistics import contrast
from resultant_reproduction.pages.queries import MEASURES, SPECIAL, arms
from resultant_reproduction.runs.plans import RULES
from resultant_reproduction.studies import headline, tables
from resultant_reproduction.studies.headline import answer, contrasts, effect
from training_records import angular_training

RESULTS = Path(__file__).parents[2] / "reproduction" / "results"
CLAIMS = {
    entry["name"]: entry for entry in load("pages/claims")["claim"] + load("pages/claims")["fact"]
}
SPACES = ("encoder", "projection")
CONDITIONS = [(d, i) for d in ("cifar10", "cifar100") for i in (10, 50, 100)]
# What the controlled recipe and ProCo's public one have, where a claim says nothing else.
CONTROLLED = {"objective": "contrastive", "prior": 1.0, "estimator": "proco", "subset": 0}
CONTROLLED |= {"leave_out": False, "contrastive_view": "simclr", "classification_view": False}
CONTROLLED |= {"schedule": "cosine", "dim": 128, "alpha": 1.0, "classifier_views": 2}
PUBLIC = {"objective": "joint", "classification_view": True, "schedule": "step", "warmup": 5}


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


def summaries(dataset: str, imbalance: int, space: str, **settings: Any) -> dict[int, Any]:
    """Frozen summaries with ProCo's kappa, of both rounds; accuracies alone where no more was
    kept."""
    found = {}
    kinds = {"dataset": dataset, "imbalance": imbalance, **(settings or CONTROLLED)}
    for seed, record in by_seed("native", second=True, **kinds).items():
        if "analysis" in record:
            found[seed] = record["analysis"][space]["proco"]
        elif "frozen" in record:
            found[seed] = {"accuracy": record["frozen"][space]["proco"]}
    return found


Read = Callable[[dict[str, Any]], float]


def frozen_mean(conditions: Any, spaces: tuple[str, ...], read: Read, **settings: Any) -> float:
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
        whole = [fmean(own) for own in values.values() if len(own) == len(spaces)]
        total += fmean(whole) / len(conditions)
    return total


def trained_mean(rule: str, beta: float, paths: list[str], **settings: Any) -> float:
    """Mean over networks of the mean over paths."""
    totals, read = [], cast(Any, getitem)
    for record in by_seed(rule, beta, **settings).values():
        try:
            totals.append(fmean(reduce(read, path.split("."), record) for path in paths))
        except (KeyError, TypeError):
            continue
    return fmean(totals)


HUNDRED = [("cifar100", 10), ("cifar100", 50), ("cifar100", 100)]
BOTH = ["probes.long_tail.encoder.accuracy", "probes.long_tail.projection.accuracy"]
POWER = {"dataset": "cifar100", "imbalance": 100, "family": "power", **PUBLIC}


def changed(prior: float, imbalance: int) -> float:
    kind = {"dataset": "cifar10", "imbalance": imbalance, **CONTROLLED, "prior": prior}
    return trained_mean("angular", 0.0, BOTH, **kind) - trained_mean("native", 0.0, BOTH, **kind)


def policies(path: str) -> list[float]:
    """A number of the last epoch under the three policies of the power family."""
    kinds = (("native", 0.0), ("temperature", 0.5), ("temperature", 1.5))
    return [trained_mean(*kind, [path], **POWER) for kind in kinds]


FAILING = {"dataset": "cifar100", "imbalance": 10, **CONTROLLED, "prior": 0.0}


def failing() -> list[dict[str, Any]]:
    """Trainings by direct temperature that may lose a class, repetitions of a seed included."""
    return [r for r in runs("temperature", **FAILING) if "kappa_min" in r["last"]]


def least_kappa() -> float:
    seeds: dict[int, set[float]] = {}
    for r in failing():
        # A training that two files hold counts once.
        seeds.setdefault(r["seed"], set()).add(r["last"]["kappa_min"])
    return fmean(fmean(map(math.log, own)) for own in seeds.values())


def lost() -> list[dict[str, Any]]:
    lasts = [r["last"] for r in runs("native", **FAILING)]
    native = min(last["kappa_min"] for last in lasts if "kappa_min" in last)
    ended = [(r["last"]["kappa_min"], r["ended"]["same_state"]) for r in failing() if "ended" in r]
    return [s for low, s in ended if low < native / 10 or s["temperature"]["distinct"] < 10]


def last_error(kind: str) -> float:
    """Errors at the last epoch of all networks of the third round, means over queries without the
    intercept; of increments also over the two changes."""
    records = (RESULTS / "third-round" / "gradients.jsonl").read_text().splitlines()
    courses = [json.loads(line)["trajectory"] for line in records]
    lasts = [own[f"mean_{kind}_error_without_intercept"][-1] for own in courses]
    return fmean(fmean(v.values()) if isinstance(v, dict) else v for v in lasts)


def largest() -> float:
    kind = {"dataset": "cifar10", "imbalance": 50, **CONTROLLED, "prior": 0.0}
    courses = [r["trajectory"] for r in by_seed("angular", **kind).values() if "trajectory" in r]
    return fmean(max(v for v in own["gradient_error"] if v is not None) for own in courses)


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
    "uniform-long-tail": lambda: 50 * (changed(0.0, 50) + changed(0.0, 100)),
    "power-applied-gain": lambda: (
        policies("last.applied_gain_sd")[2] - policies("last.applied_gain_sd")[1]
    ),
    "power-gradient-error": lambda: last_error("gradient"),
    "failing-kappa": least_kappa,
    "failing-loss": lambda: fmean(
        math.log(s["temperature"]["cross_entropy"] / s["native"]["cross_entropy"]) for s in lost()
    ),
    "failing-classes": lambda: fmean(s["temperature"]["distinct"] for s in lost()),
    "failing-angular-classes": lambda: fmean(s["angular"]["distinct"] for s in lost()),
    "failing-accuracy": lambda: fmean(100 * s["native"]["accuracy"] for s in lost()),
    "power-increments": lambda: last_error("increment"),
    "gradients-close": largest,
}


@pytest.mark.parametrize("name", NAIVE)
def test_measures_by_plain_loops(name: str, evidence: Evidence) -> None:
    terms = arms(evidence, CLAIMS[name])
    assert contrast(terms).mean == pytest.approx(NAIVE[name](), rel=1e-9, abs=1e-12)


def test_measures_of_the_packaged_features(evidence: Evidence) -> None:
    """Both numbers that no record has, from the analysis that they summarize."""
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
    assert {name for name in SPECIAL if not name.startswith("released-")} <= special
    assert {kind for name in NAIVE for kind in MEASURES if kind in CLAIMS[name]} == set(MEASURES)

    def keys(names: Iterable[str]) -> set[str]:
        parts = [CLAIMS[name].get(kind, {}) for name in names for kind in ("frozen", "trained")]
        return {k for own in parts for m in (own if isinstance(own, list) else [own]) for k in m}

    assert keys(CLAIMS) - keys(NAIVE) <= {"objective"}
    # An absent arm leaves no measure.
    for name in ("imagenet-training", "imagenet-backbones"):
        assert arms(evidence, CLAIMS[name]) == []


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


def test_spread_of_the_records(evidence: Evidence) -> None:
    """The spread of results/ computed another way."""
    variances, printed = [], []
    for (dataset, imbalance), name in product(CONDITIONS, headline.TRAINED):
        for space, own in probes(name, dataset, imbalance).items():
            variances += [variance(own.values())] * (len(own) - 1)
            row = [f"CIFAR-{dataset[5:]} / {imbalance}", space.capitalize()]
            (cell,) = (c for c in printed_rows("angular-training") if c[:2] == row)
            printed.append(float(cell[headline.ARMS[name]].partition("± ")[2]) ** 2)
    result = headline.spread(evidence.records)
    assert result is not None and len(printed) == 36
    ours, theirs = fmean(variances), fmean(printed)
    expected = (ours / theirs, math.sqrt(ours), math.sqrt(theirs))
    assert (result[0], *result[3:]) == pytest.approx(expected)
    assert result[0] > 5


@pytest.mark.parametrize("setting", [("cifar10", 100), ("cifar100", 100)])
def test_the_tables_of_the_records_by_hand(setting: tuple[str, int], evidence: Evidence) -> None:
    """Means, deviations and paired tests of tab:angular-training; changes of frozen features."""
    outcome, tested = angular_training(evidence.records), 0
    frozen = tables.frozen_table("frozen-vmf-realizations", evidence).changes
    for space in SPACES:
        row = f"CIFAR-{setting[0][5:]} / 100, {space.capitalize()}"
        by_rule = (probes(rule, *setting)[space] for rule in RULES)
        values = dict(zip(tables.COLUMNS, by_rule, strict=True))
        cells = {c.column: c.ours for c in outcome.cells if c.row == row}
        for column, own in values.items():
            mean, sd = fmean(own.values()), statistics.stdev(own.values())
            assert cells[column] == (pytest.approx(mean), pytest.approx(sd), len(own))
        for change in (c for c in outcome.changes if c.row == row):
            after, before = values[change.what.removesuffix(" - ProCo")], values["ProCo"]
            gaps = [after[seed] - before[seed] for seed in sorted(after.keys() & before)]
            t = fmean(gaps) / (statistics.stdev(gaps) / math.sqrt(len(gaps)))
            p = 2 * student.sf(abs(t), len(gaps) - 1)
            assert change.interval and change.interval.p == pytest.approx(p, rel=1e-6)
            tested += 1
        (change,) = (c for c in frozen if c.row == row)
        known = [s["accuracy"] for _, s in sorted(summaries(*setting, space).items())]
        apart = [100 * (a["angular"] - a["native"]) for a in known]
        assert change.differences == pytest.approx(apart)
        assert change.verdict in ("confirmed", "same direction, other size")
    assert tested == 6


def test_changes_by_beta_and_prior_by_hand(evidence: Evidence) -> None:
    """Joint networks of the public recipe, native, CIFAR-100 IF 100."""
    known = summaries("cifar100", 100, "projection", **PUBLIC)
    outcome = ITEMS["gain-prior"].compute(evidence)
    cells = [c.content() for c in outcome.cells if c.row == "CIFAR-100-LT, ProCo's public recipe"]
    for text, gamma, number in zip(cells, ("0", "-1"), ("+2.57", "-5.35"), strict=True):
        grids = [s["grid"] for s in known.values()]
        changes = [100 * (g[f"temperature 0 {gamma}"] - g[f"native 1 {gamma}"]) for g in grids]
        mean, sd = fmean(changes), statistics.stdev(changes)
        assert text == f"{number} / {mean:+.2f} ± {sd:.2f} [{len(grids)}]"
