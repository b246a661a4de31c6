"""Classifiers for embeddings, a contrastive loss, and the von Mises-Fisher distribution.

``resultant.__all__`` has the names that most people need. The other public names stand in the
folders below, such as `resultant.theory`, and are names of `resultant` too. All load on first use,
and torch with them. Examples in docstrings assume ``import torch``, their own names from
`resultant`, and three classes with a query each,
``state = ClassState(torch.eye(3), torch.tensor([1.0, 2.0, 4.0]), torch.ones(3))`` and
``z, y = torch.eye(3), torch.arange(3)``.
"""

import sys as _sys
import typing as _typing
from importlib import import_module as _import_module
from importlib.util import find_spec as _find_spec

from resultant._version import __version__ as __version__

if _typing.TYPE_CHECKING:
    # ruff: noqa: F403
    from resultant.analysis.rows import rows as rows
    from resultant.analysis.saved import load_classifier as load_classifier
    from resultant.classes import *
    from resultant.classifiers import *
    from resultant.decisions import *
    from resultant.losses import *
    from resultant.report.api import analyze as analyze, compare as compare
    from resultant.score import *
    from resultant.special import *
    from resultant.theory import *
    from resultant.training.predict import load_model as load_model, predict as predict
    from resultant.training.tune import tune as tune
    from resultant.vmf import *

# Folders with public names, in the order in which a name is looked up: scikit-learn loads last.
_FOLDERS = ("special", "vmf", "score", "classes", "losses", "decisions", "theory", "classifiers")

# Names of other folders, which load more.
_OTHERS = {
    **dict.fromkeys(("analyze", "compare"), "resultant.report.api"),
    "load_classifier": "resultant.analysis.saved",
    "rows": "resultant.analysis.rows",
    **dict.fromkeys(("load_model", "predict"), "resultant.training.predict"),
    "tune": "resultant.training.tune",
}

# The names of ``from resultant import *`` and of the first page of the reference.
_FIRST = (
    *("analyze", "compare", "rows", "predict", "load_model", "load_classifier"),
    *("VMFClassifier", "VMFClassifierCV", "CosinePrototypeClassifier"),
    *("VMFMixture", "SphericalKMeans", "ProCoLoss", "LogitAdjustedCrossEntropy"),
    *("VonMisesFisher", "ClassStatistics", "class_scores", "angular_gain", "certificate"),
    *("vmf_score", "bessel_ratio"),
)

# Names of earlier versions, and those by which others know a thing.
_RENAMED = {"Realization": "ClassScores"}
_KNOWN_AS = {"vmf": "VonMisesFisher", "load": "load_classifier", "proco": "ProCoLoss"}


def _names(folder: str) -> list[str]:
    """Return the public names of a folder: the functions and classes that its __init__ imports."""
    module = _import_module(f"resultant.{folder}")
    inside = f"{module.__name__}."
    return [n for n, a in vars(module).items() if getattr(a, "__module__", "").startswith(inside)]


def _public() -> list[str]:
    """Return all public names."""
    return sorted(["__version__", *_OTHERS, *(n for folder in _FOLDERS for n in _names(folder))])


def _unknown(name: str) -> str:
    """Return the message about a name that is not public."""
    from difflib import get_close_matches

    known = {n.lower(): n for n in [*_public(), *_FOLDERS]} | _KNOWN_AS
    close = get_close_matches(name.lower(), known, 2) or [n for n in known if name.lower() in n][:2]
    names = dict.fromkeys(known[n] for n in close)
    advice = f"; did you mean {' or '.join(names)}?" if names else ""
    return f"module 'resultant' has no attribute {name!r}{advice}"


def __getattr__(name: str) -> _typing.Any:
    if name in _FOLDERS:
        return _import_module(f"resultant.{name}")
    if name == "__all__":
        return sorted(["__version__", *_FIRST])
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
        # ``from resultant import NAME`` looks for a module next, and would forget this message.
        importing = _sys._getframe(1).f_code.co_name == "_handle_fromlist"
        if importing and _find_spec(f"resultant.{name}") is None:
            raise ImportError(_unknown(name), name=__name__)
        raise AttributeError(_unknown(name))
    raise AttributeError(f"module 'resultant' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__getattr__("__all__"), *_FOLDERS})
