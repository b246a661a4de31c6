"""Output for the user of a command: help, one-line errors, standard output that cannot be written.

Under torchrun several processes run the same command. The first process speaks for all of them.
"""

from __future__ import annotations

import io
import os
import re
import select
import shutil
import sys
import textwrap
import time

from resultant._core.text import one_line, shortened

OK, FAILED, WRONG_USE, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143

# Seconds for which a process waits before it reports an error: torchrun ends all processes with the
# first one that fails, so an error of all processes appears once.
PATIENCE = 5.0

# Parts of a usage error that repeat the help, and a title.
HELP = ("Argument helptext", "For full helptext", "Value error")
# Usage errors of tyro, and the same in plain words.
PLAIN = (
    (r"^Error parsing (?!-)\w+: ", ""),
    (r"^Error parsing (--\S+): invalid literal .*: (\S+)$", r"expected an integer for \1, got \2"),
    (r"^Error parsing (--\S+): could not convert .*: (\S+)$", r"expected a number for \1, got \2"),
    (
        r"^Error parsing (--\S+): no type matching \{None\}\|\w+ .* from \[(\S+)\]\..*$",
        r"expected a number for \1, got \2",
    ),
    (r"^Expected one of \{(.*)\}$", r"expected one of \1, got none"),
)

# Messages of torch, oneDNN, Arrow, CUDA, Python and the loader of libraries about memory, of which
# a thread takes some too, and the sizes in messages.
SHORTAGE = re.compile(
    r"(can't|cannot|unable to|not enough|out of) (alloc|memory)"
    r"|could not (create|execute) a primitive|can't start new thread"
    r"|failed to map segment",
    re.IGNORECASE,
)
SIZE = re.compile(
    r"(?P<number>\d[\d.]*) (?P<unit>[KMGT]iB)|size (?P<bytes>\d+)|(?P<same>\d+) bytes"
)


def say(text: str = "", complaint: str = "") -> int:
    """Print a text once, from the first of all processes; return the exit status."""
    if is_first():
        print(text, end="", flush=True)
        print(complaint, end="", file=sys.stderr)
    elif complaint:
        time.sleep(PATIENCE)
    return WRONG_USE if complaint else OK


def complain(message: str, at_once: bool = False) -> None:
    """Print one line on standard error, with the rank under torchrun.

    The other processes wait, unless ``at_once``: torchrun ends them while they wait if the first
    process fails too, and an error of a single process is printed after that.
    """
    if not at_once and not is_first():
        time.sleep(PATIENCE)
    rank = f"rank {os.environ.get('RANK')}: " if several_processes() else ""
    print(f"resultant: {rank}{message}", file=sys.stderr)


def is_first() -> bool:
    """Return True in the only process, or in the first of several."""
    return not several_processes() or os.environ.get("RANK", "0") == "0"


def several_processes() -> bool:
    """Return True if torchrun started several processes."""
    return os.environ.get("WORLD_SIZE", "1") != "1"


class Buffer(io.TextIOWrapper):
    """Text to print later, formatted for the encoding and the colours of the standard output."""

    def __init__(self) -> None:
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        super().__init__(io.BytesIO(), encoding, errors="replace", write_through=True)
        self.streams = sys.stdout, sys.stderr

    def text(self) -> str:
        self.seek(0)
        return self.read()

    def isatty(self) -> bool:
        terminals = all(stream is not None and stream.isatty() for stream in self.streams)
        return terminals and not os.environ.get("NO_COLOR")


def fold(text: str) -> str:
    """Fold the lines of a help text that tyro leaves too long; frames and examples stay."""
    if "usage:" not in text.partition("\n")[0]:
        return text
    width = shutil.get_terminal_size().columns
    lines = text.splitlines()
    for i, line in enumerate(lines):
        if len(line) > width and (line[0].isalnum() or line[0] == '"'):
            # The choices of the usage line are one long word.
            line = line.replace(",", ", ") if i == 0 else line
            lines[i] = textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def unframed(text: str) -> str:
    """Return a usage error of tyro, a framed box of several parts, as one line without the help."""
    parts: list[list[str]] = [[]]
    for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines():
        inner = line.strip("│| ")
        if inner and not inner.strip("─-"):
            parts.append([])
        elif not line.startswith(("╭", "╰", "+")):
            parts[-1].append(inner)
    joined = [one_line(" ".join(part)).rstrip(".") for part in parts]
    for pattern, plain in PLAIN:
        joined = [re.sub(pattern, plain, part) for part in joined]
    return shortened("; ".join(part for part in joined if part and not part.startswith(HELP)))


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


def lost_process(error: BaseException) -> str | None:
    """Return one line on a process that was killed: one that decodes images, or another rank of
    the job; None for another error."""
    if re.search(r"Connection (closed|reset) by (remote )?peer|remote process exited", str(error)):
        got = "got one that was lost; give the same command again"
        return f"expected all processes of the job to live, {got}"
    if "DataLoader worker" not in str(error):
        return None
    got = "got one that was killed, perhaps for lack of memory"
    remedy = "give the same command again, or fewer --workers"
    return f"expected all processes that decode images to live, {got}; {remedy}"


def memory_shortage(error: BaseException) -> str | None:
    """Return one line on an allocation that failed, with its size; None for another error.

    NumPy and Python raise a MemoryError, torch a RuntimeError, the loader an ImportError.
    """
    text = str(error)
    if not isinstance(error, MemoryError) and not SHORTAGE.search(text):
        return None
    amount = "more"
    if size := SIZE.search(text):
        number = size["number"] or f"{int(size['bytes'] or size['same']) / 2**30:.2f}"
        amount = f"{number} {size['unit'] or 'GiB'} more"
    remedy = (
        "reduce the rows, --batch-size, --stack or --workers, or use a machine with more memory"
    )
    return f"expected enough memory, got no room for {amount}; {remedy}"


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
