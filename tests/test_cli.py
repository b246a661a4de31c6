"""The command line: help, errors of one line, exit statuses, and a run of ``verify``."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import resultant
from resultant import cli
from resultant.verify import CHECKS, Check


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A command whose function is set by the test."""
    module = ModuleType("told")
    monkeypatch.setitem(sys.modules, "told", module)
    monkeypatch.setitem(cli.COMMANDS, "tell", cli.Command("told:tell", "for this test"))
    return module


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    for name, command in cli.COMMANDS.items():
        assert re.search(rf"^  {name} +{command.summary}$", shown, re.MULTILINE)
    # Without a command there is nothing to do, which is a mistake.
    assert cli.main([]) == 2


@pytest.mark.parametrize("argument", ["--help", "--version", "dance"])
def test_help_imports_no_command(argument: str) -> None:
    heavy = ("torch", "numpy", "tyro", "rich", "matplotlib", "resultant.verify")
    code = (
        f"import sys; from resultant.cli import main; main(['{argument}']);"
        f"print(*(m for m in {heavy} if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == ""


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_targets_exist(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([name, "--help"]) == 0
    assert f"resultant {name}" in capsys.readouterr().out


def test_module_runs() -> None:
    call = [sys.executable, "-m", "resultant"]
    done = subprocess.run([*call, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == resultant.__version__
    done = subprocess.run([*call, "dance"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("resultant: expected a command, one of verify")
    assert done.stderr.endswith("got 'dance'\n") and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("expected kappa >= 0,\n  got -3"), "resultant: expected kappa >= 0, got -3\n"),
        (FileNotFoundError(2, "No such file", "a.json"), "resultant: expected a file, got noth"),
        (FileNotFoundError("no features in x"), "resultant: no features in x\n"),
    ],
)
def test_errors_are_one_line(
    told: Any, error: Exception, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def tell() -> None:
        raise error

    told.tell = tell
    assert cli.main(["tell"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith(message) and shown.count("\n") == 1


def test_other_errors_are_not_hidden(told: Any) -> None:
    def tell() -> None:
        raise ZeroDivisionError

    told.tell = tell
    with pytest.raises(ZeroDivisionError):
        cli.main(["tell"])


def test_interrupt(told: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def tell() -> None:
        raise KeyboardInterrupt

    told.tell = tell
    assert cli.main(["tell"]) == 130
    assert capsys.readouterr().err == "resultant: interrupted\n"


@pytest.mark.parametrize(("world_size", "speaker"), [("1", ""), ("2", "rank 1: ")])
def test_processes_say_which_they_are(
    world_size: str,
    speaker: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("WORLD_SIZE", world_size)
    monkeypatch.setenv("RANK", "1")
    assert cli.main(["dance"]) == 2
    assert capsys.readouterr().err.startswith(f"resultant: {speaker}expected a command")


def test_processes_of_torchrun_say_which_they_are() -> None:
    call = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    call += ["-m", "resultant", "dance"]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    # The first to fail ends the other, which may have been silent until then.
    said = re.findall(r"resultant: (rank [01]: )?expected a command", done.stderr)
    assert said and "" not in said and len(said) == len(set(said)), done.stderr


def test_arguments_and_status(told: Any) -> None:
    def tell(number: int, loud: bool = False) -> int | None:
        return number if loud else None

    told.tell = tell
    assert cli.main(["tell", "--number", "7"]) == 0
    assert cli.main(["tell", "--number", "7", "--loud"]) == 7
    assert cli.main(["tell", "--number", "many"]) == 2


def test_missing_extras(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert cli.main(["verify"]) == 2
    assert "expected tyro and rich: pip install resultant[cli]" in capsys.readouterr().err
    # Help does without them.
    assert cli.main(["--help"]) == 0


def test_verify_writes_table_numbers_and_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "deep" / "out"
    names = ["failure-state", "ratio-remainder"]
    assert cli.main(["verify", "--out", str(out), "--only", *names]) == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("claim", "paper", "ours", "verdict", "holds"))
    assert "all 2 hold" in shown and "Arb" in shown
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
        return Check("wrong", "eq:none", "two is one", "1", "2", False, details, note="a note")

    monkeypatch.setitem(CHECKS, "wrong", wrong)
    call = ["verify", "--out", str(tmp_path), "--no-figures", "--only", "wrong", "leading-gain"]
    assert cli.main([*call, "--strict"]) == 1
    shown = capsys.readouterr().out
    assert "1 of 2 do not hold: wrong" in shown and "a note" in shown
    # A finding, and no failure of the command.
    assert cli.main(call) == 0
    record = json.loads((tmp_path / "verify.json").read_text())
    assert record["holds"] is False
    assert record["checks"][1]["details"] == {"bad": None, "far": "inf"}


def test_verify_interrupted_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def slow() -> Check:
        raise KeyboardInterrupt

    monkeypatch.setitem(CHECKS, "slow", slow)
    assert cli.main(["verify", "--out", str(tmp_path), "--only", "slow"]) == 130
    assert capsys.readouterr().err == "resultant: interrupted\n"
    assert not list(tmp_path.iterdir())


def test_verify_refuses_before_any_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert cli.main(["verify", "--out", str(tmp_path / "file")]) == 2
    assert "expected --out to be a folder, got a file" in capsys.readouterr().err
    assert cli.main(["verify", "--only", "nothing", "--out", str(tmp_path / "new")]) == 2
    assert "got 'nothing'" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
