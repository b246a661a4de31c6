"""The command ``resultant``: one entry of `COMMANDS` a subcommand.

A subcommand is a dataclass of options and a function that takes them. The options are read first;
the function's module, and torch with it, is imported once they are right.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import inspect
import io
import os
import select
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from difflib import get_close_matches
from functools import partial
from typing import Any, NamedTuple

from resultant._version import __version__
from resultant.training.config import PRESETS


class Command(NamedTuple):
    """Where a subcommand's options and function are, and what it does in a few words."""

    options: str
    target: str
    summary: str


# The docstring of the options is the help; the function returns an exit status, or None for 0.
COMMANDS = {
    "analyze": Command(
        *("resultant.cli.options:Analyze", "resultant.cli.analyze:analyze"),
        "frozen features: a recommendation, a report",
    ),
    "compare": Command(
        *("resultant.cli.options:Compare", "resultant.cli.compare:compare"),
        "two feature sets or networks side by side",
    ),
    "train": Command(
        *("resultant.cli.options:Train", "resultant.cli.commands:train"),
        "train networks, many side by side",
    ),
    "extract": Command(
        *("resultant.cli.options:Extract", "resultant.cli.commands:extract"),
        "features of a trained network",
    ),
    "probe": Command(
        *("resultant.cli.options:Probe", "resultant.cli.commands:probe"),
        "linear probes on features",
    ),
    "import-proco": Command(
        *("resultant.cli.options:ImportProco", "resultant.cli.commands:import_proco"),
        "read a checkpoint of ProCo",
    ),
}

# Commands of other distributions, such as the reproduction of the paper.
for _entry in importlib.metadata.entry_points(group="resultant.commands"):
    COMMANDS[_entry.name] = _entry.load()

OK, FAILED, WRONG_USE, INTERRUPTED = 0, 1, 2, 130

