"""The entry point: help, plugins, one-line errors and exit statuses."""

from __future__ import annotations

import ast
import errno
import inspect
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import tyro

import resultant
from resultant._core.termination import TerminatedError
from resultant.cli import main as cli
from resultant.training import config

RESULTANT = [sys.executable, "-m", "resultant"]
NAMES = [*cli.COMMANDS, *cli.plugins()]

Shown = pytest.CaptureFixture[str]


def options_of(name: str) -> type:
    return cli.load(cli.find_command(name).options)


class TestHelp:
    def test_lists_every_command(self, capsys: Shown) -> None:
        assert cli.main(["--help"]) == 0
        shown = capsys.readouterr().out
        for name in NAMES:
            summary = cli.find_command(name).summary
            assert re.search(rf"^  {name} +{summary}$", shown, re.MULTILINE)
        assert max(map(len, shown.splitlines())) <= 70
        # Without a command there is nothing to do, which is a usage error.
        assert cli.main([]) == 2
        again = capsys.readouterr()
        assert (again.out, again.err) == ("", shown)

    def test_of_resultant_imports_no_command(self) -> None:
        heavy = ("torch", "numpy", "tyro", "rich", "matplotlib", "resultant_reproduction.theory")
        calls = [["--help"], ["--version"], ["dance"]]
        code = (
            f"import sys; from resultant.cli.main import main; [main(c) for c in {calls}];"
            f"print(*(m for m in {heavy} if m in sys.modules))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 0 and done.stdout.splitlines()[-1] == ""

    @pytest.mark.slow
    def test_of_commands_needs_no_torch(self) -> None:
        """Help, completion and usage errors."""
        calls = [[name, "--help"] for name in NAMES]
        calls += [["train", "cifar-official", "--help"], ["--tyro-print-completion", "bash"]]
        calls += [["probe", "x", "--epoch", "3"], ["train", "cifar-controlled", "--epochs", "0"]]
        code = (
            f"import sys; from resultant.cli.main import main; codes = [main(c) for c in {calls}];"
            "print(codes, *(m for m in ('torch', 'numpy', 'matplotlib') if m in sys.modules))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        expected = [0] * (len(calls) - 2) + [2, 2]
        assert done.stdout.splitlines()[-1] == str(expected), done.stderr
        assert "--epochs" in done.stderr and "fewer than epochs" in done.stderr

    @pytest.mark.parametrize("name", NAMES)
    def test_has_examples_that_parse(
        self, name: str, monkeypatch: pytest.MonkeyPatch, capsys: Shown
    ) -> None:
        kind = options_of(name)
        monkeypatch.setenv("COLUMNS", "90")
        assert cli.main([name, "--help"]) == 0
        shown = capsys.readouterr().out
        assert f"resultant {name}" in shown
        examples = re.findall(r"^  (?:cat .* \| )?(resultant .*)$", shown, re.MULTILINE)
        assert examples
        for example in examples:
            _, command, *arguments = shlex.split(example)
            assert command == name
            assert isinstance(cli.parse(partial(tyro.cli, kind), "resultant", arguments), kind)

    @pytest.mark.parametrize("name", NAMES)
    def test_target_takes_the_options(self, name: str) -> None:
        target = cli.load(cli.find_command(name).target)
        (parameter,) = inspect.signature(target).parameters.values()
        assert parameter.annotation == options_of(name).__name__

    def test_explains_every_option(self) -> None:
        kinds = [*map(options_of, NAMES), config.TrainConfig, config.ProbeConfig]
        for kind in kinds:
            (tree,) = ast.parse(inspect.getsource(kind)).body
            assert isinstance(tree, ast.ClassDef)
            for node, following in zip(tree.body, [*tree.body[1:], ast.Pass()], strict=True):
                if isinstance(node, ast.AnnAssign) and "ClassVar" not in ast.dump(node.annotation):
                    assert isinstance(following, ast.Expr), ast.unparse(node)
                    assert isinstance(following.value, ast.Constant), ast.unparse(node)

    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_completion(self, shell: str, capsys: Shown) -> None:
        assert cli.main(["--tyro-print-completion", shell]) == 0
        shown = capsys.readouterr().out
        assert all(name in shown for name in NAMES)
        assert "imbalance" in shown and "cifar-official" in shown


def test_module_runs() -> None:
    done = subprocess.run([*RESULTANT, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == resultant.__version__


def test_version(capsys: Shown) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"{resultant.__version__}\n"


def test_unknown_command(capsys: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli.main(["dance"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("resultant: expected a command, one of analyze, ")
    assert shown.endswith("got 'dance'\n") and shown.count("\n") == 1
    assert cli.main(["analyse"]) == 2
    assert capsys.readouterr().err.endswith("got 'analyse'; analyze?\n")
    monkeypatch.setattr(cli, "plugins", dict)
    assert cli.main(["verify"]) == 2
    assert capsys.readouterr().err.endswith("of the paper: pip install ./reproduction\n")


@pytest.mark.parametrize("value", ["no_such_module:COMMAND", "resultant.cli.main:NO_COMMAND"])
def test_broken_plugin(value: str, monkeypatch: pytest.MonkeyPatch, capsys: Shown) -> None:
    """One line names the plugin; help, completion and other commands work without it."""
    plugins = {"broken": EntryPoint("broken", value, cli.GROUP)}
    monkeypatch.setattr(cli, "plugins", lambda: plugins)
    assert cli.main(["broken", "--number", "3"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"resultant: expected {value} to load for broken, got ")
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr()
    assert f"  broken   not available: expected {value}" in shown.out and shown.err == ""
    assert cli.main(["--tyro-print-completion", "bash"]) == 0
    shown = capsys.readouterr()
    assert "analyze" in shown.out and shown.err == line + "\n"


def test_arguments_and_status(command: Any) -> None:
    command.function = lambda options: options.number if options.loud else None
    assert cli.main(["test", "--number", "7"]) == 0
    assert cli.main(["test", "--number", "7", "--loud"]) == 7
    assert cli.main(["test", "--number", "many"]) == 2


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["probe", "a", "--seed", "x"], ["--seed", "'x'", "resultant probe --help"]),
        (["probe", "a", "--epochs", "0"], ["expected epochs >= 1, got 0"]),
        (["analyze", "--temperatur", "1"], ["--temperatur", "Perhaps you meant", "--temperature"]),
        (["train"], ["cifar-controlled", "images", "resultant train --help"]),
        (["train", "images", "--arch", "x"], ["--architecture", "resultant train images --help"]),
    ],
)
def test_usage_errors(arguments: list[str], facts: list[str], capsys: Shown) -> None:
    assert cli.main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and all(fact in shown.err for fact in facts), shown.err


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["--help"], ["probe", "--help"]])
def test_reader_that_goes_away(arguments: list[str], unbuffered: str) -> None:
    """As with ``| head``: no traceback, no message."""
    reader, writer = os.pipe()
    os.close(reader)
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(
        [*RESULTANT, *arguments], stdout=writer, stderr=subprocess.PIPE, env=environment
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


PRINTS = """
import sys
from resultant.cli import main as cli
def run(arguments):
    print("result")
    return 0
if "command" in sys.argv:
    cli.run = run
sys.exit(cli.main(["--help"]))
"""


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="needs /dev/full")
@pytest.mark.parametrize("who", ["help", "command"])
def test_full_disk(who: str) -> None:
    """Output that cannot be written is reported, also when it is printed at the end of the work."""
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", PRINTS, who],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment,
        )
    assert done.returncode == 1
    assert done.stderr == b"resultant: No space left on device (standard output)\n"


class TestErrors:
    @pytest.mark.parametrize(
        ("error", "status", "message"),
        [
            (ValueError("expected kappa >= 0,\n  got -3"), 2, "expected kappa >= 0, got -3\n"),
            (FileNotFoundError(2, "No such file", "a.json"), 2, "expected a file, got nothing at "),
            (FileNotFoundError("no features in x"), 2, "no features in x\n"),
            (PermissionError(13, "Permission denied", "/x"), 2, "Permission denied: /x\n"),
            (OSError(errno.ENOSPC, "No space left on device"), 1, "No space left on device\n"),
            (BrokenPipeError(errno.EPIPE, "Broken pipe"), 1, "Broken pipe\n"),
            (
                ModuleNotFoundError("no", name="timm.x"),
                2,
                "expected timm: pip install 'resultant[v",
            ),
            (
                ModuleNotFoundError("no", name="ray"),
                2,
                "expected ray: pip install 'resultant[ray]'",
            ),
            (
                RuntimeError("[gloo/transport/tcp/pair.cc:547] Connection closed by peer [::1]:4"),
                1,
                "expected all processes of the job to live, got one that was lost",
            ),
            (MemoryError("Unable to allocate 7.45 GiB"), 1, "expected more memory, got too little"),
            (RuntimeError("can't allocate memory: 8 bytes"), 1, "expected more memory, got: can't"),
            (KeyboardInterrupt(), 130, "interrupted\n"),
            (TerminatedError("saved after epoch 3/9"), 143, "terminated: saved after epoch 3/9\n"),
        ],
    )
    def test_are_one_line(
        self,
        command: Any,
        error: BaseException,
        status: int,
        message: str,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        command.function = Mock(side_effect=error)
        assert cli.main(["test"]) == status
        shown = capfd.readouterr().err
        assert shown.startswith(f"resultant: {message}") and shown.count("\n") == 1

    def test_long_ones_and_control_characters(self, command: Any, capsys: Shown) -> None:
        command.function = Mock(
            side_effect=ValueError("got \x1b[31m" + 10**6 * "a" + " at the end")
        )
        assert cli.main(["test"]) == 2
        shown = capsys.readouterr().err
        assert len(shown) < 2100 and shown.startswith("resultant: got [31maa")
        assert shown.endswith("a at the end\n") and "\x1b" not in shown

    def test_sigterm(self, command: Any, capfd: pytest.CaptureFixture[str]) -> None:
        """A command ends at once, with one line, and the handler is gone afterwards."""
        before = signal.getsignal(signal.SIGTERM)
        command.function = Mock(side_effect=lambda _: os.kill(os.getpid(), signal.SIGTERM))
        assert cli.main(["test"]) == 143
        assert capfd.readouterr().err == "resultant: terminated\n"
        assert signal.getsignal(signal.SIGTERM) is before

    def test_broken_pipe_without_poll(
        self, command: Any, monkeypatch: pytest.MonkeyPatch, capsys: Shown
    ) -> None:
        """As on Windows: reported like any other error."""
        monkeypatch.delattr("select.poll")
        command.function = Mock(side_effect=BrokenPipeError(errno.EPIPE, "Broken pipe"))
        assert cli.main(["test"]) == 1
        assert capsys.readouterr().err == "resultant: Broken pipe\n"

    @pytest.mark.parametrize("error", [ZeroDivisionError(), ModuleNotFoundError("no", name="own")])
    def test_of_the_code_are_not_hidden(self, command: Any, error: Exception) -> None:
        command.function = Mock(side_effect=error)
        with pytest.raises(type(error)):
            cli.main(["test"])

    def test_extras_are_those_of_the_package(self) -> None:
        path = Path(__file__).parents[2] / "pyproject.toml"
        extras = tomllib.loads(path.read_text())["project"]["optional-dependencies"]
        for module, extra in cli.EXTRAS.items():
            names = [re.split(r"[^\w-]", wheel)[0] for wheel in extras[extra]]
            assert {"PIL": "pillow"}.get(module, module) in names

    def test_missing_tyro(self, monkeypatch: pytest.MonkeyPatch, capsys: Shown) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        assert cli.main(["analyze"]) == 2
        assert "expected tyro and rich: pip install 'resultant[cli]'" in capsys.readouterr().err
        # The help does without them.
        assert cli.main(["--help"]) == 0
