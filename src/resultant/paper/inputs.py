"""What REPRODUCTION.md was made from, as a digest: whether it is of these records can be told
without making it again."""

from __future__ import annotations

import hashlib
import importlib.resources
from collections.abc import Sequence
from pathlib import Path

from resultant.paper.evidence import PACKAGED

MARK = "<!-- made from {} -->"

# Modules that say nothing in the text.
SILENT = ("run.py", "increments.py", "inputs.py", "brought.py")


def digest(results: Path, brought: Sequence[Path] = ()) -> str:
    """Of the records of a folder, the packaged features, the code of this package and of
    `resultant.verify`, and files that were brought: SHA-256 in hexadecimal digits."""
    whole = hashlib.sha256()
    for path in sorted(results.glob("*.jsonl")):
        whole.update(f"{path.name} {_sha256(path)}\n".encode())
    source = importlib.resources.files("resultant") / "resources" / f"{PACKAGED}.safetensors"
    with importlib.resources.as_file(source) as path:
        whole.update(f"{PACKAGED} {_sha256(path)}\n".encode())
    here = Path(__file__).parent
    for path in (*sorted(here.glob("*.py")), *sorted(here.with_name("verify").glob("*.py"))):
        if path.parent != here or path.name not in SILENT:
            whole.update(f"{path.parent.name}/{path.name} {_sha256(path)}\n".encode())
    for path in brought:
        whole.update(f"{_sha256(path)}\n".encode())
    return whole.hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
