"""Errors of a command: one line each, and the exit status."""

from __future__ import annotations

import os
import sys

from resultant._core.termination import TerminatedError
from resultant._core.text import one_line, shortened

OK, FAILED, WRONG_USE, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143

# The extra of the package that installs a module.
EXTRAS = {"torchvision": "vision", "timm": "vision", "PIL": "vision", "ray": "ray"}
# Errors that a user can correct.
MISTAKES = (
    *(ValueError, FileNotFoundError, FileExistsError),
    *(IsADirectoryError, NotADirectoryError, PermissionError),
)


def complain(message: str) -> None:
    """Print one line on standard error, with the rank of one of several processes of torchrun."""
    several = os.environ.get("WORLD_SIZE", "1") != "1"
    rank = f"rank {os.environ.get('RANK')}: " if several else ""
    print(f"resultant: {rank}{message}", file=sys.stderr)


def explain(error: BaseException) -> tuple[int, str] | None:
    """Return the exit status and the message of an error; None for a defect of the program."""
    text = message_of(error)
    if isinstance(error, ModuleNotFoundError):
        module = (error.name or "").partition(".")[0]
        install = f"expected {module}: pip install 'resultant[{EXTRAS.get(module)}]'"
        return (WRONG_USE, install) if module in EXTRAS else None
    if isinstance(error, MISTAKES):
        return WRONG_USE, text
    if isinstance(error, OSError):
        # As with ``| head``: nobody reads on.
        return FAILED, "" if isinstance(error, BrokenPipeError) else text
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, ": ".join(("interrupted", *map(str, error.args)))
    if isinstance(error, TerminatedError):
        # torchrun ends the other processes this way after one has failed and printed why.
        silent = not error.args and "RANK" in os.environ
        return TERMINATED, "" if silent else ": ".join(("terminated", *map(str, error.args)))
    full = type(error).__name__ == "OutOfMemoryError" or "allocate memory" in text
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and full):
        remedy = "reduce the rows, --batch-size, --stack or --workers"
        return FAILED, f"expected more memory, got: {text.partition('. ')[0]}; {remedy}"
    if isinstance(error, RuntimeError) and "by peer" in text:
        lost = "expected all processes of the job to live, got one that was lost"
        return FAILED, f"{lost}; give the same command again"
    return None


def message_of(error: BaseException) -> str:
    """Return the message of an error in one line of bounded length, with the name of its file."""
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        message = f"expected a file, got nothing at {error.filename}"
    elif isinstance(error, OSError) and error.strerror is not None:
        where = "" if error.filename is None else f": {error.filename}"
        message = f"{error.strerror}{where}"
    else:
        message = str(error) or type(error).__name__
    return shortened("; ".join(filter(None, (one_line(message), getattr(error, "remedy", "")))))
