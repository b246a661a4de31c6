"""Functions that torch.compile leaves as they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")


def untraced(function: Callable[P, T]) -> Callable[P, T]:
    """Call ``function`` between the graphs of torch.compile, never inside one.

    The same as `torch.compiler.disable`, which imports the compiler where it decorates: two seconds
    for everyone who imports the module.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if torch.compiler.is_compiling():
            return torch.compiler.disable(function)(*args, **kwargs)  # type: ignore[call-arg]
        return function(*args, **kwargs)

    return call
