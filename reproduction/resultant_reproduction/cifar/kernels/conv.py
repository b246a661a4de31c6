"""Forward and backward of a residual block, as fused CUDA kernels on channels-last activations.

A convolution (`conv.cu`, compiled at the first call) applies the preceding norm while it reads and
takes the sums of the following norm while it writes, in a fixed order; the kernels of `norm` finish
the sums. No normalized activation and no gradient of one is stored.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from resultant._core.device import device_of
from resultant_reproduction.cifar.kernels import norm as norms
from resultant_reproduction.cifar.norm import EPS, MOMENTUM, channels_last, next_shortcut

THREADS = 128


class Plan(NamedTuple):
    """Launch parameters of a number of channels: width of an image, blocks of a multiprocessor."""

    width: int
    forward: int
    backward: int
    reserve: int


PLANS = {16: Plan(32, 4, 2, 77 * 1024), 32: Plan(16, 3, 2, 0)}


# A kernel of `conv.cu`: its name, the channels of a run, and True if a norm precedes it.
Variant = tuple[str, int, bool]

VARIANTS: list[Variant] = list(product(("convolve", "differentiate"), PLANS, (False, True)))


@cache
def _kernels(device: int) -> dict[Variant, tuple[Any, int]]:
    """Return all kernels, compiled in parallel, and the bytes of shared memory of each."""

    def begin() -> None:
        # A thread starts on the first device, and can load a module after its first launch.
        torch.cuda.set_device(device)
        torch.zeros(1, device="cuda")

    with ThreadPoolExecutor(len(VARIANTS), initializer=begin) as pool:
        return dict(zip(VARIANTS, pool.map(_compiled, VARIANTS), strict=True))


def _compiled(variant: Variant) -> tuple[Any, int]:
    name, channels, norm = variant
    plan = PLANS[channels]
    tiles, blocks, reserve = (
        (1, plan.forward, 0) if name == "convolve" else (2, plan.backward, plan.reserve)
    )
    defined = {"CHANNELS": channels, "WIDTH": plan.width, "NORM": int(norm), "BLOCKS": blocks}
    kernel = torch.cuda._compile_kernel(
        Path(__file__).with_name("conv.cu").read_text(),
        name,
        nvcc_options=[f"-D{key}={value}" for key, value in defined.items()],
    )
    # Images with a border of zeros, and the weights, two bytes each.
    row = plan.width + 1
    memory = max(reserve, 2 * (((tiles * row + 1) * row + 1) * channels + 9 * channels**2))
    kernel.set_shared_memory_config(memory)
    return kernel, memory


def _parts(images: int, runs: int, blocks: int) -> int:
    """Return the blocks per run: as many as the device holds, with equal shares of images."""
    most = max(1, torch.cuda.get_device_properties().multi_processor_count * blocks // runs)
    return -(-images // -(-images // most))


def _launch(name: str, weight: Tensor, norm: bool, parts: int, *arguments: Tensor | int) -> None:
    runs, channels = weight.shape[:2]
    kernel, memory = _kernels(torch.cuda.current_device())[name, channels, norm]
    kernel((parts * runs, 1, 1), (THREADS, 1, 1), [*arguments, runs], memory)


def convolve(x: Tensor, weight: Tensor, saved: Tensor | None) -> tuple[Tensor, Tensor]:
    """Compute conv(x), or conv(relu(norm(x))) with a norm, and the sums [parts, 2, C] of it."""
    with device_of(x):
        images, runs, channels = x.shape[0], *weight.shape[:2]
        parts = _parts(images, runs, PLANS[channels].forward)
        y = torch.empty_like(x)
        partial = x.new_empty(parts, 2, x.shape[1], dtype=torch.float32)
        _launch(
            "convolve", weight, saved is not None, parts,
            x, weight, weight if saved is None else saved, y, partial, images,
        )  # fmt: skip
        return y, partial


def differentiate(
    x: Tensor, g: Tensor, y: Tensor, line: Tensor, weight: Tensor, saved: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of x and weight; that of convolve(x, weight, saved) is a g + b y + c."""
    with device_of(x):
        images, runs, channels = x.shape[0], *weight.shape[:2]
        parts = _parts(images, runs, PLANS[channels].backward)
        dx = torch.empty_like(x)
        partial = x.new_empty(parts, 2, x.shape[1], dtype=torch.float32)
        products = x.new_empty(parts, *weight.shape, dtype=torch.float32)
        _launch(
            "differentiate", weight, saved is not None, parts,
            x, g, y, line, weight, weight if saved is None else saved, dx, partial, products,
            images,
        )  # fmt: skip
        return dx, partial, products.sum(0)


class FusedBlock(torch.autograd.Function):
    """relu(norm2(conv2(relu(norm1(conv1(x))))) + shortcut), in training, of channels-last bf16; x
    and shortcut may share memory. The first call compiles, before a graph is captured."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, x: Tensor, shortcut: Tensor, *arguments: Any
    ) -> tuple[Tensor, Tensor | None]:
        w1, w2, following = arguments[0], arguments[5], arguments[10]
        with device_of(x):
            M = x.numel() // x.shape[1]
            y1, partial = convolve(x, w1, None)
            norm1 = norms.moments(partial, M, arguments[1:5], MOMENTUM, EPS)
            y2, partial = convolve(y1, w2, norm1)
            norm2 = norms.moments(partial, M, arguments[6:10], MOMENTUM, EPS)
            out = norms.apply(y2, channels_last(shortcut), norm2)
        ctx.save_for_backward(x, w1, w2, y1, y2, out, norm1, norm2)
        # The same memory as two tensors where possible, for separate gradients.
        return out, next_shortcut(out.detach(), w2.shape[:2], following)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        x, w1, w2, y1, y2, out, norm1, norm2 = ctx.saved_tensors
        one, two = (None if g is None else channels_last(g) for g in gradients)
        assert one is not None, "the output of a block has a gradient"
        shape = w1.shape[:2]
        with device_of(x):
            M = x.numel() // x.shape[1]
            g, partial = norms.gradient_sums(y2, out, norm2, (one, two), True, shape[1])
            assert g is not None, "a block has a residual"
            line, *second = norms.gradient_moments(partial, norm2, M)
            g1, partial, dw2 = differentiate(y1, g, y2, line, w2, norm1)
            line, *first = norms.gradient_moments(partial, norm1, M)
            dx, _, dw1 = differentiate(x, g1, y1, line, w1, None)
        first, second = ([d.view(shape) for d in pair] for pair in (first, second))
        return dx, g, dw1, *first, None, None, dw2, *second, None, None, None
