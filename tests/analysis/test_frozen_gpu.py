"""A frozen space on a device answers as it does on the CPU.

Without a GPU the device is simulated: tensors that say they are on CUDA, are computed with on the
CPU, and refuse what CUDA tensors refuse, to meet tensors of another device or NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from frozen_data import COUNTS, PER_CLASS, C, features, small_space
from resultant._core import chunks
from resultant.analysis import (
    QUESTIONS,
    FrozenSpace,
    analyze_space,
    boundary_displacement,
    compare_gradients,
    decide,
    margin_directions,
    same_state,
    self_inclusion,
)
from resultant.analysis.decisions import grid_policies
from resultant.score import _backends as _evaluate

F64 = torch.float64
CUDA = torch.device("cuda", 0)

# Functions that take a tensor to where it is told, or may look at tensors of two devices.
MOVES = (Tensor.copy_, Tensor.to, Tensor.cpu)
TO_NUMPY = (Tensor.numpy, Tensor.__array__)


class There(Tensor):
    """A tensor on the simulated device."""

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]


def there(a: Tensor) -> Tensor:
    return a.as_subclass(There)


class Simulated(TorchFunctionMode):
    """CUDA, as far as it concerns which tensor is where."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        tensors = list(_tensors((*args, *kwargs.values())))
        away, target = any(type(a) is There for a in tensors), _target(func, args, kwargs)
        if func == Tensor.device.__get__:  # type: ignore[attr-defined]
            return CUDA if away else torch.device("cpu")
        if func == Tensor.is_cuda.__get__:  # type: ignore[attr-defined]
            return away
        if not away and target is None:
            return func(*args, **kwargs)
        if func in TO_NUMPY:
            raise TypeError("can't convert a cuda tensor to numpy")
        if func in (Tensor.__getitem__, Tensor.__setitem__):
            _require_index(func, *args)
        elif func not in MOVES:
            _require_together(func, tensors)
        else:
            away = type(args[0]) is There
        away = away if target is None else target
        args, kwargs = _here(args), {name: _here(a) for name, a in kwargs.items()}
        if func is Tensor.to:
            args = tuple("cpu" if isinstance(a, str) else a for a in args)
        if kwargs.get("device") is not None:
            kwargs["device"] = "cpu"
        if func is Tensor.__iter__:
            return map(there, args[0].unbind())
        found = func(*args, **kwargs)
        if func in MOVES and target is not None:
            found = found.clone()
        if not away:
            return found
        return there(found) if isinstance(found, Tensor) else tree_map_only(Tensor, there, found)


def _tensors(a: Any) -> Iterator[Tensor]:
    if isinstance(a, Tensor):
        yield a
    elif isinstance(a, (tuple, list)):
        for part in a:
            yield from _tensors(part)


def _here(a: Any) -> Any:
    """Tensors and devices in arguments as those of the CPU."""
    if isinstance(a, Tensor):
        return a.as_subclass(Tensor)
    if isinstance(a, torch.device):
        return torch.device("cpu")
    return type(a)(map(_here, a)) if type(a) in (tuple, list) else a


