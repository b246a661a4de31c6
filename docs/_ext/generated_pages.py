"""Pages that are written from the code when the site is built: the reference and the commands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from sphinx.application import Sphinx

import resultant

ROOMS = {
    "special": "Bessel functions",
    "vmf": "The von Mises-Fisher distribution",
    "score": "The exact score",
    "classes": "Classes, gains and rules",
    "decisions": "Boundaries, gradients and certificates",
    "losses": "Losses",
    "classifiers": "Classifiers",
}
COMMANDS = (
    "analyze",
    "compare",
    "train",
    "extract",
    "probe",
    "import-proco",
    "verify",
    "reproduce",
)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _write(app: Sphinx) -> None:
    folder = Path(app.srcdir) / "reference" / "generated"
    folder.mkdir(exist_ok=True)
    assert set(ROOMS) == set(resultant._NAMES), "a room of public names has no title here"
    for room, names in resultant._NAMES.items():
        _replace(folder / f"{room}.rst", _room(room, names))
    _replace(folder / "commands.md", _commands())


def _room(room: str, names: list[str]) -> str:
    title = ROOMS[room]
    text = [title, "=" * len(title), ""]
    for name in names:
        obj = getattr(resultant, name)
        kind = "autoclass" if isinstance(obj, type) else "autofunction"
        text += [name, "-" * len(name), "", f".. {kind}:: resultant.{name}"]
        text += ["   :members:", ""] if kind == "autoclass" else [""]
    return "\n".join(text)


def _commands() -> str:
    """Return the help of every command, as the program prints it."""
    text = ["# The command line", "", "```text", _help(), "```", ""]
    for command in COMMANDS:
        text += [f"## resultant {command}", "", "```text", _help(*command.split()), "```", ""]
    return "\n".join(text)


def _help(*command: str) -> str:
    program = "from resultant.cli.main import main; main()"
    environment = {**os.environ, "COLUMNS": "96", "NO_COLOR": "1", "TERM": "dumb"}
    call = [sys.executable, "-c", program, *command, "--help"]
    done = subprocess.run(call, capture_output=True, text=True, check=True, env=environment)
    return done.stdout.strip()


def _replace(path: Path, text: str) -> None:
    """Write a file if its text changed, so that Sphinx builds it again only then."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
