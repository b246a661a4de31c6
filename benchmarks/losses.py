"""A step of the contrastive loss with its statistics, compared with the direct way.

The direct way is the method of the ProCo authors, without their host synchronizations: N x C x p
differences for the norms, and a Bessel function by backward recurrence from twice the order."""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks import Row, Tables
from benchmarks.gpu import captured, milliseconds
from benchmarks.peers import miller
from resultant import ProCoLoss

# N, C, p
SIZES = [(256, 100, 128), (256, 1000, 1024), (256, 8142, 1024)]
# So many classes that their scores are not stored.
STREAMED = (512, 1_000_000, 512)
TAU = 0.1
# The loss of ProCo's authors in their own code on an H200: milliseconds and, where known, MB. Timed
# once by hand for one view of 256 queries, not by this benchmark.
AUTHORS = {100: (31.0, None), 1000: (207.0, 3200), 8142: (239.0, 25800)}


class _LogBessel(torch.autograd.Function):
    """log I_nu(x) for an integer order by Miller's backward recurrence."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, nu: int) -> Tensor:
        value, above = miller(nu, x)
        ctx.save_for_backward((above - value).exp() + nu / x)
        return value + x

    @staticmethod
    def backward(ctx: Any, *grad: Tensor) -> tuple[Tensor, None]:
        return grad[0] * ctx.saved_tensors[0], None


class Direct:
    """Loss of the baseline over views: running means of two banks from the start of ours."""

    def __init__(self, loss: ProCoLoss) -> None:
        starts = (0.9 * loss.bank.state(bank=bank).mu.float() for bank in ("old", "new"))
        self.banks = [(start, torch.zeros(len(start), device=start.device)) for start in starts]

    def update(self, z: Tensor, y: Tensor) -> None:
        one_hot = functional.one_hot(y, len(self.banks[0][0])).to(z.dtype)
        n = one_hot.sum(0)
        mean = (one_hot.T @ z) / n.clamp_min(1).unsqueeze(-1)
        for average, amount in self.banks:
            w = torch.nan_to_num(n / (n + amount), nan=0.0).unsqueeze(-1)
            average.mul_(1 - w).addcmul_(w, mean)
            amount.add_(n)

    def scores(self, z: Tensor) -> Tensor:
        average, p = self.banks[0][0], z.shape[1]
        R = average.norm(dim=-1)
        kappa = p * R / (1 - R * R)
        kappa = torch.where((kappa > 1e5) | (kappa < 0), 1e5, kappa)
        tilted = (kappa / R).unsqueeze(-1) * average + z.unsqueeze(1) / TAU
        x, nu = tilted.norm(dim=-1), p // 2 - 1
        log_bessel: Callable[[Tensor, int], Any] = _LogBessel.apply
        phi = log_bessel(x, nu) - nu * x.log()
        return phi - (log_bessel(kappa, nu) - nu * kappa.log())

    def __call__(self, views: Tensor, y: Tensor) -> Tensor:
        total = views.new_zeros(())
        for z in views:
            with torch.no_grad():
                self.update(z, y)
            total = total + functional.cross_entropy(self.scores(z), y)
        return total / len(views)


def problem(views: int, N: int, C: int, p: int, device: str) -> tuple[Tensor, Tensor]:
    """Draw views [views, N, p] near their class directions, and labels."""
    y = torch.randint(0, C, (N,), device=device)
    centres = functional.normalize(torch.randn(C, p, device=device), dim=-1)
    z = centres[y] + 0.7 * torch.randn(views, N, p, device=device) / p**0.5
    return functional.normalize(z, dim=-1).requires_grad_(), y


def exact(C: int, p: int, realization: str = "native", cuda_graph: bool = False) -> ProCoLoss:
    counts = torch.full((C,), 1000)
    return ProCoLoss(C, p, TAU, realization, class_counts=counts, cuda_graph=cuda_graph)


def agreement(device: str) -> float:
    """Return the largest relative difference of the two ways over some steps of a small problem."""
    loss = exact(10, 64).to(device)
    direct, worst = Direct(loss), 0.0
    z, y = problem(2, 32, 10, 64, device)
    for _ in range(3):
        a, b = float(loss(z, y).detach()), float(direct(z, y).detach())
        worst = max(worst, abs(a / b - 1))
    return worst


def measured(what: str, z: Tensor, y: Tensor, make: Callable[[], Callable[..., Tensor]]) -> Row:
    """Measure times as called and as a CUDA graph, and the peak memory with banks."""
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    loss = make()

    def step() -> Tensor:
        return torch.autograd.grad(loss(z, y).sum(), z)[0]

    torch.cuda.reset_peak_memory_stats()
    # The third call records a graph, where the loss does so.
    for _ in range(4):
        step()
    peak = torch.cuda.max_memory_allocated() - before
    return {
        "a step of the loss": what,
        "as called, ms": milliseconds(step, calls=5, repeats=7),
        "as a CUDA graph, ms": milliseconds(captured(step), calls=5, repeats=7),
        "peak, MB": peak / 1e6,
    }


def measurements() -> Iterator[Row]:
    torch.manual_seed(0)
    for (N, C, p), views in product(SIZES, (1, 2)):
        size = f"{views} x {N} x {C}, p = {p}"
        z, y = problem(views, N, C, p, "cuda")
        ours = []
        for name, graph in product(("native", "angular"), (False, True)):
            what = f"{size}, {name}{', cuda_graph' if graph else ''}"
            ours.append(measured(what, z, y, lambda: exact(C, p, name, graph).cuda()))
        direct = measured(f"{size}, the direct way", z, y, lambda: Direct(exact(C, p).cuda()))
        for row, key in product(ours, ("as called", "as a CUDA graph")):
            row[f"direct way: {key}"] = f"{direct[f'{key}, ms'] / row[f'{key}, ms']:.3g} x"
        yield from [*ours, direct]
        if views == 1:
            ms, mb = AUTHORS[C]
            name = f"{size}, the authors' own code"
            yield {"a step of the loss": name, "as called, ms": ms, "peak, MB": mb}
    N, C, p = STREAMED
    z, y = problem(2, N, C, p, "cuda")
    for name in ("native", "angular"):
        what = f"2 x {N} x {C}, p = {p}, {name}"
        yield measured(what, z, y, lambda: exact(C, p, name).cuda())


def run() -> Tables:
    rows = list(measurements())
    note = f"""\
Views x queries x classes: statistics, loss and gradient. The direct way is the method of the
ProCo authors, implemented without their host synchronizations and timed in the same run; the last
columns are the ratio of its time to ours. On a small problem the two agree to
{agreement("cuda"):.1e}. cuda_graph is the option of `ProCoLoss`, whose peak includes cuBLAS
workspaces for one more stream. The authors' own code was timed separately, on the same kind of
GPU."""
    yield note, rows
