"""Plans, and their runner on a few small images."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, astuple, replace
from pathlib import Path
from typing import Any

import pytest
import torch

import training_records
from resultant.data.cifar import Cifar
from resultant.data.longtail import long_tail_indices
from resultant.paper import run
from resultant.paper.plan import (
    PLANS,
    Pace,
    Plan,
    PlannedJob,
    estimate,
    missing,
)
from resultant.paper.records import Records
from resultant.paper.words import standing, unfinished
from resultant.presets import Run
from resultant.records import append, read_lines
from tiny_cifar import tiny_cifar, tiny_config

# Sizes of the long-tailed subsets, IF 10, 50 and 100.
SIZES = {"cifar10": (20_431, 13_996, 12_406), "cifar100": (19_573, 12_608, 10_847)}


def test_main_plan() -> None:
    jobs = PLANS["main"].jobs()
    assert [len(job.runs) for job in jobs] == [12] * 6
    images = [size // 256 * 256 for sizes in SIZES.values() for size in sizes]
    assert [job.views for job in jobs] == [12 * 200 * 2 * n for n in images]
    # Twelve side by side: 4 + 12 / 12 microseconds a view, and half a minute a job.
    minutes = sum(job.views for job in jobs) * 5 / 60e6 + 6 / 2
    pace = Pace(4.0, 12.0, 30.0)
    assert pace.minutes(jobs) == pytest.approx(minutes)
    assert estimate(jobs, pace) == f"6 jobs, 72 runs, 428 million views: {minutes:.0f} minutes"
    assert {run.seed for job in PLANS["main"].jobs((7,)) for run in job.runs} == {7}


def test_other_plans() -> None:
    numbers = {name: sum(len(job.runs) for job in plan.jobs()) for name, plan in PLANS.items()}
    assert numbers == {
        "main": 72,
        "joint": 72,
        "controls": 74,
        "power": 36,
        "official": 6,
        "failure": 6,
        "beyond": 30,
        "members": 6,
    }
    for job in PLANS["power"].jobs():
        assert job.config.family == "power" and job.config.views == 3
        assert [(r.realization, r.beta) for r in job.runs] == 3 * [
            ("native", 0.0),
            ("temperature", 0.5),
            ("temperature", 1.5),
        ]
    for name in ("joint", "controls"):
        joint = [job for job in PLANS[name].jobs() if job.config.objective == "joint"]
        assert joint and not any(r.realization in job.analyzed for job in joint for r in job.runs)
    uniform = [job for job in PLANS["controls"].jobs() if "-u-" in job.name]
    assert {job.config.prior for job in uniform} == {0.0}
    for plan in PLANS.values():
        names = [job.name for job in plan.jobs()]
        assert len(set(names)) == len(names)


DATA = tiny_cifar(size=8)


def make(seeds: Any) -> Any:
    """Two jobs on tiny images."""
    runs = tuple(Run("native", 0.0, seed) for seed in seeds)
    yield PlannedJob("plain", tiny_config(), runs, (1, 2, 50))
    both = (*runs, *(Run("temperature", 0.5, seed) for seed in seeds))
    yield PlannedJob("power", tiny_config(objective="joint", family="power"), both, (1, 2))


def put_small(patch: Any) -> None:
    """These jobs in the place of the plan power."""
    small = Plan("power", "", (0,), make)
    patch.setattr(run, "plan", lambda name: small)
    patch.setattr(run, "load_cifar", lambda name, root: DATA)


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    put_small(monkeypatch)


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """The same to the bit means on as many threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


QUIET: dict[str, Any] = {"say": lambda text: None, "checkpoint_every": 1}


def places(folder: Path) -> tuple[Path, Path, Path, str]:
    """Images, checkpoints and records of a call, and its device."""
    return folder, folder / "out", folder, "cpu"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a call that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        put_small(patch)
        assert run.run_plan("power", *places(folder), **QUIET) == 0
    return folder


