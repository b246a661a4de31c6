"""The command line: help, errors of one line, and exit statuses."""

from __future__ import annotations

import ast
import errno
import inspect
import os
import pty
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import pytest
import tyro

import resultant
from resultant.cli import main as cli
from resultant.training import config as presets

RESULTANT = [sys.executable, "-m", "resultant"]


@dataclass(frozen=True)
class Options:
    """For this test."""

    number: int = 0
    loud: bool = False


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A command whose function is set by the test."""
    module = ModuleType("told")
    module.Options = Options  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "told", module)
    command = cli.Command("told:Options", "told:tell", "for this test")
    monkeypatch.setitem(cli.COMMANDS, "tell", command)
    return module


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    for name, command in cli.COMMANDS.items():
        assert re.search(rf"^  {name} +{command.summary}$", shown, re.MULTILINE)
    assert max(map(len, shown.splitlines()[3:])) <= 60
    # Without a command there is nothing to do, which is a mistake.
    assert cli.main([]) == 2
    again = capsys.readouterr()
    assert (again.out, again.err) == ("", shown)


@pytest.mark.parametrize("argument", ["--help", "--version", "dance"])
def test_help_imports_no_command(argument: str) -> None:
    heavy = ("torch", "numpy", "tyro", "rich", "matplotlib", "resultant_reproduction.theory")
    code = (
        f"import sys; from resultant.cli.main import main; main(['{argument}']);"
        f"print(*(m for m in {heavy} if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == ""


def test_help_of_commands_is_light() -> None:
    """Options are told, completed and refused without torch."""
    calls = [[name, "--help"] for name in cli.COMMANDS]
    calls += [["train", "cifar-official", "--help"], ["--tyro-print-completion", "bash"]]
    calls += [["verify", "--strct"], ["train", "cifar-controlled", "--epochs", "0"]]
    code = (
        f"import sys; from resultant.cli.main import main; codes = [main(c) for c in {calls}];"
        "print(codes, *(m for m in ('torch', 'numpy', 'matplotlib') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    expected = [0] * (len(calls) - 2) + [2, 2]
    assert done.stdout.splitlines()[-1] == str(expected)
    assert "--strict" in done.stderr and "expected epochs >= 1, got 0" in done.stderr


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_targets_exist(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([name, "--help"]) == 0
    assert f"resultant {name}" in capsys.readouterr().out
    (parameter,) = inspect.signature(cli.loaded(cli.COMMANDS[name].target)).parameters.values()
    assert parameter.annotation == cli.loaded(cli.COMMANDS[name].options).__name__


@pytest.mark.parametrize("width", [60, 90])
@pytest.mark.parametrize("name", cli.COMMANDS)
def test_help_fits_the_terminal(
    name: str, width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert cli.main([name, "--help"]) == 0
    # An example is one line, to be copied.
    lines = [line for line in capsys.readouterr().out.splitlines() if line[:2] != "  "]
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_examples_are_shown_and_parse(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([name, "--help"]) == 0
    examples = re.findall(r"^  (resultant .*)$", capsys.readouterr().out, re.MULTILINE)
    assert examples
    kind = cli.loaded(cli.COMMANDS[name].options)
    for example in examples:
        _, command, *arguments = shlex.split(example)
        assert command == name
        assert isinstance(cli.parse(partial(tyro.cli, kind), "resultant", arguments), kind)


KINDS = [cli.loaded(command.options) for command in cli.COMMANDS.values()]


@pytest.mark.parametrize("kind", [*KINDS, presets.TrainConfig, presets.ProbeConfig])
def test_every_option_is_told(kind: type) -> None:
    (tree,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(tree, ast.ClassDef)
    for node, following in zip(tree.body, [*tree.body[1:], ast.Pass()], strict=True):
        if isinstance(node, ast.AnnAssign):
            assert isinstance(node.target, ast.Name)
            told = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            assert told, f"{kind.__name__}.{node.target.id} has no docstring"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--tyro-print-completion", shell]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in cli.COMMANDS)
    assert "imbalance" in shown and "cifar-official" in shown


def test_module_runs() -> None:
    done = subprocess.run([*RESULTANT, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == resultant.__version__
    done = subprocess.run([*RESULTANT, "dance"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("resultant: expected a command, one of verify")
    assert done.stderr.endswith("got 'dance'\n") and done.stderr.count("\n") == 1


def test_misspelt_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["analyse"]) == 2
    assert capsys.readouterr().err.endswith("got 'analyse'; analyze?\n")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["--version"]])
def test_reader_that_goes_away(arguments: list[str], unbuffered: str) -> None:
    """As under ``| head``: no traceback, no word."""
    reader, writer = os.pipe()
    os.close(reader)
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(
        [*RESULTANT, *arguments], stdout=writer, stderr=subprocess.PIPE, env=environment
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize("no_colour", ["", "1"])
def test_colours(no_colour: str) -> None:
    """On a terminal unless NO_COLOR is set; lines are folded in both cases."""
    terminal, inner = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "60", "NO_COLOR": no_colour}
    call = [*RESULTANT, "import-proco", "--help"]
    subprocess.run(call, stdout=inner, stderr=inner, env=environment, check=True)
    os.close(inner)
    shown = os.read(terminal, 1 << 16).decode()
    os.close(terminal)
    assert ("\x1b[" in shown) == (not no_colour)
    assert "safetensors,\r\nwithout running" in shown


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (ValueError("expected kappa >= 0,\n  got -3"), 2, "expected kappa >= 0, got -3\n"),
        (FileNotFoundError(2, "No such file", "a.json"), 2, "expected a file, got nothing at a.j"),
        (FileNotFoundError("no features in x"), 2, "no features in x\n"),
        (PermissionError(13, "Permission denied", "/x"), 2, "Permission denied: /x\n"),
        (OSError(errno.ENOSPC, "No space left on device"), 1, "No space left on device\n"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 1, "Broken pipe\n"),
        (
            ModuleNotFoundError("no", name="timm.models"),
            2,
            "expected timm: pip install resulta",
        ),
        (ModuleNotFoundError("no", name="ray"), 2, "expected ray: pip install resultant[ray]\n"),
    ],
)
def test_errors_are_one_line(
    told: Any, error: Exception, status: int, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    def tell(options: Options) -> None:
        raise error

    told.tell = tell
    assert cli.main(["tell"]) == status
    shown = capfd.readouterr().err
    assert shown.startswith(f"resultant: {message}") and shown.count("\n") == 1


def test_a_broken_pipe_where_nothing_can_be_polled(
    told: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As on Windows: it is told there like any other error."""
    monkeypatch.delattr("select.poll")
    told.tell = Mock(side_effect=BrokenPipeError(errno.EPIPE, "Broken pipe"))
    assert cli.main(["tell"]) == 1
    assert capsys.readouterr().err == "resultant: Broken pipe\n"


