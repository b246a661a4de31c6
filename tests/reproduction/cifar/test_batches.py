"""Batches of CIFAR: determined by seed and epoch, the same for every run of a seed."""

from collections.abc import Sequence

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from resultant_reproduction.cifar.batches import Batches
from resultant_reproduction.cifar.views import MEAN, STD, ClassificationView, ContrastiveView

N, SIZE, EACH = 29, 32, 8
SHAPE, GENERATOR = (N, 3, SIZE, SIZE), torch.Generator().manual_seed(0)
IMAGES = torch.randint(0, 256, SHAPE, generator=GENERATOR, dtype=torch.uint8)
# Every image has its own label.
LABELS = torch.arange(N)


def batches(
    seeds: Sequence[int], third: bool = False, contrastive: str = "simclr", images: Tensor = IMAGES
) -> Batches:
    return Batches(images, LABELS, seeds, EACH, third, torch.float32, contrastive)


def epoch_of(loaded: Batches, epoch: int) -> list[tuple[Tensor, Tensor]]:
    loaded.load(loaded.draw(epoch))
    result = []
    for _ in range(loaded.steps):
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
    monkeypatch.setattr("resultant_reproduction.cifar.batches.CHUNK_IMAGES", 13)
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
