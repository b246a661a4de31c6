"""``resultant reproduce``: what it writes, shows and refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from resultant import cli, records, reproduce
from resultant.paper import ARTEFACTS
from resultant.paper.plan import controlled
from training_records import record

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
    # How numbers are read, what is left to run and the commands for foreign data are there too.
    for part in ("number of seeds in brackets", "Left to run", "resultant probe out/imagenet"):
        assert part in html
    assert "Representation accuracy after contrastive-only training: not run yet." in html
    assert "| main | tab:angular-training and the frozen tables | 0 of 72 |" in written
    results = json.loads((out / "results.json").read_text())
    assert set(results["artefacts"]) == set(FEW)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["R.md", "page"]


def test_records_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever says something of plans or of numbers has them from there; those that are brought
    are in numbers, and not among what plans have done."""
    few = {name: ARTEFACTS[name] for name in FEW[:2]}
    monkeypatch.setattr(reproduce, "ARTEFACTS", few)
    monkeypatch.setattr(reproduce, "claims", lambda evidence: [])
    asked, read = [], records.read_lines

    def reading(path: Path) -> list[records.Record]:
        asked.append(path.name)
        return read(path)

    monkeypatch.setattr(records, "read_lines", reading)
    trainings = [record(controlled("cifar10", 100), "native", 0.0, seed) for seed in (0, 1)]
    probes = {"long_tail": {"encoder": {"accuracy": 0.5}}, "balanced": {}}
    ours, brought = ([made | {"probes": probes, "analysis": {}}] for made in trainings)
    records.append(tmp_path / "results" / "main.jsonl", ours)
    records.append(tmp_path / "brought.jsonl", brought)
    where = ["--results", str(tmp_path / "results"), "--out", str(tmp_path / "page")]
    more = ["--records", str(tmp_path / "brought.jsonl"), "--text", str(tmp_path / "R.md")]
    asked.clear()
    assert cli.main(["reproduce", "all", *where, *more]) == 0
    assert asked.count("main.jsonl") == 1
    written = (tmp_path / "R.md").read_text()
    assert "from 1 records" in written and "68.24 ± 0.16 / 50.00 ± 0.00 [2 of 3]" in written
    assert "| main | tab:angular-training and the frozen tables | 1 of 72 |" in written
    asked.clear()
    assert cli.main(["reproduce", "list", *where]) == 0
    assert asked == ["main.jsonl"]


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
        "plans",
        "0 of 72",
    ):
        assert part in shown
    assert re.search(r"reproduce run PLAN trains what has no record yet", shown)
    assert cli.main(["reproduce", "run", "official", "--dry-run", *where]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"cifar100-if100: 0 of 3 records, \d+ minutes", shown)
    assert cli.main(["reproduce", "tab:angular-training", *where]) == 0
    assert "87.10 ± 0.06" in capsys.readouterr().out
    assert (tmp_path / "out" / "angular-training-changes.png").exists()


@pytest.mark.parametrize("left", [0, 2])
def test_exit_of_a_plan(left: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One if its time was over before it."""
    monkeypatch.setattr("resultant.paper.run.run_plan", lambda *places, **options: left)
    call = ["reproduce", "run", "main", "--device", "cpu", "--data", str(tmp_path)]
    assert cli.main(call) == int(left > 0)
    assert cli.main([*call, "--dry-run"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tab-1"], "expected one of list, all, claims, run PLAN, angular-training"),
        (["run"], "expected run and one plan (main, joint"),
        (["list", "--records", "none.jsonl"], "records or of probes, got nothing at none.jsonl"),
        (["guide", "--seeds", "3"], "expected --seeds after run and a plan, got guide"),
        (
            ["--dry-run", "--minutes", "3"],
            "expected --minutes, --dry-run after run and a plan, got",
        ),
        (["list", "--store", "imagenet-lt"], "expected --store NAME=FILE, got 'imagenet-lt'"),
        (["list", "--store", "imagenet-lt=none"], "expected a feature store, got nothing at none"),
    ],
)
def test_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["reproduce", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_records_that_come_with_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stand for the usual folder where that is not there, and for no other."""
    ours = tmp_path / "package" / "resources" / "results"
    ours.mkdir(parents=True)
    monkeypatch.setattr(reproduce, "__file__", str(tmp_path / "package" / "reproduce.py"))
    monkeypatch.chdir(tmp_path)
    assert reproduce.records_folder(Path("results")) == ours
    assert reproduce.records_folder(Path("other")) == Path("other")
    Path("results").mkdir()
    assert reproduce.records_folder(Path("results")) == Path("results")
    ours.rmdir()
    Path("results").rmdir()
    assert reproduce.records_folder(Path("results")) == Path("results")
