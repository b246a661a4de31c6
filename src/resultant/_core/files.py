"""Files that are whole or not there: written under a temporary name, and renamed."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

KINDS = ("tmp", "old")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name beside ``path`` that takes its place unless an error comes first, with the
    rights of any new file: some writers make one of their own, which nobody else may read."""
    require_place(path)
    remove_leftovers(path)
    temporary = beside(path)
    try:
        temporary.touch()
        mode = temporary.stat().st_mode
        yield temporary
        temporary.chmod(mode)
        os.replace(temporary, path)
    except OSError as error:
        # That a disk is full is told without a name.
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file; it is complete or is not there."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(text)


def require_place(path: Path) -> None:
    """Raise unless a file can be put at ``path``, as far as names tell."""
    if path.is_dir():
        raise IsADirectoryError(f"expected a file to write, got the folder {path}")
    if path.exists() and not path.is_file():
        # Root would replace /dev/null.
        raise FileExistsError(f"expected a file to write, got the device or pipe {path}")
    if not path.parent.is_dir():
        raise NotADirectoryError(f"expected a folder to write {path.name} in, got {path.parent}")


def beside(path: Path, kind: str = "tmp") -> Path:
    """A hidden name beside ``path``, of this process alone also in a folder of many machines."""
    return path.with_name(f"{_start(path)}{os.getpid()}.{kind}")


def remove_leftovers(path: Path) -> None:
    """Remove what processes of this machine that were killed left of ``path``, by their names."""
    if not path.parent.is_dir():
        return
    start = _start(path)
    for name in os.listdir(path.parent):
        if name.startswith(start):
            process, _, kind = name.removeprefix(start).partition(".")
            if kind in KINDS and process.isdecimal() and not _alive(int(process)):
                _remove(path.with_name(name))


def _remove(path: Path) -> None:
    # One that is gone already or belongs to somebody else is no reason not to write.
    with suppress(OSError):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _start(path: Path) -> str:
    return f".{path.name}.{platform.node()}-"


def _alive(process: int) -> bool:
    # Elsewhere a signal of zero ends the process: better a leftover than that.
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True