NEEDED = ("tyro", "rich")
# The extra of the package that brings a module.
EXTRAS = {
    **dict.fromkeys(("torchvision", "timm", "PIL"), "vision"),
    **dict.fromkeys(("matplotlib", "jinja2"), "report"),
    "pyarrow": "parquet",
    "ray": "ray",
}
# What a user can mend.
MISTAKES = (
    *(ValueError, FileNotFoundError, FileExistsError),
    *(IsADirectoryError, NotADirectoryError, PermissionError),
)
# Seconds for which a process lets the first one speak: torchrun ends all of them with the first
# that fails.
PATIENCE = 5.0
# How tyro's own options begin: those that print or write what a shell completes.
COMPLETION = "--tyro-"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; 0 if all went well, 1 if what was checked does not hold or the machine
    fails (a full disk, a network that is down), 2 for bad input, 130 if interrupted.

    What a user can mend, or has done, is told in one line, without a traceback.
    """
    try:
        status = run(sys.argv[1:] if argv is None else argv)
        if sys.stdout is not None:
            # Here, where it can be told if nobody reads it.
            sys.stdout.flush()
        return status
    except MISTAKES as error:
        complain(one_line(error))
        return WRONG_USE
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in EXTRAS:
            raise
        complain(f"expected {module}: pip install resultant[{EXTRAS[module]}]")
        return WRONG_USE
    except OSError as error:
        if not (isinstance(error, BrokenPipeError) and unread()):
            where = " (standard output)" if unwritten() else ""
            complain(f"{one_line(error)}{where}")
        return FAILED
    except KeyboardInterrupt:
        complain("interrupted", at_once=True)
        return INTERRUPTED


def run(arguments: Sequence[str]) -> int:
    """Do what the arguments ask for; the exit status."""
    name, rest = (arguments[0], arguments[1:]) if arguments else ("", ())
    if name in ("-h", "--help"):
        return say(usage() + "\n")
    if name == "--version":
        return say(f"{__version__}\n")
    if not name:
        return say(complaint=usage() + "\n")
    if name not in COMMANDS and not name.startswith(COMPLETION):
        close = "".join(f"; {each}?" for each in get_close_matches(name, COMMANDS, 1))
        known = f"expected a command, one of {', '.join(COMMANDS)}"
        return say(complaint=f"resultant: {known}, got {name!r}{close}\n")
    missing = [module for module in NEEDED if importlib.util.find_spec(module) is None]
    if missing:
        raise ValueError(f"expected {' and '.join(missing)}: pip install resultant[cli]")
    import tyro

    try:
        if name not in COMMANDS:
            every = {each: loaded(command.options) for each, command in COMMANDS.items()}
            parse(partial(tyro.extras.subcommand_cli_from_dict, every), "resultant", arguments)
            return OK
        kind = loaded(COMMANDS[name].options)
        call = partial(tyro.cli, kind, description=inspect.getdoc(kind))
        options = parse(call, " ".join(("resultant", name, *_recipe(name, rest))), rest)
    except SystemExit as stop:
        # After help, and after a complaint.
        return stop.code if isinstance(stop.code, int) else OK
    status = loaded(COMMANDS[name].target)(options)
    return OK if status is None else int(status)


def _recipe(name: str, rest: Sequence[str]) -> list[str]:
    """The recipe of a training, whose help is that of all its options; nothing where help is asked
    for, which names it itself."""
    if name != "train" or not {"-h", "--help"}.isdisjoint(rest):
        return []
    return [word for word in rest if word in PRESETS][:1]


def parse(call: Callable[..., Any], prog: str, arguments: Sequence[str]) -> Any:
    """What a parser of tyro makes of the arguments."""
    from tyro import conf

    # An option is called as its field, wherever that stands.
    config = conf.OmitArgPrefixes, conf.OmitSubcommandPrefixes, conf.CascadeSubcommandArgs
    printed, complaint = Page(), Page()
    try:
        with redirect_stdout(printed), redirect_stderr(complaint):
            return call(prog=prog, args=arguments, config=config)
    finally:
        say(folded(printed.text()), complaint.text())


def loaded(target: str) -> Any:
    """What ``module:name`` names."""
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


class Page(io.TextIOWrapper):
    """Text that is yet to be printed, drawn as the standard output can show it."""

    def __init__(self) -> None:
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        super().__init__(io.BytesIO(), encoding, errors="replace", write_through=True)
        self.shown = sys.stdout, sys.stderr

    def text(self) -> str:
        self.seek(0)
        return self.read()

    def isatty(self) -> bool:
        # Colours, in what is printed and in complaints alike.
        terminals = all(stream is not None and stream.isatty() for stream in self.shown)
        return terminals and not os.environ.get("NO_COLOR")


def say(text: str = "", complaint: str = "") -> int:
    """Print, as the first of several processes, what all of them would; the exit status."""
    if speaks_first():
        print(text, end="", flush=True)
        print(complaint, end="", file=sys.stderr)
    elif complaint:
        time.sleep(PATIENCE)
    return WRONG_USE if complaint else OK


def folded(text: str) -> str:
    """Help with the lines folded that tyro leaves long: all but frames and examples."""
    if "usage:" not in text.partition("\n")[0]:
        return text
    width = shutil.get_terminal_size().columns
    lines = text.splitlines()
    for i, line in enumerate(lines):
        if len(line) > width and line[0].isalnum():
            lines[i] = textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def usage() -> str:
    """What ``resultant --help`` prints."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "usage: resultant COMMAND [OPTIONS]",
            "",
            "Exact von Mises-Fisher contrastive learning, and its angular gain.",
            "",
            "commands:",
            *lines,
            "",
            "resultant COMMAND --help tells the options of a command,",
            f"resultant {COMPLETION}print-completion bash what bash completes",
            "(or zsh, or fish), and resultant --version the version.",
            "",
            "exit status: 0 done, 1 failed, 2 bad input, 130 interrupted",
        ]
    )


def complain(message: str, at_once: bool = False) -> None:
    """One line to the user; of several processes of torchrun each says which it is.

    A mistake that all of them meet is told by the first, which ends the others while they wait
    here; one that another meets alone is told after that.
    """
    if not at_once and not speaks_first():
        time.sleep(PATIENCE)
    speaker = f"rank {os.environ.get('RANK')}: " if several() else ""
    print(f"resultant: {speaker}{message}", file=sys.stderr)


def speaks_first() -> bool:
    """Whether this is the only process, or the first of several."""
    return not several() or os.environ.get("RANK", "0") == "0"


def several() -> bool:
    """Whether this is one of several processes of torchrun."""
    return os.environ.get("WORLD_SIZE", "1") != "1"


def unread() -> bool:
    """Whether nobody reads what is printed any more; what is left of it is then dropped."""
    # Where the system cannot be asked, an error is one.
    if sys.stdout is None or not hasattr(select, "poll"):
        return False
    output = select.poll()
    output.register(sys.stdout.fileno(), select.POLLOUT)
    broken = any(event & select.POLLERR for _, event in output.poll(0))
    if broken:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return broken


def unwritten() -> bool:
    """Whether there is something left that cannot be printed; it is then dropped."""
    if sys.stdout is None:
        return False
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


def one_line(error: Exception) -> str:
    """The message of an error, without line breaks; for a file, its name too."""
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return f"expected a file, got nothing at {error.filename}"
    if isinstance(error, OSError) and error.strerror is not None:
        where = "" if error.filename is None else f": {error.filename}"
        return f"{error.strerror}{where}"
    return " ".join(str(error).split()) or type(error).__name__
