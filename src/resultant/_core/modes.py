"""The state of torch that decides how to compute: traces, transforms, modes, derivatives, values.

Every private name of torch that the library asks stands in this file, in one function each, all
checked with torch 2.11 and 2.13. If a name is missing or fails in another version, the function
gives the answer on which the general way is taken: slower, with the same results.
"""

# pyright: reportAttributeAccessIssue=false

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache, wraps
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.distributions import Distribution

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def _asked(question: Callable[[], T], otherwise: T) -> T:
    """Return the answer of torch, or the careful one if torch has none."""
    try:
        return question()
    except (AttributeError, ImportError, TypeError, RuntimeError):
        return otherwise


def is_traced() -> bool:
    """Return True in torch.compile, torch.export and torch.jit.trace, which see torch alone."""
    return torch.compiler.is_compiling() or torch.jit.is_tracing()


def is_exporting() -> bool:
    """Return True in torch.export, inside of which `torch.compiler.is_compiling` is True too."""
    # Public from torch 2.7; 2.6 tells an export from torch.compile with strict=False alone.
    if ask := getattr(torch.compiler, "is_exporting", None):
        return ask()
    return _asked(lambda: bool(torch.compiler._is_compiling_flag), True)


def is_transformed() -> bool:
    """Return True inside a transform of torch.func, such as vmap and grad."""
    return _asked(lambda: torch._C._functorch.peek_interpreter_stack() is not None, True)


def is_mapped() -> bool:
    """Return True inside torch.func.vmap."""

    def asked() -> bool:
        functorch = torch._C._functorch
        levels = functorch.get_interpreter_stack() or ()
        return any(level.key() == functorch.TransformType.Vmap for level in levels)

    return _asked(asked, True)


def in_dispatch_mode() -> bool:
    """Return True inside a mode that sees every operation, such as FakeTensorMode."""
    return _asked(lambda: torch._C._len_torch_dispatch_stack() > 0, True)


def in_forward_mode() -> bool:
    """Return True inside torch.autograd.forward_ad.dual_level."""
    return _asked(lambda: torch.autograd.forward_ad._current_level >= 0, True)


def is_plain() -> bool:
    """Return True outside of traces, of transforms of torch.func, and of modes."""
    return not (is_traced() or is_transformed() or in_dispatch_mode())


def has_gradient(*arguments: Any) -> bool:
    """Return True if reverse mode records a function of the arguments."""
    grad = torch.is_grad_enabled()
    return grad and any(isinstance(a, Tensor) and a.requires_grad for a in arguments)


def is_constant(*arguments: Any) -> bool:
    """Return True if no derivative of a function of the arguments can be asked for."""
    return is_plain() and not in_forward_mode() and not has_gradient(*arguments)


def unwrapped(a: Tensor) -> Tensor:
    """Return the tensor inside the wrappers of torch.func: that of the whole batch under vmap."""

    def inside() -> Tensor:
        b, functorch = a, torch._C._functorch
        while functorch.is_functorch_wrapped_tensor(b):
            b = functorch.get_unwrapped(b)
        return b

    return _asked(inside, a)


def has_values(a: Tensor) -> bool:
    """Return False for tensors of a shape alone: on the meta device, and fake ones."""
    # A fake tensor, which `torch.compile` traces with, says that it is on its device.
    return not a.is_meta and getattr(a, "fake_mode", None) is None


def is_zero_tensor(a: Tensor) -> bool:
    """Return True for a tensor of zeros without memory, such as derivatives may be."""
    return _asked(a._is_zerotensor, False)


def no_autocast(a: Tensor) -> AbstractContextManager[Any]:
    """Disable autocast on the device of ``a``; there is none on the meta device."""
    if a.is_meta:
        return nullcontext()
    return torch.autocast(a.device.type, enabled=False)


def constant(function: F) -> F:
    """Cache results as constants to torch.compile, without loading the compiler, as
    `torch.compiler.assume_constant_result` does; without the mark it traces the function."""
    cached = cache(function)

    @wraps(function)
    def call(*args: Any) -> Any:
        return cached(*args)

    call._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


def untraced(function: F) -> F:
    """Call ``function`` between the graphs of torch.compile, never inside one, as
    `torch.compiler.disable` does, which takes two seconds to import the compiler."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return torch.compiler.disable(function)(*args, **kwargs)  # type: ignore[call-arg]
        return function(*args, **kwargs)

    return call  # type: ignore[return-value]


def distributions_validate() -> bool:
    """Return False if ``Distribution.set_default_validate_args(False)`` was called by the user;
    torch.compile turns the validation of torch.distributions off as well, once."""
    if Distribution._validate_args or torch.compiler.is_compiling():
        return True

    def turned_off() -> bool:
        compiler = sys.modules.get("torch._dynamo.eval_frame")
        return bool(compiler and compiler.TorchPatcher.patch.cache_info().currsize)

    return _asked(turned_off, True)
