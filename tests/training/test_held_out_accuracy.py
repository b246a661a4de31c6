"""Accuracy on held-out images during a training."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from resultant._core import distributed
from resultant.images.evaluation_view import EvaluationView
from resultant.images.source import ImageSplits
from resultant.images.store import open_store
from resultant.training.hooks import HeldOutTest
from resultant.training.inference import StoredViews
from resultant.training.stack import Stack
from training.listed_training import RUN, config
from training.listed_training import _four_classes as _four_classes
from training.listed_training import data as data
from training.listed_training import root as root

CPU = torch.device("cpu")


@pytest.fixture
def stack(data: ImageSplits) -> Stack:
    return Stack(config(), (RUN,), cast(Any, None), data.counts, CPU)


@pytest.fixture
def held_out(data: ImageSplits, tmp_path: Path) -> HeldOutTest:
    assert data.test is not None
    store = open_store(data.test, tmp_path, 36, workers=0)
    views = StoredViews(store, EvaluationView(32), config().channels, torch.float32, CPU)
    return HeldOutTest(views, torch.from_numpy(data.test.labels), data.counts, 1, 1)


def run(held_out: HeldOutTest, stack: Stack) -> dict[str, Any]:
    rows: list[dict[str, Any]] = [{}]
    held_out(1, [stack], rows)
    return rows[0]


def test_moments_are_those_of_the_first_process(
    stack: Stack, held_out: HeldOutTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The moments of another process make no difference to the test."""
    saved = {name: a.clone() for name, a in stack.network.state_dict().items()}
    right = run(held_out, stack)
    generator = torch.Generator().manual_seed(0)
    for a in stack.network.buffers():
        a.copy_(torch.rand(a.shape, generator=generator))

    def broadcast_from_rank0(*tensors: Tensor) -> None:
        for buffer, (name, _) in zip(tensors, stack.network.named_buffers(), strict=True):
            buffer.copy_(saved[name])

    wrong = run(held_out, stack)
    monkeypatch.setattr(distributed, "broadcast_from_rank0", broadcast_from_rank0)
    assert run(held_out, stack) == right != wrong
