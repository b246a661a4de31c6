"""Where a training step takes its images from: CIFAR on the device, or a loader of image files.

Everything random about an epoch comes from (seed, epoch) and is drawn on the CPU, so that a run can
be resumed at any epoch, sees the same on every device, and runs of one seed see the same.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, cast

import torch
from torch import Tensor

from resultant.images.augment import ClassificationView, ContrastiveView, normalize
from resultant.images.lists import ListedDataset
from resultant.images.loader import Loader, ViewDataset
from resultant.networks.models import patches
from resultant.networks.norm import fused

# Images of the classification view that are augmented at a time.
PIECE = 16384


class Batches(Protocol):
    """The batches of every epoch; `draw` may run ahead of the device, `load` follows it."""

    steps: int

    def digest(self) -> str:
        """Of the images, or their names, and of the labels, in their order."""
        ...

    def draw(self, epoch: int) -> list[Tensor]:
        """What is random about an epoch, on the CPU."""
        ...

    def load(self, drawn: list[Tensor]) -> None:
        """Begin the epoch."""
        ...

    def batch(self) -> tuple[Tensor, Tensor]:
        """The views [V * N, ...] that the network reads, view by view, and labels [runs, N]."""
        ...


class CifarBatches:
    """A long-tailed subset on the device, and two contrastive views of it, or a third one too.

    ``images`` uint8 [n, 3, 32, 32] and ``labels`` [n] are the subset; ``seeds`` has one seed a
    run, equal ones together. A `ContrastiveView` is made in the step, a `ClassificationView` when
    an epoch begins; where ``contrastive`` is autoaugment all views are of the second kind. A batch
    can be taken inside a CUDA graph: a counter on the device says which.
    """

    def __init__(
        self,
        images: Tensor,
        labels: Tensor,
        seeds: Sequence[int],
        batch_size: int,
        classification_view: bool,
        dtype: torch.dtype,
        contrastive: str = "simclr",
    ) -> None:
        self.images, self.labels, self.batch_size, self.dtype = images, labels, batch_size, dtype
        self.seeds = tuple(dict.fromkeys(seeds))
        if list(seeds) != sorted(seeds, key=self.seeds.index):
            raise ValueError(f"expected runs of one seed side by side, got seeds {tuple(seeds)}")
        self.steps = len(images) // batch_size
        if not self.steps:
            raise ValueError(f"expected at least a batch of {batch_size}, got {len(images)} images")
        self.view = ContrastiveView(size=images.shape[-1])
        self.weak = ClassificationView(size=images.shape[-1])
        # Views of an image that are made in the step, and when the epoch begins.
        self.live = 2 if contrastive == "simclr" else 0
        self.ahead = 2 + classification_view - self.live
        self.make: Callable[[Tensor, Tensor, Tensor | None], Tensor] = self._make
        if images.is_cuda and fused():
            from resultant.images.view_kernel import PatchedViews

            self.make = PatchedViews(self.view, images, dtype)
        device, groups = images.device, len(self.seeds)
        # Run r reads the images of seed group[r].
        self.group = torch.tensor([self.seeds.index(seed) for seed in seeds], device=device)
        # The network wants equally many runs for each set of images that it is given.
        self.slot = self.group[:: math.gcd(*Counter(seeds).values())]
        self.step = torch.zeros(1, dtype=torch.int64, device=device)
        self.order = torch.zeros(self.steps, groups, batch_size, dtype=torch.int64, device=device)
        self.parameters = torch.zeros(
            self.steps, groups, self.live * batch_size, len(self.view.columns), device=device
        )
        self.made: Tensor | None = None
        if self.ahead:
            shape = (self.steps, groups, self.ahead * batch_size, *images.shape[1:])
            self.made = torch.zeros(shape, dtype=torch.uint8, device=device)

    def digest(self) -> str:
        content = hashlib.sha256()
        for part in (self.images, self.labels):
            content.update(part.cpu().contiguous().numpy().data)
        return content.hexdigest()

    def draw(self, epoch: int) -> list[Tensor]:
        orders, parameters, ahead = [], [], []
        number = self.steps * self.batch_size
        for seed in self.seeds:
            generator = torch.Generator().manual_seed(_mixed(seed, epoch))
            order = torch.randperm(len(self.images), generator=generator)
            orders.append(order[:number].view(self.steps, -1))
            drawn = self.view.draw(self.live * number, generator)
            parameters.append(drawn.view(self.parameters[:, 0].shape))
            if self.ahead:
                ahead.append(self.weak.draw(self.ahead * number, generator))
        drawn = [torch.stack(orders, 1), torch.stack(parameters, 1), *ahead]
        return [a.pin_memory() if self.images.is_cuda and a.numel() else a for a in drawn]

    def load(self, drawn: list[Tensor]) -> None:
        order, parameters, *ahead = drawn
        self.order.copy_(order, non_blocking=True)
        self.parameters.copy_(parameters, non_blocking=True)
        self.step.zero_()
        if self.made is None:
            return
        for g, drawn_ahead in enumerate(ahead):
            rows = self.order[:, g].repeat(1, self.ahead).flatten()
            whole = self.made[:, g]
            for top in range(0, len(rows), PIECE):
                piece = slice(top, top + PIECE)
                made = self.weak(self.images[rows[piece]], drawn_ahead[piece])
                at = torch.arange(top, top + len(made), device=made.device)
                place = at // whole.shape[1], at % whole.shape[1]
                whole[place] = made.round().to(torch.uint8)

    def batch(self) -> tuple[Tensor, Tensor]:
        order = self.order.index_select(0, self.step)[0]
        parameters = self.parameters.index_select(0, self.step)[0]
        made = None if self.made is None else self.made.index_select(0, self.step)[0]
        self.step += 1
        labels = self.labels[order][self.group]
        rows = order.repeat(1, self.live)
        if len(self.slot) != len(order):
            rows, parameters = rows[self.slot], parameters[self.slot]
            made = None if made is None else made[self.slot]
        return self.make(rows, parameters, made), labels

    def _make(self, rows: Tensor, parameters: Tensor, made: Tensor | None) -> Tensor:
        """The patches of views of the images ``rows`` [G, n], and of those ``made`` already."""
        views = [] if made is None else [made.to(torch.float32)]
        if self.live:
            x = self.view(self.images[rows].flatten(0, 1), parameters.flatten(0, 1))
            views.insert(0, x.unflatten(0, (len(rows), -1)))
        x = normalize(torch.cat(views, 1).flatten(0, 1)).unflatten(0, (len(rows), -1))
        return patches(x, self.dtype)


class LoadedBatches:
    """Batches of image files, for one run; see `resultant.images.loader.loader`."""

    def __init__(self, loader: Loader, about: ListedDataset, device: torch.device) -> None:
        self.loader, self.about, self.device, self.steps = loader, about, device, len(loader)
        self.iterator: Iterator[tuple[Tensor, Tensor, Tensor]] = iter(())

    def digest(self) -> str:
        """Of the labels and of the paths below the folder that all images are in, which may lie
        elsewhere when a job is continued."""
        listed = cast(ViewDataset, self.loader.dataset).images
        paths = list(map(os.path.normpath, listed.paths))
        folder = os.path.commonpath(list(map(os.path.dirname, paths)))
        content = hashlib.sha256(listed.labels.numpy().data)
        for path in paths:
            content.update(path.removeprefix(folder).encode() + b"\0")
        return content.hexdigest()

    def draw(self, epoch: int) -> list[Tensor]:
        return [torch.tensor(epoch)]

    def load(self, drawn: list[Tensor]) -> None:
        self.loader.set_epoch(int(drawn[0]))
        self.iterator = iter(self.loader)

    def batch(self) -> tuple[Tensor, Tensor]:
        views, labels, _ = next(self.iterator)
        labels = labels.to(self.device, non_blocking=True)[None]
        return normalized(views, self.about, self.device), labels


def normalized(views: Tensor, about: ListedDataset, device: torch.device) -> Tensor:
    """Of a loader's views uint8 [N, V, 3, S, S] what the network reads, view by view: float32
    [V * N, 3, S, S] on the device, channels last."""
    x = views.to(device, non_blocking=True).transpose(0, 1).flatten(0, 1)
    return normalize(x, about.mean, about.std).contiguous(memory_format=torch.channels_last)


def _mixed(seed: int, epoch: int) -> int:
    """A seed for an epoch of a run; torch mixes its bits well."""
    return seed * 1_000_003 + epoch
