"""``resultant reproduce`` and ``resultant verify``: what they write, show and refuse."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import resultant
from resultant.cli import main as cli
from resultant_reproduction import ITEMS, Records
from resultant_reproduction.pages import compute as items
from resultant_reproduction.pages.document import PAGES
from resultant_reproduction.recipes import records
from resultant_reproduction.runs import records as paper_records
from resultant_reproduction.runs.items import catalog, describe
from resultant_reproduction.runs.plans import PLANS, controlled
from resultant_reproduction.theory import CHECKS, Check
from training_records import left_by, record

Shown = pytest.CaptureFixture[str]


@pytest.mark.slow
@pytest.mark.usefixtures("evidence")  # On its worker the theory is known.
def test_all_writes_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page and its figure for each item, and an index; records are read once."""
    few = ("angular-training", "training-hyperparameters", "softmax-coupling")
    monkeypatch.setattr(items, "ITEMS", {name: ITEMS[name] for name in few})
    asked, read = [], records.read_lines

    def reading(path: Path) -> list[records.Record]:
        asked.append(path.name)
        return read(path)

    monkeypatch.setattr(records, "read_lines", reading)
    probes = {"long_tail": {"encoder": {"accuracy": 0.5}}, "balanced": {}}
    for seed, name in enumerate(("results/main.jsonl", "added.jsonl")):
        own = record(controlled("cifar10", 100), "native", 0.0, seed, probes=probes, analysis={})
        records.append(tmp_path / name, [own])
    out = tmp_path / "pages"
    call = ["reproduce", "all", "--results", str(tmp_path / "results"), "--out", str(out)]
    call += ["--text", str(tmp_path / "REPRODUCTION.md")]
    call += ["--records", str(tmp_path / "added.jsonl")]
    asked.clear()
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
def test_one_and_list(tmp_path: Path, capsys: Shown) -> None:
    where = ["--results", str(tmp_path), "--out", str(tmp_path / "out")]
    sentence = "reproduce run PLAN trains the runs of a plan without complete records"
    parts = (
        "Table 1",
        "table-01",
        "not run yet",
        "needs data we may not ship",
        "resultant import-proco",
        "plans",
    )
    for what, expected in (
        (["list"], (*parts, "0 of 72", sentence)),
        (["run", "official", "--dry-run"], ("cifar100-if100: 0 of 3 records, 1 job, 3 runs",)),
        (["table-1"], ("87.10 ± 0.06",)),
    ):
        assert cli.main(["reproduce", *what, *where]) == 0
        shown = capsys.readouterr().out
        assert [part for part in expected if part not in shown] == []
    assert (tmp_path / "out" / "table-01.svg").exists()
    # Records that nothing asks for are counted.
    odd, asked = (
        record(controlled("cifar10", imbalance, objective="joint"), "native", 0.0, 7)
        for imbalance in (20, 100)
    )
    path = tmp_path / "out" / "own.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in (odd, asked)))
    assert cli.main(["reproduce", "joint-fc", "--records", str(path), *where[2:]]) == 0
    text = "1 of the 2 records of --records (cifar10 native) are from trainings that no table or"
    assert text in " ".join(capsys.readouterr().out.split())


def test_overview() -> None:
    """Status and missing steps of items from the progress of plans."""
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
    assert (status, steps[:18]) == ("needs data we may not ship", "ImageNet-LT images")


