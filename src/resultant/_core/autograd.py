"""Elementwise functions with hand-written derivatives."""

import inspect
import operator
from collections.abc import Callable
from functools import reduce, wraps
from typing import Any

import torch
from torch import Tensor

from resultant._core.modes import has_gradient, is_constant, is_exporting, is_traced

Function = Callable[..., Tensor]


def batched(in_dims: tuple[int | None, ...], args: tuple[Any, ...]) -> list[Any]:
    """Move batch dimensions of a vmapped call to the front; others broadcast from the right."""
    pairs = list(zip(args, in_dims, strict=True))
    rank = max(a.dim() - (d is not None) for a, d in pairs if isinstance(a, Tensor))

    def align(a: Tensor) -> Tensor:
        return a.reshape(a.shape[:1] + (1,) * (rank + 1 - a.dim()) + a.shape[1:])

    return [a if d is None else align(a.movedim(d, 0)) for a, d in pairs]


# Values of elementwise functions as one operation to torch.compile, by their names.
_VALUES: dict[str, Function] = {}
_OPERATORS = torch.library.Library("resultant", "FRAGMENT")
_OPERATORS.define("elementwise(str name, Tensor?[] tensors, Scalar[] numbers) -> Tensor")


@torch.library.impl(_OPERATORS, "elementwise", "CompositeExplicitAutograd")
def _operator(name: str, tensors: list[Tensor | None], numbers: list[float]) -> Tensor:
    pairs = zip(tensors, numbers, strict=True)
    return _VALUES[name](*(number if a is None else a for a, number in pairs))


@torch.library.register_fake("resultant::elementwise", lib=_OPERATORS)
def _shape(name: str, tensors: list[Tensor | None], numbers: list[float]) -> Tensor:
    given = [a for a in tensors if a is not None]
    return given[0].new_empty(torch.broadcast_shapes(*(a.shape for a in given)))


def opaque(name: str) -> Callable[[Function], Function]:
    """Make a function one operation to torch.compile, which takes a minute for a long expression;
    an exported program has the expression, and does not need this package. The name is unique, and
    the same in every process: caches of compiled programs keep it."""

    def operation(value: Function) -> Function:
        if name in _VALUES:
            raise ValueError(f"expected names of operations that differ, got {name!r} twice")
        _VALUES[name] = value

        def call(*args: Any) -> Tensor:
            if not torch.compiler.is_compiling() or is_exporting():
                return value(*args)
            tensors = [a if isinstance(a, Tensor) else None for a in args]
            numbers = [0 if isinstance(a, Tensor) else a for a in args]
            return torch.ops.resultant.elementwise(name, tensors, numbers)

        # torch.compile counts the parameters, and autograd asks for the signature at every call.
        call.__signature__ = inspect.signature(value)  # type: ignore[attr-defined]
        return call

    return operation


def elementwise(name: str, *partials: Function | None) -> Callable[[Function], Function]:
    """Make a function differentiable, with ``partials[i](*args)`` its i-th derivative; higher ones,
    and forward mode except under torch.compile, exist as far as those of the partials do. It is
    `opaque` by its name."""

    def differentiable(value: Function) -> Function:
        compute, parameters = opaque(name)(value), list(inspect.signature(value).parameters)
        # torch.compile knows no functions of autograd that it met first in a backward pass.
        computed = [getattr(partial, "compute", partial) for partial in partials]

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
                    # An argument without a tangent is then None in `jvp`, and not zeros.
                    ctx.set_materialize_grads(False)

            @staticmethod
            def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
                if grad is None:
                    return tuple(None for _ in partials)
                args, slopes = _arguments(ctx), computed if is_traced() else partials
                return tuple(
                    (grad * slope(*args)).sum_to_size(a.shape) if needed and slope else None
                    for a, slope, needed in zip(args, slopes, ctx.needs_input_grad, strict=True)
                )

            @staticmethod
            def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Tensor, int]:
                return apply(*batched(in_dims, args)), 0

        class Both(Reverse):
            @staticmethod
            def jvp(ctx: Any, *tangents: Tensor | None) -> Tensor:  # type: ignore[override]
                args, changes = _arguments(ctx), []
                for parameter, tangent, partial in zip(parameters, tangents, partials, strict=True):
                    if tangent is None:
                        continue
                    if partial is None:
                        rule = f"expected {parameter} without tangent"
                        raise ValueError(f"{rule}: no derivative in {parameter} exists here")
                    changes.append(tangent * partial(*args))
                return reduce(operator.add, changes).expand(ctx.shape)

        @wraps(value)
        def apply(*args: Any) -> Tensor:
            if is_constant(*args):
                return value(*args)
            if not is_traced():
                return Both.apply(*args)  # type: ignore[return-value]
            # torch.compile accepts no forward mode.
            if not has_gradient(*args):
                return compute(*args)
            return Reverse.apply(*args)  # type: ignore[return-value]

        Reverse.__name__ = Both.__name__ = name
        apply.compute = compute  # type: ignore[attr-defined]
        return apply

    return differentiable


def _arguments(ctx: Any) -> list[Any]:
    saved = iter(ctx.saved_tensors)
    return [a[0] if a else next(saved) for a in ctx.plain]
