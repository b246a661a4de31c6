"""Errors of a command: one line each, and the exit status.

Under torchrun several processes run the same command. The first process speaks for all of them.
"""

from __future__ import annotations

import os
import sys
import time

from resultant._core.termination import TerminatedError
from resultant._core.text import one_line, shortened

OK, FAILED, WRONG_USE, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143

# Seconds for which a process waits before it reports an error: torchrun ends all processes with the
# first one that fails, so an error of all processes appears once.
PATIENCE = 5.0

# The extra of the package that installs a module.
EXTRAS = {"torchvision": "vision", "timm": "vision", "PIL": "vision", "ray": "ray"}
# Errors that a user can correct.
MISTAKES = (
    *(ValueError, FileNotFoundError, FileExistsError),
    *(IsADirectoryError, NotADirectoryError, PermissionError),
)


def is_first() -> bool:
    """Return True in the only process, or in the first of several."""
    return not several_processes() or os.environ.get("RANK", "0") == "0"


def several_processes() -> bool:
    """Return True if torchrun started several processes."""
    return os.environ.get("WORLD_SIZE", "1") != "1"


def wait_for_first() -> None:
    """Wait in the other processes until the first one has reported an error."""
    if not is_first():
        time.sleep(PATIENCE)


def complain(message: str) -> None:
    """Print one line on standard error, with the rank under torchrun."""
    rank = f"rank {os.environ.get('RANK')}: " if several_processes() else ""
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
    if isinstance(error, BrokenPipeError):
        # As with ``| head``: nobody reads on.
        return FAILED, ""
    if isinstance(error, OSError):
        return FAILED, text
    if isinstance(error, MemoryError):
        return FAILED, f"expected more memory, got too little: {text}"
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, ": ".join(("interrupted", *map(str, error.args)))
    if isinstance(error, TerminatedError):
        # torchrun ends the other processes this way after one has failed and printed why.
        silent = not error.args and "RANK" in os.environ
        return TERMINATED, "" if silent else ": ".join(("terminated", *map(str, error.args)))
    if not isinstance(error, RuntimeError):
        return None
    if type(error).__name__ == "OutOfMemoryError" or "allocate memory" in text:
        remedy = "reduce the rows, --batch-size, --stack or --workers"
        return FAILED, f"expected more memory, got: {text.partition('.')[0]}; {remedy}"
    if "Connection closed by peer" in text or "Connection reset by peer" in text:
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