def _target(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool | None:
    """Whether the result is asked for on the device, None where it is not said."""
    if func is Tensor.cpu:
        return False
    wanted = kwargs.get("device")
    for a in args[1:] if func is Tensor.to else ():
        if isinstance(a, Tensor):
            return isinstance(a, There)
        wanted = a if isinstance(a, (str, torch.device)) else wanted
    return None if wanted is None else torch.device(wanted).type == "cuda"


def _require_together(func: Any, tensors: list[Tensor]) -> None:
    """Raise where tensors of two devices meet, unless those of the CPU are scalars."""
    if any(isinstance(a, There) for a in tensors):
        for a in tensors:
            if not isinstance(a, There) and a.dim():
                raise RuntimeError(f"expected all tensors on one device in {func.__name__}")


def _require_index(func: Any, a: Tensor, index: Any, value: Any = None) -> None:
    index = list(_tensors(index))
    # What an index picks must be put there; a slice takes a copy from anywhere.
    _require_together(func, [a, *index, *([value] if index and isinstance(value, Tensor) else [])])
    if index and any(isinstance(i, There) for i in index) != isinstance(a, There):
        raise RuntimeError(f"expected index and tensor on one device in {func.__name__}")


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    # Several pieces of everything.
    monkeypatch.setattr(chunks, "DEVICE_BYTES", 1 << 15)
    if request.param == "simulated":
        monkeypatch.setattr(_evaluate, "_fused", lambda: None)
    with Simulated() if request.param == "simulated" else nullcontext():
        yield "cuda"


def close(a: Any, b: Any, where: str) -> None:
    """Results alike: all but floats equal, floats to rounding."""
    if isinstance(a, dict):
        assert a.keys() == b.keys(), where
        for key in a:
            close(a[key], b[key], f"{where}.{key}")
    elif isinstance(a, list):
        assert len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            close(x, y, f"{where}[{i}]")
    elif isinstance(a, float) and isinstance(b, float):
        assert b == pytest.approx(a, rel=1e-9, abs=1e-9), where
    else:
        assert a == b, where


def both(device: str, **options: Any) -> tuple[FrozenSpace, FrozenSpace]:
    return small_space(**options), small_space(device=device, **options)


def test_simulation_refuses(device: str) -> None:
    a, b = torch.arange(3.0, device=device), torch.arange(3.0)
    for wrong in (lambda: a + b, lambda: b[a.long()], lambda: torch.cat([a, b])):
        with pytest.raises(RuntimeError):
            wrong()
    with pytest.raises(TypeError):
        a.numpy()
    assert a.is_cuda and a.device == CUDA and (a + torch.tensor(1.0)).is_cuda
    assert not a.cpu().is_cuda and b.to(a).is_cuda and not a.to("cpu").is_cuda


def test_every_question(device: str) -> None:
    here, away = both(device)
    assert away.device.type == "cuda" and away.units("test", torch.arange(3)).is_cuda
    a, b = (analyze_space(space, seed=3) for space in (here, away))
    assert b.notes == {}
    for name in ("space", *QUESTIONS):
        close(getattr(a, name).to_dict(), getattr(b, name).to_dict(), name)


def test_splits_and_identities(device: str) -> None:
    identities = torch.arange(int(COUNTS.sum())) // 3 % 200
    here, away = both(device, fitting_share=0.8, identities=identities, estimator="banerjee")
    questions: dict[str, Callable[[FrozenSpace], Any]] = {
        "gradients": lambda s: compare_gradients(s, 50, gamma=1.0, seed=1),
        "inclusion": lambda s: self_inclusion(s, 60),
        "same": lambda s: same_state(s, 0.5, gamma=-1.0, per_class=2),
        "boundaries": lambda s: boundary_displacement(s, 2, beta=0.5, seed=1),
        "margins": lambda s: margin_directions(s, 2, realization="angular", seed=1),
    }
    for name, question in questions.items():
        close(question(here).to_dict(), question(away).to_dict(), name)
    assert self_inclusion(away, 60).history is not None


def test_results_are_on_the_cpu(device: str) -> None:
    away = small_space(device=device)
    decisions = decide(away, grid_policies(), torch.tensor([3, 50, 2]))
    for column in (decisions.prediction, decisions.nll, decisions.confidence):
        assert all(not a.is_cuda and len(a) == 3 for a in column.values())
    gains = analyze_space(away, ["gains"]).gains
    assert gains is not None and not gains.gain.is_cuda
    assert not away.state.mu.is_cuda and not away.statistics.total.is_cuda


def test_undefined_temperatures(device: str) -> None:
    """One class of pure noise has none at beta = 1.5."""
    (x, y), test = features(COUNTS), features(torch.full((C,), PER_CLASS), seed=1)
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(5))
    x = torch.where((y == 3).unsqueeze(1), noise, x)
    here, away = (FrozenSpace.fit(x, y, *test, dtype=F64, device=d) for d in ("cpu", device))
    assert away.untempered(1.5) == here.untempered(1.5) == (3,)
    for question in (same_state, boundary_displacement, margin_directions):
        close(question(here, beta=1.5).to_dict(), question(away, beta=1.5).to_dict(), "beta")


def test_rows_without_direction(device: str) -> None:
    x, y = features(torch.tensor([4, 4, 4]))
    x[7] = 0
    with pytest.raises(ValueError, match="got a zero vector in row 7"):
        FrozenSpace.fit(x, y, x[:3], y[:3], device=device)


def test_devices_that_are_not() -> None:
    x, y = features(torch.tensor([4, 4, 4]))
    for name in ("gpu", "cuda:77"):
        with pytest.raises(ValueError, match=f"expected a device to compute on, got '{name}'"):
            FrozenSpace.fit(x, y, x, y, device=name)


@pytest.mark.gpu
def test_float32_on_a_gpu() -> None:
    policies = grid_policies()
    here, away = (
        decide(small_space(torch.float32, device=device), policies) for device in ("cpu", "cuda")
    )
    for policy in policies:
        torch.testing.assert_close(away.nll[policy], here.nll[policy], rtol=1e-4, atol=2e-4)
        assert (away.prediction[policy] == here.prediction[policy]).double().mean() > 0.98
