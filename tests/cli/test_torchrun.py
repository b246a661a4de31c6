"""Errors and exit statuses of several processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from resultant.cli import _console
from resultant.cli import main as cli

Shown = pytest.CaptureFixture[str]


class TestTorchrun:
    """Several processes run the same command; an error of all of them appears once."""

    @pytest.mark.parametrize("rank", ["0", "1"])
    @pytest.mark.parametrize("call", [["dance"], ["test", "--numbr", "3"], [], ["test", "--help"]])
    def test_first_process_speaks_for_all(
        self,
        command: Any,
        rank: str,
        call: list[str],
        monkeypatch: pytest.MonkeyPatch,
        capsys: Shown,
    ) -> None:
        waited: list[float] = []
        monkeypatch.setattr("time.sleep", waited.append)
        monkeypatch.setenv("WORLD_SIZE", "2")
        monkeypatch.setenv("RANK", rank)
        helped = call[-1:] == ["--help"]
        assert cli.main(call) == (0 if helped else 2)
        shown = capsys.readouterr()
        assert bool(shown.out) == (helped and rank == "0")
        assert bool(shown.err) == (not helped and rank == "0")
        assert waited == ([_console.PATIENCE] if rank == "1" and not helped else [])

    @pytest.mark.parametrize(
        ("error", "message"),
        [
            (ValueError("expected more"), "expected more"),
            (OSError(28, "No space left"), "No space left"),
            (KeyboardInterrupt(), "interrupted"),
        ],
    )
    @pytest.mark.parametrize("rank", ["0", "1"])
    def test_others_wait_before_they_report_an_error(
        self,
        command: Any,
        rank: str,
        error: BaseException,
        message: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """An interruption is reported at once."""
        order: list[str] = []

        def shown(text: str, **_: Any) -> None:
            order.extend([text] if text else [])

        command.function = Mock(side_effect=error)
        monkeypatch.setattr("time.sleep", lambda seconds: order.append(f"waits {seconds}"))
        monkeypatch.setattr(_console, "print", shown, raising=False)
        monkeypatch.setenv("WORLD_SIZE", "2")
        monkeypatch.setenv("RANK", rank)
        cli.main(["test"])
        waits = [f"waits {_console.PATIENCE}"] if rank == "1" and message != "interrupted" else []
        assert order == [*waits, f"resultant: rank {rank}: {message}"]

    def test_single_process_has_no_rank(
        self, command: Any, monkeypatch: pytest.MonkeyPatch, capsys: Shown
    ) -> None:
        monkeypatch.setenv("WORLD_SIZE", "1")
        monkeypatch.setenv("RANK", "1")
        command.function = Mock(side_effect=ValueError("expected more"))
        assert cli.main(["test"]) == 2
        assert capsys.readouterr().err == "resultant: expected more\n"

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("who", "patience", "speaker"), [("all", "50", "0"), ("1", "0.5", "1")]
    )
    def test_errors_appear_once(
        self, tmp_path: Path, who: str, patience: str, speaker: str
    ) -> None:
        """The first process reports an error of all; another reports its own error."""
        script = tmp_path / "failing.py"
        script.write_text(FAILING)
        jobs = {}
        for rank in ("1", "0"):
            environment = {**os.environ, "RANK": rank, "WORLD_SIZE": "2"}
            call = [sys.executable, str(script), who, patience]
            jobs[rank] = subprocess.Popen(call, stderr=subprocess.PIPE, text=True, env=environment)
        # As torchrun does: the first process that fails ends the others.
        assert jobs[speaker].wait(timeout=60) == 2
        other = jobs["1" if speaker == "0" else "0"]
        other.terminate()
        lines = [
            line for job in jobs.values() for line in job.communicate(timeout=60)[1].splitlines()
        ]
        assert lines == [f"resultant: rank {speaker}: expected more"]
        # Rank 1 waits with its message outside the command; rank 0 is in the command.
        assert other.returncode == (-signal.SIGTERM if speaker == "0" else 143)


# A command that fails, in all processes or in one of them; the first may be busy meanwhile.
FAILING = """
import os, sys, time
from resultant.cli import _console
from resultant.cli import main as cli

def run(arguments):
    if sys.argv[1] not in ("all", os.environ["RANK"]):
        time.sleep(60)
    raise ValueError("expected more")

cli.run = run
_console.PATIENCE = float(sys.argv[2])
sys.exit(cli.main())
"""
