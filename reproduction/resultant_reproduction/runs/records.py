"""Records of training runs: reading, choosing among several of one run, selecting numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from resultant._core.files import parse_json, read_bytes
from resultant.training.config import RESULTS, TrainConfig
from resultant_reproduction.cells.statistics import Value
from resultant_reproduction.cells.text import seed_list
from resultant_reproduction.recipes import records as training


class Records:
    """Records by kind of run and seed. Of two records of one run the fuller one counts, and of
    equally full ones the later; the other is ``set_aside`` if it is of another training."""

    def __init__(self, records: Iterable[training.Record] = ()) -> None:
        self.by_kind: dict[str, dict[int, training.Record]] = {}
        self.set_aside: list[training.Record] = []
        # Kinds that were looked for.
        self.asked: set[str] = set()
        displaced: list[training.Record] = []
        for record in records:
            by_seed = self.by_kind.setdefault(training.of_record(record), {})
            pair = [r for r in (by_seed.get(record["seed"]), record) if r is not None]
            *others, by_seed[record["seed"]] = sorted(pair, key=_fullness)
            displaced += others
        trainings: dict[tuple[str, int], list[training.Record]] = {}
        for record in displaced:
            kind, seed = run = training.run_of(record)
            same_run = trainings.setdefault(run, [self.by_kind[kind][seed]])
            if not any(training.same_training(record, other) for other in same_run):
                same_run.append(record)
                self.set_aside.append(record)

    @staticmethod
    def read(*folders: Path) -> Records:
        """Read all ``*.jsonl`` of folders, which need not exist."""
        return Records(record for folder in folders for record in training.read_folder(folder))

    def __len__(self) -> int:
        return sum(map(len, self.by_kind.values()))

    def __iter__(self) -> Iterator[training.Record]:
        return (record for by_seed in self.by_kind.values() for record in by_seed.values())

    def seeds(
        self, config: TrainConfig, realization: str = "native", beta: float = 0.0
    ) -> dict[int, training.Record]:
        """Select the records of one kind of run, by seed."""
        self.asked.add(kind := training.identity(config, realization, beta))
        return dict(sorted(self.by_kind.get(kind, {}).items()))

    def trainings(
        self, config: TrainConfig, realization: str = "native", beta: float = 0.0
    ) -> list[training.Record]:
        """Select the records of one kind of run, followed by those that were set aside."""
        kind = training.identity(config, realization, beta)
        aside = (record for record in self.set_aside if training.of_record(record) == kind)
        return [*self.seeds(config, realization, beta).values(), *aside]

    def values(
        self, config: TrainConfig, realization: str, beta: float, path: str, scale: float = 100.0
    ) -> dict[int, float]:
        """Select a number at a dotted path by seed, by default in percent."""
        numbers = {s: dig(r, path) for s, r in self.seeds(config, realization, beta).items()}
        return {s: scale * v for s, v in numbers.items() if v is not None}

    def value(
        self, config: TrainConfig, realization: str, beta: float, path: str, scale: float = 100.0
    ) -> Value | None:
        """Summarize a number at a dotted path over seeds."""
        return Value.of(list(self.values(config, realization, beta, path, scale).values()))


def dig(record: Any, path: str) -> float | None:
    """Follow a dotted path to a finite number; None where there is none."""
    for part in path.split("."):
        record = record.get(part) if isinstance(record, Mapping) else None
    return float(record) if isinstance(record, (int, float)) and isfinite(record) else None


def probe_path(space: str, pool: str = "long_tail") -> str:
    """Path of the accuracy of a probe."""
    return f"probes.{pool}.{space}.accuracy"


def paired(after: Mapping[int, float], before: Mapping[int, float]) -> dict[int, float]:
    """Differences by seed, over the seeds that both have."""
    return {seed: after[seed] - before[seed] for seed in after if seed in before}


def _fullness(record: training.Record) -> tuple[bool | int, ...]:
    parts = ("ended", "analysis", "trajectory")
    return *(part in record for part in parts), len(record.get("probes", {}))


# Folders of the rounds of runs in a folder of results.
ROUNDS = ("", "second-round", "third-round")


def packaged_folder(name: str) -> Path | None:
    """Folder of the packaged results or pages; None if it is not there."""
    here = Path(__file__).parents[1]
    candidates = here / "packaged" / name, here.parent / name
    return next((folder for folder in candidates if folder.is_dir()), None)


def packaged_json(name: str) -> dict[str, Any]:
    """Read a file of packaged numbers; empty without the packaged results."""
    folder = packaged_folder("results")
    path = None if folder is None else folder / name
    return parse_json(read_bytes(path)) if path is not None and path.is_file() else {}


def folders(results: Path) -> list[Path]:
    """Folders of records: the named one, and the packaged one before the default."""
    ours = packaged_folder("results")
    if results != RESULTS or ours is None:
        return [results]
    return [ours] if results.is_dir() and results.samefile(ours) else [ours, results]


def all_rounds(places: Sequence[Path]) -> list[Path]:
    """Folders of records of the first round, then those of the later ones (``protocol.md``)."""
    return [folder / name for name in ROUNDS for folder in places]


def round_folder(results: Path, number: int) -> Path:
    """Folder of the records of a round, from 1."""
    return results / ROUNDS[number - 1]


def read_added(paths: Sequence[Path]) -> list[training.Record]:
    """Read records of ``train`` and files of ``probe --out``, merged by run."""
    for path in paths:
        if not path.is_file():
            raise ValueError(f"expected a file of records or of probes, got nothing at {path}")
    records = [r for path in paths if path.suffix == ".jsonl" for r in training.read_lines(path)]
    last = {training.run_of(record): record for record in records}
    for record in (read_probes(path) for path in paths if path.suffix != ".jsonl"):
        if (run := training.run_of(record)) not in last:
            last[run] = record
            records.append(record)
        last[run]["probes"] = training.merged_probes(last[run], record)
    return records


def read_probes(path: Path) -> training.Record:
    """Read what ``resultant probe --out`` wrote about the features of a run."""
    try:
        content: Any = parse_json(read_bytes(path))
        about = content["metadata"]
        accuracy = dict(zip(content["features"], content["accuracy"], strict=True))
        probes = {space: {"accuracy": float(value)} for space, value in accuracy.items()}
        balanced = about["imbalance"] == 1 != about["config"]["imbalance"]
        pool = {"balanced" if balanced else "long_tail": probes}
        record = {**about["run"], "config": about["config"], "probes": pool}
        training.run_of(record)
        protocol = _protocol(content)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        rule = "expected what resultant probe --out writes of the features of a run"
        raise ValueError(f"{rule}, got {path}") from None
    training.require_values(record, f"in {path}")
    for name, expected, got in protocol:
        if got != expected:
            rule = f"expected probes of {about['dataset']} with {name} {expected}"
            raise ValueError(f"{rule}, got {got} in {path}")
    return record


def _protocol(content: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """Settings of the main comparison: name, expected, used."""
    from resultant_reproduction.recipes.config import ProbeConfig
    from resultant_reproduction.recipes.probes import main_encoder
    from resultant_reproduction.recipes.published import PUBLISHED

    about, usual = content["metadata"], asdict(ProbeConfig())
    dataset, used = about["dataset"], content.get("probe", usual)
    splits = PUBLISHED[dataset].splits if dataset in PUBLISHED else ()
    held_out = splits[-1] if splits else "test"
    settings = [("held_out", held_out, about.get("held_out", held_out))]
    if about["imbalance"] not in (None, 1):
        # All images are the balanced pool; other subsets are no pool of the paper.
        settings.append(("imbalance", about["config"]["imbalance"], about["imbalance"]))
    if "encoder" in content["features"]:
        settings.append(("encoder", main_encoder(dataset), content.get("encoder", "raw")))
    return settings + [(name, usual[name], used[name]) for name in usual if name != "seed"]


class Course(NamedTuple):
    """A number by epoch, one value per seed, and the seeds that have values."""

    values: dict[int, list[float]]
    seeds: tuple[int, ...]

    @staticmethod
    def of(records: Mapping[int, training.Record], path: str) -> Course | None:
        """Read the number at a dotted path from records by seed; None if no record has it."""
        values: dict[int, list[float]] = {}
        seeds = []
        name = path.partition(".")[0]
        for seed, record in records.items():
            trajectory = record.get("trajectory", {})
            rows = zip(trajectory.get("epoch", ()), trajectory.get(name, ()), strict=False)
            own = {e: v for e, row in rows if (v := dig({name: row}, path)) is not None}
            for epoch, value in own.items():
                values.setdefault(epoch, []).append(value)
            seeds += [seed] if own else []
        return Course(dict(sorted(values.items())), tuple(seeds)) if values else None

    def at(self, epoch: int) -> Value | None:
        return Value.of(self.values.get(epoch, []))


def seeds_of(courses: Mapping[str, Course | None]) -> str:
    """Describe the seeds of courses by name, once if all are equal."""
    texts = {name: seed_list(course.seeds if course else ()) for name, course in courses.items()}
    kinds = set(texts.values())
    return kinds.pop() if len(kinds) == 1 else "; ".join(f"{n} {s}" for n, s in texts.items())
