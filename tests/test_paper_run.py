"""Plans, their runner on a few small images, frozen summaries, and the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from resultant import cli, reproduce
from resultant.frozen import FrozenSpace, analyze_space
from resultant.paper import ARTEFACTS, run
from resultant.paper.plan import PLANS, Plan, PlannedJob, estimate
from resultant.paper.records import Records, read_lines
from resultant.paper.summary import QUESTIONS, summaries, summarize
from resultant.presets import Run
from tiny_cifar import tiny_cifar, tiny_config

# Sizes of the long-tailed subsets, IF 10, 50 and 100.
SIZES = {"cifar10": (20_431, 13_996, 12_406), "cifar100": (19_573, 12_608, 10_847)}


def test_main_plan() -> None:
    jobs = PLANS["main"].jobs()
    assert [len(job.runs) for job in jobs] == [12] * 6
    images = [size // 256 * 256 for sizes in SIZES.values() for size in sizes]
    assert [job.views for job in jobs] == [12 * 200 * 2 * n for n in images]
    minutes = sum(job.views for job in jobs) * 5 / 60e6
    assert f"6 jobs, 72 runs, 428 million views at 5.0 us a view: {minutes:.0f}" in estimate(
        jobs, 5
    )
    assert {run.seed for job in PLANS["main"].jobs((7,)) for run in job.runs} == {7}


def test_other_plans() -> None:
    numbers = {name: sum(len(job.runs) for job in plan.jobs()) for name, plan in PLANS.items()}
    assert numbers == {
        "main": 72,
        "joint": 24,
        "controls": 74,
        "power": 12,
        "official": 4,
        "failure": 2,
        "beyond": 24,
    }
    for job in PLANS["power"].jobs():
        assert job.config.family == "power" and job.config.views == 3
        assert [(r.realization, r.beta) for r in job.runs] == [
            ("native", 0.0),
            ("temperature", 0.5),
            ("temperature", 1.5),
        ]
    uniform = [job for job in PLANS["controls"].jobs() if "-u-" in job.name]
    assert {job.config.prior for job in uniform} == {0.0}
    for plan in PLANS.values():
        names = [job.name for job in plan.jobs()]
        assert len(set(names)) == len(names)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan of two jobs on tiny images in the place of power."""

    def make(seeds: Any) -> Any:
        runs = tuple(Run("native", 0.0, seed) for seed in seeds)
        yield PlannedJob("plain", tiny_config(), runs, (1, 2, 50))
        both = (*runs, *(Run("temperature", 0.5, seed) for seed in seeds))
        yield PlannedJob("power", tiny_config(objective="joint", family="power"), both)

    plan = Plan("power", "", (0,), make)
    monkeypatch.setattr(run, "plan", lambda name: plan)
    monkeypatch.setattr(run, "load_cifar", lambda name, root: tiny_cifar(size=8))


@pytest.mark.usefixtures("small")
def test_run_plan(tmp_path: Path) -> None:
    said: list[str] = []
    places = (tmp_path, tmp_path / "out", tmp_path / "results", "cpu")
    assert run.run_plan("power", *places, say=said.append) == 2
    assert "2 jobs, 3 runs" in said[1]
    path = tmp_path / "results" / "power.jsonl"
    plain, native, hot = records = read_lines(path)
    assert [r["plan"] for r in records] == ["power"] * 3
    assert all(
        r["us_a_view"] > 0 and set(r["probes"]) == {"long_tail", "balanced"} for r in records
    )
    # Frozen summaries are of native networks of contrastive training.
    assert [("analysis" in r) for r in records] == [True, False, False]
    for space in ("encoder", "projection"):
        for estimator in ("proco", "mle"):
            found = plain["analysis"][space][estimator]["accuracy"]
            assert found == pytest.approx(plain["frozen"][space][estimator], abs=1e-12)
    assert plain["trajectory"]["epoch"] == [1, 2]
    assert all(v > 0 for v in plain["trajectory"]["gradient_error"])
    assert plain["trajectory"]["gain_sd"][-1] == plain["last"]["gain_sd"]
    for record in (native, hot):
        assert set(record["increments"]) == {"reduced", "increased"}
        assert all(0 < v < 1000 for v in record["increments"].values())
    # What has its records is not trained again.
    before = path.read_bytes()
    assert run.run_plan("power", *places, say=said.append) == 0
    assert path.read_bytes() == before
    # A job whose records are lost comes back from its last checkpoint as it was.
    path.write_text("".join(json.dumps(r) + "\n" for r in (native, hot)))
    assert run.run_plan("power", *places, say=said.append) == 1
    again = Records(read_lines(path)).seeds(tiny_config())[0]
    assert again["probes"] == plain["probes"] and again["analysis"] == plain["analysis"]
    # A job is complete when all of its runs are.
    jobs = run.plan("power").jobs()
    assert run.missing(jobs, Records([plain, native])) == jobs[1:]
    assert run.missing(jobs, Records([plain, native, hot])) == []
    with pytest.raises(ValueError, match=r"expected jobs of power \(plain, power\), got other"):
        run.run_plan("power", *places, only=("other",))


