"""Exact von Mises-Fisher contrastive learning in high dimension, and its angular gain.

Public names are those of the folders below; they load on first use, and torch with them. Examples
in docstrings assume ``import torch``, ``from resultant import *`` and three classes with a query
each, ``state = ClassState(torch.eye(3), torch.tensor([1.0, 2.0, 4.0]), torch.ones(3))`` and
``z, y = torch.eye(3), torch.arange(3)``.
"""

import typing as _typing
from importlib import import_module as _import_module

from resultant._version import __version__ as __version__

if _typing.TYPE_CHECKING:
    # ruff: noqa: F403
    from resultant.analysis.rows import rows as rows
    from resultant.analysis.saved import load_classifier as load_classifier
    from resultant.classes import *
    from resultant.classifiers import *
    from resultant.decisions import *
    from resultant.losses import *
    from resultant.report.api import analyze as analyze
    from resultant.score import *
    from resultant.special import *
    from resultant.theory import *
    from resultant.training.predict import load_model as load_model, predict as predict
    from resultant.vmf import *

# Folders with public names, in the order in which a name is looked up: scikit-learn loads last.
_FOLDERS = ("special", "vmf", "score", "classes", "losses", "decisions", "theory", "classifiers")

# Names of other folders, which load more.
_OTHERS = {
    "analyze": "resultant.report.api",
    "load_classifier": "resultant.analysis.saved",
    "rows": "resultant.analysis.rows",
    **dict.fromkeys(("load_model", "predict"), "resultant.training.predict"),
}

# Names of earlier versions.
_RENAMED = {"Realization": "ClassScores"}


def _names(folder: str) -> list[str]:
    """Return the public names of a folder: the functions and classes that its __init__ imports."""
    module = _import_module(f"resultant.{folder}")
    inside = f"{module.__name__}."
    return [n for n, a in vars(module).items() if getattr(a, "__module__", "").startswith(inside)]


def __getattr__(name: str) -> _typing.Any:
    if name in _FOLDERS:
        return _import_module(f"resultant.{name}")
    if name == "__all__":
        return sorted(
            ["__version__", *_OTHERS, *(n for folder in _FOLDERS for n in _names(folder))]
        )
    if name in _OTHERS:
        globals()[name] = value = getattr(_import_module(_OTHERS[name]), name)
        return value
    if name in _RENAMED:
        return __getattr__(_RENAMED[name])
    if not name.startswith("_"):
        for folder in _FOLDERS:
            if name in _names(folder):
                globals()[name] = value = getattr(_import_module(f"resultant.{folder}"), name)
                return value
    raise AttributeError(f"module 'resultant' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
