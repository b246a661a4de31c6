"""Validation of the arguments of public functions, by the conventions of `resultant.special`."""

import math
import operator
from functools import reduce
from numbers import Real
from typing import SupportsIndex

import torch
from torch import Tensor
from torch.autograd import forward_ad

from resultant._core import modes
from resultant._core.limits import DOUBLE, limits

Number = float | Tensor

# Check the values of tensors, or not; None checks them on the CPU.
Check = bool | None

COMPUTE_DTYPE = {
    torch.float64: torch.float64,
    torch.float32: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float16: torch.float32,
}


def dimension(p: int, dtype: torch.dtype = torch.float64) -> int:
    """Return ``p`` as an int; raise unless it is at least 2 and at most the largest order."""
    value = integer("p", p, 2)
    if value > (most := limits(dtype).order):
        raise ValueError(f"expected p <= {most:g} in {dtype}, got {value:.3e}")
    return value


def integer(
    name: str, value: SupportsIndex, least: int, also: str = "", *, most: int | None = None
) -> int:
    """Return ``value`` as an int; raise unless it is an integer from ``least`` to ``most`` and no
    bool. ``also`` names other accepted values in the error, such as ``" or None"``."""
    try:
        is_bool = isinstance(value, Tensor) and value.dtype == torch.bool
        number = None if is_bool or isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least or (most is not None and number > most):
        rule = f">= {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"expected {name} to be an integer {rule}{also}, got {value!r}")
    return number


def order(nu: Number) -> Number:
    """Return an order ``nu`` as a float >= 0, or as a tensor, whose values are not checked."""
    if isinstance(nu, Tensor):
        _floating("nu", nu)
        if nu.requires_grad:
            raise ValueError("expected nu without gradient: no derivative in the order exists here")
        return nu
    if isinstance(nu, bool) or not isinstance(nu, Real):
        raise ValueError(f"expected nu to be a number or a tensor, got {type(nu).__name__}")
    require_within("nu", float(nu), 0.0, DOUBLE.order, ">= 0 and finite", torch.float64)
    return float(nu)


def finite_number(name: str, value: object) -> float:
    """Return ``value`` as a float: a finite number, or a tensor or array without dimensions, and
    without derivatives, which would be lost in silence."""
    if isinstance(value, Tensor):
        tangent = forward_ad.unpack_dual(value).tangent
        if value.requires_grad or tangent is not None:
            raise ValueError(
                f"expected {name} without gradient: no derivative in {name} exists here"
            )
    if getattr(value, "ndim", None) == 0:
        value = value.item()  # type: ignore[attr-defined]
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ValueError(f"expected {name} to be a finite number, got {value!r}")
    return float(value)


def tensors(**arguments: Number) -> tuple[list[Tensor], torch.dtype]:
    """Return the arguments as tensors of one computing dtype and device, and the result's dtype."""
    for name, a in arguments.items():
        if isinstance(a, Tensor):
            _floating(name, a)
        elif isinstance(a, bool) or not isinstance(a, Real):
            raise ValueError(f"expected {name} to be a tensor or number, got {type(a).__name__}")
    given = {name: a for name, a in arguments.items() if isinstance(a, Tensor)}
    ranked = [a for a in given.values() if a.dim()] or given.values()
    try:
        if len(ranked) > 1:
            broadcast(*[a.shape for a in ranked])
    except RuntimeError:
        shapes = ", ".join(f"{name} {tuple(a.shape)}" for name, a in given.items())
        raise ValueError(f"expected shapes that broadcast, got {shapes}") from None
    dtype = reduce(torch.promote_types, {a.dtype for a in ranked} or {torch.float64})
    devices = {a.device for a in ranked} or {torch.device("cpu")}
    if len(devices) > 1:
        got = ", ".join(f"{name} on {a.device}" for name, a in given.items() if a.dim())
        raise ValueError(f"expected all tensors on one device, got {got}")
    compute, (device,) = COMPUTE_DTYPE[dtype], devices
    values = []
    for name, a in arguments.items():
        if isinstance(a, Tensor):
            values.append(as_dtype(a if a.device == device else a.to(device), compute))
            continue
        if torch.finfo(compute).max < abs(float(a)) < math.inf:
            raise ValueError(f"expected {name} within the range of {compute}, got {a:g}")
        values.append(torch.full((), float(a), dtype=compute, device=device))
    return values, dtype


