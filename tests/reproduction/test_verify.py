"""``resultant verify``: files, exit statuses and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import resultant
from resultant.cli import main as cli
from resultant_reproduction.theory import CHECKS, Check


@pytest.mark.slow
def test_verify_writes_table_numbers_and_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "deep" / "out"
    names = ["failure-state", "ratio-remainder"]
    assert cli.main(["verify", "--out", str(out), "--only", *names]) == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("claim", "paper", "ours", "verdict", "holds"))
    assert "all 2 hold" in shown and "Arb" in shown
    # Without a terminal there is no bar, and the table is wide enough for labels.
    assert shown.startswith("┏") and "failure-state, sec:same-state-diagnostic" in shown
    record = json.loads((out / "verify.json").read_text())
    assert record["holds"] is True
    assert record["versions"]["resultant"] == resultant.__version__
    # In the order of the paper.
    assert [check["name"] for check in record["checks"]] == names[::-1]
    assert record["checks"][1]["details"]["values"]["A"]["paper"] == 0.04244
    files = {f"{name}.{suffix}" for name in names for suffix in ("pdf", "png")}
    assert {f.name for f in out.iterdir()} == files | {"verify.json"}


def test_verify_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong() -> Check:
        details = {"bad": float("nan"), "far": float("inf")}
        return Check("2", False, details, name="wrong", note="a note")

    def unsettled() -> Check:
        return Check("2", None, name="unsettled")

    monkeypatch.setitem(CHECKS, "wrong", wrong)
    monkeypatch.setitem(CHECKS, "unsettled", unsettled)
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
    record = json.loads((tmp_path / "verify.json").read_text())
    assert record["holds"] is False
    assert record["checks"][1]["details"] == {"bad": None, "far": "inf"}


def test_verify_refuses_before_any_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert cli.main(["verify", "--out", str(tmp_path / "file")]) == 2
    assert "expected --out to be a folder, got a file" in capsys.readouterr().err
    assert cli.main(["verify", "--only", "nothing", "--out", str(tmp_path / "new")]) == 2
    assert "got 'nothing'" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
    # A folder with other files is not filled.
    assert cli.main(["verify", "--out", str(tmp_path)]) == 2
    message = f"to be a new folder or one of verify, got another file: {tmp_path / 'file'}\n"
    assert capsys.readouterr().err.endswith(message)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    # Figures of an interrupted call and files next to verify.json are no obstacle.
    (tmp_path / "file").rename(tmp_path / "ratio-remainder.pdf")
    call = ["verify", "--out", str(tmp_path), "--only", "failure-state", "--no-figures"]
    assert cli.main(call) == 0
    (tmp_path / "notes.txt").touch()
    assert cli.main(call) == 0
