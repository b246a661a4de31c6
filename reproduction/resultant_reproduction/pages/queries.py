"""Measures of claims: from an entry of ``claims.toml`` to the arms of a contrast.

A measure takes the evidence and the keys of the entry, and returns weighted arms of independent
networks; no arms where records are missing. Readouts of one network are averaged first.
"""

import math
from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Any

from resultant.classes.groups import GROUPS
from resultant.features.packaged import PACKAGED
from resultant_reproduction.cells.statistics import Terms, Value
from resultant_reproduction.frozen.summarize import SPACES
from resultant_reproduction.recipes.config import PaperConfig
from resultant_reproduction.runs.evidence import (
    CONDITIONS,
    Evidence,
    Reader,
    read_change,
    read_edit,
    read_path,
    trained_as,
)
from resultant_reproduction.runs.plans import official, stand_in
from resultant_reproduction.runs.records import Course
from resultant_reproduction.studies.collapse import Trainings
from resultant_reproduction.studies.control_matrix import control_config
from resultant_reproduction.studies.training_gradients import NEAREST, errors

Keys = Mapping[str, Any]


def arms(evidence: Evidence, entry: Keys) -> Terms:
    """Measure an entry, which has one of the keys of `MEASURES`; several measures are added."""
    for name, measure in MEASURES.items():
        if name in entry:
            keys = entry[name] if isinstance(entry[name], list) else [entry[name]]
            found = [term for own in keys for term in measure(evidence, own)]
            scaled = math.log if entry.get("log") else float
            weighed = [(w, Value.over([*map(scaled, own)])) for w, own in found if own]
            return weighed if len(weighed) == len(found) else []
    return []


Found = list[tuple[float, list[float]]]


def reader(keys: Keys) -> Reader:
    """Build the reader of a path, a difference or ratio of two paths, or the change by an edit."""
    scale = float(keys.get("scale", 100.0))
    if "edit" in keys:
        beta, gamma = keys["edit"]
        return read_edit(beta, gamma, keys.get("rule", "angular"))
    if "of" in keys:
        own = {key: value for key, value in keys.items() if key != "of"}
        part, whole = reader({**own, "scale": 1.0}), read_path(keys["of"])
        least = keys.get("least", -math.inf)

        def share(summary: Mapping[str, Any]) -> float | None:
            a, b = part(summary), whole(summary)
            return scale * max(a, least) / b if a is not None and b else None

        return share
    if "less" in keys:
        return read_change(keys["path"], keys["less"], scale)
    return read_path(keys["path"], scale)


def frozen(evidence: Evidence, keys: Keys) -> Found:
    """Numbers of frozen native networks: per network the mean over spaces, an arm per condition."""
    read, spaces = reader(keys), keys.get("spaces", SPACES)
    conditions = keys["conditions"]
    found = []
    for condition in conditions:
        by_space = []
        for space in spaces:
            summaries = _summaries(evidence, condition, space, keys)
            values = {seed: read(summary) for seed, summary in summaries.items()}
            by_space.append({seed: v for seed, v in values.items() if v is not None})
        shared = [seed for seed in by_space[0] if all(seed in own for own in by_space)]
        values = [fmean(own[seed] for own in by_space) for seed in shared]
        found.append((1 / len(conditions), values))
    return found


def _summaries(
    evidence: Evidence, condition: str, space: str, keys: Keys
) -> dict[int, Mapping[str, Any]]:
    """Frozen summaries by seed: of a condition, of a store, or of networks trained otherwise."""
    if keys.get("recipe") == "store":
        known = evidence.has(condition, space)
        return {0: evidence.summary(condition, space, "proco")} if known else {}
    if "recipe" not in keys and "config" not in keys:
        return dict(evidence.frozen(condition, space))
    records = evidence.every.seeds(_config(condition, keys))
    if "fit" in keys:
        # Changes by Pure Angular where each rule has a fitted scale, without their intervals.
        own = {s: r["calibration"][space] for s, r in records.items() if "calibration" in r}
        return {
            s: {k: fits[keys["fit"]][k][0] for k in ("points", "nats")} for s, fits in own.items()
        }
    return {
        seed: record["analysis"][space]["proco"]
        if "analysis" in record
        else {"accuracy": record["frozen"][space]["proco"]}
        for seed, record in records.items()
        if "analysis" in record or "frozen" in record
    }


def _config(condition: str, keys: Keys) -> PaperConfig:
    """Training configuration of a condition: controlled, with some settings changed, or public."""
    if (recipe := keys.get("recipe")) == "stand-in":
        return stand_in(**keys.get("network", {}))
    if recipe in ("public", "power"):
        family = {"family": "power"} if recipe == "power" else {}
        return official(*CONDITIONS[condition], **family)  # type: ignore[misc]
    own = {name: keys[name] for name in ("objective", "prior") if name in keys}
    return trained_as(condition, **own, **keys.get("config", {}))