def as_dtype(a: Tensor, dtype: torch.dtype) -> Tensor:
    """Return ``a`` in the dtype; Tensor.to takes microseconds also if it has nothing to do."""
    return a if a.dtype == dtype else a.to(dtype)


def broadcast(*shapes: torch.Size) -> torch.Size:
    """Broadcast shapes, faster than torch where one shape ends with the other."""
    whole = torch.Size()
    for shape in shapes:
        short, long = (shape, whole) if len(shape) < len(whole) else (whole, shape)
        fits = short.numel() == 1 or long[len(long) - len(short) :] == short
        whole = long if fits else torch.broadcast_shapes(short, long)
    return whole


def _floating(name: str, a: Tensor) -> None:
    if a.dtype not in COMPUTE_DTYPE:
        raise ValueError(f"expected {name} of a floating dtype, got {a.dtype}")


def should_validate(validate_args: bool | None, *arguments: object) -> bool:
    """Return True if the values of these arguments are to be checked, and can be."""
    if validate_args is False or modes.is_traced():
        return False
    tensors = [a for a in arguments if isinstance(a, Tensor)]
    on_cpu = validate_args or all(a.is_cpu for a in tensors)
    return on_cpu and all(modes.has_values(a) for a in tensors)


def require_values(name: str, a: Tensor) -> None:
    """Raise unless a tensor has values, for a function whose number of results follows from
    them."""
    if not modes.is_traced() and not modes.has_values(a):
        rule = f"expected {name} with values, which the number of results follows from"
        raise ValueError(f"{rule}, got a shape alone (a tensor on the meta device, or a fake one)")


def is_inside(a: Number, low: float, high: float, *, open_low: bool = False) -> bool:
    """Return True if values are finite and ``low <= a <= high``, ``low < a`` if ``open_low``."""
    if not isinstance(a, Tensor):
        least = most = float(a)
    elif not (size := (values := values_of(a)).numel()):
        return True
    elif size == 1:
        least = most = values.item()
    else:
        least, most = (end.item() for end in torch.aminmax(values))
    return (low < least if open_low else low <= least) and most <= high and most < math.inf


def values_of(a: Tensor) -> Tensor:
    """Return a tensor without gradient; inside torch.func transforms, that of the whole batch."""
    inside = modes.unwrapped(a.detach() if a.requires_grad else a)
    return inside.detach() if inside.requires_grad else inside


def require_in_range(
    name: str,
    a: Number,
    low: float,
    high: float = math.inf,
    *,
    rule: str,
    open_low: bool = False,
    remedy: str = "",
    digits: int = 6,
) -> None:
    """Raise unless `is_inside`, with the first bad value, its index and the ``remedy``."""
    if is_inside(a, low, high, open_low=open_low):
        return
    at = ""
    if isinstance(a, Tensor):
        a = values_of(a)
        bad = ~((a > low if open_low else a >= low) & (a <= high) & (a < math.inf))
        index = [int(i) for i in bad.nonzero()[0]]
        at = f" at index {index[0] if len(index) == 1 else tuple(index)}" if index else ""
        a = float(a[tuple(index)])
    raise ValueError(f"expected {name} {rule}, got {a:.{digits}g}{at}{remedy and f' ({remedy})'}")


def require_within(
    name: str, a: Number, low: float, high: float, rule: str, dtype: torch.dtype
) -> None:
    """Raise unless ``low <= a <= high``, the limits in ``dtype`` of what the ``rule`` names."""
    if not is_inside(a, low, high):
        require_in_range(name, a, 0.0, rule=rule, open_low=low > 0)
        require_in_range(name, a, low, rule=f">= {low:g} in {dtype}")
        require_in_range(name, a, low, high, rule=f"<= {high:g} in {dtype}")


class DivergedError(ValueError):
    """Values that are not finite, or a class without a temperature: this training run ends."""
