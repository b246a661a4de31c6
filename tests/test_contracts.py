"""Every public name by the contracts of torch: derivatives in both modes, vmap, shapes without
values, torch.compile, empty and strided batches, half precision, ranges, inference mode."""

# pyright: reportArgumentType=false, reportCallIssue=false

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, func
from torch._inductor import config
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.nn.functional import normalize

import resultant as rs
from public_names import F64, FUNCTIONS, INPUTS, OTHERS, Contract


def tensors(result: Any) -> list[Tensor]:
    """Return the tensors of a result in order."""
    if isinstance(result, Tensor):
        return [result]
    if dataclasses.is_dataclass(result):
        result = [getattr(result, field.name) for field in dataclasses.fields(result)]
    return [a for part in result for a in tensors(part)]


def floats(result: Any) -> Tensor:
    """Return the numbers of a result, one row per tensor of it where they are of one shape."""
    return torch.cat([a.flatten() for a in tensors(result) if a.is_floating_point()])


def arguments(contract: Contract, dtype: torch.dtype = F64) -> dict[str, Tensor]:
    return {name: INPUTS[name].to(dtype) for name in contract.inputs}


ARGUMENTS = [
    pytest.param(contract, argument, id=f"{name}-{argument}")
    for name, contract in FUNCTIONS.items()
    for argument in contract.inputs
]
CONTRACTS = [pytest.param(contract, id=name) for name, contract in FUNCTIONS.items()]


def test_every_public_name_has_an_entry() -> None:
    entries = {name.partition(":")[0] for name in FUNCTIONS}
    others = " ".join(OTHERS.values()).split()
    assert sorted([*entries, *others]) == rs._public()
    for path in OTHERS:
        assert (Path(__file__).parent / f"{path}.py").is_file(), path


def alone(contract: Contract, argument: str) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """The numbers of the result as a function of one argument."""
    rest = arguments(contract)
    at = rest.pop(argument)

    def function(a: Tensor) -> Tensor:
        return floats(contract.call(**rest, **{argument: on_sphere(argument, a)}))

    return function, at


def on_sphere(argument: str, a: Tensor) -> Tensor:
    return normalize(a, dim=-1) if argument in ("z", "mu") else a


@pytest.mark.parametrize(("contract", "argument"), ARGUMENTS)
def test_derivatives(contract: Contract, argument: str) -> None:
    """jvp, a dual level and reverse mode are differences; so is the gradient of the gradient."""
    function, at = alone(contract, argument)
    if argument in contract.constants:
        assert not function(at.clone().requires_grad_()).requires_grad
        return
    generator = torch.Generator().manual_seed(1)
    move = torch.randn(at.shape, dtype=F64, generator=generator) * at.abs().clamp(1e-2, 1)

    def difference(f: Callable[[Tensor], Tensor], step: float = 1e-3) -> Tensor:
        """Of sixth order."""
        weights = (45 / 60, -9 / 60, 1 / 60)
        moves = ((w, k * step * move) for k, w in enumerate(weights, 1))
        total: Any = sum(w * (f(at + d) - f(at - d)) for w, d in moves)
        return total / step

    def bar(size: Tensor) -> dict[str, float]:
        return {"rtol": 1e-6, "atol": 1e-7 * (1 + float(size.detach().abs().amax()))}

    expected, size = difference(function), 1 + function(at).abs().amax()
    torch.testing.assert_close(func.jvp(function, (at,), (move,))[1], expected, **bar(expected))
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(function(forward_ad.make_dual(at, move))).tangent
        torch.testing.assert_close(tangent, expected, **bar(expected))

    def along(a: Tensor, graph: bool = False) -> Tensor:
        """The gradient of a sum along the move."""
        inside = a if a.requires_grad else a.detach().requires_grad_()
        total = (function(inside) / size).sin().sum()
        return (torch.autograd.grad(total, inside, create_graph=graph)[0] * move).sum()

    inside = at.clone().requires_grad_()
    reverse = along(inside, graph=True)
    chain = ((function(at) / size).cos() * expected / size).sum()
    torch.testing.assert_close(reverse.detach(), chain, **bar(expected))
    (second,) = torch.autograd.grad(reverse, inside, allow_unused=True)
    second = torch.zeros(()) if second is None else (second * move).sum()
    bend = difference(along)
    torch.testing.assert_close(second.double(), bend, **bar(bend + expected.square().sum()))


