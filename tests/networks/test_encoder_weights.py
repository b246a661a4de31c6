"""Weights of encoders from files: names, and files that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from resultant.networks.timm_encoder import load_encoder


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))


def weights(prefix: str = "") -> dict[str, Tensor]:
    torch.manual_seed(3)
    return {
        f"{prefix}{name}": torch.rand_like(a.float()) for name, a in network().state_dict().items()
    }


def written(path: Path, content: Any) -> str:
    save_file(content, path) if path.suffix == ".safetensors" else torch.save(content, path)
    return str(path)


@pytest.mark.parametrize("wrapper", [None, "state_dict", "model", "teacher"])
@pytest.mark.parametrize("prefix", ["", "module.", "encoder.", "module.backbone."])
def test_names_with_prefixes(prefix: str, wrapper: str | None, tmp_path: Path) -> None:
    """Counts of batches may be missing, and other parts are not read."""
    tensors, encoder = weights(prefix), network()
    del tensors[f"{prefix}1.num_batches_tracked"]
    tensors[f"{prefix}fc.weight"] = torch.ones(4, 3)
    if prefix:
        tensors["projector.0.weight"] = torch.ones(1)
    content = tensors if wrapper is None else {"epoch": 3, wrapper: tensors}
    path = tmp_path / ("w.pth" if wrapper else "w.safetensors")
    load_encoder(encoder, written(path, content), "tiny")
    for name, a in encoder.state_dict().items():
        if "num_batches" not in name:
            assert torch.equal(a, tensors[prefix + name]), name


class Thing:
    """An object that a pickle would make."""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"0.weight": torch.ones(3, 2)}, r"of tiny in .*w\.pth, got none for 0\.bias and 4"),
        (weights() | {"0.weight": torch.ones(2, 2)}, r"got 0\.weight of shape \(2, 2\), expected"),
        (weights() | {"2.weight": torch.ones(2)}, r"got 2\.weight of another network"),
        (weights() | {"0.bias": torch.full((3,), torch.nan)}, r"got 0\.bias with values that are"),
        ({"state_dict": Thing()}, "only tensors, got other objects .*, which are never loaded"),
        ([1, 2], "to hold tensors by name, got list"),
        ({}, "to hold tensors by name, got dict"),
    ],
)
def test_refused(content: Any, message: str, tmp_path: Path) -> None:
    encoder = network()
    before = [a.clone() for a in encoder.state_dict().values()]
    path = written(tmp_path / "w.pth", content)
    with pytest.raises(ValueError, match=message) as caught:
        load_encoder(encoder, path, "tiny")
    assert "\n" not in str(caught.value)
    assert all(
        torch.equal(a, b) for a, b in zip(before, encoder.state_dict().values(), strict=True)
    )


@pytest.mark.parametrize("name", ["w.safetensors", "w.pth"])
def test_broken_and_missing_files(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with pytest.raises(ValueError, match="expected a file of weights, got nothing at"):
        load_encoder(network(), str(path), "tiny")
    for content in (b"", b"hello", b"\x00" * 64):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"expected {path} to hold only tensors, got "):
            load_encoder(network(), str(path), "tiny")
