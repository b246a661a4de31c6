"""Kernel launches on the device of their tensors, whatever the current device."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from resultant._core.device import full_precision


def launch_all(device: str) -> list[torch.Tensor]:
    """Return the results of every launcher on a few numbers."""
    from resultant.images.augment import ContrastiveView
    from resultant.networks.kernels import inference, norm
    from resultant.networks.norm import channels_last
    from resultant.networks.stacked_resnet import normalized_patches
    from resultant.score import _triton

    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(device)

    results = [*_triton.score(normal(2, 3).tanh(), normal(3).exp(), normal(1).exp(), 8, True)]
    x, residual, gradient = (channels_last(normal(3, 16, 4, 4)) for _ in range(3))
    moments = normal(16), normal(16).exp()
    out, saved = norm.forward(x, residual, (normal(16), normal(16), *moments), 0.1, 1e-5)
    back = norm.backward(x, out, saved, (gradient, None), True, 16)
    results += [out, saved, *moments, *(a for a in back if a is not None)]
    lines = normal(1, 16), normal(1, 16)
    results.append(inference.convolve(x, normal(1, 16, 16, 3, 3), *lines, residual, 1))
    view, images = ContrastiveView(), (50 * normal(2, 3, 32, 32) + 128).clamp(0, 255)
    drawn = view.draw(torch.full((2, 2), 32), generator)
    views = view(images.to(torch.uint8), drawn)
    return [*results, views, normalized_patches(views[None], torch.float32)]


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


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_another_device(tmp_path: Path) -> None:
    from resultant.training.cifar import train_cifar
    from resultant.training.job import Job
    from tiny_job import DATA, TWO, config, metrics

    assert torch.cuda.current_device() == 0
    for a, b in zip(launch_all("cuda:1"), launch_all("cuda:0"), strict=True):
        assert a.device.index == 1 and torch.equal(a.cpu(), b.cpu())
    losses = []
    for device in ("cuda:1", "cuda:0"):
        job = Job(config(), TWO, tmp_path / device.replace(":", ""), stack=1)
        trained = train_cifar(job, DATA, device)
        assert str(trained.stacks[0].total.device) == device
        losses.append([row["loss"] for row in metrics(job.out)])
        assert torch.cuda.current_device() == 0
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
