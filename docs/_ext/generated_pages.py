"""Pages that are written from the code when the site is built: the reference and the commands."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterable
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
# Public names of other folders, which load on their own.
MODULES = {
    "features": ("Feature files", "resultant.features"),
    "analysis": ("Analysis of frozen features", "resultant.analysis"),
}
TRAINING = (
    "resultant.images.opening.open_images",
    "resultant.images.indexable.open_indexable",
    "resultant.training.config.TrainConfig",
    "resultant.training.job.Job",
    "resultant.training.cifar.train_cifar",
    "resultant.training.image_sets.train_images",
)
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
        paths = [f"resultant.{name}" for name in names]
        _replace(folder / f"{room}.rst", _room(ROOMS[room], paths))
    for room, (title, module) in MODULES.items():
        names = importlib.import_module(module).__all__
        paths = [f"{module}.{name}" for name in names if not name.isupper()]
        _replace(folder / f"{room}.rst", _room(title, paths))
    _replace(folder / "training.rst", _room("Images and training", TRAINING))
    _replace(folder / "commands.md", _commands())


def _room(title: str, paths: Iterable[str]) -> str:
    text = [title, "=" * len(title), ""]
    for path in paths:
        module, _, name = path.rpartition(".")
        kind = getattr(importlib.import_module(module), name)
        directive = "autoclass" if isinstance(kind, type) else "autofunction"
        text += [name, "-" * len(name), "", f".. {directive}:: {path}"]
        text += ["   :members:", ""] if directive == "autoclass" else [""]
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
