"""Training speed on a GPU: one step of many runs, part by part; writes benchmarks/training.json.

python -m benchmarks.training
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F

from benchmarks import parser, today
from benchmarks.gpu import milliseconds
from resultant._core.files import write_text
from resultant.networks.kernels import norm as _norm_kernel
from resultant.networks.stacked_resnet import StackedResNet32
from resultant.training.batches import CifarBatches
from resultant.training.config import Run, preset
from resultant.training.stack import Stack

VIEWS = 512
STAGES = ((16, 32), (32, 16), (64, 8))
FOUR = ("native", "temperature", "preserve", "angular")
DTYPE = torch.bfloat16


def graphed(run: Callable[[], object]) -> float:
    """Return the microseconds of a call, replayed as a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return 1e3 * milliseconds(graph.replay, 5, 5)


def images(channels: int, size: int) -> torch.Tensor:
    x = torch.randn(VIEWS, channels, size, size, device="cuda", dtype=DTYPE)
    return x.contiguous(memory_format=torch.channels_last)


def convolutions() -> list[dict[str, object]]:
    """Time one 3 x 3 convolution, us per run: forward, data gradient, weight gradient."""
    rows: list[dict[str, object]] = []
    for c, size in STAGES:
        for runs, block in ((1, 1), (4, 1), (4, 2), (4, 4), (8, 1), (12, 1), (12, 4)):
            x = images(runs * c, size)
            w = torch.randn(runs * c, block * c, 3, 3, device="cuda", dtype=DTYPE)
            w, groups = w.contiguous(memory_format=torch.channels_last), runs // block
            dy = torch.randn_like(x)

            def backward(*wanted: bool) -> Callable[[], object]:
                return lambda: torch.ops.aten.convolution_backward(
                    dy, x, w, None, (1, 1), (1, 1), (1, 1), False, (0, 0), groups, wanted
                )  # fmt: skip

            times = [
                graphed(lambda: F.conv2d(x, w, None, 1, 1, 1, groups)),
                graphed(backward(True, False, False)),
                graphed(backward(False, True, False)),
            ]
            us = [round(t / runs, 1) for t in times]
            rows.append({"channels": c, "runs": runs, "block": block, "us": us})
            print(rows[-1], flush=True)
    return rows


def norms() -> list[dict[str, object]]:
    """Time norm, residual and ReLU, us per run, and a copy of the activation."""
    rows: list[dict[str, object]] = []
    for c, size in STAGES:
        runs = 4
        x, C = images(runs * c, size), runs * c
        residual, one, two = (torch.randn_like(x) for _ in range(3))
        gamma, beta, mean, var = torch.rand(4, C, device="cuda")
        plain = (gamma, beta, mean, var, 0.1, 1e-5)
        out, saved = _norm_kernel.forward(x, residual, *plain)
        times = {
            "copy": lambda: residual.copy_(x),
            "forward": lambda: _norm_kernel.forward(x, None, *plain),
            "forward, residual": lambda: _norm_kernel.forward(x, residual, *plain),
            "backward": lambda: _norm_kernel.backward(x, out, saved, one, None, False, c),
            "backward, residual": lambda: _norm_kernel.backward(x, out, saved, one, two, True, c),
        }
        rows.append(
            {"channels": c, **{name: round(graphed(run) / runs, 1) for name, run in times.items()}}
        )
        print(rows[-1], flush=True)
    return rows


def networks() -> list[dict[str, object]]:
    """Time forward and backward of the network alone, us per view."""
    rows: list[dict[str, object]] = []
    for runs in (1, 2, 4, 8, 12):
        for fuse in (False, True):
            network = StackedResNet32([0] * runs, fuse=fuse).cuda().train()
            x = images(32, 32)
            weight = torch.randn(runs, VIEWS, 128, device="cuda")
            parameters = list(network.parameters())

            def run() -> object:
                loss = (network(x).projection * weight).sum()
                return torch.autograd.grad(loss, parameters)

            us = graphed(run) / runs / VIEWS
            rows.append({"runs": runs, "fuse": fuse, "us a view": round(us, 2)})
            print(rows[-1], flush=True)
    return rows


def steps() -> list[dict[str, object]]:
    """Time a whole step: views, network, loss, statistics, optimizer."""
    rows: list[dict[str, object]] = []
    generator = torch.Generator().manual_seed(0)
    data = torch.randint(256, (12406, 3, 32, 32), generator=generator, dtype=torch.uint8).cuda()
    labels = torch.randint(10, (12406,), generator=generator).cuda()
    counts = torch.bincount(labels.cpu(), minlength=10)
    for seeds, names in ((3, FOUR), (1, FOUR), (1, ("native",))):
        for fuse in (False, True):
            runs = [Run(name, 0.0, seed) for seed in range(seeds) for name in names]
            config = preset("cifar-controlled", fuse=fuse)
            batches = CifarBatches(data, labels, [run.seed for run in runs], 256, False, DTYPE)
            stack = Stack(config, runs, batches, counts, torch.device("cuda"))
            drawn = batches.draw(0)
            batches.load(drawn)
            began = time.perf_counter()
            stack.capture()
            torch.cuda.synchronize()
            capture = time.perf_counter() - began
            batches.load(drawn)
            us = 1e3 * milliseconds(stack.replay, 10, 3) / len(runs) / VIEWS
            rows.append(
                {
                    "runs": len(runs),
                    "fuse": fuse,
                    "us a view": round(us, 2),
                    "capture, s": round(capture, 1),
                }
            )
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    out = parser("training", __doc__).parse_args().out
    torch.backends.cudnn.benchmark = True
    result = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "date": today(),
        "convolutions": convolutions(),
        "norms": norms(),
        "networks": networks(),
        "steps": steps(),
    }
    write_text(out, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