def test_records(whole: Path) -> None:
    plain, native, hot = records = read_lines(whole / "power.jsonl")
    assert [r["plan"] for r in records] == ["power"] * 3
    assert all(
        r["us_a_view"] > 0 and set(r["probes"]) == {"long_tail", "balanced"} for r in records
    )
    # Frozen summaries are of native networks.
    assert [("analysis" in r) for r in records] == [True, True, False]
    for space in ("encoder", "projection"):
        for estimator in ("proco", "mle"):
            found = plain["analysis"][space][estimator]["accuracy"]
            assert found == pytest.approx(plain["frozen"][space][estimator], abs=1e-12)
    assert plain["trajectory"]["epoch"] == [1, 2]
    assert all(v > 0 for v in plain["trajectory"]["gradient_error"])
    assert plain["trajectory"]["gain_sd"][-1] == plain["last"]["gain_sd"]
    for record in (native, hot):
        for errors in record["trajectory"]["increment_error"]:
            assert set(errors) == {"reduced", "increased"}
            assert all(0 < v < 1000 for v in errors.values())
        assert record["trajectory"]["increment_plane"][-1]["share"] > 0.9
    assert "increment_error" not in plain["trajectory"]


@pytest.mark.usefixtures("_small")
def test_nothing_twice(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "again"
    shutil.copytree(whole, folder)
    path, said = folder / "power.jsonl", []
    before = path.read_bytes()
    assert run.run_plan("power", *places(folder), say=said.append) == 0
    assert said == ["power: 2 of 2 jobs have their records"] and path.read_bytes() == before
    # A job whose records are lost comes back from its last checkpoint as it was.
    plain, *others = read_lines(path)
    path.write_text("".join(json.dumps(r) + "\n" for r in others))
    assert run.run_plan("power", *places(folder), **QUIET) == 0
    assert timeless(read_lines(path)) == timeless([*others, plain])
    with pytest.raises(ValueError, match=r"expected jobs of power \(plain, power\), got other"):
        run.run_plan("power", *places(folder), only=("other",))


@pytest.mark.usefixtures("_small")
def test_seed_by_seed(tmp_path: Path) -> None:
    """What another call left out is trained, and nothing twice."""
    for seeds in ((1,), (0, 1)):
        options = {"seeds": seeds, "only": ("plain",), "beside": len(seeds) - 1}
        left = run.run_plan("power", *places(tmp_path), **options, **QUIET)
        assert left == 0
    records = read_lines(tmp_path / "power.jsonl")
    assert [(r["seed"], r["job_runs"], r["beside"]) for r in records] == [(1, 1, 0), (0, 1, 1)]
    plain, part = sorted(p.name for p in (tmp_path / "out" / "power").iterdir())
    assert plain == "plain" and part.startswith("plain-")
    jobs = list(make((0, 1)))
    (left,) = missing(jobs, Records(records))
    assert left == jobs[1]
    assert missing(jobs[:1], Records(records[:1]))[0].runs == (Run("native", 0.0, 0),)
    said: list[str] = []
    assert run.run_plan("power", *places(tmp_path), dry_run=True, say=said.append) == 1
    assert said[2] == "plain: 1 of 1 records, done"
    assert said[3].startswith("power: 0 of 2 records, ") and "minutes" in said[3]


@pytest.mark.usefixtures("_small")
def test_minutes(whole: Path, tmp_path: Path) -> None:
    """A call whose time is over stops at a checkpoint, and the next one goes on."""
    calls = (run.run_plan("power", *places(tmp_path), **QUIET, minutes=1e-9) for _ in range(6))
    # Each call an epoch, or what follows the last one; the third begins no other job.
    assert list(calls) == [2, 2, 1, 1, 1, 0]
    found, wanted = (timeless(read_lines(p / "power.jsonl")) for p in (tmp_path, whole))
    assert found == wanted


@pytest.mark.parametrize("minutes", [0.0, -1.0, float("nan"), float("inf")])
def test_minutes_that_never_end(minutes: float, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"expected minutes > 0 and finite, got {minutes:g}"):
        run.run_plan("main", tmp_path, minutes=minutes, dry_run=True)
    assert run.main(["main", "--dry-run", "--minutes", str(minutes)]) == 2


def test_negative_number_of_calls(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected beside >= 0, got -1"):
        run.run_plan("main", tmp_path, beside=-1, dry_run=True)


TIMES = ("job_seconds", "us_a_view", "whole_seconds")


def timeless(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in record.items() if k not in TIMES} for record in records]


# Calls that end themselves at a moment of their choice, as if killed from outside, and the number
# of records after each.
KILLED = """
import os, signal, sys
from pathlib import Path

import torch

torch.set_num_threads(1)
# Once for all: an optimizer would import it.
import torch._dynamo
import pytest, test_paper_run
from resultant import batches
from resultant.paper import run

folder = Path(sys.argv[1])


def call(moment, left):
    def at(name, inner):
        def counted(*args, **kwargs):
            nonlocal left
            left -= moment == name
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
            return inner(*args, **kwargs)

        return counted

    def replace(source, target, inner=os.replace, killing=at("records", lambda: None)):
        if Path(target).name == "power.jsonl":
            killing()
        inner(source, target)

    batches.CifarBatches.batch = at("step", batches.CifarBatches.batch)
    run.summaries, os.replace = at("analysis", run.summaries), replace
    test_paper_run.put_small(pytest.MonkeyPatch())
    run.run_plan("power", *test_paper_run.places(folder), **test_paper_run.QUIET)


for moment in sys.argv[2:]:
    child = os.fork()
    if not child:
        name, left = moment.split("=")
        call(name, int(left))
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL, moment
    print(len(test_paper_run.read_lines(folder / "power.jsonl")))
"""


@pytest.mark.usefixtures("_small")
def test_killed_and_started_again(whole: Path, tmp_path: Path) -> None:
    """In an epoch, in the frozen analysis, before records are there: the same records."""
    # An epoch has three steps.
    moments = ["step=5", "analysis=1", "records=1", "step=5"]
    here = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), *moments],
        env={**os.environ, "PYTHONPATH": here, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr
    # The last of them adds those of the first job before it is killed in the second.
    assert done.stdout.split() == ["0", "0", "0", "1"]
    assert run.run_plan("power", *places(tmp_path), **QUIET) == 0
    found, wanted = (timeless(read_lines(p / "power.jsonl")) for p in (tmp_path, whole))
    assert found == wanted and len(found) == 3


def test_missing_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The balanced set is left out with a word; a subset that is not there stops the call."""
    put_small(monkeypatch)
    held = long_tail_indices(DATA.train_labels, 4, 3.0).sort().values
    parts = (DATA.train_labels, DATA.test_images, DATA.test_labels, DATA.class_names)
    part = Cifar(DATA.train_images[held], *parts, held)
    monkeypatch.setattr(run, "load_cifar", lambda name, root: part)
    said: list[str] = []
    run.run_plan("power", *places(tmp_path), only=("plain",), say=said.append)
    assert f"cifar10: 29 of 48 training images in {tmp_path}: no probes of the balanced set" in said
    (record,) = read_lines(tmp_path / "power.jsonl")
    assert set(record["probes"]) == {"long_tail"} and "analysis" in record
    fewer = Cifar(DATA.train_images[held[1:]], *parts, held[1:])
    monkeypatch.setattr(run, "load_cifar", lambda name, root: fewer)
    with pytest.raises(ValueError, match=r"the 29 training images of power in .*, got all but 1 "):
        run.run_plan("power", *places(tmp_path), say=said.append)


def test_without_the_packages_of_the_command_line(tmp_path: Path) -> None:
    """tyro, rich and the like are not imported, and a dry run reads no images."""
    code = (
        "import sys; hidden = 'tyro rich flint matplotlib pandas torchvision timm PIL'.split();"
        "sys.modules.update(dict.fromkeys(hidden)); from resultant.paper.run import main;"
        "sys.exit(main(sys.argv[1:]))"
    )
    call = ["main", "--dry-run", "--results", str(tmp_path), "--jobs", "cifar10-if10"]
    done = subprocess.run([sys.executable, "-c", code, *call], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "cifar10-if10: 0 of 12 records, 6 minutes"
    assert run.main(["main", "--jobs", "cifar10", "--dry-run"]) == 2


def timed(seed: int, runs: int, us: float, **more: Any) -> dict[str, Any]:
    config = json.loads(json.dumps(asdict(tiny_config())))
    base = {"realization": "native", "beta": 0.0, "config": config, "seed": seed}
    return {**base, "job_runs": runs, "us_a_view": us, **more}


def test_pace() -> None:
    """Through jobs of several sizes a line in 1 / k; one size scales the usual one."""
    gpu = {"versions": {"device": "GPU"}}
    slow = timed(0, 4, 900.0, versions={"torch": "2"})
    # 3 + 6 / k, twice for the job of 12, whose records are one measurement.
    fast = [
        timed(1, 12, 3.5, **gpu, job_seconds=100.0, whole_seconds=150.0),
        timed(2, 12, 3.5, **gpu, job_seconds=100.0, whole_seconds=150.0),
        timed(3, 6, 4.0, **gpu, job_seconds=90.0, whole_seconds=130.0),
        timed(4, 2, 6.0, **gpu),
        # More than a stack has are no faster a view.
        timed(5, 24, 3.5, **gpu, job_seconds=10.0, whole_seconds=70.0),
        # Jobs that share the device are no measure of it.
        timed(6, 12, 9.0, **gpu, job_seconds=10.0, whole_seconds=90.0, beside=2),
    ]
    pace = Pace.of(Records([slow, *fast]))
    assert pace[:3] == pytest.approx((3.0, 6.0, 50.0)) and pace.said().startswith("on GPU: 3 + 6 /")
    assert pace.us_a_view(24) == pace.us_a_view(12) == pytest.approx(3.5)
    usual = Pace()
    assert Pace.of(Records()) == usual
    one = Pace.of(Records([slow]))
    assert one.us_a_view(4) == pytest.approx(900) and one.around == usual.around
    assert one.device == "CPU"
    assert one.shared / one.each == pytest.approx(usual.shared / usual.each)
    # Larger jobs that are slower a view are not a law.
    odd = Pace.of(Records([timed(0, 12, 9.0, **gpu), timed(1, 6, 3.0, **gpu)]))
    assert odd.shared > 0


def test_standing(tmp_path: Path) -> None:
    rows = {name: row for name, *row in standing(Records.read(tmp_path))}
    assert list(rows) == list(PLANS) and rows["main"][1] == "0 of 72"
    assert rows["failure"][2].startswith("1 job, 6 runs, 47 million views: 4 minutes")
    job = PLANS["official"].jobs()[0]
    append(tmp_path / "official.jsonl", left_by(job, "official")[:1])
    rows = {name: row for name, *row in standing(Records.read(tmp_path))}
    assert rows["official"][1] == "1 of 6" and rows["official"][2].startswith("2 jobs, 5 runs")
    # The same run is one of power, which asks for its trajectory too.
    assert rows["power"][1] == "0 of 36, 1 in part"
    append(tmp_path / "official.jsonl", left_by(job, "official"))
    for other in PLANS["official"].jobs((1, 2))[1:]:
        append(tmp_path / "official.jsonl", left_by(other, "official"))
    rows = {name: row for name, *row in standing(Records.read(tmp_path))}
    assert rows["official"][2].startswith("1 job, 1 run, 6 million views")


def left_by(job: PlannedJob, plan: str) -> list[dict[str, Any]]:
    """Records with the parts that a job leaves, all of them empty."""
    pools = {"long_tail": {}, "balanced": {}}
    return [
        training_records.record(job.config, *astuple(run), plan=plan, probes=pools)
        | ({"analysis": {}} if run.realization in job.analyzed else {})
        | ({"ended": {}} if run.realization in job.ended else {})
        | ({"trajectory": {}} if job.gradient_epochs else {})
        for run in job.runs
    ]


def test_records_of_other_plans_count(tmp_path: Path) -> None:
    """What power trained is not left to official; what official trained lacks what power asks."""
    for job in PLANS["power"].jobs():
        append(tmp_path / "power.jsonl", left_by(job, "power"))
    rows = {name: row for name, *row in standing(Records.read(tmp_path))}
    assert rows["power"][1:] == ["36 of 36", "nothing"]
    assert rows["official"][1:] == ["6 of 6", "nothing"]
    assert unfinished(Records.read(tmp_path)) == set(PLANS) - {"power", "official"}
    said: list[str] = []
    for dry_run in (True, False):
        options = {"dry_run": dry_run, "say": said.append}
        assert run.run_plan("official", *places(tmp_path), **options) == 0
    assert said == [
        *("official: 2 of 2 jobs have their records", "cifar10-if100: 3 of 3 records, done"),
        *("cifar100-if100: 3 of 3 records, done", "official: 2 of 2 jobs have their records"),
    ]
    assert [p.name for p in tmp_path.iterdir()] == ["power.jsonl"]
    (tmp_path / "power.jsonl").unlink()
    for job in PLANS["official"].jobs():
        append(tmp_path / "official.jsonl", left_by(job, "official"))
    left = unfinished(Records.read(tmp_path))
    assert "power" in left and "official" not in left


@pytest.mark.parametrize("part", ["analysis", "ended", "trajectory", "probes"])
def test_a_record_that_lacks_a_part_is_missing(part: str) -> None:
    both = (Run("native", 0.0, 0), Run("temperature", 0.0, 0))
    job = PlannedJob("one", tiny_config(), both, (1,), ended=("native",))
    whole, other = left_by(job, "main")
    assert missing([job], Records([whole, other])) == []
    del whole[part]
    (left,) = missing([job], Records([whole, other]))
    assert left.runs == both[:1]
    # Nothing that was not asked for is missed.
    plain = PlannedJob("one", tiny_config(), both, analyzed=())
    assert bool(missing([plain], Records([whole, other]))) == (part == "probes")


def test_probes_of_the_balanced_set() -> None:
    """A plan has them where it has the images; of a training beside the plans they are asked."""
    job = PlannedJob("one", tiny_config(), (Run(),))
    (made,) = left_by(job, "main")
    del made["probes"]["balanced"]
    assert missing([job], Records([made])) == []
    del made["plan"]
    assert missing([job], Records([made])) == [job]


def test_parts_of_a_job_have_folders_of_their_own() -> None:
    """Every choice of runs its own, whatever kinds and seeds it has, and again the same."""
    job = PLANS["main"].jobs((0, 1))[0]
    parts = [
        tuple(r for k, r in enumerate(job.runs) if choice >> k & 1)
        for choice in range(1, 2 ** len(job.runs))
    ]
    names = [run._folder(replace(job, runs=runs), job) for runs in parts]
    assert len(parts) == 255 == len(set(names)) and names[-1] == "cifar10-if10"
    turned = [run._folder(replace(job, runs=runs[::-1]), job) for runs in parts[:-1]]
    assert turned == names[:-1]
    more = PLANS["main"].jobs((3, 4))[0]
    assert run._folder(more, job) not in names
    # This name is that of folders which wait to be continued.
    assert names[0] == "cifar10-if10-40d5eceb0987"


def test_unknown_plan(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected a plan, one of main, .*, got 'all'"):
        run.run_plan("all", tmp_path)
