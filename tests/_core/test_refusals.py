"""Arguments as tensors of one dtype, directions of rows; refused arguments, JSON and shares."""

# pyright: reportArgumentType=false
# Bad input is passed on purpose.

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import resultant
from resultant._core import memory, validation
from resultant._core.arrays import directions, require_features, require_labels
from resultant._core.files import parse_json
from resultant.training.records import require_types

CPU = torch.device("cpu")
Z = torch.nn.functional.normalize(torch.randn(5, 3, generator=torch.Generator().manual_seed(0)))
Y = torch.tensor([0, 1, 2, 1, 0])
X = torch.tensor([1.0, -2.0])
KINDS = {"versions": dict, "trajectory.epoch": list, "seconds": float}


def features(z: Any = Z) -> None:
    require_features(z, 3, CPU, None)


def labels(y: torch.Tensor = Y) -> None:
    require_labels(y, 5, 3, CPU, None)


def types(values: object) -> None:
    require_types(values, KINDS, "here")


def ratio(v: torch.Tensor) -> torch.Tensor:
    return resultant.bessel_ratio(3.0, v)


def integer(value: Any) -> int:
    return validation.integer("n", value, 2, " or None")


INTEGER = "n to be an integer >= 2 or None, got "
REFUSALS: list[tuple[Callable[[], object], str]] = [
    (lambda: features(Z.long()), "z of a floating dtype, got torch.int64"),
    (lambda: features(Z.to("meta")), "z on cpu, got z on meta"),
    (lambda: labels(Y.float()), "y of dtype torch.int64, got torch.float32"),
    (lambda: labels(Y.int()), "y of dtype torch.int64, got torch.int32"),
    (lambda: labels(Y.to("meta")), "y on cpu, got y on meta"),
    (lambda: types({"versions": 3}), "versions to be an object here, got 3"),
    (lambda: types({"trajectory": {"epoch": 3}}), "trajectory.epoch to be a list here, got 3"),
    (lambda: types({"seconds": "9"}), "seconds to be a number here, got '9'"),
    (lambda: types({"seconds": True}), "seconds to be a number here, got True"),
    (lambda: types([]), r"an object here, got \[\]"),
    (lambda: validation.tensors(a=True), "a to be a tensor or number, got bool"),
    (lambda: validation.tensors(a=X, b=X.to("meta")), ".*one device, got a on cpu, b on"),
    *((lambda v=v: integer(v), INTEGER) for v in (1, 2.0, True, torch.tensor(True), "3", None)),
    # A batch under vmap is checked as a whole.
    (lambda: torch.func.vmap(ratio)(X), "x >= 0 and finite, got -2 at index 1"),
    (lambda: torch.func.grad(ratio)(X[1]), "x >= 0 and finite, got -2"),
]


@pytest.mark.parametrize(("call", "message"), REFUSALS)
def test_refused(call: Callable[[], object], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "FEATURE_BYTES", 8 * 3 * 2)
    with pytest.raises(ValueError, match=f"expected {message}"):
        call()


def test_accepted() -> None:
    features()
    labels()
    types({"versions": {}, "seconds": 3, "trajectory": None})
    assert integer(torch.tensor(3)) == 3


@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ('{"a":', "}")])
def test_deep_nesting_is_refused(opened: str, closed: str) -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json(opened * 100_000 + "1" + closed * 100_000)


def test_tensors_share_dtype_and_device() -> None:
    half, single = torch.ones(2, dtype=torch.bfloat16), torch.ones(3, 1)
    (a, b, c), dtype = validation.tensors(a=half, b=single, c=2)
    assert dtype == a.dtype == b.dtype == c.dtype == torch.float32
    (a, _), dtype = validation.tensors(a=half, b=torch.ones((), dtype=torch.float64))
    assert dtype == torch.bfloat16 and a.dtype == torch.float32
    assert validation.tensors(a=1, b=2.0)[1] == torch.float64


@pytest.mark.filterwarnings("error")
def test_numbers_of_numpy_are_compared_without_overflow() -> None:
    rho = torch.tensor(0.5, dtype=torch.float64)
    expected = resultant.vmf_score(rho, 3.0, 0.5, 8)
    kappa, tau = np.asarray([3.0, 0.5], dtype=np.float32)
    assert resultant.vmf_score(rho, kappa, tau, 8) == expected


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_directions_of_any_length(scale: float) -> None:
    """A row of zeros is unchanged, and a row that is not finite has no finite length."""
    z = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x = z * scale
    x[1], x[2, 0] = 0, torch.inf
    units, length = directions(x)
    expected = z / z.norm(dim=1, keepdim=True)
    torch.testing.assert_close(units[[0, 3, 4]], expected[[0, 3, 4]])
    assert length[1] == 0 and not units[1].any() and not length[2].isfinite()
