"""Fused views have the levels of `ContrastiveView`, in Triton's interpreter and on a GPU."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from programs import run_interpreted
from resultant.images.augment import ContrastiveView, normalize
from resultant.networks.stacked_resnet import patches

CHECK = "from images import test_view_kernel; test_view_kernel.check('cpu', {n}, 1, {size})"


def images(n: int, size: int = 32) -> Tensor:
    """Return smooth images with noise, a constant one and a black one."""
    generator = torch.Generator().manual_seed(1)
    coarse = torch.rand(n, 3, 4, 4, generator=generator) * 255
    fine = torch.nn.functional.interpolate(coarse, size, mode="bilinear")
    x = (fine + 20 * torch.randn(fine.shape, generator=generator)).clamp(0, 255).to(torch.uint8)
    x[0], x[1] = 77, 0
    return x


def check(device: str, n: int, groups: int, size: int = 32) -> None:
    from resultant.images.view_kernel import PatchedViews

    view, x = ContrastiveView(size=size), images(6, size)
    generator = torch.Generator().manual_seed(2)
    rows = torch.randint(len(x), (groups, 2 * n), generator=generator)
    drawn = view.draw(groups * 2 * n, generator).view(groups, 2 * n, -1)
    # At least one view is jittered and one is grey.
    drawn[:, 0, 5:7], drawn[:, 1, 5], drawn[:, 1, 6] = 1, 1, 0
    extra = torch.randint(256, (groups, n, 3, size, size), generator=generator).to(torch.uint8)
    views = view(x[rows.flatten()], drawn.flatten(0, 1)).unflatten(0, (groups, -1))
    # Augmented views, then with finished views, and finished views alone.
    for live, more in ((2 * n, None), (2 * n, extra), (0, extra)):
        every = views[:, :live]
        if more is not None:
            every = torch.cat([every, more.to(views.dtype)], 1)
        expected = patches(normalize(every.flatten(0, 1)).unflatten(0, (groups, -1)))
        make = PatchedViews(view, x.to(device), torch.float32)
        chosen, parameters = (a[:, :live].to(device) for a in (rows, drawn))
        got = make(chosen, parameters, None if more is None else more.to(device))
        assert got.shape == expected.shape and got.stride() == expected.stride()
        # Levels are at least 0.019 apart; the difference is rounding in the normalisation.
        torch.testing.assert_close(got.cpu(), expected, rtol=0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "size"), [(1, 8), (2, 32)])
def test_interpreted(n: int, size: int) -> None:
    run_interpreted(CHECK.format(n=n, size=size))


@pytest.mark.gpu
@pytest.mark.parametrize("size", [8, 32])
def test_gpu(size: int) -> None:
    check("cuda", 256, 3, size)


@pytest.mark.gpu
def test_more_patches_than_32_bits_number() -> None:
    """The last of three views of 2048 images of 12 seeds are the same as alone."""
    from resultant.images.view_kernel import PatchedViews

    view, x, groups, n = ContrastiveView(), images(6).cuda(), 12, 3 * 2048
    generator = torch.Generator().manual_seed(3)
    rows = torch.randint(len(x), (groups, n), generator=generator).cuda()
    drawn = view.draw(groups * n, generator).view(groups, n, -1).cuda()
    make = PatchedViews(view, x, torch.bfloat16)
    every = make(rows, drawn, None)
    assert every.numel() > 2**31
    for part in (slice(0, 2), slice(n - 2, n)):
        assert torch.equal(every[part], make(rows[:, part], drawn[:, part], None))