def test_unknown_plan(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected a plan, one of main, .*, got 'all'"):
        run.run_plan("all", tmp_path)


def test_summaries() -> None:
    """The summary says what the analysis does, in types that JSON has."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(6, 12, generator=generator)
    labels, queries = torch.arange(240) % 6, torch.arange(90) % 6
    train, test = (
        centres[y] + 0.7 * torch.randn(len(y), 12, generator=generator) for y in (labels, queries)
    )
    found = summaries({"encoder": train}, labels, {"encoder": test}, queries)["encoder"]["mle"]
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    space = FrozenSpace.fit(train, labels, test, queries, estimator="mle")
    a = analyze_space(space, QUESTIONS)
    assert a.grid and a.cosine and a.gradients and a.boundaries and a.margins
    assert found["accuracy"]["angular"] == a.grid.point("angular").accuracy
    assert found["grid"]["temperature 0.5 -1"] == a.grid.point("temperature", 0.5, -1).accuracy
    assert found["cosine"]["certified"] == a.cosine.certified
    assert found["gradients"]["gradient_error"] == a.gradients.gradient_error
    leading = a.boundaries.predicted["joint_leading"]
    assert found["boundaries"]["joint_leading"]["mae"] == leading.mean_absolute_degrees
    assert found["margins"]["coverage"] == a.margins.coverage
    assert set(summarize(analyze_space(space, ()))) == {"tau", "estimator"}


FEW = ("angular-training", "training-hyperparameters", "softmax-coupling")


def test_all_writes_text_and_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = {name: ARTEFACTS[name] for name in FEW}
    monkeypatch.setattr(reproduce, "ARTEFACTS", few)
    monkeypatch.setattr(reproduce, "claims", lambda evidence: [])
    out, text = tmp_path / "page", tmp_path / "R.md"
    call = ["reproduce", "all", "--results", str(tmp_path / "none"), "--out", str(out)]
    assert cli.main([*call, "--text", str(text)]) == 0
    written = text.read_text()
    assert "from 0 records" in written and "86.28 ± 0.09 / no record" in written
    html = (out / "index.html").read_text()
    assert "tab:angular-training" in html and html.count("<svg") == 2
    assert "prefers-color-scheme: dark" in html and "http://" not in html.replace(
        "http://www.w3", ""
    )
    results = json.loads((out / "results.json").read_text())
    assert set(results["artefacts"]) == set(FEW)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["R.md", "page"]


def test_one_and_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = {name: ARTEFACTS[name] for name in (*FEW[:2], "cross-backbone")}
    monkeypatch.setattr(reproduce, "ARTEFACTS", few)
    where = ["--results", str(tmp_path), "--out", str(tmp_path / "out")]
    assert cli.main(["reproduce", "list", *where]) == 0
    shown = capsys.readouterr().out
    for part in (
        "not run yet",
        "needs data we may not ship",
        "resultant import-proco",
        "plan main",
    ):
        assert part in shown
    assert cli.main(["reproduce", "tab:angular-training", *where]) == 0
    assert "87.10 ± 0.06" in capsys.readouterr().out
    assert (tmp_path / "out" / "angular-training-changes.png").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tab-1"], "expected one of list, all, claims, run PLAN, angular-training"),
        (["run"], "expected run and one plan (main, joint"),
        (["list", "--store", "imagenet-lt"], "expected --store NAME=FILE, got 'imagenet-lt'"),
        (["list", "--store", "imagenet-lt=none"], "expected a feature store, got nothing at none"),
    ],
)
def test_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["reproduce", *arguments]) == 2
    assert message in capsys.readouterr().err