def trained(evidence: Evidence, keys: Keys) -> Found:
    """Contrasts of trained networks: terms with a weight, a rule and beta; the mean over paths per
    network. A term may have an objective, a prior or settings of its own. Paired terms are added
    by seed."""
    found, by_seed = [], []
    records = evidence.every if keys.get("recipe") == "stand-in" else evidence.records
    for term in keys.get("terms", ({"rule": "angular"}, {"weight": -1.0, "rule": "native"})):
        own = {**keys, **term}
        for setting in own["settings"]:
            kind = (_config(setting, own), own["rule"], float(own.get("beta", 0.0)))
            scale = float(own.get("scale", 100.0))
            by_path = [records.values(*kind, path, scale) for path in own["paths"]]
            shared = [seed for seed in by_path[0] if all(seed in v for v in by_path)]
            values = {seed: fmean(v[seed] for v in by_path) for seed in shared}
            weight = float(own.get("weight", 1.0)) / len(own["settings"])
            found.append((weight, [*values.values()]))
            by_seed.append({seed: weight * value for seed, value in values.items()})
    if keys.get("paired"):
        shared = set.intersection(*map(set, by_seed))
        return [(1.0, [sum(own[seed] for own in by_seed) for seed in sorted(shared)])]
    return found


def _kappas(evidence: Evidence) -> list[float]:
    """Least kappa trained by direct temperature, per seed, by the geometric mean of trainings."""
    trainings = Trainings.of(evidence)
    by_seed: dict[int, list[float]] = {}
    for training in trainings.edited if trainings else ():
        by_seed.setdefault(training.seed, []).append(math.log(training.kappa))
    return [math.exp(fmean(own)) for own in by_seed.values()]


def _ends(evidence: Evidence) -> list[Mapping[str, Any]]:
    """Rules at the last states of the trainings that lost a class."""
    trainings = Trainings.of(evidence)
    return [own.state["same_state"] for own in trainings.ends()] if trainings else []


def _largest_errors(evidence: Evidence) -> list[float]:
    """Largest error of leading gradients of Pure Angular, C10-IF50-U, per network (%)."""
    config = control_config("c10-if50-u", "contrastive")
    values = []
    for seed, record in evidence.records.seeds(config, "angular", 0.0).items():
        course = Course.of({seed: record}, "gradient_error")
        values += [max(v for own in course.values.values() for v in own)] if course else []
    return values


def _support(evidence: Evidence) -> list[float]:
    """Error of the resultant at 100 images over that at 5, packaged projection."""
    curve = evidence.analysis(PACKAGED, "projection").support
    assert curve is not None
    few, many = (float(curve.error[curve.sizes.index(n)]) for n in (5, 100))
    return [many / few]


def _self_inclusion(evidence: Evidence) -> list[float]:
    """Relative error of the leading self-inclusion shift by class, packaged projection."""
    shifts = evidence.analysis(PACKAGED, "projection").self_inclusion
    assert shifts is not None
    return (shifts.exact / shifts.predicted - 1).abs().tolist()


def _released(part: str) -> Callable[[Evidence], list[float]]:
    """Read an accuracy of the released classifier (%)."""
    return lambda evidence: [100 * evidence.released[part]] if evidence.released else []


SPECIAL: dict[str, Callable[[Evidence], list[float]]] = {
    "failing-kappa": _kappas,
    "failing-loss": lambda evidence: [
        s["temperature"]["cross_entropy"] / s["native"]["cross_entropy"] for s in _ends(evidence)
    ],
    "failing-classes": lambda evidence: [
        float(s["temperature"]["distinct"]) for s in _ends(evidence)
    ],
    "failing-angular-classes": lambda evidence: [
        float(s["angular"]["distinct"]) for s in _ends(evidence)
    ],
    "failing-accuracy": lambda evidence: [100 * s["native"]["accuracy"] for s in _ends(evidence)],
    "leading-gradients": lambda evidence: errors(evidence, NEAREST, "gradient"),
    "leading-increments": lambda evidence: errors(evidence, NEAREST, "increment"),
    "largest-errors": _largest_errors,
    "support": _support,
    "self-inclusion": _self_inclusion,
    **{f"released-{part}": _released(part) for part in ("accuracy", *GROUPS)},
}


MEASURES: dict[str, Callable[[Evidence, Any], Found]] = {
    "frozen": frozen,
    "trained": trained,
    "special": lambda evidence, name: [(1.0, SPECIAL[name](evidence))],
}
