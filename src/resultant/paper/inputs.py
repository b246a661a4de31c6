"""What REPRODUCTION.md was made from, as a digest: whether it is of these records can be told
without making it again."""

from __future__ import annotations

import ast
import hashlib
import importlib.resources
from collections.abc import Iterator, Sequence
from pathlib import Path

from resultant.paper.evidence import PACKAGED

MARK = "<!-- made from {} -->"

# Modules that say nothing in the text.
SILENT = ("run.py", "inputs.py", "brought.py")


def digest(results: Path, brought: Sequence[Path] = ()) -> str:
    """Of the records of a folder, the packaged features, what the modules of this package say and
    print, and files that were brought: SHA-256 in hexadecimal digits."""
    whole = hashlib.sha256()
    for path in sorted(results.glob("*.jsonl")):
        whole.update(f"{path.name} {_sha256(path)}\n".encode())
    source = importlib.resources.files("resultant") / "resources" / f"{PACKAGED}.safetensors"
    with importlib.resources.as_file(source) as path:
        whole.update(f"{PACKAGED} {_sha256(path)}\n".encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.name not in SILENT:
            for constant in constants(path.read_text(encoding="utf-8")):
                whole.update(f"{constant}\n".encode())
    for path in brought:
        whole.update(f"{_sha256(path)}\n".encode())
    return whole.hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def constants(source: str) -> Iterator[str]:
    """The numbers and strings of a module but for its docstrings: how it is laid out, and what is
    remarked in it, does not matter."""
    for node in ast.walk(ast.parse(source)):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Constant) and not isinstance(node, ast.Expr):
                yield repr(child.value)
