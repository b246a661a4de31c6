"""The command ``resultant``: one line of `COMMANDS` a subcommand.

A subcommand is a function whose arguments become options. Its module is imported when it is asked
for, and not before.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

from resultant._version import __version__


class Command(NamedTuple):
    """Where a subcommand's function is, and what it does in a few words."""

    target: str
    summary: str


# The function's docstring is its help; it returns an exit status, or None for 0.
COMMANDS = {
    "verify": Command("resultant.verify.command:verify", "check the claims of the paper"),
    "analyze": Command(
        "resultant.analyze:analyze", "frozen features: a recommendation and a report"
    ),
    "compare": Command("resultant.compare:compare", "two feature sets or networks side by side"),
    "reproduce": Command(
        "resultant.reproduce:reproduce", "the paper's tables and figures beside our numbers"
    ),
    "train": Command("resultant.commands:train", "train networks, many side by side"),
    "extract": Command("resultant.commands:extract", "features of a trained network"),
    "probe": Command("resultant.commands:probe", "linear probes on features"),
    "import-proco": Command("resultant.commands:import_proco", "read a checkpoint of ProCo"),
}

OK, FAILED, WRONG_USE, INTERRUPTED = 0, 1, 2, 130

NEEDED = ("tyro", "rich")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; 0 if all went well, 1 if what was checked does not hold, 2 for bad input.

    A ValueError or FileNotFoundError is what a user can mend: one line, no traceback.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage())
        return OK if arguments else WRONG_USE
    if arguments[0] == "--version":
        print(__version__)
        return OK
    try:
        return run(*arguments)
    except (ValueError, FileNotFoundError) as error:
        complain(one_line(error))
        return WRONG_USE
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED


def run(name: str, *arguments: str) -> int:
    """Parse the arguments of a subcommand and call it."""
    if name not in COMMANDS:
        raise ValueError(f"expected a command, one of {', '.join(COMMANDS)}, got {name!r}")
    missing = [module for module in NEEDED if importlib.util.find_spec(module) is None]
    if missing:
        raise ValueError(f"expected {' and '.join(missing)}: pip install resultant[cli]")
    import tyro

    module, _, function = COMMANDS[name].target.partition(":")
    call = getattr(importlib.import_module(module), function)
    try:
        status = tyro.cli(call, args=arguments, prog=f"resultant {name}")
    except SystemExit as stop:
        # By tyro, for --help or for arguments that it cannot read.
        return stop.code if isinstance(stop.code, int) else OK
    return OK if status is None else int(status)


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
            "resultant COMMAND --help tells the options of a command.",
        ]
    )


def complain(message: str) -> None:
    """One line to the user; of several processes of torchrun each says which it is."""
    several = os.environ.get("WORLD_SIZE", "1") != "1"
    speaker = f"rank {os.environ.get('RANK')}: " if several else ""
    print(f"resultant: {speaker}{message}", file=sys.stderr)


def one_line(error: Exception) -> str:
    """The message of an error, without line breaks; for a file, its name too."""
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return f"expected a file, got nothing at {error.filename}"
    return " ".join(str(error).split()) or type(error).__name__
