"""The runner of plans, on a few small images."""

import itertools
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from images.photos import write_folder
from resultant._core.validation import DivergedError
from resultant.images.opening import open_images
from resultant.training.config import Run
from resultant_reproduction.cifar import batches
from resultant_reproduction.frozen import summarize
from resultant_reproduction.recipes.records import append, read_lines
from resultant_reproduction.runs import run
from resultant_reproduction.runs.items import plan_rows
from resultant_reproduction.runs.plans import PLANS, Plan, PlannedJob, missing
from resultant_reproduction.runs.records import Records
from tiny_cifar import one_thread, tiny_cifar, tiny_config
from training_records import left_by

DATA = tiny_cifar(size=4)


def make(seeds: Any) -> Any:
    """Two jobs on tiny images."""
    runs = tuple(Run("native", 0.0, seed) for seed in seeds)
    parts: Any = {"calibrated": True, "tuned": ("native",)}
    yield PlannedJob("plain", tiny_config(), runs, (1, 2, 50), **parts)
    both = (*runs, *(Run("temperature", 0.5, seed) for seed in seeds))
    yield PlannedJob("power", tiny_config(objective="joint", family="power"), both, (1, 2))


def put(patch: pytest.MonkeyPatch, jobs: Any) -> None:
    """Put jobs in the place of those of a plan, with a small frozen analysis."""
    patch.setattr(summarize, "QUESTIONS", ("grid", "gains"))
    patch.setattr(summarize, "BETAS", (0.0, 1.0))
    patch.setattr(run, "plan", lambda name: Plan(name, "", (0,), jobs))
    patch.setattr(run, "load_cifar", lambda name, root: DATA)


def call(folder: Path, name: str = "power", **options: Any) -> int:
    """Run a plan with images, checkpoints and records in a folder."""
    options = {"say": lambda text: None, "checkpoint_every": 1} | options
    return run.run_plan(name, folder, folder / "out", folder, "cpu", **options)


_one_thread = pytest.fixture(autouse=True, scope="module")(one_thread)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a call that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        put(patch, make)
        assert call(folder) == 0
    return folder


def timeless(folder: Path) -> list[dict[str, Any]]:
    """Records of the plan power without their times."""
    times = ("job_seconds", "us_a_view", "whole_seconds")
    records = read_lines(folder / "power.jsonl")
    return [{k: v for k, v in record.items() if k not in times} for record in records]


@pytest.mark.slow
def test_records(whole: Path) -> None:
    plain, native, hot = records = read_lines(whole / "power.jsonl")
    assert [r["plan"] for r in records] == ["power"] * 3
    assert all(r["us_a_view"] > 0 for r in records)
    assert [set(r["probes"]) for r in records] == [{"long_tail", "balanced"}] * 3
    # Frozen summaries are of native networks.
    assert [("analysis" in r) for r in records] == [True, True, False]
    for space in ("encoder", "projection"):
        for estimator in ("proco", "mle"):
            result = plain["analysis"][space][estimator]["accuracy"]
            assert result == pytest.approx(plain["frozen"][space][estimator], abs=1e-12)
    for part in ("calibration", "tuned"):
        assert plain[part].keys() == {"encoder", "projection"} and part not in native
    assert plain["trajectory"]["epoch"] == [1, 2]
    assert all(v > 0 for v in plain["trajectory"]["gradient_error"])
    assert plain["trajectory"]["gain_sd"][-1] == plain["last"]["gain_sd"]
    for record in (native, hot):
        for errors in record["trajectory"]["increment_error"]:
            assert set(errors) == {"reduced", "increased"}
            assert all(0 < v < 1000 for v in errors.values())
        assert record["trajectory"]["increment_plane"][-1]["share"] > 0.9
    assert "increment_error" not in plain["trajectory"]


@pytest.mark.slow
def test_nothing_twice(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, make)
    folder = shutil.copytree(whole, tmp_path / "again")
    path, messages = folder / "power.jsonl", []
    before = path.read_bytes()
    assert call(folder, say=messages.append) == 0
    assert messages == ["power: 2 of 2 jobs have their records"] and path.read_bytes() == before
    # A job whose records are lost comes back from its last checkpoint as it was.
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    assert call(folder) == 0
    first, *rest = timeless(whole)
    assert timeless(folder) == [*rest, first]


