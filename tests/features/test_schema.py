"""Rules for names, dtypes, shapes and values of arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from resultant.features.store import FeatureStore, write_store
from small_store import D, N, arrays

# What others write, and a store does not: see test_layouts.
OTHERS = [
    ({"train/labels": torch.zeros(N)}, r"train/labels .* \[N\] integers, got torch.float32"),
    ({"train/labels": torch.zeros(N, 1).long()}, r"\[N\] integers, got torch.int64 \(11, 1\)"),
    ({"train/encoder": torch.ones(N, D).long()}, r"\[N, d\] floats, got torch.int64"),
]


LAYOUTS = [
    ({"train/labels": torch.zeros(N, 2).long()}, r"\[N\] integers, got torch.int64 \(11, 2\)"),
    ({"train/labels": torch.zeros(3).long()}, "11 rows in train/labels .* as in train/enc.*got 3"),
    ({"train/identities": torch.zeros(N).bool()}, r"\[N\] integers, got torch.bool"),
    ({"train/encoder": torch.zeros(N)}, r"\[N, d\] floats, got torch.float32 \(11,\)"),
    ({"train/encoder": torch.zeros(N, 0)}, r"not empty, got \(11, 0\)"),
    ({"encoder": torch.ones(N, D)}, "one train/encoder in .* another"),
    ({"extra/encoder": torch.ones(N, D)}, "SPLIT in train, val, test, got 'extra/encoder'"),
    ({"train/": torch.ones(N, D)}, "got 'train/'"),
    ({"train/labels": torch.full((N,), -1)}, r"in \[0, 4194304\), got -1 at row 0"),
    ({"test/labels": torch.tensor([0, 1, 2, 2**62, 1])}, r"got 4611686018427387904 at row 3"),
]


@pytest.mark.parametrize(("change", "message"), OTHERS)
def test_layouts_that_are_read_but_not_written(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        write_store(tmp_path / "a.safetensors", arrays() | change)
    save_file(arrays() | change, tmp_path / "b.safetensors")
    FeatureStore.open(tmp_path / "b.safetensors").check()


@pytest.mark.parametrize(("change", "message"), LAYOUTS)
def test_layout_is_checked(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    given = arrays() | change
    with pytest.raises(ValueError, match=message):
        write_store(tmp_path / "a.safetensors", given)
    save_file(given, tmp_path / "b.safetensors")
    with pytest.raises(ValueError, match=message) as caught:
        FeatureStore.open(tmp_path / "b.safetensors")
    assert str(tmp_path / "b.safetensors") in str(caught.value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "projection of .* finite, got nan in row 7"),
        (float("-inf"), "projection of .* finite, got -inf in row 7"),
        (0.0, "projection of .* without zero vectors, got one in row 7"),
    ],
)
@pytest.mark.parametrize("rows", [1, 3, 100])
def test_bad_vectors_are_named_with_their_row(
    value: float, message: str, rows: int, tmp_path: Path
) -> None:
    given = arrays()
    given["train/projection"][7] = value
    with pytest.raises(ValueError, match=message):
        write_store(tmp_path / "a.safetensors", given)
    assert not list(tmp_path.iterdir())
    save_file(given, tmp_path / "a.safetensors")
    result = FeatureStore.open(tmp_path / "a.safetensors")
    with pytest.raises(ValueError, match=message):
        list(result.chunks("train/projection", rows))
    with pytest.raises(ValueError, match=message):
        result.check()
    if value == 0:
        list(result.chunks("train/projection", rows, zero=True))
