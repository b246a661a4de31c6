"""Training of many ResNet-32 on 32 x 32 images on a GPU: us per view of whole steps, with separate
and with fused kernels."""

from collections.abc import Iterator

import torch

from benchmarks import Row, Tables
from benchmarks.gpu import milliseconds
from resultant.training.config import Run
from resultant_reproduction.cifar.batches import Batches
from resultant_reproduction.cifar.stack import Stack
from resultant_reproduction.recipes.config import preset

VIEWS, IMAGES = 512, 12406
FOUR = ("native", "temperature", "preserve", "angular")
NUMBERS = (1, 2, 4, 8, 12)


def whole(runs: int, fuse: bool) -> float:
    """Time a whole step: views, network, loss, statistics, optimizer; us per view."""
    generator = torch.Generator().manual_seed(0)
    data = torch.randint(256, (IMAGES, 3, 32, 32), generator=generator, dtype=torch.uint8).cuda()
    labels = torch.randint(10, (IMAGES,), generator=generator).cuda()
    counts = torch.bincount(labels.cpu(), minlength=10)
    jobs = [Run(FOUR[i % 4], 0.0, i // 4) for i in range(runs)]
    seeds, config = [job.seed for job in jobs], preset("cifar-controlled", fuse=fuse)
    batches = Batches(data, labels, seeds, VIEWS // 2, False, torch.bfloat16)
    stack = Stack(config, jobs, batches, counts, torch.device("cuda"))
    drawn = batches.draw(0)
    batches.load(drawn)
    stack.record()
    epoch = milliseconds(lambda: batches.load(drawn), 1, 3)
    batches.load(drawn)
    with torch.cuda.stream(stack.stream):
        step = milliseconds(stack.replay, 10, 3) + epoch / batches.steps
    return 1e3 * step / runs / VIEWS


def measurements() -> Iterator[Row]:
    torch.backends.cudnn.benchmark = True
    for fuse in (False, True):
        times = {f"{runs} run{'s' if runs > 1 else ''}": whole(runs, fuse) for runs in NUMBERS}
        yield {"us per view": f"whole step, {'fused' if fuse else 'separate'} kernels", **times}


def run() -> Tables:
    note = """\
Two views of 256 images per step and run; bfloat16 network, float32 score and statistics. A whole
step is network, loss, statistics and optimizer, replayed as a CUDA graph, and its share of the
views, which are made when an epoch begins. `training.md` has the attempts behind these times."""
    yield note, measurements()
