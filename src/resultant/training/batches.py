"""Batches of a training step, and those of CIFAR on the device.

Everything random about an epoch follows from (seed, epoch) and is drawn on the CPU. A run can be
resumed at any epoch, and runs of one seed see the same batches on every device.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from resultant.images.augment import ClassificationView, ContrastiveView, View
from resultant.images.drawing import normalize
from resultant.images.rendering import uses_kernel
from resultant.networks.stacked_resnet import patches

# Images that are augmented at a time when an epoch begins.
CHUNK_IMAGES = 16384


class Batches(Protocol):
    """Batches of every epoch; `draw` may run ahead of the device, `load` waits for its order."""

    steps: int

    @property
    def digest(self) -> str:
        """A digest of the images or their names, and of the labels, in their order."""
        ...

    def open(self) -> None:
        """Decode the images, before the first epoch that is trained."""
        ...

    def draw(self, epoch: int) -> list[Tensor]:
        """Draw everything random about an epoch, on the CPU."""
        ...

    def load(self, drawn: list[Tensor]) -> None:
        """Begin an epoch with its draws."""
        ...

    def rehearse(self, epoch: int) -> None:
        """Provide batches for the steps that warm up; an epoch is loaded after them."""
        ...

    def advance(self) -> None:
        """Prepare the next batch, outside the CUDA graph of the step."""
        ...

    def batch(self) -> tuple[Tensor, Tensor]:
        """Return the views [V * N, ...] of the next batch, view by view, and labels [runs, N]."""
        ...


class CifarBatches:
    """Two or three views of a long-tailed subset on the device.

    On a GPU a `ContrastiveView` is made in the step, by a kernel. A `ClassificationView`, and every
    view on other devices, is made when an epoch begins. A batch can be taken inside a CUDA graph: a
    counter on the device selects the batch.

    Images are uint8 [n, 3, 32, 32], and equal ``seeds`` of runs are side by side. A
    ``classification_view`` is a third view, for the classifier; ``autoaugment`` as ``contrastive``
    makes all views `ClassificationView`.
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
        # Contrastive and classification views per image.
        self.strong = 2 if contrastive == "simclr" else 0
        self.more = 2 + classification_view - self.strong
        self.make: Callable[[Tensor, Tensor, Tensor | None], Tensor] = self._make
        self.kernel = uses_kernel(images.device)
        if self.kernel:
            from resultant.images.view_kernel import PatchedViews

            self.make = PatchedViews(self.view, images, dtype)
        # Views per image that are made in the step, and ahead of the epoch.
        self.live = self.strong if self.kernel else 0
        self.ahead = self.strong + self.more - self.live
        device, groups = images.device, len(self.seeds)
        # Run r reads the images of seed group[r].
        self.group = torch.tensor([self.seeds.index(seed) for seed in seeds], device=device)
        # The network reads each set of images with equally many runs.
        self.slot = self.group[:: math.gcd(*Counter(seeds).values())]
        self.step = torch.zeros(1, dtype=torch.int64, device=device)
        self.order = torch.zeros(self.steps, groups, batch_size, dtype=torch.int64, device=device)
        self.parameters = torch.zeros(
            self.steps, groups, self.strong * batch_size, len(self.view.columns), device=device
        )
        self.prepared: Tensor | None = None
        if self.ahead:
            shape = (self.steps, groups, self.ahead * batch_size, *images.shape[1:])
            self.prepared = torch.zeros(shape, dtype=torch.uint8, device=device)

    @property
    def digest(self) -> str:
        content = hashlib.sha256()
        for part in (self.images, self.labels):
            content.update(part.cpu().contiguous().numpy().data)
        return content.hexdigest()

    def open(self) -> None:
        """Do nothing: the images are decoded."""

    def draw(self, epoch: int) -> list[Tensor]:
        orders, parameters, ahead = [], [], []
        number = self.steps * self.batch_size
        for seed in self.seeds:
            generator = torch.Generator().manual_seed(mixed(seed, epoch))
            order = torch.randperm(len(self.images), generator=generator)
            orders.append(order[:number].view(self.steps, -1))
            drawn = self.view.draw(self.strong * number, generator)
            parameters.append(drawn.view(self.parameters[:, 0].shape))
            if self.more:
                ahead.append(self.weak.draw(self.more * number, generator))
        drawn = [torch.stack(orders, 1), torch.stack(parameters, 1), *ahead]
        return [a.pin_memory() if self.images.is_cuda and a.numel() else a for a in drawn]

    def load(self, drawn: list[Tensor]) -> None:
        order, parameters, *ahead = drawn
        self.order.copy_(order, non_blocking=True)
        self.parameters.copy_(parameters, non_blocking=True)
        self.step.zero_()
        for g in range(len(self.seeds)):
            if self.strong and not self.kernel:
                self._prepare(g, self.view, 0, self.strong, parameters[:, g].flatten(0, 1))
            if self.more:
                self._prepare(g, self.weak, self.strong - self.live, self.more, ahead[g])

    def _prepare(self, g: int, view: View, first: int, number: int, parameters: Tensor) -> None:
        """Make views ``first`` to ``first + number`` of all images of an epoch of seed g."""
        assert self.prepared is not None
        rows = self.order[:, g].repeat(1, number).flatten()
        width = number * self.batch_size
        out = self.prepared[:, g, first * self.batch_size :][:, :width]
        for top in range(0, len(rows), CHUNK_IMAGES):
            chunk = slice(top, top + CHUNK_IMAGES)
            views = self._views(view, self.images[rows[chunk]], parameters[chunk])
            at = torch.arange(top, top + len(views), device=views.device)
            out[at // width, at % width] = views

    def _views(self, view: View, images: Tensor, parameters: Tensor) -> Tensor:
        if self.kernel and isinstance(view, ClassificationView):
            from resultant.images.photo_kernel import classification_views

            return classification_views(view, images, parameters)
        return view(images.cpu(), parameters).to(images.device)

    def rehearse(self, epoch: int) -> None:
        self.load(self.draw(epoch))

    def advance(self) -> None:
        """Do nothing: a counter on the device selects the next batch."""

    def batch(self) -> tuple[Tensor, Tensor]:
        order = self.order.index_select(0, self.step)[0]
        parameters = self.parameters.index_select(0, self.step)[0]
        prepared = None if self.prepared is None else self.prepared.index_select(0, self.step)[0]
        self.step += 1
        labels = self.labels[order][self.group]
        rows = order.repeat(1, self.live)
        if len(self.slot) != len(order):
            rows, parameters = rows[self.slot], parameters[self.slot]
            prepared = None if prepared is None else prepared[self.slot]
        return self.make(rows, parameters, prepared), labels

    def _make(self, rows: Tensor, parameters: Tensor, prepared: Tensor | None) -> Tensor:
        """Make patches of the ``prepared`` views [G, n, 3, S, S], without views of the step."""
        assert prepared is not None
        x = normalize(prepared.flatten(0, 1)).unflatten(0, (len(rows), -1))
        return patches(x, self.dtype)


def mixed(seed: int, epoch: int) -> int:
    """Return a seed for an epoch of a run; torch mixes its bits well."""
    return seed * 1_000_003 + epoch
