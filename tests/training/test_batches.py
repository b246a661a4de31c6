"""Batches of an epoch: determined by seed and epoch, for any number of processes."""

import threading
from collections.abc import Generator
from typing import Any

import pytest
import torch
from torch import Tensor

from images.test_store import source
from resultant._core import distributed
from resultant.images.photo_views import classification_view, contrastive_view
from resultant.images.store import ImageStore, open_store
from resultant.training.batches import Batches, ahead

CPU, VIEW = torch.device("cpu"), 16
CHANNELS = ((0.5, 0.4, 0.3), (0.2, 0.25, 0.3))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ImageStore:
    folder = tmp_path_factory.mktemp("images")
    return open_store(source(folder / "files", 26), folder / "store", 20, workers=0)


def epoch_of(loaded: Batches, epoch: int) -> list[tuple[Tensor, Tensor]]:
    loaded.load(loaded.draw(epoch))
    result = []
    for _ in range(loaded.steps):
        loaded.advance()
        views, labels = loaded.batch()
        result.append((views.clone(), labels.clone()))
    return result


def photo_batches(store: ImageStore) -> Batches:
    views = [contrastive_view(VIEW)] * 2 + [classification_view(VIEW)]
    settings = views, 3, 12, CHANNELS, torch.float32, CPU
    return Batches(store.source, lambda: store, *settings)


def test_processes_share_a_batch(store: ImageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = epoch_of(photo_batches(store), 5)
    monkeypatch.setattr(distributed, "world_size", lambda: 3)
    parts = []
    for rank in range(3):
        monkeypatch.setattr(distributed, "rank", lambda rank=rank: rank)
        parts.append(epoch_of(photo_batches(store), 5))
    for step, (views, labels) in enumerate(whole):
        shares = [part[step] for part in parts]
        joined = torch.cat([share[0].unflatten(0, (3, 4)) for share in shares], 1)
        assert torch.equal(joined.flatten(0, 1), views)
        assert torch.equal(torch.cat([share[1] for share in shares]), labels)


def test_thread_ends_with_its_reader() -> None:
    before = threading.active_count()

    def endless() -> Generator[Any]:
        while True:
            yield 1

    made = ahead(ahead(endless()))
    assert next(made) == 1 and threading.active_count() == before + 2
    made.close()
    assert threading.active_count() == before
