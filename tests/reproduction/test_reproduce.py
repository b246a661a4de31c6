"""``resultant reproduce``: what it writes, shows and refuses."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from resultant.cli import main as cli
from resultant.training import records
from resultant_reproduction import ARTEFACTS, Records, artefacts
from resultant_reproduction import records as paper_records
from resultant_reproduction.catalog import catalog, describe
from resultant_reproduction.document import PAGES
from resultant_reproduction.plan import PLANS, controlled
from training_records import left_by, record

FEW = ("angular-training", "training-hyperparameters", "softmax-coupling")


@pytest.mark.slow
def test_all_writes_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page and its figure for each artefact, and an index; records are read once."""
    monkeypatch.setattr(artefacts, "ARTEFACTS", {name: ARTEFACTS[name] for name in FEW})
    asked, read = [], records.read_lines

    def reading(path: Path) -> list[records.Record]:
        asked.append(path.name)
        return read(path)

    monkeypatch.setattr(records, "read_lines", reading)
    trainings = [record(controlled("cifar10", 100), "native", 0.0, seed) for seed in (0, 1)]
    probes = {"long_tail": {"encoder": {"accuracy": 0.5}}, "balanced": {}}
    ours, added = ([built | {"probes": probes, "analysis": {}}] for built in trainings)
    records.append(tmp_path / "results" / "main.jsonl", ours)
    records.append(tmp_path / "added.jsonl", added)
    out = tmp_path / "pages"
    where = ["--results", str(tmp_path / "results"), "--out", str(out)]
    where += ["--text", str(tmp_path / "REPRODUCTION.md")]
    asked.clear()
    call = ["reproduce", "all", *where, "--records", str(tmp_path / "added.jsonl")]
    assert cli.main(call) == 0 and asked.count("main.jsonl") == 1
    files = ["README.md", "figure-08.md", "figure-08.svg", "table-01.md", "table-01.svg"]
    document = {"forest.svg", "headline.json", *(f"{name}.md" for name in PAGES)}
    assert {path.name for path in out.iterdir()} == {*files, "table-16.md", *document}
    assert "no runs" in (tmp_path / "REPRODUCTION.md").read_text()
    text = (out / "table-01.md").read_text()
    assert text.startswith("# Table 1: Representation accuracy") and "![" in text
    assert "68.24 ± 0.16 / 50.00 ± 0.00 [2 of 3]" in text and "86.28 ± 0.09 / no record" in text
    index = (out / "README.md").read_text()
    assert all(f"({name})" in index for name in ("table-01.md", "table-16.md", "figure-08.md"))


@pytest.mark.slow
def test_one_and_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--results", str(tmp_path), "--out", str(tmp_path / "out")]
    assert cli.main(["reproduce", "list", *where]) == 0
    shown = capsys.readouterr().out
    for part in (
        "not run yet",
        "needs data we may not ship",
        "resultant import-proco",
        "plans",
        "0 of 72",
    ):
        assert part in shown
    assert "reproduce run PLAN trains the runs of a plan without complete records" in shown
    assert cli.main(["reproduce", "run", "official", "--dry-run", *where]) == 0
    shown = capsys.readouterr().out
    assert "cifar100-if100: 0 of 3 records, 1 job, 3 runs" in shown
    assert cli.main(["reproduce", "tab:angular-training", *where]) == 0
    assert "87.10 ± 0.06" in capsys.readouterr().out
    assert (tmp_path / "out" / "table-01.svg").exists()


@pytest.mark.slow
def test_records_that_nothing_asks_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd, asked = (
        record(controlled("cifar10", imbalance, objective="joint"), "native", 0.0, 7)
        for imbalance in (20, 100)
    )
    path = tmp_path / "own.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in (odd, asked)))
    call = ["reproduce", "joint-fc", "--records", str(path), "--out", str(tmp_path / "out")]
    assert cli.main(call) == 0
    text = "1 of the 2 records of --records (cifar10 native) are from trainings that no table or"
    assert text in " ".join(capsys.readouterr().out.split())


