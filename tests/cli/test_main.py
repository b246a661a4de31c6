"""The entry point: help, plugins, errors of one line, exit statuses, and progress of long work."""

import ast
import errno
import inspect
import io
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from pkgutil import resolve_name
from typing import Any
from unittest.mock import Mock

import pytest
import tyro
from rich.console import Console
from rich.table import Table

import resultant
from cli.conftest import Shown
from images.photos import write_folder
from programs import run_program
from resultant._core.termination import TerminatedError
from resultant.cli import main as cli
from resultant.cli.progress import EpochProgress, PlainConsole, Screen
from resultant.training import config
from resultant.training.job import Progress

RESULTANT = [sys.executable, "-m", "resultant"]
NAMES = [*cli.COMMANDS, *cli.plugins()]
OPTIONS = {name: resolve_name(cli.find_command(name).options) for name in NAMES}


@dataclass(frozen=True)
class Options:
    """For this test."""

    number: int = 0


@pytest.fixture
def function(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """The function of a command ``test``."""
    entry = cli.Command(f"{__name__}:Options", f"{__name__}:Options.function", "for this test")
    monkeypatch.setitem(cli.COMMANDS, "test", entry)
    monkeypatch.setattr(Options, "function", function := Mock(), raising=False)
    return function


def test_help_lists_every_command(capsys: Shown) -> None:
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    for name in NAMES:
        summary = cli.find_command(name).summary
        assert re.search(rf"^  {name} +{summary}$", shown, re.MULTILINE)
    assert max(map(len, shown.splitlines())) <= 70
    # Without a command there is nothing to do, which is a usage error.
    assert cli.main([]) == 2
    assert capsys.readouterr() == ("", shown)


@pytest.mark.slow
def test_help_and_usage_errors_need_no_torch() -> None:
    calls = [["--help"], ["--version"], *([name, "--help"] for name in NAMES)]
    calls += [["train", "cifar-official", "--help"], ["--tyro-print-completion", "bash"]]
    wrong = [["dance"], ["probe", "x", "--epoch", "3"], ["train", "images", "--epochs", "0"]]
    code = (
        f"import sys; from resultant.cli.main import main; codes = [main(c) for c in {calls}];"
        f"codes += [main(c) for c in {wrong}];"
        "print(codes, *(m for m in ('torch', 'numpy', 'matplotlib') if m in sys.modules))"
    )
    *_, last = run_program(code)[0].splitlines()
    assert last == str([0] * len(calls) + [2] * len(wrong))


@pytest.mark.slow
def test_an_error_after_all_libraries_are_loaded_is_one_line(tmp_path: Path) -> None:
    """Also that of Triton, which reports its own memory at the end of the interpreter."""
    write_folder(tmp_path / "train", {"a": 4, "b": 4})
    write_folder(tmp_path / "test", {"a": 1, "b": 1})
    words = f"train images --architecture test_resnet --size 32 --data {tmp_path} --weights no"
    command = [sys.executable, "-m", "resultant", *words.split(), "--device", "cpu"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    *_, last = done.stderr.splitlines()
    assert done.returncode == 2 and last.startswith("resultant: expected a file of weights, got")


@pytest.mark.slow
def test_analyze_loads_nothing_of_training() -> None:
    """Nor the compiler of torch, which takes two seconds and which losses do without too."""
    names = ["resultant.cli.analyze", "resultant.losses"]
    for node in ast.walk(ast.parse(Path(cli.__file__).with_name("analyze.py").read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("resultant"):
            names.append(str(node.module))
    assert "resultant.features.prepare" in names and "resultant.analysis.run" in names
    modules = set(run_program(f"import sys, {', '.join(names)}; print(*sys.modules)")[0].split())
    others = ("resultant.training", "resultant.images")
    assert not [m for m in modules if m.startswith((*others, "resultant_reproduction"))]
    assert not {"torch._dynamo", "ray"} & modules


@pytest.mark.parametrize("name", NAMES)
def test_examples_of_help(name: str, monkeypatch: pytest.MonkeyPatch, capsys: Shown) -> None:
    kind = OPTIONS[name]
    monkeypatch.setenv("COLUMNS", "90")
    assert cli.main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    examples = re.findall(r"^  (?:cat .* \| )?(resultant .*)$", shown, re.MULTILINE)
    assert examples and f"resultant {name}" in shown
    for example in examples:
        _, command, *arguments = shlex.split(example)
        own = OPTIONS[command]
        assert isinstance(cli.parse(partial(tyro.cli, own), "resultant", arguments), own)
    target = resolve_name(cli.find_command(name).target)
    (parameter,) = inspect.signature(target).parameters.values()
    assert parameter.annotation in (kind, kind.__name__)


def test_a_flag_that_is_on_says_so_in_words(capsys: Shown) -> None:
    assert cli.main(["extract", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "--no-labels Take every image below a folder" in text
    assert "without labels. (default: labels are read)" in text


def test_help_explains_every_option() -> None:
    for kind in [*OPTIONS.values(), config.TrainConfig]:
        (tree,) = ast.parse(inspect.getsource(kind)).body
        assert isinstance(tree, ast.ClassDef)
        for node, following in zip(tree.body, [*tree.body[1:], ast.Pass()], strict=True):
            if isinstance(node, ast.AnnAssign) and "ClassVar" not in ast.dump(node.annotation):
                assert isinstance(following, ast.Expr), ast.unparse(node)
                assert isinstance(following.value, ast.Constant), ast.unparse(node)


def test_completion_and_version(capsys: Shown) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert cli.main(["--tyro-print-completion", shell]) == 0
        shown = capsys.readouterr().out
        assert all(name in shown for name in (*NAMES, "imbalance", "cifar-official"))
    done = subprocess.run([*RESULTANT, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"{resultant.__version__}\n"


@pytest.mark.parametrize("value", ["no_such_module:COMMAND", "resultant.cli.main:NO_COMMAND"])
def test_broken_plugin(value: str, monkeypatch: pytest.MonkeyPatch, capsys: Shown) -> None:
    """One line names the plugin; help, completion and other commands work without it."""
    plugins = {"broken": EntryPoint("broken", value, cli.GROUP)}
    monkeypatch.setattr(cli, "plugins", lambda: plugins)
    assert cli.main(["broken", "--number", "3"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"resultant: expected {value} to load for broken, got ")
    assert cli.main(["--help"]) == 0
    assert f"  broken   not available: expected {value}" in capsys.readouterr().out
    assert cli.main(["--tyro-print-completion", "bash"]) == 0
    assert "analyze" in capsys.readouterr().out
    # The reproduction of the paper is not installed here.
    assert cli.main(["verify"]) == 2
    assert capsys.readouterr().err.endswith("of the paper: pip install ./reproduction\n")


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("full", [False, True])
def test_output_that_cannot_be_written(full: bool, unbuffered: str) -> None:
    """A full disk is reported, also at the end; a reader that is gone, as with ``| head``, not."""
    reader, writer = os.pipe()
    os.close(reader)
    if full and Path("/dev/full").is_char_device():
        os.dup2(os.open("/dev/full", os.O_WRONLY), writer)
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    call = [*RESULTANT, "probe", "--help"]
    done = subprocess.run(call, stdout=writer, stderr=subprocess.PIPE, env=environment)
    os.close(writer)
    message = b"resultant: No space left on device\n" if full else b""
    assert (done.returncode, done.stderr) == (1, message)


ERRORS = [
    (ValueError("expected kappa >= 0,\n  got -3"), 2, "expected kappa >= 0, got -3\n"),
    (ValueError("got \x1b[31m" + 10**6 * "a"), 2, "got [31maa"),
    (FileNotFoundError(2, "No such file", "a.json"), 2, "expected a file, got nothing at a.json\n"),
    (FileNotFoundError("no features in x"), 2, "no features in x\n"),
    (PermissionError(13, "Permission denied", "/x"), 2, "Permission denied: /x\n"),
    (OSError(errno.ENOSPC, "No space left on device"), 1, "No space left on device\n"),
    (ModuleNotFoundError("no", name="timm.x"), 2, "expected timm: pip install 'resultant[vision]'"),
    (ModuleNotFoundError("no", name="ray"), 2, "expected ray: pip install 'resultant[ray]'"),
    (RuntimeError("[gloo:547] Connection closed by peer [::1]:4"), 1, "expected all processes of"),
    (MemoryError("Unable to allocate 7.45 GiB"), 1, "expected more memory, got: Unable"),
    (RuntimeError("can't allocate memory: 8 bytes"), 1, "expected more memory, got: can't"),
    (KeyboardInterrupt(), 130, "interrupted\n"),
    (KeyboardInterrupt("rerun to resume"), 130, "interrupted: rerun to resume\n"),
    (TerminatedError("saved after epoch 3/9"), 143, "terminated: saved after epoch 3/9\n"),
]


@pytest.mark.parametrize(("error", "status", "message"), ERRORS)
def test_errors_are_one_line(
    function: Mock, error: BaseException, status: int, message: str, capfd: Shown
) -> None:
    function.side_effect = error
    assert cli.main(["test"]) == status
    shown = capfd.readouterr().err
    assert shown.startswith(f"resultant: {message}")
    assert shown.count("\n") == 1 and len(shown) < 2100 and "\x1b" not in shown


def test_status_and_sigterm(function: Mock, capfd: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminated command ends at once, with one line; errors of the code are not hidden."""
    for error in (ZeroDivisionError(), ModuleNotFoundError("no", name="own")):
        function.side_effect = error
        with pytest.raises(type(error)):
            cli.main(["test"])
    function.side_effect = lambda options: options.number
    assert [cli.main(["test", *words]) for words in ([], ["--number", "7"])] == [0, 7]
    before = signal.getsignal(signal.SIGTERM)
    function.side_effect = lambda _: os.kill(os.getpid(), signal.SIGTERM)
    assert cli.main(["test"]) == 143
    assert capfd.readouterr().err == "resultant: terminated\n"
    assert signal.getsignal(signal.SIGTERM) is before
    # A process of torchrun names its rank, and is silent when it is ended after another failed.
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    function.side_effect = [ValueError("expected more"), TerminatedError()]
    assert [cli.main(["test"]) for _ in range(2)] == [2, 143]
    assert capfd.readouterr().err == "resultant: rank 1: expected more\n"


def test_extras_are_those_of_the_package() -> None:
    path = Path(__file__).parents[2] / "pyproject.toml"
    extras = tomllib.loads(path.read_text())["project"]["optional-dependencies"]
    for module, extra in cli.EXTRAS.items():
        names = [re.split(r"[^\w-]", wheel)[0] for wheel in extras[extra]]
        assert {"PIL": "pillow"}.get(module, module) in names
    # Extras of earlier versions still install.
    assert not any(extras[name] for name in ("anndata", "cli", "parquet", "report"))


def progress(epoch: int, loss: dict[str, float]) -> Progress:
    return Progress(epoch, 8, 30.0 * epoch, 12345.6, loss, before=2)


@pytest.mark.parametrize(("terminal", "quiet"), [(True, False), (False, False), (False, True)])
def test_epochs(terminal: bool, quiet: bool) -> None:
    """A bar on a terminal, a line per epoch in a file; continued jobs are announced everywhere."""
    file = io.StringIO()
    look: dict[str, Any] = {"width": 140, "highlight": False}
    console = Console(file=file, force_terminal=terminal, quiet=quiet, **look)
    with EpochProgress(console, "work", 10) as shown:
        shown(progress(0, {}))
        assert shown.tasks[0].completed == 2
        shown(progress(1, {"a": 1.25}))
        shown(progress(2, {"a": 1.25, "b": 1.5}))
        shown.tick(0.5)
        assert (shown.tasks[0].completed, shown.tasks[0].total) == (4.5, 10)
    lines = [
        "work: continues after epoch 2/10\n",
        "work: epoch 3/10, loss 1.2500, 12,346 views/s, 0:03:30 left\n",
        "work: epoch 4/10, loss 1.2500 to 1.5000, 12,346 views/s, 0:03:00 left\n",
    ]
    if terminal:
        assert lines[0] in file.getvalue() and "1.5000, 12,346 views/s" in file.getvalue()
    else:
        assert file.getvalue() == ("" if quiet else "".join(lines))
    assert Progress(0, 0, 0.0, 0.0, before=10).resumed == "already trained to epoch 10/10"


def test_steps_and_results(capsys: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """In files, results are on standard output and a line per step on standard error."""
    for quiet, json, out, steps in (
        (False, None, "result\n", 1),
        (True, None, "", 0),
        (False, Path("-"), "", 1),
    ):
        with Screen(quiet, json) as screen:
            screen.step("fit")
            screen.step("fit")
            screen.results.print("result")
        shown = capsys.readouterr()
        assert shown.out == out and re.fullmatch(steps * r" +\d+\.\d s  fit\n", shown.err)
    # Names are no markup, neither in lines nor in tables, and steer no terminal; work goes on
    # without a reader, as in ``resultant analyze | head -n 1``.
    name = "o[/x] [red]a :smile: \x1b[2J"
    console = PlainConsole()
    console.print(name)
    table = Table(name, title=name)
    table.add_row(name)
    console.print(table)
    shown = capsys.readouterr().out
    assert shown.count("o[/x] [red]a :smile:") == 4 and "\x1b" not in shown
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as file:
        monkeypatch.setattr("sys.stdout", file)
        console = PlainConsole()
        console.print("first")
        console.print("second")
        assert console.quiet


@pytest.mark.parametrize("name", [*NAMES, "train images"])
def test_help_fits_the_terminal(name: str, monkeypatch: pytest.MonkeyPatch, capsys: Shown) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert cli.main([*name.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    # Commands to copy stay on one line.
    commands = re.compile(r"usage:|  (cat .* )?resultant ")
    assert max(len(line) for line in shown.splitlines() if not commands.match(line)) <= 80
    assert len(shown.splitlines()) <= 60
    assert cli.main([*name.split(), "--help-all"]) == 0
    whole = capsys.readouterr().out
    rare = {f"--{option}" for option in cli.RARE.get(name.split()[0], "").split()}
    assert not rare & set(re.findall(r"^[ │] +(--[a-z-]+)", shown, re.M))
    if name != "train":
        assert rare <= set(re.findall(r"^[ │] +(--[a-z-]+)", whole, re.M)), name
        assert (
            f"{len(rare)} more options: resultant {name.split()[0]} --help-all" in shown
        ) == bool(rare)
    # No option has a twin that says the opposite.
    options = set(re.findall(r"--[a-z][a-z-]+", shown))
    assert not {o for o in options if f"--no-{o[2:]}" in options}
