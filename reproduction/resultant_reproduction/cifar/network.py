"""ResNet-32 for CIFAR, with several runs in one network, whose channels are concatenated. Every
parameter has the run as its first axis; one run is the plain network."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from resultant._core.device import has_triton
from resultant.images.photo_views import normalize
from resultant_reproduction.cifar.norm import NormRelu, channels_last, next_shortcut
from resultant_reproduction.cifar.views import MEAN, PATCH, STD

WIDTHS = (16, 32, 64)
BLOCKS = 5
HIDDEN = 512
# Width of the square images of the fused block by the number of channels of a run.
FUSED = {16: 32, 32: 16}


class Outputs(NamedTuple):
    """Outputs of S runs: encoder [S, N, d], unit projection [S, N, p], logits [S, N, C] or None."""

    encoder: Tensor
    projection: Tensor
    logits: Tensor | None


class _BlockConv(torch.autograd.Function):
    """A grouped convolution with fewer, wider groups that are zero off the diagonal: cuDNN is slow
    on groups of 16 channels and fast on 64, and arithmetic is not the bottleneck."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, dense: Tensor, stride: int) -> Tensor:
        runs, block = len(weight), dense.shape[1] // weight.shape[2]
        _diagonal(dense, runs // block, block).copy_(
            weight.unflatten(0, (runs // block, block)).permute(0, 2, 3, 4, 5, 1)
        )
        ctx.save_for_backward(x, dense)
        ctx.stride, ctx.groups, ctx.block = stride, runs // block, block
        return F.conv2d(x, dense, None, stride, 1, 1, runs // block)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        x, dense = ctx.saved_tensors
        stride, groups = (ctx.stride,) * 2, ctx.groups
        dx, d_dense, _ = torch.ops.aten.convolution_backward(
            dy, x, dense, None, stride, (1, 1), (1, 1), False, (0, 0), groups,
            (ctx.needs_input_grad[0], True, False),
        )  # fmt: skip
        dw = _diagonal(d_dense, groups, ctx.block).permute(0, 5, 1, 2, 3, 4).flatten(0, 1)
        return dx, dw.float(), None, None


def _diagonal(dense: Tensor, groups: int, block: int) -> Tensor:
    """Return the diagonal blocks [groups, o, i, 3, 3, block] of a dense kernel, as a view."""
    split = dense.unflatten(1, (block, -1)).unflatten(0, (groups, block, -1))
    return split.diagonal(dim1=1, dim2=3)


class StackedConv(nn.Module):
    """A 3 x 3 convolution per run: x [N, runs * i, H, W] to [N, runs * o, H', W']."""

    def __init__(self, runs: int, i: int, o: int, stride: int = 1, block: int = 1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(runs, o, i, 3, 3))
        self.stride = stride
        self.block = math.gcd(block, runs)
        self._dense: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        runs, o, i = self.weight.shape[:3]
        if x.is_cuda and self.training and x.dtype is torch.bfloat16:
            if self._dense is None or self._dense.device != x.device:
                # Zero except for the blocks that a step fills in.
                self._dense = channels_last(x.new_zeros(runs * o, self.block * i, 3, 3))
            return _BlockConv.apply(x, self.weight, self._dense, self.stride)
        weight = self.weight.flatten(0, 1).to(x.dtype)
        return F.conv2d(x, weight, None, self.stride, 1, 1, runs)


class Stem(StackedConv):
    """The first convolution, as a product of `patches` [N, G * 32, H, W] of the G seeds of runs."""

    def forward(self, x: Tensor) -> Tensor:
        groups = x.shape[1] // PATCH
        rows = self.weight.flatten(2).unflatten(0, (groups, -1)).flatten(1, 2)  # [G, R o, 27]
        weight = x.new_zeros(groups, PATCH, groups, rows.shape[1])
        weight.diagonal(dim1=0, dim2=2)[:27].copy_(rows.permute(2, 1, 0))
        flat = x.permute(0, 2, 3, 1) @ weight.flatten(2).flatten(0, 1)
        return flat.permute(0, 3, 1, 2)


def patches(images: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Gather the 3 x 3 neighbourhoods of images [G, N, 3, H, W] as channels [N, G * 32, H, W]."""
    groups, n, _, h, w = images.shape
    windows = F.pad(images, (1, 1, 1, 1)).unfold(3, 3, 1).unfold(4, 3, 1)
    out = torch.zeros(n, h, w, groups, PATCH, dtype=dtype or images.dtype, device=images.device)
    out[..., :27].unflatten(-1, (3, 3, 3)).copy_(windows.permute(1, 3, 4, 0, 2, 5, 6))
    return out.flatten(3).permute(0, 3, 1, 2)


def normalized_patches(levels: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the `patches` of images uint8 [G, N, 3, H, W], normalized; on a GPU by a kernel."""
    if levels.is_cuda and has_triton():
        from resultant_reproduction.cifar.kernels import patches as kernel

        return kernel.normalized_patches(levels, dtype)
    images = normalize(levels.flatten(0, 1), MEAN, STD)
    return patches(images.unflatten(0, levels.shape[:2]), dtype)


class Block(nn.Module):
    """The basic residual block; ``following`` are the channels of the next block, or None."""

    def __init__(
        self, runs: int, i: int, o: int, stride: int, block: int, following: int | None, fuse: bool
    ) -> None:
        super().__init__()
        self.conv1 = StackedConv(runs, i, o, stride, block if stride == 1 else runs)
        self.bn1 = NormRelu(runs, o)
        self.conv2 = StackedConv(runs, o, o, 1, block)
        self.bn2 = NormRelu(runs, o)
        self.following, self.fuse = following, fuse

    def forward(self, x: Tensor, shortcut: Tensor) -> tuple[Tensor, Tensor | None]:
        if self.fuse and self.training and fits(x, self.conv1.weight):
            from resultant_reproduction.cifar.kernels.conv import FusedBlock

            one, two = (
                (c.weight, n.weight, n.bias, n.running_mean, n.running_var)
                for c, n in ((self.conv1, self.bn1), (self.conv2, self.bn2))
            )
            return FusedBlock.apply(x, shortcut, *one, *two, self.following)
        if not self.training and not torch.is_grad_enabled() and _infers(x):
            from resultant_reproduction.cifar.kernels.inference import convolve

            x = convolve(x, self.conv1.weight, *self.bn1.line(), None, self.conv1.stride)
            x = convolve(x, self.conv2.weight, *self.bn2.line(), channels_last(shortcut), 1)
            return x, next_shortcut(x, self.bn2.weight.shape, self.following)
        x, _ = self.bn1(self.conv1(x))
        return self.bn2(self.conv2(x), shortcut, self.following)


def fits(x: Tensor, weight: Tensor) -> bool:
    """Return True if the fused block takes x [N, runs * c, W, W] and weight [runs, o, c, 3, 3]."""
    runs, o, c = weight.shape[:3]
    width = FUSED.get(c)
    return (
        x.is_cuda
        and x.dtype is torch.bfloat16
        and c == o
        and tuple(x.shape[1:]) == (runs * c, width, width)
        and x.is_contiguous(memory_format=torch.channels_last)
        and weight.dtype is torch.float32
        and weight.is_contiguous()
        and torch.cuda.get_device_capability(x.device) >= (9, 0)
        and hasattr(torch.cuda, "_compile_kernel")
        and has_triton()
    )


def _infers(x: Tensor) -> bool:
    """Return True if the kernels for inference accept ``x``."""
    accepted = x.is_cuda and x.dtype is torch.float32 and has_triton()
    return accepted and x.is_contiguous(memory_format=torch.channels_last)


class Encoder(nn.Module):
    """ResNet-32: patches [N, G * 32, 32, 32] to [runs, N, 64]."""

    def __init__(self, runs: int, fuse: bool) -> None:
        super().__init__()
        self.runs = runs
        # Runs that share one wide convolution on a GPU, by stage.
        together = (1, 1, 1) if runs > 8 else (4, 1, 2)
        self.conv1 = Stem(runs, 3, WIDTHS[0])
        self.bn1 = NormRelu(runs, WIDTHS[0])
        i, layers = WIDTHS[0], []
        for stage, o in enumerate(WIDTHS):
            layer = nn.ModuleList()
            for k in range(BLOCKS):
                last = k == BLOCKS - 1
                following = o if not last else WIDTHS[stage + 1] if o != WIDTHS[-1] else None
                stride = 1 if i == o else 2
                layer.append(Block(runs, i, o, stride, together[stage], following, fuse))
                i = o
            layers.append(layer)
        self.layer1, self.layer2, self.layer3 = layers

    def forward(self, x: Tensor) -> Tensor:
        x, shortcut = self.bn1(self.conv1(x), None, WIDTHS[0])
        for block in (*self.layer1, *self.layer2, *self.layer3):
            x, shortcut = block(x, shortcut)
        x = x.mean((2, 3), dtype=torch.promote_types(x.dtype, torch.float32))
        return x.unflatten(1, (self.runs, -1)).transpose(0, 1)


class StackedLinear(nn.Module):
    """A linear layer per run: x [runs, N, i] to [runs, N, o]."""

    def __init__(self, runs: int, i: int, o: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(runs, o, i))
        self.bias = nn.Parameter(torch.empty(runs, o))

    def forward(self, x: Tensor) -> Tensor:
        return torch.baddbmm(self.bias.unsqueeze(1), x, self.weight.mT)


class StackedNorm(NormRelu):
    """Batch norm and ReLU of features x [runs, N, d]."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        runs, _, d = x.shape
        flat = self.normalized(x.transpose(0, 1).reshape(-1, runs * d))
        return F.relu(flat.unflatten(1, (runs, d)).transpose(0, 1))


class StackedResNet32(nn.Module):
    """ResNet-32 with a projector 64 -> 512 -> p to the unit sphere and an optional classifier."""

    def __init__(
        self, seeds: Sequence[int], dim: int, num_classes: int | None = None, fuse: bool = False
    ) -> None:
        super().__init__()
        runs = len(seeds)
        self.encoder = Encoder(runs, fuse)
        self.projector = nn.Sequential(
            StackedLinear(runs, WIDTHS[-1], HIDDEN),
            StackedNorm(runs, HIDDEN),
            nn.Identity(),
            StackedLinear(runs, HIDDEN, dim),
        )
        self.classifier = None
        if num_classes is not None:
            self.classifier = StackedLinear(runs, WIDTHS[-1], num_classes)
        self._start(seeds)

    @torch.no_grad()
    def _start(self, seeds: Sequence[int]) -> None:
        """Draw convolutions by Kaiming-normal and linear layers as PyTorch does, on the CPU."""
        for run, seed in enumerate(seeds):
            generator = torch.Generator().manual_seed(seed)
            for module in self.modules():
                if isinstance(module, StackedConv):
                    deviation = math.sqrt(2 / (9 * module.weight.shape[2]))
                    module.weight[run].normal_(0, deviation, generator=generator)
                elif isinstance(module, StackedLinear):
                    bound = 1 / math.sqrt(module.weight.shape[2])
                    module.weight[run].uniform_(-bound, bound, generator=generator)
                    module.bias[run].uniform_(-bound, bound, generator=generator)

    def forward(self, x: Tensor) -> Outputs:
        encoder = self.encoder(x)
        projection = F.normalize(self.projector(encoder), dim=-1)
        logits = None if self.classifier is None else self.classifier(encoder)
        return Outputs(encoder, projection, logits)