def test_overview() -> None:
    """Status and missing steps of artefacts from the progress of plans."""
    progress: dict[str, tuple[int, int]] = dict.fromkeys(PLANS, (6, 6))
    some, see = "some numbers need data we may not ship", "ImageNet-LT images, see below"
    run_joint = "resultant reproduce run joint, "
    for name, joint, status, steps in (
        ("c10-if1-u", 6, "rerun", ""),
        ("joint-validation", 6, "rerun", ""),
        ("joint-fc", 6, f"partly rerun ({some})", see),
        ("joint-fc", 2, f"partly rerun (2 of 6 runs; {some})", run_joint + see),
        ("joint-fc", 0, "not run yet", run_joint + see),
    ):
        assert describe(catalog()[name], progress | {"joint": (joint, 6)}) == (status, steps)
    status, steps = describe(catalog()["cross-backbone"], progress)
    assert status == "needs data we may not ship" and steps.startswith("ImageNet-LT images")


@pytest.mark.slow
def test_help_and_list_do_not_load_torch(tmp_path: Path) -> None:
    """They answer at once."""
    code = (
        "import sys; from resultant.cli.main import main;"
        "calls = (['verify', '--help'], ['reproduce', '--help'], ['reproduce', 'list']);"
        "assert [main(call) for call in calls] == [0, 0, 0];"
        "sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table-99"], "or names that reproduce list shows, got 'table-99'; table-"),
        (["run"], "expected run and one plan (main, joint"),
        (
            ["table-01", "--records", "none.jsonl"],
            "records or of probes, got nothing at none.jsonl",
        ),
        (["baseline", "--seeds", "3"], "expected --seeds after run and a plan, got baseline"),
        (
            ["--dry-run", "--minutes", "3"],
            "expected --minutes, --dry-run after run and a plan, got",
        ),
        (["table-01", "--store", "imagenet-lt"], "expected --store NAME=PATH, got 'imagenet-lt'"),
        (
            ["table-01", "--store", "imagenet-lt=none"],
            "expected a feature store, got nothing at none",
        ),
        (["list", "--results", "none"], "a folder of records at --results, got nothing at none"),
        (["claims", "--results", __file__], "records at --results, got a file at "),
        (["joint-fc", "--out", f"{__file__}/a"], "expected --out to be a folder, got a file: "),
    ],
)
def test_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["reproduce", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_records_that_come_with_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Packaged records count with the records of the default folder, for the list and for a plan,
    and with no other folder."""
    ours, own = tmp_path / "package" / "results", tmp_path / "results"
    monkeypatch.setattr(paper_records, "__file__", str(tmp_path / "package" / "records.py"))
    monkeypatch.chdir(tmp_path)
    jobs = PLANS["members"].jobs()

    def done(*more: str) -> tuple[str, str]:
        """Return the reports of both commands about the plan."""
        assert cli.main(["reproduce", "list", *more]) == 0
        (row,) = (
            line for line in capsys.readouterr().out.splitlines() if line.startswith("│ members")
        )
        assert cli.main(["reproduce", "run", "members", "--dry-run", *more]) == 0
        return re.findall(r"\d of 6", row)[0], capsys.readouterr().out.splitlines()[0]

    assert done() == ("0 of 6", "members: 0 of 2 jobs have their records")
    records.append(ours / "members.jsonl", left_by(jobs[0], "members"))
    message = "jobs have their records, in results or packaged"
    assert done() == ("3 of 6", f"members: 1 of 2 {message}")
    records.append(own / "members.jsonl", left_by(jobs[1], "members"))
    assert done() == ("6 of 6", f"members: 2 of 2 {message}")
    assert done("--results", str(own)) == ("3 of 6", "members: 1 of 2 jobs have their records")
    # Of two of the same run the own one, unless ours has more.
    for more, counts in (({}, "own"), ({"analysis": {}}, "ours")):
        for folder, who, extra in ((ours, "ours", more), (own, "own", {})):
            built = [message | {"who": who} | extra for message in left_by(jobs[0], "members")]
            (folder / "members.jsonl").unlink()
            records.append(folder / "members.jsonl", built)
        result = Records.read(*paper_records.folders(Path("results"))).seeds(jobs[0].config)
        assert [message["who"] for message in result.values()] == [counts] * 3


def test_records_of_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records next to the source are read from any directory, and once from inside the checkout."""
    root = tmp_path / "checkout"
    monkeypatch.setattr(
        paper_records, "__file__", str(root / "resultant_reproduction" / "records.py")
    )
    usual, other = Path("results"), Path("other")
    monkeypatch.chdir(tmp_path)
    assert paper_records.folders(usual) == [usual]
    (root / "results").mkdir(parents=True)
    assert paper_records.folders(usual) == [root / "results", usual]
    assert paper_records.folders(other) == [other]
    monkeypatch.chdir(root)
    assert paper_records.folders(usual) == [root / "results"]
