"""What REPRODUCTION.md was made from, as a digest: whether it is of these records can be told
without making it again."""

from __future__ import annotations

import hashlib
import importlib.resources
import io
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path

from resultant.paper.evidence import PACKAGED

MARK = "<!-- made from {} -->"

# Modules that say nothing in the text.
SILENT = ("run.py", "inputs.py", "brought.py")


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
            whole.update(f"{path.parent.name}/{path.name}\n".encode())
            for word in code(path.read_text(encoding="utf-8")):
                whole.update(f"{word}\n".encode())
    for path in brought:
        whole.update(f"{_sha256(path)}\n".encode())
    return whole.hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# Tokens that are remarks or mere layout, those that say by being there, and the parts of f-strings
# that Python has since 3.12.
LAYOUT = (tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER)
MARKS = {tokenize.NEWLINE: "NEWLINE", tokenize.INDENT: "INDENT", tokenize.DEDENT: "DEDENT"}
F_STRING = [getattr(tokenize, f"FSTRING_{end}", None) for end in ("START", "END")]


def code(source: str) -> list[str]:
    """The tokens of a module but for comments and docstrings: how it is laid out within a
    statement, and what is remarked in it, does not matter. The same in all versions of Python."""
    words: list[str] = []
    statement: list[str] = []
    for kind, word in _whole(source):
        if kind not in MARKS:
            statement.append(word if kind != tokenize.STRING else f"STRING {word}")
        elif kind != tokenize.NEWLINE:
            words.append(MARKS[kind])
        else:
            # A statement that is but a string is a docstring.
            if len(statement) != 1 or not statement[0].startswith("STRING "):
                words += [*statement, MARKS[kind]]
            statement = []
    return words


def _whole(source: str) -> Iterator[tuple[int, str]]:
    """Kinds and texts of the tokens of a module, f-strings in one piece as other strings are."""
    lines, inside, start = source.splitlines(keepends=True), 0, (0, 0)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == F_STRING[0]:
            start = start if inside else token.start
            inside += 1
        elif token.type == F_STRING[1]:
            inside -= 1
            if not inside:
                (top, left), (bottom, right) = start, token.end
                piece = "".join(lines[top - 1 : bottom])
                end = len(piece) - len(lines[bottom - 1]) + right
                yield tokenize.STRING, piece[left:end]
        elif not inside and token.type not in LAYOUT:
            yield token.type, token.string
