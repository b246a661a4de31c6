"""Precision of products in older versions of torch, and kernels compiled on their device."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from resultant._core.device import full_precision


def test_full_precision_of_older_versions_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    matmul, cudnn = SimpleNamespace(allow_tf32=True), SimpleNamespace(allow_tf32=True)
    monkeypatch.setattr(torch.backends.cuda, "matmul", matmul)
    monkeypatch.setattr(torch.backends, "cudnn", cudnn)
    with full_precision(torch.device("cpu")):
        assert not matmul.allow_tf32 and not cudnn.allow_tf32
    assert matmul.allow_tf32 and cudnn.allow_tf32


def test_kernels_are_compiled_on_their_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads compile the kernels, and a thread starts on the first device."""
    pytest.importorskip("triton")
    from resultant.networks.kernels import conv

    devices: list[int] = []
    monkeypatch.setattr(torch.cuda, "set_device", devices.append)
    monkeypatch.setattr(conv.torch, "zeros", lambda *_, device: None)
    monkeypatch.setattr(conv, "_compiled", lambda variant: (variant, 0))
    try:
        assert list(conv._kernels(3)) == conv.VARIANTS
    finally:
        conv._kernels.cache_clear()
    assert devices and set(devices) == {3}