@pytest.mark.slow
def test_seed_by_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seeds that another call left out are trained, and nothing is trained twice."""
    put(monkeypatch, make)
    for seeds in ((1,), (0, 1)):
        options = {"seeds": seeds, "jobs": ("plain",), "concurrent_jobs": len(seeds) - 1}
        assert call(tmp_path, **options) == 0
    records = read_lines(tmp_path / "power.jsonl")
    assert [(r["seed"], r["job_runs"], r["beside"]) for r in records] == [(1, 1, 0), (0, 1, 1)]
    plain, part = sorted(p.name for p in (tmp_path / "out" / "power").iterdir())
    assert plain == "plain" and part.startswith("plain-")
    jobs = list(make((0, 1)))
    assert missing(jobs, Records(records)) == jobs[1:]
    assert missing(jobs[:1], Records(records[:1]))[0].runs == (Run("native", 0.0, 0),)
    messages: list[str] = []
    assert call(tmp_path, dry_run=True, say=messages.append) == 1
    assert messages[2] == "plain: 1 of 1 records, done"
    assert messages[3].startswith("power: 0 of 2 records, 1 job, 2 runs, ")


@pytest.mark.slow
def test_minutes(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that reached its time limit stops at a checkpoint, and the next call continues."""
    put(monkeypatch, make)
    messages: list[str] = []
    calls = (call(tmp_path, say=messages.append, minutes=1e-9) for _ in range(6))
    # Each call an epoch, or what follows the last one; the third begins no other job.
    assert list(calls) == [2, 2, 1, 1, 1, 0] and timeless(tmp_path) == timeless(whole)
    taken_up = [text for text in messages if "continues after" in text or "already trained" in text]
    assert taken_up[0] == "plain: continues after epoch 1/2"
    assert taken_up[1] == "plain: already trained to epoch 2/2"


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        *(
            ("main", {"minutes": v}, f"expected minutes > 0 and finite, got {v:g}")
            for v in (0.0, -1.0, float("nan"), float("inf"))
        ),
        ("main", {"concurrent_jobs": -1}, "expected concurrent_jobs >= 0, got -1"),
        ("main", {"jobs": ("other",)}, r"expected jobs of main \(cifar10-if10, .*\), got other"),
        ("all", {}, r"expected a plan, one of main, .*, got 'all'"),
    ],
)
def test_refusals(name: str, options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        call(tmp_path, name, dry_run=True, **options)


@pytest.mark.slow
def test_stopped_and_started_again(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an epoch, in the frozen analysis, before records are there: the same records."""
    put(monkeypatch, make)
    # Place, the call of it that ends, and the records afterwards; an epoch has three steps.
    moments = (
        (batches.Batches, "batch", 5, 0),
        (run, "summaries", 1, 0),
        (run, "append", 1, 0),
        (batches.Batches, "batch", 5, 1),
    )
    path = tmp_path / "power.jsonl"
    for place, name, last, records in moments:
        inner, calls = getattr(place, name), itertools.count(1)

        def stopping(*args: Any, inner: Any = inner, calls: Any = calls, last: int = last) -> Any:
            if next(calls) == last:
                raise KeyboardInterrupt
            return inner(*args)

        with monkeypatch.context() as patch:
            patch.setattr(place, name, stopping)
            with pytest.raises(KeyboardInterrupt):
                call(tmp_path)
        assert (len(read_lines(path)) if path.exists() else 0) == records
    assert call(tmp_path) == 0
    assert timeless(tmp_path) == timeless(whole) and len(timeless(whole)) == 3


def test_records_of_other_plans_count(tmp_path: Path) -> None:
    """Runs trained by power are done for official; records of official lack parts that power asks
    for."""
    for job in PLANS["power"].jobs():
        append(tmp_path / "power.jsonl", left_by(job, "power"))
    rows = {name: row for name, *row in plan_rows(Records.read(tmp_path))}
    assert rows["power"][1:] == ["36 of 36", "nothing"]
    assert rows["official"][1:] == ["6 of 6", "nothing"]
    assert {name for name, row in rows.items() if row[2] == "nothing"} == {"power", "official"}
    messages: list[str] = []
    for dry_run in (True, False):
        assert call(tmp_path, "official", dry_run=dry_run, say=messages.append) == 0
    assert messages == [
        *("official: 2 of 2 jobs have their records", "cifar10-if100: 3 of 3 records, done"),
        *("cifar100-if100: 3 of 3 records, done", "official: 2 of 2 jobs have their records"),
    ]
    assert [p.name for p in tmp_path.iterdir()] == ["power.jsonl"]


RUNS = (Run("native"), Run("angular"), Run("angular", 0.0, 1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "parts"),
    [
        (DivergedError("expected a finite loss, got nan"), [3, 1, 2, 1, 1]),
        (torch.OutOfMemoryError("out of memory"), [3]),
        (OSError("disk full"), [3]),
    ],
)
def test_a_job_that_fails(
    error: Exception, parts: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Diverged runs are trained by kind and then by seed, others not; the next job is trained."""
    two = [PlannedJob(f"{d}", tiny_config(epochs=1, dim=d), RUNS, analyzed=()) for d in (9, 10)]
    put(monkeypatch, lambda seeds: two)
    begun: list[tuple[str, int]] = []

    def failing(job: PlannedJob, *args: Any, **options: Any) -> list[dict[str, Any]]:
        begun.append((job.name, len(job.runs)))
        if job.name == "9" and RUNS[2] in job.runs:
            raise error
        pairs = zip(job.runs, left_by(job, "power"), strict=True)
        return [record | {"run": run.name, "whole_seconds": 1.0} for run, record in pairs]

    monkeypatch.setattr(run, "run_job", failing)
    text: list[str] = []
    assert call(tmp_path, say=text.append) == 1
    assert begun == [*(("9", n) for n in parts), ("10", 3)]
    assert len(read_lines(tmp_path / "power.jsonl")) == (5 if len(parts) > 1 else 3)
    assert text[-1] == "power: incomplete records: 9"
    assert any(f": failed: {error}" in line for line in text)


# Settings that a test makes small.
SMALL = ("dim", "batch_size", "epochs", "imbalance", "learning_rate", "precision", "dataset")


@pytest.mark.slow
def test_other_losses_and_dimensions_in_miniature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each loss of the plan trains, is analysed and calibrated; records are of the second round."""
    tiny = {name: getattr(tiny_config(epochs=1), name) for name in SMALL}
    # Another dimension too; mixtures take time, and one calibration is enough.
    changes = ({"config": tiny | {"dim": 16}}, *[{"config": tiny, "calibrated": False}] * 2)
    jobs = [
        replace(job, **(own | {"config": replace(job.config, **own["config"])}))
        for job, own in zip(PLANS["losses"].jobs((0,)), changes, strict=True)
    ]
    put(monkeypatch, lambda seeds: jobs)
    assert call(tmp_path, "losses") == 0
    path = tmp_path / "second-round" / "losses.jsonl"
    records = read_lines(path)
    assert [r["config"]["contrastive"] for r in records] == ["supcon", "balanced", "proco"]
    assert records[2]["config"]["contrastive_weight"] == 0 and "accuracy" in records[2]["last"]
    assert [r["config"]["dim"] for r in records] == [16, 8, 8]
    for space in ("encoder", "projection"):
        half = records[0]["calibration"][space]["proco"]
        assert half["queries"] == 8 and set(half["rules"]) >= {"native", "angular", "cosine"}
        assert all(r["analysis"][space]["proco"]["gains"]["mean"] > 0 for r in records)
    before = path.read_bytes()
    assert call(tmp_path, "losses") == 0 and path.read_bytes() == before


@pytest.mark.slow
def test_photographs_in_miniature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run on photographs stops at its time limit, goes on, and leaves one whole record."""
    sizes = {"a": 12, "b": 6, "c": 4}
    write_folder(tmp_path / "data" / "train", sizes)
    write_folder(tmp_path / "data" / "test", dict.fromkeys(sizes, 4), first=60)
    splits = open_images(tmp_path / "data")
    monkeypatch.setattr(run, "open_dataset", lambda config, root: splits)
    own = {"architecture": "test_resnet", "dim": 8, "size": 32, "batch_size": 4, "epochs": 2}
    job = PLANS["tiny"].jobs((0,))[0]
    job = replace(job, config=replace(job.config, learning_rate=0.02, **own))
    put(monkeypatch, lambda seeds: [job])
    assert [call(tmp_path, "losses", minutes=m) for m in (1e-9, None)] == [1, 0]
    (result,) = read_lines(tmp_path / "second-round" / "losses.jsonl")
    assert result["run"] == "native-seed0" and result["config"]["mean"] is None
    assert {"encoder", "projection"} == set(result["calibration"]) == set(result["analysis"])
    assert result["probes"]["long_tail"]["encoder"]["accuracy"] <= 1
    native = result["analysis"]["projection"]["proco"]["accuracy"]["native"]
    assert native == pytest.approx(result["frozen"]["projection"]["proco"]["native"])
