"""Files and folders that are complete or absent, checks before writing, and a lock of a folder.

A file or folder is written under a temporary name and then renamed. This module does not import
torch, because commands check their output before anything else.
"""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

KINDS = ("tmp", "old")
# Names the process that holds the lock of a folder.
LOCK = ".in-use"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary name next to ``path``; the file takes the place of ``path`` at the end.

    After an error ``path`` is unchanged. The file has the permissions of any new file: some
    writers create one that only its owner may read.
    """
    require_writable_file(path)
    remove_leftovers(path)
    temporary = temporary_name(path)
    try:
        temporary.touch()
        mode = temporary.stat().st_mode
        yield temporary
        temporary.chmod(mode)
        os.replace(temporary, path)
    except OSError as error:
        # The error of a full disk names no file.
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replacing_folder(out: Path) -> Iterator[Path]:
    """Yield a temporary folder next to ``out`` that takes the place of ``out`` at the end.

    After an error ``out`` is unchanged.
    """
    # Of a link the target is replaced.
    out = out.resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary, old = temporary_name(out), temporary_name(out, "old")
    # In a container a process may have the number, and so the names, of one that was killed.
    shutil.rmtree(temporary, ignore_errors=True)
    if old.exists():
        shutil.rmtree(old) if out.exists() else os.rename(old, out)
    try:
        temporary.mkdir()
        yield temporary
        if out.exists():
            os.rename(out, old)
        os.rename(temporary, out)
        # Not before: a process killed between the two renames may have left the only copy.
        remove_leftovers(out)
    except BaseException:
        if old.exists() and not out.exists():
            os.rename(old, out)
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        # Where the old folder could not be put back, it is the only copy.
        if out.exists():
            shutil.rmtree(old, ignore_errors=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file that is complete or absent; create its folder."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(text)


def require_writable_file(path: Path) -> None:
    """Raise an OSError if ``path`` is a folder or device, or is in no folder."""
    if path.is_dir():
        raise IsADirectoryError(f"expected a file to write, got the folder {path}")
    if path.exists() and not path.is_file():
        # Root would replace /dev/null.
        raise FileExistsError(f"expected a file to write, got the device or pipe {path}")
    if not path.parent.is_dir():
        raise NotADirectoryError(f"expected a folder to write {path.name} in, got {path.parent}")


def require_writable_folder(out: Path, option: str = "--out", *, replace: bool = False) -> None:
    """Raise a ValueError unless ``out`` is a writable folder or can be created.

    Args:
        out: the folder.
        option: the option that names the folder, for the error.
        replace: the folder will be replaced as a whole (`replacing_folder`), so its parent must be
            writable, and ``out`` must not be a mount.
    """
    existing = next(part for part in (out, *out.parents) if part.exists() or part.is_symlink())
    if not existing.is_dir():
        raise ValueError(f"expected {option} to be a folder, got a file: {existing}")
    if replace and out.is_mount():
        rule = f"expected {option} within a mounted folder"
        raise ValueError(f"{rule}, got the mount itself: {out}")
    if replace:
        existing = next(part for part in out.resolve().parents if part.exists())
    try:
        tempfile.TemporaryDirectory(dir=existing).cleanup()
    except OSError as error:
        can = "files can be written" if existing == out else "a folder can be made"
        rule = f"expected {option} where {can}, got {out}"
        raise ValueError(f"{rule} ({error.strerror})") from None


@contextmanager
def lock_folder(folder: Path, rank: int = 0) -> Iterator[None]:
    """Hold the lock of a folder, which is created; raise a ValueError if another job holds it.

    Rank 0 of a job holds the lock for all its processes; other ranks do nothing. The lock ends
    with the process that holds it, even if that process is killed, and child processes do not
    inherit it. File systems without locks let every job in.
    """
    if rank > 0:
        yield
        return
    from filelock import FileLock, Timeout

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    lock = FileLock(path, timeout=0, fallback_to_soft=False)
    me = f"process {os.getpid()} on {platform.node()}"
    try:
        lock.acquire()
    except Timeout:
        holder = path.read_text() or "another process"
        holder = "this process" if holder == me else holder
        rule = f"expected a folder that no other training writes to, got {folder}"
        remedy = "wait until that ends, or give another folder"
        raise ValueError(f"{rule}, in use by {holder}; {remedy}") from None
    except OSError:
        yield
        return
    try:
        path.write_text(me)
        yield
    finally:
        # While the lock is held: a process that waits for the name sees that the file is gone.
        path.unlink(missing_ok=True)
        lock.release()


def temporary_name(path: Path, kind: str = "tmp") -> Path:
    """Return a hidden name next to ``path`` that is unique to this process and machine."""
    return path.with_name(f"{_start(path)}{os.getpid()}.{kind}")


def remove_leftovers(path: Path) -> None:
    """Remove the temporary files of ``path`` left by killed processes of this machine."""
    if not path.parent.is_dir():
        return
    start = _start(path)
    for name in os.listdir(path.parent):
        if name.startswith(start):
            process, _, kind = name.removeprefix(start).partition(".")
            if kind in KINDS and process.isdecimal() and not _alive(int(process)):
                _remove(path.with_name(name))


def _remove(path: Path) -> None:
    # A file that is gone or belongs to another user does not prevent writing.
    with suppress(OSError):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _start(path: Path) -> str:
    return f".{path.name}.{platform.node()}-"


def _alive(process: int) -> bool:
    # On other systems signal 0 ends the process: a leftover file is the lesser harm.
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True
