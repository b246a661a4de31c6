"""Forward and backward of a residual block, as fused CUDA kernels on channels-last activations.

A convolution (`conv.cu`, compiled at the first call) applies the preceding norm while it reads and
takes the sums of the following norm while it writes, so the activation between two convolutions is
stored once, and neither a normalized activation nor its gradient is stored at all. The kernels of
`norm` finish the sums. All sums have a fixed order.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false
# Triton's language is Python only in its syntax.

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from resultant._core.device import device_of
from resultant.networks.kernels import norm as norms
from resultant.networks.kernels.norm import COLUMNS, FINAL_COLUMNS, ROWS

THREADS = 128


class Plan(NamedTuple):
    """Launch parameters for one number of channels of a run.

    ``width`` is that of an image; ``forward`` and ``backward`` are the blocks that a multiprocessor
    should hold: more would leave too small a cache next to their shared memory. ``reserve`` is the
    least number of bytes that a block of the backward pass requests, to keep that number.
    """

    width: int
    forward: int
    backward: int
    reserve: int


PLANS = {16: Plan(32, 4, 2, 77 * 1024), 32: Plan(16, 3, 2, 0)}


class Norm(NamedTuple):
    """Parameters and running moments of a batch norm, each [runs, channels]."""

    gamma: Tensor
    beta: Tensor
    running_mean: Tensor
    running_var: Tensor


class Variant(NamedTuple):
    """A kernel of `conv.cu`: its name, the channels of a run, and if a norm precedes it."""

    name: str
    channels: int
    norm: bool


VARIANTS = [Variant(*v) for v in product(("convolve", "differentiate"), PLANS, (False, True))]


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
    kernel = torch.cuda._compile_kernel(
        Path(__file__).with_name("conv.cu").read_text(),
        name,
        nvcc_options=[
            f"-DCHANNELS={channels}",
            f"-DWIDTH={plan.width}",
            f"-DNORM={int(norm)}",
            f"-DBLOCKS={blocks}",
        ],
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
    kernel, memory = _kernels(torch.cuda.current_device())[Variant(name, channels, norm)]
    kernel((parts * runs, 1, 1), (THREADS, 1, 1), [*arguments, runs], memory)


def convolve(x: Tensor, weight: Tensor, saved: Tensor | None) -> tuple[Tensor, Tensor]:
    """Compute conv(x), or conv(relu(norm(x))) with ``saved`` [4, C] of the norm, and the sums
    [parts, 2, C] of the result."""
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
    """Compute the gradients of x and of the weight; that of y = convolve(x, weight, saved) is
    a g + b y + c.

    With a norm, the first is the gradient of the output of the norm, where that is positive; its
    sums are [parts, 2, C].
    """
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


def _moments(partial: Tensor, norm: Norm, M: int, momentum: float, eps: float) -> Tensor:
    """Return mean, 1/deviation, scale, shift [4, C] of a norm; update its running moments."""
    parts, _, C = partial.shape
    saved = partial.new_empty(4, C)
    norms._moments[(triton.cdiv(C, FINAL_COLUMNS),)](
        partial, *norm, saved, M, C, parts, momentum, eps,
        triton.next_power_of_2(parts), FINAL_COLUMNS,
    )  # fmt: skip
    return saved


def _gradient_moments(partial: Tensor, saved: Tensor, M: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return a, b, c [3, C] and the gradients of gamma and beta."""
    parts, _, C = partial.shape
    line = partial.new_empty(3, C)
    d_gamma, d_beta = partial.new_empty(2, C)
    norms._gradient_moments[(triton.cdiv(C, FINAL_COLUMNS),)](
        partial, saved, line, d_gamma, d_beta, M, C, parts,
        triton.next_power_of_2(parts), FINAL_COLUMNS,
    )  # fmt: skip
    return line, d_gamma, d_beta


class Saved(NamedTuple):
    """Tensors for the backward pass: outputs of the convolutions and the block, norms [4, C]."""

    y1: Tensor
    y2: Tensor
    out: Tensor
    norm1: Tensor
    norm2: Tensor


def forward(
    x: Tensor, shortcut: Tensor, w1: Tensor, norm1: Norm, w2: Tensor, norm2: Norm,
    momentum: float, eps: float,
) -> Saved:  # fmt: skip
    """Compute relu(norm2(conv2(relu(norm1(conv1(x))))) + shortcut)."""
    with device_of(x):
        M, C, steps, parts, across = norms._grid(x)
        y1, partial = convolve(x, w1, None)
        saved1 = _moments(partial, norm1, M, momentum, eps)
        y2, partial = convolve(y1, w2, saved1)
        saved2 = _moments(partial, norm2, M, momentum, eps)
        out = torch.empty_like(x)
        norms._apply[(parts, across)](y2, shortcut, saved2, out, M, C, steps, True, ROWS, COLUMNS)
        return Saved(y1, y2, out, saved1, saved2)


def backward(
    x: Tensor, w1: Tensor, w2: Tensor, saved: Saved, one: Tensor, two: Tensor | None
) -> tuple[Tensor, ...]:
    """Compute the gradients of x, shortcut, w1, gamma1, beta1, w2, gamma2 and beta2.

    ``one`` and ``two`` are the gradients of the output and of its shortcut to the next block.
    """
    with device_of(x):
        M, C, steps, parts, across = norms._grid(x)
        y1, y2, out, saved1, saved2 = saved
        runs, channels = w1.shape[:2]
        partial = x.new_empty(parts, 2, C, dtype=torch.float32)
        g = torch.empty_like(x)
        norms._gradient_sums[(parts, across)](
            y2, out, one, two, saved2, g, partial, M, C, *x.shape[2:], channels,
            0 if two is None else two.shape[1] // runs,
            steps, True, two is not None, two is not None and two.shape != x.shape, ROWS, COLUMNS,
        )  # fmt: skip
        line, d_gamma2, d_beta2 = _gradient_moments(partial, saved2, M)
        g1, partial, dw2 = differentiate(y1, g, y2, line, w2, saved1)
        line, d_gamma1, d_beta1 = _gradient_moments(partial, saved1, M)
        dx, _, dw1 = differentiate(x, g1, y1, line, w1, None)
        return dx, g, dw1, d_gamma1, d_beta1, dw2, d_gamma2, d_beta2
