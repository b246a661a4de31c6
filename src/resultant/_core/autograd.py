"""Elementwise functions with hand-written derivatives, and the kinds of traces of torch."""

import inspect
import operator
from collections.abc import Callable
from functools import reduce, wraps
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch._C import _functorch  # type: ignore[attr-defined]
from torch.autograd import forward_ad

F = TypeVar("F", bound=Callable[..., Any])
Function = Callable[..., Tensor]


def untraced(function: F) -> F:
    """Call ``function`` between the graphs of torch.compile, never inside one, as
    `torch.compiler.disable` does, which takes two seconds to import the compiler."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return torch.compiler.disable(function)(*args, **kwargs)  # type: ignore[call-arg]
        return function(*args, **kwargs)

    return call  # type: ignore[return-value]


def batched(in_dims: tuple[int | None, ...], args: tuple[Any, ...]) -> list[Any]:
    """Move batch dimensions of a vmapped call to the front; others broadcast from the right."""
    pairs = list(zip(args, in_dims, strict=True))
    rank = max(a.dim() - (d is not None) for a, d in pairs if isinstance(a, Tensor))

    def align(a: Tensor) -> Tensor:
        return a.reshape(a.shape[:1] + (1,) * (rank + 1 - a.dim()) + a.shape[1:])

    return [a if d is None else align(a.movedim(d, 0)) for a, d in pairs]


def is_traced() -> bool:
    """Return True in torch.compile, torch.export and torch.jit.trace, which see torch alone."""
    return torch.compiler.is_compiling() or torch.jit.is_tracing()


def is_plain() -> bool:
    """Return True outside of traces, of transforms of torch.func, and of modes."""
    return not (is_traced() or is_transformed() or torch._C._len_torch_dispatch_stack())


def is_constant(*arguments: Any) -> bool:
    """Return True if no derivative of a function of the arguments can be asked for."""
    return is_plain() and forward_ad._current_level < 0 and not _has_gradient(*arguments)


def _has_gradient(*arguments: Any) -> bool:
    grad = torch.is_grad_enabled()
    return grad and any(isinstance(a, Tensor) and a.requires_grad for a in arguments)


def is_transformed() -> bool:
    """Return True inside a transform of torch.func, such as vmap and grad."""
    return _functorch.peek_interpreter_stack() is not None


def is_mapped() -> bool:
    """Return True inside torch.func.vmap."""
    levels = _functorch.get_interpreter_stack() or ()
    return any(level.key() == _functorch.TransformType.Vmap for level in levels)


# Values of elementwise functions as one operation to torch.compile, by their index.
_VALUES: list[Function] = []
# torch 2.6 tells an export from torch.compile with strict=False alone.
_is_exporting = getattr(torch.compiler, "is_exporting", lambda: torch.compiler._is_compiling_flag)
_OPERATORS = torch.library.Library("resultant", "FRAGMENT")
_OPERATORS.define("elementwise(int index, Tensor?[] tensors, Scalar[] numbers) -> Tensor")


@torch.library.impl(_OPERATORS, "elementwise", "CompositeExplicitAutograd")
def _operator(index: int, tensors: list[Tensor | None], numbers: list[float]) -> Tensor:
    pairs = zip(tensors, numbers, strict=True)
    return _VALUES[index](*(number if a is None else a for a, number in pairs))


@torch.library.register_fake("resultant::elementwise", lib=_OPERATORS)
def _shape(index: int, tensors: list[Tensor | None], numbers: list[float]) -> Tensor:
    given = [a for a in tensors if a is not None]
    return given[0].new_empty(torch.broadcast_shapes(*(a.shape for a in given)))


def opaque(value: Function) -> Function:
    """Make ``value`` one operation to torch.compile, which takes a minute for a long expression; an
    exported program has the expression, and does not need this package."""
    index = len(_VALUES)
    _VALUES.append(value)

    def call(*args: Any) -> Tensor:
        if not torch.compiler.is_compiling() or _is_exporting():
            return value(*args)
        tensors = [a if isinstance(a, Tensor) else None for a in args]
        numbers = [0 if isinstance(a, Tensor) else a for a in args]
        return torch.ops.resultant.elementwise(index, tensors, numbers)

    # torch.compile counts the parameters, and autograd asks for the signature at every call.
    call.__signature__ = inspect.signature(value)  # type: ignore[attr-defined]
    return call


def elementwise(*partials: Function | None) -> Callable[[Function], Function]:
    """Make a function differentiable, with ``partials[i](*args)`` its i-th derivative; higher ones,
    and forward mode except under torch.compile, exist as far as those of the partials do."""

    def differentiable(value: Function) -> Function:
        compute = opaque(value)

        class Reverse(torch.autograd.Function):
            forward = staticmethod(compute)

            @staticmethod
            def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
                tensors = [a for a in inputs if isinstance(a, Tensor)]
                ctx.plain = [() if isinstance(a, Tensor) else (a,) for a in inputs]
                ctx.save_for_backward(*tensors)
                if not is_traced():
                    ctx.save_for_forward(*tensors)
                    ctx.shape = output.shape

            @staticmethod
            def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
                args = _arguments(ctx)
                return tuple(
                    (grad * partial(*args)).sum_to_size(a.shape) if needed and partial else None
                    for a, partial, needed in zip(args, partials, ctx.needs_input_grad, strict=True)
                )

            @staticmethod
            def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Tensor, int]:
                return apply(*batched(in_dims, args)), 0

        class Both(Reverse):
            @staticmethod
            def jvp(ctx: Any, *tangents: Tensor | None) -> Tensor:  # type: ignore[override]
                args = _arguments(ctx)
                changes = [
                    tangent * partial(*args)
                    for tangent, partial in zip(tangents, partials, strict=True)
                    if tangent is not None and partial
                ]
                return reduce(operator.add, changes).expand(ctx.shape)

        @wraps(value)
        def apply(*args: Any) -> Tensor:
            if is_constant(*args):
                return value(*args)
            if not is_traced():
                return Both.apply(*args)  # type: ignore[return-value]
            # torch.compile accepts no forward mode, and in a backward pass no such functions.
            if not _has_gradient(*args):
                return compute(*args)
            return Reverse.apply(*args)  # type: ignore[return-value]

        Reverse.__name__ = Both.__name__ = value.__name__
        return apply

    return differentiable


def _arguments(ctx: Any) -> list[Any]:
    saved = iter(ctx.saved_tensors)
    return [a[0] if a else next(saved) for a in ctx.plain]
