"""Batches of an epoch: determined by seed and epoch, for any number of processes."""

import threading
from collections.abc import Generator, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from images.test_store import source
from resultant._core import distributed
from resultant.images.augment import ClassificationView, ContrastiveView
from resultant.images.photo_views import MEAN, STD, classification_view, contrastive_view, normalize
from resultant.images.store import ImageStore, open_store
from resultant.networks.timm_encoder import EvaluationView
from resultant.training.batches import CifarBatches
from resultant.training.inference import StoredViews
from resultant.training.photo_batches import PhotoBatches, ahead

N, SIZE, EACH = 29, 32, 8
SHAPE, GENERATOR = (N, 3, SIZE, SIZE), torch.Generator().manual_seed(0)
IMAGES = torch.randint(0, 256, SHAPE, generator=GENERATOR, dtype=torch.uint8)
# Every image has its own label.
LABELS = torch.arange(N)


def batches(
    seeds: Sequence[int], third: bool = False, contrastive: str = "simclr", images: Tensor = IMAGES
) -> CifarBatches:
    return CifarBatches(images, LABELS, seeds, EACH, third, torch.float32, contrastive)


def epoch_of(loaded: CifarBatches | PhotoBatches, epoch: int) -> list[tuple[Tensor, Tensor]]:
    loaded.load(loaded.draw(epoch))
    result = []
    for _ in range(loaded.steps):
        loaded.advance()
        views, labels = loaded.batch()
        result.append((views.clone(), labels.clone()))
    return result


KINDS = ("simclr", "autoaugment")


@pytest.mark.slow
@pytest.mark.parametrize("third", [False, True])
@pytest.mark.parametrize("contrastive", KINDS)
def test_views_are_those_made_by_hand(
    third: bool, contrastive: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No multiple of a batch, or of its views.
    monkeypatch.setattr("resultant.training.batches.CHUNK_IMAGES", 13)
    loaded = batches([4, 5], third, contrastive)
    order, *parameters = drawn = loaded.draw(2)
    loaded.load(drawn)
    strong, weak = ContrastiveView(), ClassificationView()
    kinds = [weak] if contrastive == "autoaugment" else [strong, weak][: 1 + third]
    for step in range(loaded.steps):
        x, labels = loaded.batch()
        assert x.shape == ((3 if third else 2) * EACH, 2 * 32, SIZE, SIZE)
        for group in range(2):
            rows = order[step, group]
            assert torch.equal(labels[group], LABELS[rows])
            views = []
            for view, drawn in zip(kinds, parameters[group * len(kinds) :], strict=False):
                chosen = drawn.unflatten(0, (loaded.steps, -1, EACH))[step]
                views += [view(IMAGES[rows], p) for p in chosen]
            assert len(views) == 2 + third
            assert not torch.equal(views[0], views[1])
            grey = torch.cat(views).double() / 255
            mean, std = (torch.tensor(v).double().view(3, 1, 1) for v in (MEAN, STD))
            windows = F.unfold((grey - mean) / std, 3, padding=1).unflatten(2, (SIZE, SIZE))
            result = x[:, 32 * group : 32 * group + 32]
            torch.testing.assert_close(result[:, :27].double(), windows, rtol=1e-6, atol=1e-6)
            assert not result[:, 27:].any()


# With and without equally many runs of each seed: the network needs equally many per image set.
@pytest.mark.slow
@pytest.mark.parametrize(
    "seeds", [(7,), (7, 7), (7, 8), (7, 7, 7, 8), (8, 7, 7), (6, 6, 8, 8, 7, 7)]
)
@pytest.mark.parametrize("contrastive", KINDS)
def test_runs_of_one_seed_see_the_same_images(seeds: tuple[int, ...], contrastive: str) -> None:
    stacked = epoch_of(batches(seeds, contrastive=contrastive), 3)
    for run, seed in enumerate(seeds):
        alone = epoch_of(batches([seed], contrastive=contrastive), 3)
        for (x, labels), (one, label) in zip(stacked, alone, strict=True):
            slots = x.unflatten(1, (-1, 32))
            assert len(seeds) % slots.shape[1] == 0
            assert torch.equal(slots[:, run * slots.shape[1] // len(seeds)], one)
            assert labels.shape == (len(seeds), EACH)
            assert torch.equal(labels[run], label[0])


def test_refused() -> None:
    with pytest.raises(ValueError, match=r"one seed side by side, got seeds \(0, 1, 0\)"):
        batches([0, 1, 0])
    with pytest.raises(ValueError, match="at least one batch of 8, got 7 images"):
        batches([0], images=IMAGES[:7])


CPU, VIEW = torch.device("cpu"), 16
CHANNELS = ((0.5, 0.4, 0.3), (0.2, 0.25, 0.3))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ImageStore:
    folder = tmp_path_factory.mktemp("images")
    return open_store(source(folder / "files", 26), folder / "store", 20, workers=0)


def photo_batches(store: ImageStore) -> PhotoBatches:
    views = [contrastive_view(VIEW)] * 2 + [classification_view(VIEW)]
    settings = views, 3, 12, CHANNELS, torch.float32, CPU
    return PhotoBatches(store.source, lambda: store, *settings)


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
        assert torch.equal(torch.cat([share[1] for share in shares], 1), labels)


def test_evaluation_views_of_some_rows(store: ImageStore) -> None:
    """Those of Pillow, straight from the source; images that were not reduced are the same."""
    rows, view = torch.arange(0, 26, 5), EvaluationView(VIEW)
    (views,) = StoredViews(store, view, CHANNELS, torch.float32, CPU)(rows)
    levels = torch.stack([view(store.source.read(i)) for i in rows.tolist()])
    assert torch.equal(views, normalize(levels, *CHANNELS))


def test_thread_ends_with_its_reader() -> None:
    before = threading.active_count()

    def endless() -> Generator[Any]:
        while True:
            yield 1

    made = ahead(ahead(endless()))
    assert next(made) == 1 and threading.active_count() == before + 2
    made.close()
    assert threading.active_count() == before
