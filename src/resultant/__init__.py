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
    from resultant.classes import *
    from resultant.classifiers import *
    from resultant.decisions import *
    from resultant.losses import *
    from resultant.report.api import analyze as analyze
    from resultant.score import *
    from resultant.special import *
    from resultant.theory import *
    from resultant.vmf import *

# Folders with public names; a name is looked up in this order.
_FOLDERS = ("special", "vmf", "score", "classes", "classifiers", "losses", "decisions", "theory")

# Names of other folders, which load more.
_OTHERS = {"analyze": "resultant.report.api"}


def __getattr__(name: str) -> _typing.Any:
    if name in _FOLDERS:
        return _import_module(f"resultant.{name}")
    if name == "__all__":
        names = (_import_module(f"resultant.{folder}").__all__ for folder in _FOLDERS)
        return sorted(["__version__", *_OTHERS, *(name for folder in names for name in folder)])
    if name in _OTHERS:
        globals()[name] = value = getattr(_import_module(_OTHERS[name]), name)
        return value
    if not name.startswith("_"):
        for folder in _FOLDERS:
            module = _import_module(f"resultant.{folder}")
            if name in module.__all__:
                globals()[name] = value = getattr(module, name)
                return value
    raise AttributeError(f"module 'resultant' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