@pytest.mark.slow
def test_list_does_not_load_torch(tmp_path: Path) -> None:
    """It answers at once."""
    code = (
        "import sys; from resultant.cli.main import main; assert main(['reproduce', 'list']) == 0;"
        "sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("table-99", "or names that reproduce list shows, got 'table-99'; table-"),
        ("run", "expected run and one plan (main, joint"),
        ("run main --data nowhere", "main has them all. To train it anew, name a new folder: "),
        ("table-01 --records none.jsonl", "records or of probes, got nothing at none.jsonl"),
        ("baseline --seeds 3", "expected --seeds after run and a plan, got baseline"),
        ("--dry-run --minutes 3", "expected --minutes, --dry-run after run and a plan, got"),
        ("table-01 --store imagenet-lt", "expected --store NAME=PATH, got 'imagenet-lt'"),
        ("table-01 --store imagenet-lt=none", "expected a feature store, got nothing at none"),
        ("list --results none", "a folder of records at --results, got nothing at none"),
        (f"claims --results {__file__}", "records at --results, got a file at "),
        (f"joint-fc --out {__file__}/a", "expected --out to be a folder, got a file: "),
    ],
)
def test_refused(arguments: str, message: str, capsys: Shown) -> None:
    assert cli.main(["reproduce", *arguments.split()]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_records_that_come_with_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Shown
) -> None:
    """Packaged records count with the records of the default folder, for the list and for a plan,
    and with no other folder."""
    ours, own = tmp_path / "package" / "packaged" / "results", tmp_path / "results"
    monkeypatch.setattr(
        paper_records, "__file__", str(tmp_path / "package" / "runs" / "records.py")
    )
    monkeypatch.chdir(tmp_path)
    jobs = PLANS["members"].jobs()

    def done(*more: str) -> tuple[str, str]:
        """Return the reports of both commands about the plan."""
        assert cli.main(["reproduce", "list", *more]) == 0
        (row,) = re.findall(r"^│ members.*", capsys.readouterr().out, flags=re.M)
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
    root, usual = tmp_path / "checkout", Path("results")
    monkeypatch.setattr(paper_records, "__file__", str(root / "resultant" / "runs" / "records.py"))
    monkeypatch.chdir(tmp_path)
    assert paper_records.folders(usual) == [usual]
    (root / "results").mkdir(parents=True)
    assert paper_records.folders(usual) == [root / "results", usual]
    assert paper_records.folders(Path("other")) == [Path("other")]
    monkeypatch.chdir(root)
    assert paper_records.folders(usual) == [root / "results"]


@pytest.mark.slow
def test_verify_writes_table_numbers_and_figures(tmp_path: Path, capsys: Shown) -> None:
    out, names = tmp_path / "deep" / "out", ["failure-state", "prior-reversal"]
    assert cli.main(["verify", "--out", str(out), "--only", *names]) == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("claim", "paper", "ours", "verdict", "holds"))
    assert "all 2 hold" in shown and "Arb" in shown
    # Without a terminal there is no bar, and the table is wide enough for labels.
    assert shown.startswith("┏") and "failure-state, sec:same-state-diagnostic" in shown
    result = json.loads((out / "verify.json").read_text())
    assert result["holds"] is True
    assert result["versions"]["resultant"] == resultant.__version__
    # In the order of the paper.
    assert [check["name"] for check in result["checks"]] == names[::-1]
    assert result["checks"][1]["details"]["values"]["A"]["paper"] == 0.04244
    # The other check has no figure.
    files = {"prior-reversal.pdf", "prior-reversal.png", "verify.json"}
    assert {f.name for f in out.iterdir()} == files


def test_verify_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Shown) -> None:
    details = {"bad": float("nan"), "far": float("inf")}
    wrong = Check("2", False, details, name="wrong", note="a note")
    monkeypatch.setitem(CHECKS, "wrong", lambda: wrong)
    monkeypatch.setitem(CHECKS, "unsettled", lambda: Check("2", None, name="unsettled"))
    call = ["verify", "--out", str(tmp_path), "--no-figures", "--only", "unsettled"]
    assert cli.main([*call, "--strict"]) == 0
    assert "1 of 1 not settled: unsettled" in capsys.readouterr().out
    call += ["wrong", "leading-gain"]
    assert cli.main([*call, "--strict"]) == 1
    shown = capsys.readouterr().out
    assert "1 of 3 do not hold: wrong" in shown and "a note" in shown
    assert "1 of 3 not settled: unsettled" in shown and shown.count("not settled") == 2
    # Without --strict a claim that does not hold is a result, not a failure.
    assert cli.main(call) == 0
    result = json.loads((tmp_path / "verify.json").read_text())
    assert result["holds"] is False
    assert result["checks"][1]["details"] == {"bad": None, "far": "inf"}


def test_verify_refuses_before_any_work(tmp_path: Path, capsys: Shown) -> None:
    (tmp_path / "file").write_text("")
    other = f"to be a new folder or one of verify, got another file: {tmp_path / 'file'}\n"
    for arguments, message in (
        (["--out", str(tmp_path / "file")], "expected --out to be a folder, got a file"),
        (["--only", "nothing", "--out", str(tmp_path / "new")], "got 'nothing'"),
        # A folder with other files is not filled.
        (["--out", str(tmp_path)], other),
    ):
        assert cli.main(["verify", *arguments]) == 2
        assert message in capsys.readouterr().err
        assert [path.name for path in tmp_path.iterdir()] == ["file"]
    # Figures of an interrupted call and files next to verify.json are no obstacle.
    (tmp_path / "file").rename(tmp_path / "ratio-remainder.pdf")
    call = ["verify", "--out", str(tmp_path), "--only", "failure-state", "--no-figures"]
    assert cli.main(call) == 0
    (tmp_path / "notes.txt").touch()
    assert cli.main(call) == 0
