"""Checkpoints in the format of ProCo's authors."""

import sys
import types
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from plain_resnet import PlainNetwork
from resultant_reproduction.import_proco import convert, read_proco_checkpoint

C, P = 10, 16


def loss_modules() -> dict[str, types.ModuleType]:
    """Return modules and classes with the names and attributes of the authors' code."""

    class EstimatorCV:
        def __init__(self, seed: int) -> None:
            generator = torch.Generator().manual_seed(seed)
            mean = torch.randn(C, P, generator=generator)
            self.class_num, self.feature_num = C, P
            self.Ave = 0.9 * nn.functional.normalize(mean, dim=1)
            self.Amount = torch.randint(0, 50, (C,), generator=generator).float()
            self.Amount[2] = 0
            self.kappa = torch.full((C,), P * 90 / 19)
            self.logc = torch.zeros(C, dtype=torch.float64)

    class ProCoLoss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.temperature = 0.1
            self.estimator_old, self.estimator = EstimatorCV(1), EstimatorCV(2)

    module = types.ModuleType("loss.proco")
    for value in (EstimatorCV, ProCoLoss):
        value.__module__, value.__qualname__ = "loss.proco", value.__name__
        setattr(module, value.__name__, value)
    return {"loss": types.ModuleType("loss"), "loss.proco": module}


def checkpoint(model: nn.Module, prefix: str = "module.", **changes: Any) -> dict[str, Any]:
    state = model.state_dict()
    renamed = OrderedDict((prefix + name, value) for name, value in state.items())
    renamed._metadata = state._metadata  # type: ignore[attr-defined]
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    sum(p.sum() for p in model.parameters()).backward()  # type: ignore[union-attr]
    optimizer.step()
    return {
        "epoch": 200,
        "arch": "anything",
        "state_dict": renamed,
        "best_acc1": 52.84,
        "best_many": np.float64(60.5),
        "optimizer": optimizer.state_dict(),
        "criterion_scl": sys.modules["loss.proco"].ProCoLoss(),
    } | changes


def refused(path: Path, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        read_proco_checkpoint(path)
    assert str(path) in str(caught.value)


def saved(folder: Path, network: nn.Module, **facts: Any) -> Path:
    """Write a checkpoint of weights alone."""
    state = {f"module.{name}": a for name, a in network.state_dict().items()}
    torch.save({"epoch": 200, "state_dict": state, **facts}, folder / "ckpt.pth.tar")
    return folder / "ckpt.pth.tar"


def converted(folder: Path, network: nn.Module) -> Path:
    convert(saved(folder, network), folder / "proco.safetensors")
    return folder / "proco.safetensors"


def full_size(name: str, num_classes: int, *, cosine: bool) -> PlainNetwork:
    """Torchvision's encoder with the authors' heads and random moments."""
    import torchvision

    torch.manual_seed(1)
    encoder = getattr(torchvision.models, name)()
    encoder.fc = nn.Identity()
    plain = PlainNetwork(encoder, 2048, 2048, 8, num_classes, cosine=cosine)
    with torch.no_grad():
        for module in plain.modules():
            if isinstance(module, nn.BatchNorm2d | nn.BatchNorm1d):
                module.running_mean.normal_(0, 0.1)  # type: ignore[union-attr]
                module.running_var.uniform_(0.5, 2)  # type: ignore[union-attr]
    return plain.eval()
