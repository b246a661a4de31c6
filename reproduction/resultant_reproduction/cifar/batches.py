"""Batches of CIFAR on the device. Everything random about an epoch follows from (seed, epoch) and
is drawn on the CPU: runs of one seed see the same batches on every device."""

import hashlib
import math
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from resultant.training.batches import mixed, require_batches
from resultant_reproduction.cifar.network import normalized_patches
from resultant_reproduction.cifar.views import ClassificationView, ContrastiveView

# Images that are augmented at a time when an epoch begins.
CHUNK_IMAGES = 32768


class Batches:
    """Two or three views of a long-tailed subset on the device, made when an epoch begins; a
    counter on the device selects the batch, also inside a CUDA graph."""

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
        require_batches(len(images), batch_size)
        self.steps = len(images) // batch_size
        size, device, groups = images.shape[-1], images.device, len(self.seeds)
        # Kinds of views, and the number of views of each kind.
        strong = 2 if contrastive == "simclr" else 0
        kinds = (
            (ContrastiveView(size=size), strong),
            (ClassificationView(size=size), 2 + classification_view - strong),
        )
        self.kinds = [(view, number) for view, number in kinds if number]
        # Run r reads the images of seed group[r].
        self.group = torch.tensor([self.seeds.index(seed) for seed in seeds], device=device)
        # The network reads each set of images with equally many runs.
        self.slot = self.group[:: math.gcd(*Counter(seeds).values())]
        self.step = torch.zeros(1, dtype=torch.int64, device=device)
        self.order = torch.zeros(self.steps, groups, batch_size, dtype=torch.int64, device=device)
        views = (2 + classification_view) * batch_size
        self.views = images.new_zeros(self.steps, groups, views, *images.shape[1:])

    @property
    def digest(self) -> str:
        content = hashlib.sha256()
        for part in (self.images, self.labels):
            content.update(part.cpu().contiguous().numpy().data)
        return content.hexdigest()

    def draw(self, epoch: int) -> list[Tensor]:
        """Draw the orders [steps, groups, batch], and the views of each seed and kind."""
        orders, drawn, number = [], [], self.steps * self.batch_size
        for seed in self.seeds:
            generator = torch.Generator().manual_seed(mixed(seed, epoch))
            order = torch.randperm(len(self.images), generator=generator)
            orders.append(order[:number].view(self.steps, -1))
            for view, views in self.kinds:
                sizes = torch.full((views * number, 2), view.size)
                drawn.append(view.draw(sizes, generator))
        return [torch.stack(orders, 1), *drawn]

    def load(self, drawn: list[Tensor]) -> None:
        remaining = iter(drawn)
        self.order.copy_(next(remaining))
        self.step.zero_()
        for g in range(len(self.seeds)):
            top = 0
            for view, number in self.kinds:
                images, parameters = self.order[:, g].repeat(1, number), next(remaining)
                width = images.shape[1]
                out, stride = self.views[:, g, top : top + width], max(1, CHUNK_IMAGES // width)
                for first in range(0, self.steps, stride):
                    chosen = images[first : first + stride].flatten()
                    views = view(self.images[chosen], parameters[first * width :][: len(chosen)])
                    out[first : first + stride] = views.unflatten(0, (-1, width))
                top += width

    def batch(self) -> tuple[Tensor, Tensor]:
        labels = self.labels[self.order.index_select(0, self.step)[0]][self.group]
        views = self.views.flatten(0, 1)[self.step * len(self.seeds) + self.slot]
        self.step += 1
        return normalized_patches(views, self.dtype), labels
