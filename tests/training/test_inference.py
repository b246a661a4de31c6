"""Outputs without augmentation."""

from __future__ import annotations

import pytest
import torch

from resultant.networks.stacked_resnet import StackedResNet32
from resultant.training.inference import outputs
from tiny_job import DATA


def test_a_network_that_fails_returns_to_training(monkeypatch: pytest.MonkeyPatch) -> None:
    network = StackedResNet32([0], 8)
    monkeypatch.setattr(StackedResNet32, "forward", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        outputs(network, DATA.test_images, torch.float32)
    assert network.training


def test_chunks_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    network = StackedResNet32([0, 1], 8, 4)
    whole = outputs(network, DATA.test_images, torch.float32)
    monkeypatch.setattr("resultant.training.inference.CHUNK_IMAGES", 7)
    for a, b in zip(outputs(network, DATA.test_images, torch.float32), whole, strict=True):
        torch.testing.assert_close(a, b)
