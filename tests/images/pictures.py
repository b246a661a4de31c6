"""Small images as tensors and as PIL pictures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from resultant._core.vision import vision_module

# Also if the compiled operators of torchvision do not fit torch, as tests of this folder import it.
tv = vision_module("torchvision.transforms.functional")

SIZE = 32
GREY = (128, 128, 128)
AFFINE = Image.Transform.AFFINE
Picture = Image.Image


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def sample(n: int = 60, size: int = SIZE) -> Tensor:
    """Return smooth images with noise of all contrasts, noise, and images of one or two levels."""
    g = seeded(3)
    coarse = torch.rand(n, 3, 5, 5, generator=g)
    smooth = torch.nn.functional.interpolate(coarse, size=(size, size), mode="bicubic")
    noise = torch.randn(n, 3, size, size, generator=g) * torch.rand(n, 1, 1, 1, generator=g)
    shade = 0.2 + torch.rand(n, 1, 1, 1, generator=g)
    images = (255 * shade * smooth + 20 * noise).clamp(0, 255).to(torch.uint8)
    images[:6] = torch.randint(0, 256, (6, 3, size, size), generator=g, dtype=torch.uint8)
    images[6], images[7], images[8] = 0, 255, 77
    images[9] = torch.tensor([250, 3, 120], dtype=torch.uint8)[:, None, None]
    images[10] = 40
    images[10, :, size // 2 :] = 41
    images[11] = smooth[11].mean(0).mul(255).clamp(0, 255).to(torch.uint8)
    return images


def pictures(images: Tensor) -> list[Picture]:
    return [Image.fromarray(a.permute(1, 2, 0).numpy()) for a in images]


def levels(pictures: list[Picture]) -> Tensor:
    return torch.stack([torch.from_numpy(np.array(p)).permute(2, 0, 1) for p in pictures])


def affine(entries: Callable[[float], tuple[float, ...]], **options: Any) -> Callable[..., Picture]:
    return lambda p, m: p.transform(p.size, AFFINE, entries(m), fillcolor=GREY, **options)
