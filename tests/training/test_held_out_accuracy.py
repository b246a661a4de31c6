"""Accuracy on held-out images during a training."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from listed import SIZES
from resultant._core import distributed
from resultant.images.source import ImageSplits
from resultant.images.store import open_store
from resultant.training.config import TrainConfig, preset
from resultant.training.image_sets import HeldOutAccuracy, open_dataset
from resultant.training.stack import Stack
from training.listed_training import RUN, config
from training.listed_training import _four_classes as _four_classes
from training.listed_training import data as data
from training.listed_training import root as root


def held_out(data: ImageSplits, settings: TrainConfig, folder: Path) -> HeldOutAccuracy:
    source = data.chooser or data.judge
    assert source is not None
    decoded = partial(open_store, folder=folder, short_side=36, workers=0)
    return HeldOutAccuracy(data, settings, torch.device("cpu"), source, decoded)


def test_moments_are_those_of_the_first_process(
    data: ImageSplits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The moments of another process make no difference to the test."""
    settings, batches = config(), cast(Any, None)
    stack = Stack(settings, (RUN,), batches, data.counts, torch.device("cpu"))
    saved = {name: a.clone() for name, a in stack.network.state_dict().items()}
    test = held_out(data, settings, tmp_path)
    (right,) = test(stack)
    generator = torch.Generator().manual_seed(0)
    for a in stack.network.buffers():
        a.copy_(torch.rand(a.shape, generator=generator))

    def broadcast_from_rank0(*tensors: Tensor) -> None:
        for buffer, (name, _) in zip(tensors, stack.network.named_buffers(), strict=True):
            buffer.copy_(saved[name])

    (wrong,) = test(stack)
    monkeypatch.setattr(distributed, "broadcast_from_rank0", broadcast_from_rank0)
    assert test(stack) == [right] != [wrong]


def test_an_error_while_testing_leaves_the_network_in_training(
    data: ImageSplits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, batches = config(), cast(Any, None)
    stack = Stack(settings, (RUN,), batches, data.counts, torch.device("cpu"))
    test = held_out(data, settings, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(stack.network, "forward", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError) as caught:
            test(stack)
        # While the error and its frames are alive.
        assert stack.network.training and caught.value
    test(stack)
    assert stack.network.training


def test_validation_images_choose(root: Path, tmp_path: Path) -> None:
    """With both splits the epochs are tested on val; test is left for the end."""
    both = open_dataset(preset("imagenet-lt"), root)
    assert both.held_out == "test" and both.judge is both.test and both.chooser is both.val
    assert both.val is not None and len(both.val) == sum(SIZES["val"])
    only = ImageSplits(both.train, val=both.val)
    assert only.held_out == "val" and only.judge is both.val and only.chooser is None
    settings, batches = config(), cast(Any, None)
    stack = Stack(settings, (RUN,), batches, both.counts, torch.device("cpu"))
    alone = ImageSplits(both.train, test=both.val)
    results = [held_out(data, settings, tmp_path)(stack) for data in (both, alone)]
    assert results[0] == results[1]
