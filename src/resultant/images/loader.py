"""Host pipeline for images of ImageNet's size: decoding, views and loading.

The views of an image depend on (seed, epoch, index) alone: not on the number of workers, the ranks
or earlier epochs. The indices carry the epoch to the workers, which persist between epochs.

Views are uint8, a quarter of the bytes that the network reads: `training.batches.normalized` scales
them on the device.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, DistributedSampler, default_collate

from resultant._core import distributed
from resultant.images._torchvision import torchvision_module
from resultant.images.decode import ImageError
from resultant.images.source import ImageSource

Channels = tuple[float, float, float]
View = Callable[[Any], Tensor]
Item = tuple[Tensor, int, int]

# Colour jitter of the contrastive views and of the classification view.
JITTER, CLASS_JITTER = (0.4, 0.4, 0.4, 0.1), (0.4, 0.4, 0.4, 0.0)


def contrastive_view(size: int = 224) -> View:
    """Build the contrastive view: resized crop, flip, jitter (probability .8), grey (.2); no blur.

    A view is uint8 [3, size, size].
    """
    v2 = torchvision_module("transforms.v2")

    jitter = v2.RandomApply([v2.ColorJitter(*JITTER)], p=0.8)
    return _view(_crop(size) + [jitter, v2.RandomGrayscale(p=0.2)])


def classification_view(mean: Channels, size: int = 224) -> View:
    """Build the view of the classifier: resized crop, flip, jitter and RandAugment (2, 10, .5).

    RandAugment is that of timm: torchvision has neither mstd, the noise of the magnitude, nor the
    probability .5 of each operation, and another scale of magnitudes. Pixels from outside the image
    have the colour ``mean``.
    """
    v2 = torchvision_module("transforms.v2")
    from timm.data.auto_augment import rand_augment_transform

    settings = {
        "translate_const": int(size * 0.45),
        "img_mean": tuple(min(255, round(255 * m)) for m in mean),
    }
    augment = rand_augment_transform("rand-m10-n2-mstd0.5", settings)
    return _view(_crop(size) + [v2.ColorJitter(*CLASS_JITTER), augment])


def evaluation_view(size: int = 224) -> View:
    """Build the view for evaluation: shorter side to 256 (for size 224), then the centre crop."""
    v2 = torchvision_module("transforms.v2")

    return _view([v2.Resize(size * 256 // 224), v2.CenterCrop(size)])


def _crop(size: int) -> list[Any]:
    v2 = torchvision_module("transforms.v2")

    return [v2.RandomResizedCrop(size), v2.RandomHorizontalFlip()]


def _view(steps: list[Any]) -> View:
    v2 = torchvision_module("transforms.v2")

    return v2.Compose([*steps, v2.ToImage(), v2.ToPureTensor()])


@contextmanager
def item_randomness(seed: int, epoch: int, index: int) -> Iterator[None]:
    """Seed the three global CPU generators by (seed, epoch, index), and restore them afterwards.

    torchvision draws from the generator of torch, timm from those of Python and NumPy.
    """
    words = np.random.SeedSequence([seed, epoch, index]).generate_state(3, np.uint64)
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        # Not torch.manual_seed, which would seed the devices too.
        torch.default_generator.manual_seed(int(words[0]) >> 1)
        random.seed(int(words[1]))
        np.random.seed(int(words[2]) & 0xFFFFFFFF)  # noqa: NPY002 (timm draws from it)
        yield
    finally:
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        np.random.set_state(states[2])  # noqa: NPY002


class ViewDataset(Dataset[Item]):
    """Dataset of views of listed images: (views uint8 [V, 3, S, S], label, index).

    The key is (epoch, index), or an index for epoch 0. An image is decoded once for all its views.
    """

    def __init__(self, images: ImageSource, views: Sequence[View], seed: int = 0) -> None:
        if not views:
            raise ValueError("expected one view or more, got none")
        if seed < 0:
            raise ValueError(f"expected seed >= 0, got {seed}")
        self.images, self.views, self.seed = images, tuple(views), seed

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, key: int | tuple[int, int]) -> Item:
        epoch, index = key if isinstance(key, tuple) else (0, key)
        if not 0 <= index < len(self):
            raise IndexError(f"expected an index in [0, {len(self)}), got {index}")
        image = self.images.read(index)
        with item_randomness(self.seed, epoch, index):
            views = torch.stack([view(image) for view in self.views])
        return views, int(self.images.labels[index]), index

    def __getitems__(self, keys: Sequence[int | tuple[int, int]]) -> list[Item] | ImageError:
        """Return the items of a batch, or the error of a broken image, which `Loader` raises.

        An error raised in a worker would carry the whole traceback of the worker as its message.
        """
        try:
            return [self[key] for key in keys]
        except ImageError as error:
            return error


class EpochSampler(DistributedSampler):
    """`DistributedSampler` whose indices carry their epoch, for `ViewDataset`."""

    def __iter__(self) -> Iterator[Any]:
        return ((self.epoch, index) for index in super().__iter__())


class Loader(DataLoader):
    """`DataLoader` over views: set an epoch, iterate, set the next epoch."""

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration; a resumed run sees the same views."""
        cast(EpochSampler, self.sampler).set_epoch(epoch)

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        # Not a generator: the workers start here, and not at the first batch.
        return map(_require_batch, super().__iter__())


