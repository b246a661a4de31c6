"""Output for the user of a command: one-line errors, standard output that cannot be written.

Under torchrun several processes run the same command. The first process speaks for all of them.
"""

from __future__ import annotations

import os
import select
import sys
import time

from resultant._core.text import one_line, shortened

OK, FAILED, WRONG_USE, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143

# Seconds for which a process waits before it reports an error: torchrun ends all processes with the
# first one that fails, so an error of all processes appears once.
PATIENCE = 5.0


def wait_for_first() -> None:
    """Wait in the other processes until the first one has reported an error."""
    if not is_first():
        time.sleep(PATIENCE)


def say(text: str = "", complaint: str = "") -> int:
    """Print a text once, from the first of all processes; return the exit status."""
    if is_first():
        print(text, end="", flush=True)
        print(complaint, end="", file=sys.stderr)
    elif complaint:
        wait_for_first()
    return WRONG_USE if complaint else OK


def complain(message: str, at_once: bool = False) -> None:
    """Print one line on standard error, with the rank under torchrun.

    The other processes wait, unless ``at_once``: torchrun ends them while they wait if the first
    process fails too, and an error of a single process is printed after that.
    """
    if not at_once:
        wait_for_first()
    rank = f"rank {os.environ.get('RANK')}: " if several_processes() else ""
    print(f"resultant: {rank}{message}", file=sys.stderr)


def is_first() -> bool:
    """Return True in the only process, or in the first of several."""
    return not several_processes() or os.environ.get("RANK", "0") == "0"


def several_processes() -> bool:
    """Return True if torchrun started several processes."""
    return os.environ.get("WORLD_SIZE", "1") != "1"


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


def failure(error: RuntimeError) -> str | None:
    """Return one line on a machine that failed; None for another error.

    A GPU without memory, or another rank of the job that was killed.
    """
    text, again = str(error), "give the same command again"
    if type(error).__name__ == "OutOfMemoryError" or "allocate memory" in text:
        remedy = "reduce the rows, --batch-size, --stack or --workers"
        return f"expected more memory, got: {one_line(text.partition('.')[0])}; {remedy}"
    if "Connection closed by peer" in text or "Connection reset by peer" in text:
        return f"expected all processes of the job to live, got one that was lost; {again}"
    return None


def reader_is_gone() -> bool:
    """Return True if the reader of the standard output closed it; the rest is then dropped."""
    # Systems without poll, such as Windows, report a broken pipe like any other error.
    if sys.stdout is None or not hasattr(select, "poll"):
        return False
    output = select.poll()
    output.register(sys.stdout.fileno(), select.POLLOUT)
    broken = any(event & select.POLLERR for _, event in output.poll(0))
    if broken:
        _drop_output()
    return broken


def output_is_stuck() -> bool:
    """Return True if buffered output cannot be written; the output is then dropped."""
    if sys.stdout is None:
        return False
    try:
        sys.stdout.flush()
    except OSError:
        _drop_output()
        return True
    return False


def _drop_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
