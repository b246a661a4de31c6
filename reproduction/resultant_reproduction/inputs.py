"""What REPRODUCTION.md was made from, as a digest: whether it is of these records can be told
without making it again."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from resultant.features.packaged import PACKAGED, packaged_file

MARK = "<!-- made from {} -->"

# The modules that make the text, with all that they import.
SPEAKING = ("resultant_reproduction", "resultant_reproduction.words")


def digest(
    folders: Sequence[Path],
    stores: Mapping[str, Path] | None = None,
    brought: Sequence[Path] = (),
) -> str:
    """Of the records of folders, the packaged features, the code that makes the text, stores by
    name and files of records that were brought: SHA-256 in hexadecimal digits."""
    whole = hashlib.sha256()

    def add(name: str, content: bytes | Path) -> None:
        if isinstance(content, Path):
            with content.open("rb") as file:
                found = hashlib.file_digest(file, "sha256")
        else:
            found = hashlib.sha256(content)
        whole.update(f"{name} {found.hexdigest()}\n".encode())

    for folder in folders:
        for path in sorted(folder.glob("*.jsonl")):
            add(path.name, path)
    with packaged_file() as path:
        add(PACKAGED, path)
    for name, source in sorted(_modules().items()):
        add(name, source.code.encode())
    for name, store in sorted((stores or {}).items()):
        for path in sorted(store.rglob("*")) if store.is_dir() else [store]:
            if path.is_file():
                add(f"{name} {path.relative_to(store)}", path)
    for path in brought:
        add("brought", path)
    return whole.hexdigest()


class Source(NamedTuple):
    """A module: its code without comments and docstrings, which say nothing, and what it imports of
    this package."""

    code: str
    imported: tuple[str, ...]


@cache
def read(text: str) -> Source:
    """What there is in the text of a module."""
    tree = ast.parse(text)
    return Source(_code(text, tree), tuple(_imported(tree)))


def _modules() -> dict[str, Source]:
    """The modules of this package that `SPEAKING` ones import, and they themselves, by name."""
    found: dict[str, Source] = {}
    asked = list(SPEAKING)
    while asked:
        name = asked.pop()
        path = Path(__file__).parents[1].joinpath(*name.split(".")[1:])
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        # The package itself loads modules by name, as others ask for them.
        if name not in found and name != "resultant" and path.is_file():
            found[name] = read(path.read_text(encoding="utf-8"))
            asked += [name.rpartition(".")[0], *found[name].imported]
    return found


def _imported(tree: ast.AST) -> Iterator[str]:
    """Modules of this package, and names within them, wherever they are imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            names.append(f"{node.module}")
        else:
            continue
        yield from (name for name in names if name.partition(".")[0] == "resultant")


def _code(text: str, tree: ast.AST) -> str:
    """The lines of a module without those of comments and docstrings."""
    lines = dict(enumerate(text.split("\n"), start=1))
    quoted: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr):
            quoted.update(_lines(node))
        # A docstring behind the colon of a definition stays.
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and not lines[node.lineno][: node.col_offset].strip()
        ):
            for number in _lines(node):
                del lines[number]
    return "\n".join(
        line
        for number, line in lines.items()
        if number in quoted or (line.strip() and not line.lstrip().startswith("#"))
    )


def _lines(node: ast.expr | ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)
