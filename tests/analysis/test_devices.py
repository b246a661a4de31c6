"""Questions about a space on a device have the answers of the CPU.

Without a GPU the device is simulated by tensors of the CPU that report the device CUDA and refuse
operations with tensors of another device or NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from frozen_data import COUNTS, features, noisy_space, small_space
from resultant._core import chunks
from resultant.analysis import (
    QUESTIONS,
    Analysis,
    FrozenSpace,
    Policy,
    analyze_space,
    boundary_displacement,
    compare_gradients,
    decide,
    margin_directions,
    same_state,
    self_inclusion,
)
from resultant.analysis.decisions import grid_policies
from resultant.analysis.pairs import choose_pairs
from resultant.score import _backends

F64 = torch.float64
CUDA = torch.device("cuda", 0)

# Functions that move a tensor, or accept tensors of two devices.
MOVES = (Tensor.copy_, Tensor.to, Tensor.cpu)
TO_NUMPY = (Tensor.numpy, Tensor.__array__)


class There(Tensor):
    """A tensor on the simulated device."""

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]


def there(a: Tensor) -> Tensor:
    return a.as_subclass(There)


class Simulated(TorchFunctionMode):
    """The devices of tensors as CUDA has them."""

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
        result = func(*args, **kwargs)
        if func in MOVES and target is not None:
            result = result.clone()
        if not away:
            return result
        return there(result) if isinstance(result, Tensor) else tree_map_only(Tensor, there, result)


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
    """True for a result on the device, False for the CPU, None for the device of the arguments."""
    if func is Tensor.cpu:
        return False
    device = kwargs.get("device")
    for a in args[1:] if func is Tensor.to else ():
        if isinstance(a, Tensor):
            return isinstance(a, There)
        device = a if isinstance(a, (str, torch.device)) else device
    return None if device is None else torch.device(device).type == "cuda"


def _require_together(func: Any, tensors: list[Tensor]) -> None:
    """Raise if tensors of two devices meet, except scalars of the CPU."""
    if any(isinstance(a, There) for a in tensors):
        for a in tensors:
            if not isinstance(a, There) and a.dim():
                raise RuntimeError(f"expected all tensors on one device in {func.__name__}")


def _require_index(func: Any, a: Tensor, index: Any, value: Any = None) -> None:
    index = list(_tensors(index))
    # Assignment by index needs one device; assignment to a slice copies from any device.
    _require_together(func, [a, *index, *([value] if index and isinstance(value, Tensor) else [])])
    if index and any(isinstance(i, There) for i in index) != isinstance(a, There):
        raise RuntimeError(f"expected index and tensor on one device in {func.__name__}")


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.gpu)])
def on_device(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AbstractContextManager[object]:
    """A context with a device; results of the CPU are faster outside of it."""
    # Several chunks of everything.
    monkeypatch.setattr(chunks, "DEVICE_BYTES", 1 << 16)
    if request.param == "real":
        return nullcontext()
    monkeypatch.setattr(_backends, "kernel_module", lambda name: None)
    return Simulated()


def close(a: Any, b: Any, where: str) -> None:
    """Compare results: floats up to rounding, everything else exactly."""
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


def test_simulation_refuses(on_device: AbstractContextManager[object]) -> None:
    with on_device:
        a, b = torch.arange(3.0, device="cuda"), torch.arange(3.0)
        for wrong in (lambda: a + b, lambda: b[a.long()], lambda: torch.cat([a, b])):
            with pytest.raises(RuntimeError):
                wrong()
        with pytest.raises(TypeError):
            a.numpy()
        assert a.is_cuda and a.device == CUDA and (a + torch.tensor(1.0)).is_cuda
        assert not a.cpu().is_cuda and b.to(a).is_cuda and not a.to("cpu").is_cuda


@pytest.mark.slow
def test_every_question(
    small_analysis: Analysis, on_device: AbstractContextManager[object]
) -> None:
    with on_device:
        space = small_space(device="cuda")
        assert space.device.type == "cuda" and space.units("test", torch.arange(3)).is_cuda
        result = analyze_space(space)
        assert result.notes == {}
        # Results and classes are on the CPU.
        assert result.gains is not None and not result.gains.gain.is_cuda
        assert not space.state.mu.is_cuda and not space.statistics.total.is_cuda
    for name in ("space", *QUESTIONS):
        close(getattr(small_analysis, name).to_dict(), getattr(result, name).to_dict(), name)


@pytest.mark.slow
def test_splits_and_identities(on_device: AbstractContextManager[object]) -> None:
    identities = torch.arange(int(COUNTS.sum())) // 3 % 200
    options: dict[str, Any] = {"fitting_share": 0.8, "identities": identities}
    questions: dict[str, Callable[[FrozenSpace], Any]] = {
        "gradients": lambda s: compare_gradients(s, 50, gamma=1.0, seed=1),
        "inclusion": lambda s: self_inclusion(s, 60),
        "same": lambda s: same_state(s, 0.5, gamma=-1.0, per_class=2),
        "boundaries": lambda s: boundary_displacement(s, choose_pairs(s, 1, 1), beta=0.5),
        "margins": lambda s: margin_directions(s, choose_pairs(s, 1, 1), realization="angular"),
    }
    space = small_space(estimator="banerjee", **options)
    expected = {name: question(space).to_dict() for name, question in questions.items()}
    with on_device:
        space = small_space(estimator="banerjee", device="cuda", **options)
        results = {name: question(space).to_dict() for name, question in questions.items()}
    assert results["inclusion"]["history"] is not None
    close(expected, results, "results")


def test_decisions_are_on_the_cpu(on_device: AbstractContextManager[object]) -> None:
    with on_device:
        space = small_space(device="cuda")
        decisions = decide(space, [Policy("angular")], torch.tensor([3, 50, 2]))
        for column in (decisions.prediction, decisions.nll, decisions.confidence):
            assert all(not a.is_cuda and len(a) == 3 for a in column.values())


@pytest.mark.slow
def test_undefined_temperatures(
    noisy: FrozenSpace, on_device: AbstractContextManager[object]
) -> None:
    """One class of pure noise has no temperature at beta = 1.5."""
    questions = (same_state, boundary_displacement, margin_directions)
    expected = [question(noisy, beta=1.5).to_dict() for question in questions]
    with on_device:
        space = noisy_space(device="cuda")
        assert space.untempered(1.5) == (3,)
        results = [question(space, beta=1.5).to_dict() for question in questions]
    close(expected, results, "results")


def test_rows_without_direction(on_device: AbstractContextManager[object]) -> None:
    x, y = features(torch.tensor([4, 4, 4]))
    x[7] = 0
    with on_device, pytest.raises(ValueError, match="got a zero vector in row 7"):
        FrozenSpace.fit(x, y, x[:3], y[:3], device="cuda")


def test_unknown_devices() -> None:
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
