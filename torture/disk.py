"""A model of the disk: the part of a folder that survives a power failure."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from torture.watched import SYNCS, Call


class Disk:
    """A watcher that keeps the content of every file at its last sync, and the names in every
    folder at the last sync of the folder. What is in the folder at the start is on the disk.

    Args:
        root: The folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(root))
        self.contents: dict[int, bytes] = {}
        self.names: dict[int, dict[str, tuple[int, bool]]] = {}
        # Open files keep their inodes, so that no later file has the same number.
        self.held: list[int] = []
        for folder, _, files in os.walk(self.root):
            for path in (folder, *(os.path.join(folder, name) for name in files)):
                self.sync(path)

    def __call__(self, call: Call) -> int:
        if call.name in SYNCS and f"{call.paths[0]}/".startswith(f"{self.root}/"):
            with suppress(FileNotFoundError):
                self.sync(call.paths[0])
        return 0

    def sync(self, path: str) -> None:
        number = os.open(path, os.O_RDONLY)
        self.held.append(number)
        inode = os.fstat(number).st_ino
        if os.path.isdir(path):
            with os.scandir(path) as entries:
                self.names[inode] = {e.name: (e.inode(), e.is_dir()) for e in entries}
        else:
            self.contents[inode] = Path(path).read_bytes()

    def survivors(self, after: Path, *, names_survive: bool) -> None:
        """Write to ``after`` what would be left after a power failure now.

        Args:
            after: A new folder.
            names_survive: All names have reached the disk in time, contents have not: files that
                were renamed before they were synced are empty. Otherwise names are lost too.
        """
        after.mkdir()
        if names_survive:
            self._keep_names(self.root, after)
        else:
            self._restore(os.stat(self.root).st_ino, after)

    def fail(self, *, names_survive: bool) -> None:
        """Turn the folder into what is left after a power failure."""
        after = self.root.with_name(f"{self.root.name}-after")
        self.survivors(after, names_survive=names_survive)
        shutil.rmtree(self.root)
        after.rename(self.root)
        self.close()

    def close(self) -> None:
        for number in self.held:
            os.close(number)
        self.held.clear()

    def _keep_names(self, folder: Path, after: Path) -> None:
        for path in folder.iterdir():
            if path.is_dir():
                (after / path.name).mkdir()
                self._keep_names(path, after / path.name)
            else:
                (after / path.name).write_bytes(self.contents.get(path.stat().st_ino, b""))

    def _restore(self, inode: int, after: Path) -> None:
        for name, (child, is_folder) in self.names.get(inode, {}).items():
            if is_folder:
                (after / name).mkdir()
                self._restore(child, after / name)
            else:
                (after / name).write_bytes(self.contents.get(child, b""))