@pytest.mark.parametrize("error", [ZeroDivisionError(), ModuleNotFoundError("no", name="own")])
def test_other_errors_are_not_hidden(told: Any, error: Exception) -> None:
    def tell(options: Options) -> None:
        raise error

    told.tell = tell
    with pytest.raises(type(error)):
        cli.main(["tell"])


def test_extras_are_those_of_the_package() -> None:
    import tomllib

    path = Path(__file__).parents[2] / "pyproject.toml"
    extras = tomllib.loads(path.read_text())["project"]["optional-dependencies"]
    wheels = {"PIL": "pillow"}
    for module, extra in cli.EXTRAS.items():
        names = [re.split(r"[^\w-]", wheel)[0] for wheel in extras[extra]]
        assert wheels.get(module, module) in names


def test_interrupt(told: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def tell(options: Options) -> None:
        raise KeyboardInterrupt

    told.tell = tell
    assert cli.main(["tell"]) == 130
    assert capsys.readouterr().err == "resultant: interrupted\n"


@pytest.mark.parametrize(("world_size", "speaker"), [("1", ""), ("2", "rank 1: ")])
def test_processes_say_which_they_are(
    told: Any,
    world_size: str,
    speaker: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def tell(options: Options) -> None:
        raise ValueError("expected more")

    told.tell = tell
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setenv("WORLD_SIZE", world_size)
    monkeypatch.setenv("RANK", "1")
    assert cli.main(["tell"]) == 2
    assert capsys.readouterr().err == f"resultant: {speaker}expected more\n"


@pytest.mark.parametrize("rank", ["0", "1"])
@pytest.mark.parametrize("call", [["dance"], ["tell", "--numbr", "3"], [], ["tell", "--help"]])
def test_the_first_speaks_for_all(
    told: Any,
    rank: str,
    call: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What every process would say of the arguments; one that complains waits for the first."""
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", rank)
    helped = call[-1:] == ["--help"]
    assert cli.main(call) == (0 if helped else 2)
    shown = capsys.readouterr()
    assert bool(shown.out) == (helped and rank == "0")
    assert bool(shown.err) == (not helped and rank == "0")
    assert waited == ([cli.PATIENCE] if rank == "1" and not helped else [])


@pytest.mark.parametrize(
    ("error", "how"),
    [
        (ValueError("expected more"), "expected more"),
        (OSError(28, "No space left"), "No space left"),
        (KeyboardInterrupt(), "interrupted"),
    ],
)
@pytest.mark.parametrize("rank", ["0", "1"])
def test_the_first_tells_a_mistake_first(
    told: Any, rank: str, error: BaseException, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another says it too, once the first would have ended it; an interruption is told at once."""
    order: list[str] = []

    def tell(options: Options) -> None:
        raise error

    told.tell = tell

    def shown(text: str, **_: Any) -> None:
        order.extend([text] if text else [])

    monkeypatch.setattr("time.sleep", lambda seconds: order.append(f"waits {seconds}"))
    monkeypatch.setattr(cli, "print", shown, raising=False)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", rank)
    cli.main(["tell"])
    waits = [f"waits {cli.PATIENCE}"] if rank == "1" and how != "interrupted" else []
    assert order == [*waits, f"resultant: rank {rank}: {how}"]


# A command that fails, on all processes or on one of them; the first may be busy meanwhile.
FAILING = """
import os, sys, time
from resultant.cli import main as cli

def run(arguments):
    if sys.argv[1] not in ("all", os.environ["RANK"]):
        time.sleep(60)
    raise ValueError("expected more")

cli.run = run
cli.PATIENCE = float(sys.argv[2])
sys.exit(cli.main())
"""


@pytest.mark.parametrize(("who", "patience", "speaker"), [("all", "50", "0"), ("1", "0.5", "1")])
def test_mistakes_under_torchrun_appear_once(
    tmp_path: Path, who: str, patience: str, speaker: str
) -> None:
    """By the first if all of them fail, by another if that one does."""
    script = tmp_path / "failing.py"
    script.write_text(FAILING)
    call = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*call, str(script), who, patience], capture_output=True, text=True, check=False, timeout=60
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("resultant:")]
    assert lines == [f"resultant: rank {speaker}: expected more"], done.stderr


def test_usage_errors_under_torchrun_appear_once() -> None:
    call = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    call += ["-m", "resultant", "train", "imagenet-lt", "--epoks", "3"]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert done.stderr.count("Unrecognized options: --epoks, 3") == 1, done.stderr


def test_arguments_and_status(told: Any) -> None:
    def tell(options: Options) -> int | None:
        return options.number if options.loud else None

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


@pytest.mark.parametrize("command", [["analyze"], ["compare", "a", "b"]])
def test_temperatures_are_refused_before_any_work(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for tau in ("0", "nan", "inf"):
        assert cli.main([*command, "--temperature", tau, "--out", str(tmp_path / "out")]) == 2
        told = capsys.readouterr()
        assert told.err == f"resultant: expected --temperature > 0 and finite, got {tau}\n"
        assert told.out == ""
