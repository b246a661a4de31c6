"""Pages that are written from the code when the site is built: the reference and the commands."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import torch
from names import EQUATIONS, LABEL, PAPER
from sphinx.application import Sphinx

import resultant
from resultant._core import limits
from resultant.cli import main

ROOMS = {
    "special": "Bessel functions",
    "vmf": "The von Mises-Fisher distribution",
    "score": "The exact score",
    "classes": "Classes, gains and rules",
    "decisions": "Boundaries, gradients and certificates",
    "theory": "Expansions and limits in high dimension",
    "losses": "Losses",
    "classifiers": "Classifiers",
}
# Public names of other folders, which load on their own, and why some have no formula.
MODULES = {
    "features": (
        "Feature files",
        "resultant.features",
        "These names read and write files. They compute nothing, so they have no formula.",
    ),
    "analysis": (
        "Analysis of frozen features",
        "resultant.analysis",
        "The functions are the steps of an analysis in their order, the classes are plain results. "
        "Examples assume ``import torch`` and ``from resultant.analysis import *``.",
    ),
}
MODULES["checks"] = (
    "Checks of batches",
    "resultant.checks",
    "Checks for any classifier that takes rows batch by batch: order, new classes, merge and "
    "forget. They compute nothing themselves, so they have no formula.",
)
# Classes that are made by hand, not only returned.
ROOTS = ("FeatureStore",)
TRAINING = (
    "resultant.training.tune.tune",
    "resultant.training.tune.TuneResult",
    "resultant.training.config.TuneConfig",
    "resultant.training.predict.load_model",
    "resultant.training.predict.predict",
    "resultant.training.export.export",
    "resultant.images.opening.open_images",
    "resultant.images.indexable.open_indexable",
    "resultant.training.config.TrainConfig",
    "resultant.training.job.Job",
    "resultant.training.image_sets.train_images",
)
TRAINING_INTRODUCTION = (
    "These names open images, hold settings and run the training. The mathematics is that of the "
    "loss: see `ProCoLoss` for its formulas."
)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _write(app: Sphinx) -> None:
    folder = Path(app.srcdir) / "reference" / "generated"
    folder.mkdir(exist_ok=True)
    assert set(ROOMS) == set(resultant._FOLDERS), "a room of public names has no title here"
    for room in ROOMS:
        paths = [f"resultant.{name}" for name in sorted(resultant._names(room))]
        _replace(folder / f"{room}.rst", _room(ROOMS[room], paths))
    for room, (title, module, text) in MODULES.items():
        _replace(folder / f"{room}.rst", _module(title, importlib.import_module(module), text))
    text = "The commands from Python. They compute nothing themselves, and have no formula."
    homes = resultant._OTHERS.items()
    paths = [f"resultant.{name}" for name, home in homes if ".training." not in home]
    _replace(folder / "analyze.rst", _room("Analyze from Python", paths, text))
    _replace(folder / "first.md", _first())
    _replace(folder / "equations.inc", _equations())
    _replace(folder / "limits.inc", _limits())
    own = [f"resultant.{n}" for n, home in resultant._OTHERS.items() if ".training." in home]
    training = _room("Images and training", [*own, *TRAINING], TRAINING_INTRODUCTION)
    _replace(folder / "training.rst", training)
    _replace(folder / "commands.md", _commands())


def _first() -> str:
    """Return the page of the first names, with the first sentence of each."""
    lines = ["# Twenty names to begin with", "", "| name | what it is |", "| --- | --- |"]
    for name in resultant.__all__:
        if name != "__version__":
            text = inspect.getdoc(getattr(resultant, name)) or ""
            sentence = re.sub(r":math:`([^`]*)`", r"$\1$", text.partition("\n\n")[0])
            lines.append(
                f"| {{py:obj}}`{name} <resultant.{name}>` | {' '.join(sentence.split())} |"
            )
    return "\n".join(lines) + "\n"


def _equations() -> str:
    """Return a table of the numbered parts of the paper and the public names that show them."""
    shown: dict[str, list[str]] = {}
    for name in resultant._public():
        value = getattr(resultant, name)
        members = vars(value).values() if inspect.isclass(value) else ()
        text = "\n".join(inspect.getdoc(item) or "" for item in (value, *members))
        for label in {*LABEL.findall(text), *EQUATIONS.get(name, [])}:
            shown.setdefault(label, []).append(f"{{py:obj}}`{name} <resultant.{name}>`")
    lines = ["| in the paper | names |", "| --- | --- |"]
    for label, entry in PAPER.items():
        if label in shown:
            lines.append(f"| {entry['number']} | {', '.join(sorted(shown[label]))} |")
    return "\n".join(lines) + "\n"


def _limits() -> str:
    """Return the table of the ranges of arguments."""

    def power(value: float) -> str:
        return f"{value:.1e}".replace(".0e", "e").replace("e+", "e").replace("e-0", "e-")

    rows = {
        "largest `kappa` of a score; of a class that in float32": "kappa",
        "smallest `tau` of a score": "least_tau",
        "smallest `tau` where scores of classes are compared": "least_compared_tau",
        "largest `tau`": "most_tau",
        "largest dimension `p` and order `nu`": "order",
        "largest `x` of the derivative of a Bessel function": "first_derivative",
        "largest `x` of its second derivative": "second_derivative",
        "largest concentration of `VonMisesFisher`": "concentration",
    }
    lines = ["| | float32 | float64 |", "| --- | ---: | ---: |"]
    for name, field in rows.items():
        cells = (power(getattr(limits.LIMITS[d], field)) for d in (torch.float32, torch.float64))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _room(title: str, paths: Iterable[str], introduction: str = "") -> str:
    text = [title, "=" * len(title), "", introduction, ""]
    for path in paths:
        text += _section(path)
    return "\n".join(text)


def _module(title: str, module: ModuleType, introduction: str) -> str:
    """Return the page of a module; results stand below the function that returns them."""
    names = [name for name in module.__all__ if not name.isupper()]
    values = {name: getattr(module, name) for name in names}
    classes = {name for name in names if isinstance(values[name], type)}
    reached = {name: _results(values[name], values, classes) for name in names}
    # A result of several functions belongs to that with the fewest others.
    owner: dict[str, str] = {}
    for name in sorted(names, key=lambda name: len(reached[name])):
        for result in reached[name]:
            owner.setdefault(result, name)
    text = [title, "=" * len(title), "", introduction, ""]
    for name in sorted(names, key=lambda name: (name not in classes, name)):
        if name not in owner:
            text += _section(f"{module.__name__}.{name}")
            for result in (n for n in reached[name] if owner[n] == name):
                text += _directive(f"{module.__name__}.{result}", values[result])
    return "\n".join(text)


def _results(value: object, values: dict[str, object], classes: set[str]) -> list[str]:
    """Return the classes that a function returns, and those of their fields; none for a class."""
    if isinstance(value, type):
        return []
    found, waiting = [], [str(inspect.signature(value).return_annotation)]  # pyright: ignore
    while waiting:
        words = re.findall(r"\w+", waiting.pop())
        for name in (w for w in words if w in classes and w not in found and w not in ROOTS):
            found.append(name)
            waiting += map(str, vars(values[name]).get("__annotations__", {}).values())
    return found


def _section(path: str) -> list[str]:
    module, _, name = path.rpartition(".")
    value = getattr(importlib.import_module(module), name)
    return [name, "-" * len(name), "", *_directive(path, value)]


def _directive(path: str, value: object) -> list[str]:
    if isinstance(value, type):
        return [f".. autoclass:: {path}", "   :members:", ""]
    return [f".. autofunction:: {path}", ""]


def _commands() -> str:
    """Return the help of every command, as the program prints it."""
    text = ["# The command line", "", "```text", _help(), "```", ""]
    for command in (*main.COMMANDS, *main.plugins()):
        text += [f"## resultant {command}", "", "```text", _help(*command.split()), "```", ""]
    return "\n".join(text)


def _help(*command: str) -> str:
    program = "from resultant.cli.main import main; main()"
    environment = {**os.environ, "COLUMNS": "86", "NO_COLOR": "1", "TERM": "dumb"}
    asked = "--help-all" if command else "--help"
    call = [sys.executable, "-c", program, *command, asked]
    done = subprocess.run(call, capture_output=True, text=True, check=True, env=environment)
    return done.stdout.strip()


def _replace(path: Path, text: str) -> None:
    """Write a file if its text changed, so that Sphinx builds it again only then."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