def _collate(items: list[Item] | ImageError) -> Any:
    return items if isinstance(items, ImageError) else default_collate(items)


def _require_batch(batch: Any) -> Any:
    if isinstance(batch, ImageError):
        # A new error: the old one would hold its traceback, and the loader with it, until garbage
        # collection, when workers take seconds to end.
        raise ImageError(str(batch))
    return batch


def loader(
    dataset: ViewDataset,
    batch_size: int,
    *,
    train: bool,
    epoch: int = 0,
    workers: int = 8,
    rank: int | None = None,
    world_size: int | None = None,
    prefetch: int = 4,
) -> Loader:
    """Load batches of views on this rank.

    Memory is pinned on machines with a CUDA device; workers persist between epochs.

    Args:
        dataset: Views of listed images.
        batch_size: Images per batch and rank.
        train: Shuffle by (seed, epoch) and drop the last incomplete batch. Otherwise the order is
            that of the list, and with several ranks the last images may repeat, with their indices.
        epoch: First epoch.
        workers: Number of worker processes.
        rank: Rank of this process, by default that of the process group.
        world_size: Number of ranks, by default that of the process group.
        prefetch: Batches that each worker loads ahead.

    Returns:
        Batches of views uint8 [B, V, 3, S, S], labels [B] and indices [B].

    Raises:
        ValueError: For arguments out of range, or fewer images than a batch per rank.
    """
    if batch_size < 1 or workers < 0:
        got = f"{batch_size} and {workers}"
        raise ValueError(f"expected batch_size >= 1 and workers >= 0, got {got}")
    if (rank is None) != (world_size is None):
        raise ValueError(f"expected both rank and world_size, or neither, got {rank}, {world_size}")
    if rank is None or world_size is None:
        rank, world_size = distributed.rank(), distributed.world_size()
    if train and len(dataset) // world_size < batch_size:
        rule = f"expected at least one batch of {batch_size} per rank ({world_size})"
        raise ValueError(f"{rule}, got {len(dataset)} images")
    sampler = EpochSampler(
        dataset, world_size, rank, shuffle=train, seed=dataset.seed, drop_last=train
    )
    sampler.set_epoch(epoch)
    return Loader(
        dataset,
        batch_size,
        sampler=sampler,
        num_workers=workers,
        drop_last=train,
        collate_fn=_collate,
        pin_memory=torch.cuda.is_available(),
        persistent_workers=workers > 0,
        prefetch_factor=prefetch if workers else None,
    )
