"""Files that are complete or absent, checks before writing, and a lock of a folder; without torch.

A file is written in a private folder next to its place, synced and renamed.
"""

import json
import os
import platform
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

# Names the process that holds the lock of a folder.
LOCK = ".in-use"
# Private folders of this process.
_in_use: set[Path] = set()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary name; without an error the file takes the place of ``path`` at the end."""
    require_writable_file(path)
    clean_folder(path.parent, path.name)
    try:
        with _private_folder(path) as folder:
            temporary = folder / path.name
            temporary.touch()
            mode = temporary.stat().st_mode
            yield temporary
            temporary.chmod(mode)
            sync(temporary)
            os.replace(temporary, path)
            sync(path.parent)
    except OSError as error:
        # The error of a full disk names no file.
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file that is complete or absent; create its folder."""
    path = Path(path)
    make_folder(path.parent)
    with replacing(path) as temporary:
        temporary.write_text(text)


def require_input_file(path: str | os.PathLike[str]) -> None:
    """Raise a ValueError if ``path`` is a pipe, a device or a folder: reading may never end."""
    with suppress(FileNotFoundError):
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            got = "a folder" if stat.S_ISDIR(mode) else "a pipe or a device"
            raise ValueError(f"expected a file to read, got {got}: {os.fspath(path)}")


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Read a file of text, such as a list or records."""
    require_input_file(path)
    return Path(path).read_bytes()


def parse_json(text: str | bytes) -> Any:
    """Parse one JSON document; raise a ValueError also for one that is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None


def require_writable_file(path: Path) -> None:
    """Raise an OSError if ``path`` is a folder or device, or is in no folder."""
    if path.is_dir():
        raise IsADirectoryError(f"expected a file to write, got the folder {path}")
    if path.exists() and not path.is_file():
        # Root would replace /dev/null.
        raise FileExistsError(f"expected a file to write, got the device or pipe {path}")
    if not path.parent.is_dir():
        raise NotADirectoryError(f"expected a folder to write {path.name} in, got {path.parent}")


def require_writable_folder(out: Path, option: str = "--out") -> None:
    """Raise a ValueError unless ``out``, of an option, is or can be a writable folder."""
    existing = next(part for part in (out, *out.parents) if part.exists() or part.is_symlink())
    if not existing.is_dir():
        raise ValueError(f"expected {option} to be a folder, got a file: {existing}")
    try:
        with _private_folder(existing / "writable"):
            pass
    except OSError as error:
        can = "files can be written" if existing == out else "a folder can be made"
        rule = f"expected {option} where {can}, got {out}"
        raise ValueError(f"{rule} ({error.strerror})") from None


@contextmanager
def lock_folder(folder: Path, rank: int = 0) -> Iterator[None]:
    """Hold the lock of a folder, which is created, for all ranks of a job, until it ends or is
    killed; raise a ValueError if another job holds it. File systems without locks let all in."""
    if rank > 0:
        yield
        return
    from filelock import FileLock, Timeout

    make_folder(folder)
    path = folder / LOCK
    lock = FileLock(path, timeout=0, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout:
        rule = f"expected a folder that no other training writes to, got {folder}"
        holder = path.read_text() or "another process"
        remedy = "wait until that ends, or give another folder"
        raise ValueError(f"{rule}, in use by {holder}; {remedy}") from None
    except OSError:
        yield
        return
    try:
        path.write_text(f"process {os.getpid()} on {platform.node()}")
        clean_folder(folder)
        yield
    finally:
        # While the lock is held: a process that waits for the name sees that the file is gone.
        path.unlink(missing_ok=True)
        lock.release()


def make_folder(folder: Path) -> None:
    """Create a folder and those above it, so that they survive a power failure."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync(folder.parent)


def clean_folder(folder: Path, name: str = "") -> None:
    """Remove the private folders, of one file or of all, that killed processes left here."""
    node, start = re.escape(platform.node()), re.escape(name) if name else ".+"
    pattern = re.compile(rf"\.{start}\.{node}-(\d+)-\w+\.tmp")
    for private in folder.iterdir() if folder.is_dir() else ():
        match = pattern.fullmatch(private.name)
        if match is not None and private not in _in_use and not _alive(int(match[1])):
            # A folder that is gone or belongs to another user does not prevent writing.
            shutil.rmtree(private, ignore_errors=True)


def sync(path: Path) -> None:
    """Wait until a file, or the list of files of a folder, is on the disk."""
    # Some systems cannot open a folder, and some file systems cannot sync one.
    with suppress(OSError) if path.is_dir() else nullcontext():
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


@contextmanager
def _private_folder(path: Path) -> Iterator[Path]:
    """Yield a new hidden folder next to ``path``; remove it at the end."""
    start = f".{path.name}.{platform.node()}-{os.getpid()}-"
    folder = Path(tempfile.mkdtemp(".tmp", start, path.parent))
    _in_use.add(folder)
    try:
        yield folder
    finally:
        _in_use.discard(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _alive(process: int) -> bool:
    # In a restarted container this process may have the number of one that was killed.
    if process == os.getpid():
        return False
    try:
        # On other systems signal 0 ends the process: a leftover file is the lesser harm.
        if os.name == "posix":
            os.kill(process, 0)
    except (OSError, OverflowError) as error:
        return isinstance(error, PermissionError)
    return True
