"""A forked child whose file operations, sockets and programs this process decides about.

The kernel stops the child before every system call that changes files, opens a socket or starts a
program, whichever library makes the call, and asks this process (seccomp user notification). The
answer lets the call pass, makes it fail with an error such as ENOSPC, or comes after the child was
killed. The child starts from this process, which has done the imports. Linux alone.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import os
import platform
import resource
import select
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import torch

# System calls by machine: name -> number. Old calls without "at" exist on x86-64 alone.
CALLS = {
    "x86_64": {
        "open": 2,
        "creat": 85,
        "rename": 82,
        "mkdir": 83,
        "rmdir": 84,
        "unlink": 87,
        "link": 86,
        "symlink": 88,
        "chmod": 90,
        "mknod": 133,
        "openat": 257,
        "openat2": 437,
        "write": 1,
        "pwrite64": 18,
        "writev": 20,
        "pwritev": 296,
        "pwritev2": 328,
        "fsync": 74,
        "fdatasync": 75,
        "renameat": 264,
        "renameat2": 316,
        "mkdirat": 258,
        "unlinkat": 263,
        "linkat": 265,
        "symlinkat": 266,
        "truncate": 76,
        "ftruncate": 77,
        "fallocate": 285,
        "sendfile": 40,
        "copy_file_range": 326,
        "fchmodat": 268,
        "mknodat": 259,
        "socket": 41,
        "connect": 42,
        "execve": 59,
        "execveat": 322,
        "seccomp": 317,
    },
    "aarch64": {
        "openat": 56,
        "openat2": 437,
        "write": 64,
        "pwrite64": 68,
        "writev": 66,
        "pwritev": 70,
        "pwritev2": 287,
        "fsync": 82,
        "fdatasync": 83,
        "renameat": 38,
        "renameat2": 276,
        "mkdirat": 34,
        "unlinkat": 35,
        "linkat": 37,
        "symlinkat": 36,
        "truncate": 45,
        "ftruncate": 46,
        "fallocate": 47,
        "sendfile": 71,
        "copy_file_range": 285,
        "fchmodat": 53,
        "mknodat": 33,
        "socket": 198,
        "connect": 203,
        "execve": 221,
        "execveat": 281,
        "seccomp": 277,
    },
}
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
MACHINE = platform.machine()
NAMES = {number: name for name, number in CALLS.get(MACHINE, {}).items() if name != "seccomp"}
# The file of a call: the arguments that hold the folder and the path, or the number of a file.
NUMBER = ((0, None),)
FILES = {
    **dict.fromkeys(("open", "creat", "mkdir", "rmdir", "unlink", "chmod", "mknod"), ((None, 0),)),
    **dict.fromkeys(("rename", "link"), ((None, 0), (None, 1))),
    **dict.fromkeys(("openat", "openat2", "mkdirat", "unlinkat", "fchmodat", "mknodat"), ((0, 1),)),
    **dict.fromkeys(("renameat", "renameat2", "linkat"), ((0, 1), (2, 3))),
    "symlink": ((None, 1),),
    "symlinkat": ((1, 2),),
    "truncate": ((None, 0),),
    **dict.fromkeys(("write", "pwrite64", "writev", "pwritev", "pwritev2"), NUMBER),
    **dict.fromkeys(("fsync", "fdatasync", "ftruncate", "fallocate", "sendfile"), NUMBER),
    "copy_file_range": ((2, None),),
    "execve": ((None, 0),),
    "execveat": ((0, 1),),
}
WRITES = ("write", "pwrite64", "writev", "pwritev", "pwritev2", "sendfile", "copy_file_range")
SYNCS = ("fsync", "fdatasync")
NEEDS_SPACE = (*WRITES, "mkdir", "mkdirat", "openat", "open", "creat", "fallocate")
PROGRAMS, SOCKETS = ("execve", "execveat"), ("socket", "connect")

CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
AT_CWD, LOCAL = 0xFFFFFF9C, (socket.AF_UNIX, 16)
RECEIVE, ANSWER = 0xC0502100, 0xC0182101
ALLOW, ASK = 0x7FFF0000, 0x7FC00000
LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
NO_NEW_PRIVILEGES, WITH_LISTENER = 38, 8
# Milliseconds between two looks at the memory of a child.
SAMPLED = 4


class Call(NamedTuple):
    """A system call that the child is about to make: its name and the files it concerns."""

    name: str
    paths: tuple[str, ...]
    process: int

    @property
    def text(self) -> str:
        return f"{self.name} {' -> '.join(self.paths)}".rstrip()


class Kill(Exception):  # noqa: N818
    """Raised by a watcher: the child is killed before the call."""


# Returns the number of the error that the call fails with, or 0 to let the call pass.
Watcher = Callable[[Call], int]


class Outcome(NamedTuple):
    """The end of a child: its exit status, or minus its signal, its output, and the bytes of
    memory that it added (0 without a limit)."""

    status: int
    output: str
    errors: str
    seconds: float
    memory: int
    timed_out: bool

    @property
    def traceback(self) -> bool:
        return "Traceback (most recent call last)" in self.errors


def supported() -> bool:
    """Return True where the kernel can ask this process about the calls of a child."""
    return sys.platform == "linux" and bool(NAMES) and Path("/proc/self/mem").exists()


def run(
    function: Callable[[], int | None],
    scratch: Path,
    watcher: Watcher = lambda call: 0,
    *,
    seconds: float = 120,
    memory: int | None = None,
    start: Callable[[int], None] = lambda child: None,
) -> Outcome:
    """Run ``function`` in a forked child.

    Args:
        function: Returns an exit status; None is 0.
        scratch: Folder for the output of the child and its temporary files.
        watcher: Decides about every call on a file, socket or program.
        seconds: Time after which the child is killed.
        memory: Bytes of address space that the child may add.
        start: Called with the process of the child, for signals.
    """
    captured = {number: scratch / name for number, name in ((1, "output"), (2, "errors"))}
    for path in captured.values():
        path.write_bytes(b"")
    here, there = socket.socketpair()
    gc.freeze()
    begun = time.monotonic()
    child = os.fork()
    if child == 0:
        here.close()
        os._exit(_child(function, there, captured, memory))
    there.close()
    with here:
        _, numbers, _, _ = socket.recv_fds(here, 1, 1)
    start(child)
    process = os.pidfd_open(child)
    try:
        timed_out, peak = _supervise(
            numbers[0], process, child, watcher, begun + seconds, captured, memory is not None
        )
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        for number in (process, *numbers):
            os.close(number)
    output, errors = (path.read_text(errors="replace") for path in captured.values())
    return Outcome(
        os.waitstatus_to_exitcode(status),
        output,
        errors,
        time.monotonic() - begun,
        peak,
        timed_out,
    )


def _child(
    function: Callable[[], int | None],
    there: socket.socket,
    captured: dict[int, Path],
    memory: int | None,
) -> int:
    os.setsid()
    sys.dont_write_bytecode = True
    # Threads of OpenMP do not survive a fork: with more than one, a forked child waits for ever.
    torch.set_num_threads(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, path in captured.items():
        os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND), number)
    for signal_ in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory is not None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + memory
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    # Streams of the parent may be captured by a test.
    sys.stdout, sys.stderr = (os.fdopen(os.dup(n), "w", buffering=1) for n in (1, 2))
    listener = _install_filter()
    socket.send_fds(there, [b"."], [listener])
    os.close(listener)
    there.close()
    try:
        status = function() or 0
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else 1
    except BaseException:
        traceback.print_exc()
        status = 70
    with suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    return status


def _supervise(
    listener: int,
    process: int,
    child: int,
    watcher: Watcher,
    deadline: float,
    captured: dict[int, Path],
    sampled: bool,
) -> tuple[bool, int]:
    """Answer the questions of the kernel; return True if the time was up, and the bytes of memory
    that the child added at most, if sampled."""
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    poll.register(process, select.POLLIN)
    own = {str(path) for path in captured.values()}
    first = peak = _anonymous(child) if sampled else 0
    while (left := deadline - time.monotonic()) > 0:
        events = dict(poll.poll(SAMPLED if sampled else 1000 * left))
        if sampled:
            peak = max(peak, _anonymous(child))
        if events.get(listener, 0) & select.POLLIN:
            question = bytearray(80)
            try:
                fcntl.ioctl(listener, RECEIVE, question)
                identity, thread, _, number, _, _, *arguments = struct.unpack("QIIiIQ6Q", question)
                call = _call(NAMES[number], thread, arguments)
                concerned = call is not None and not own.issuperset(call.paths)
                error = watcher(call) if call is not None and concerned else 0
                answer = struct.pack("QqiI", identity, 0, -error, 0 if error else 1)
                fcntl.ioctl(listener, ANSWER, bytearray(answer))
            except (FileNotFoundError, ProcessLookupError):
                # The child ended while it waited.
                continue
            except Kill:
                os.kill(child, signal.SIGKILL)
                break
        elif process in events:
            break
    return left <= 0, peak - first


def _call(name: str, process: int, arguments: list[int]) -> Call | None:
    """Return the call; None for what concerns neither files nor the network."""
    if name in SOCKETS:
        family = arguments[0] & 0xFFFFFFFF
        if name == "socket":
            return None if family in LOCAL else Call(name, (f"family {family}",), process)
        (family,) = struct.unpack("H", _read(process, arguments[1], 2))
        return None if family in LOCAL else Call(name, (f"family {family}",), process)
    paths = []
    for folder, path in FILES[name]:
        base = f"/proc/{process}/cwd"
        if folder is not None and arguments[folder] & 0xFFFFFFFF != AT_CWD:
            base = f"/proc/{process}/fd/{arguments[folder] & 0xFFFFFFFF}"
        place = os.readlink(base)
        if path is not None:
            text = _read(process, arguments[path], 4096).partition(b"\0")[0]
            place = os.path.join(place, os.fsdecode(text))
            head, tail = os.path.split(place)
            place = os.path.join(os.path.realpath(head), tail)
            if name in ("open", "openat", "creat") and os.path.islink(place):
                place = os.path.realpath(place)
        paths.append(place)
    regular = [p for p in paths if p.startswith("/") and not p.startswith(("/dev/", "/proc/"))]
    return Call(name, tuple(regular), process) if regular else None


def _read(process: int, address: int, size: int) -> bytes:
    with open(f"/proc/{process}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        page = resource.getpagesize()
        # The text may end at the last page that is mapped.
        data = memory.read(min(size, page - address % page))
        with suppress(OSError):
            data += memory.read(size - len(data)) if b"\0" not in data else b""
        return data


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_ushort),
        ("yes", ctypes.c_ubyte),
        ("no", ctypes.c_ubyte),
        ("k", ctypes.c_uint),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("start", ctypes.POINTER(_Instruction)))


def _install_filter() -> int:
    """Ask about `NAMES` from now on; an open for reading passes. Return the listener."""
    lines = [(LOAD, 0, 0, 4), (EQUAL, 1, 0, AUDIT[MACHINE]), (RETURN, 0, 0, ALLOW), (LOAD, 0, 0, 0)]
    for number, name in NAMES.items():
        if name in ("open", "openat"):
            flags = 16 + 8 * (1 if name == "open" else 2)
            lines += [(EQUAL, 0, 4, number), (LOAD, 0, 0, flags), (ANY_BIT, 0, 1, CHANGES)]
            lines += [(RETURN, 0, 0, ASK), (RETURN, 0, 0, ALLOW)]
        else:
            lines += [(EQUAL, 0, 1, number), (RETURN, 0, 0, ASK)]
    lines.append((RETURN, 0, 0, ALLOW))
    program = _Program(len(lines), (_Instruction * len(lines))(*lines))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    listener = libc.syscall(CALLS[MACHINE]["seccomp"], 1, WITH_LISTENER, ctypes.byref(program))
    if listener < 0:
        raise OSError(ctypes.get_errno(), "expected a kernel with seccomp notification, got none")
    return listener


def _anonymous(process: int) -> int:
    """Return the bytes of memory of a process that are its own and no part of a file."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("RssAnon"):
                return 1024 * int(line.split()[1])
    return 0