@pytest.mark.parametrize(("contract", "argument"), ARGUMENTS)
def test_vmap(contract: Contract, argument: str) -> None:
    """Over a batch of one argument, as a loop."""
    function, at = alone(contract, argument)
    batch = torch.stack([at, at.flip(0), at])
    expected = torch.stack([function(a) for a in batch])
    torch.testing.assert_close(func.vmap(function)(batch), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("contract", CONTRACTS)
def test_shapes_without_values(contract: Contract) -> None:
    """On the meta device and of fake tensors."""
    given = arguments(contract)
    expected = [(a.shape, a.dtype) for a in tensors(contract.call(**given))]
    meta = tensors(contract.call(**{name: a.to("meta") for name, a in given.items()}))
    assert [(a.shape, a.dtype) for a in meta] == expected
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = tensors(contract.call(**{n: mode.from_tensor(a) for n, a in given.items()}))
        assert [(a.shape, a.dtype) for a in fake] == expected


@pytest.mark.parametrize("contract", CONTRACTS)
def test_batches(contract: Contract) -> None:
    """Strided arguments, another default device, half precision, an empty batch, and inference
    mode before a gradient."""
    given = arguments(contract)
    expected = floats(contract.call(**given))
    strided = {n: torch.stack([a, a], -1)[..., 0] for n, a in given.items()}
    torch.testing.assert_close(floats(contract.call(**strided)), expected, rtol=1e-13, atol=1e-14)
    with torch.device("meta"):
        elsewhere = floats(contract.call(**given))
    assert torch.equal(elsewhere.nan_to_num(), expected.nan_to_num())
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        half = {n: on_sphere(n, a.to(dtype)) for n, a in given.items()}
        found = [a for a in tensors(contract.call(**half)) if a.is_floating_point()]
        assert all(a.isfinite().all() for a in found)
    empty = given | {n: given[n][:0] for n in contract.rows or given}
    if contract.rows != ():
        assert floats(contract.call(**empty)).numel() == 0
    with torch.inference_mode():
        inferred = floats(contract.call(**given))
    torch.testing.assert_close(inferred, expected, rtol=1e-13, atol=1e-14)
    learned = {n: a.clone().requires_grad_(n not in contract.constants) for n, a in given.items()}
    if leaves := [a for a in learned.values() if a.requires_grad]:
        total = floats(contract.call(**learned)).sum()
        assert all(g.isfinite().all() for g in torch.autograd.grad(total, leaves))


def values_and_gradients(contract: Contract, call: Callable[..., Any]) -> Tensor:
    given = {n: a.clone() for n, a in arguments(contract).items()}
    leaves = [a.requires_grad_() for n, a in given.items() if n not in contract.constants]
    values = floats(call(**given))
    if not values.requires_grad:
        return values
    slopes = torch.autograd.grad(values.sum(), leaves)
    return torch.cat([values.detach(), *map(torch.flatten, slopes)])


@pytest.mark.parametrize("contract", CONTRACTS)
def test_one_graph(contract: Contract) -> None:
    """torch.compile finds no break, and the graph computes the same, with and without gradients."""
    given, expected = arguments(contract), values_and_gradients(contract, contract.call)
    torch.compiler.reset()
    compiled = torch.compile(contract.call, fullgraph=True, backend="eager")
    found = floats(compiled(**given))
    torch.testing.assert_close(found, floats(contract.call(**given)), rtol=1e-12, atol=1e-13)
    found = values_and_gradients(contract, compiled)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-13)


# The third derivative of the Bessel ratio is an expression that takes C++ minutes; one graph of it,
# with gradients, is above.
@pytest.mark.slow
@pytest.mark.parametrize("contract", [c for c in CONTRACTS if c.id != "directional_cumulants"])
def test_inductor(contract: Contract) -> None:
    """Generated code computes values and gradients, in one graph."""
    expected = values_and_gradients(contract, contract.call)
    torch.compiler.reset()
    # The optimization of C++ takes most of the time.
    with config.patch({"aot_inductor.debug_compile": True}):
        found = values_and_gradients(contract, torch.compile(contract.call, fullgraph=True))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    ("contract", "argument", "value"),
    [
        pytest.param(contract, argument, value, id=f"{name}-{argument}-{value:g}")
        for name, contract in FUNCTIONS.items()
        for argument, values in contract.outside.items()
        for value in values
    ],
)
def test_outside(contract: Contract, argument: str, value: float) -> None:
    """Values just outside a range are refused by name, with the index and the value."""
    given = arguments(contract)
    given[argument] = given[argument].clone()
    given[argument][1] = value
    with pytest.raises(ValueError, match=r"expected .*(got|not).*"):
        contract.call(**given)
