"""A step of the contrastive loss with its statistics, compared with the direct way; writes
benchmarks/losses.json.

python -m benchmarks.losses

The direct way is the method of the ProCo authors for two views, without their host
synchronizations: N x C x p differences for the norms, and a Bessel function by backward
recurrence from twice the order, one kernel per step. The matrix products of the loss are also
timed by themselves, and the time of each kernel is listed for the largest size. Without a CUDA
device only the agreement of both ways is checked on a small problem."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.autograd import DeviceType
from torch.nn import functional

from benchmarks import parser, today
from benchmarks.gpu import captured, milliseconds
from benchmarks.loss_tables import REPLAYED
from resultant._core.files import write_text
from resultant.classes.rule import Rule
from resultant.losses.proco import ProCoLoss
from resultant.training.stacked_loss import StackedProCoLoss

# N, C, p
SIZES = [(256, 100, 128), (256, 1000, 1024), (256, 8142, 1024)]
# Two views of so many classes that their scores are not stored.
STREAMED = (512, 1_000_000, 512)
TAU = 0.1
RUNS = 12
RESCALE_EVERY = 8  # float32 holds the growth of this many steps


class _LogBessel(torch.autograd.Function):
    """log I_nu(x) for an integer order by Miller's backward recurrence."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, nu: int) -> Tensor:
        reciprocal = 2 / x
        above, here = torch.zeros_like(x), torch.ones_like(x)
        scale = at_order = torch.zeros_like(x)
        for m in range(2 * nu, 0, -1):
            above, here = here, torch.addcmul(above, reciprocal, here, value=m)
            if m - 1 == nu:
                at_order = here.log() + scale
                ctx.save_for_backward(above / here + nu / x)
            if m % RESCALE_EVERY == 0:
                scale = scale + here.log()
                above, here = above / here, torch.ones_like(x)
        return at_order - (here.log() + scale) + torch.special.i0e(x).log() + x

    @staticmethod
    def backward(ctx: Any, *grad: Tensor) -> tuple[Tensor, None]:
        return grad[0] * ctx.saved_tensors[0], None


class Direct:
    """Loss of the baseline over views: running means of two banks, and the scores above."""

    def __init__(self, old: Tensor, new: Tensor) -> None:
        self.banks = [(start, torch.zeros(len(start), device=start.device)) for start in (old, new)]

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


def problem(
    N: int, C: int, p: int, device: str, runs: tuple[int, ...] = (), views: int = 2
) -> tuple[Tensor, Tensor]:
    """Draw views near their class directions, and labels."""
    y = torch.randint(0, C, (N,), device=device)
    centres = functional.normalize(torch.randn(C, p, device=device), dim=-1)
    z = centres[y] + 0.7 * torch.randn(views, *runs, N, p, device=device) / p**0.5
    return functional.normalize(z, dim=-1).requires_grad_(), y


def step(loss: Callable[..., Tensor], z: Tensor, y: Tensor) -> Callable[[], Tensor]:
    def run() -> Tensor:
        each = loss(z, y)
        return torch.autograd.grad(each.sum() if each.dim() else each, z)[0]

    return run


def exact(C: int, p: int, realization: str = "native", **options: Any) -> ProCoLoss:
    options = {"class_counts": torch.full((C,), 1000), "cuda_graph": False, **options}
    return ProCoLoss(C, p, TAU, realization, **options).cuda()


def stacked(C: int, p: int, names: Sequence[str]) -> StackedProCoLoss:
    rules = [Rule(TAU, name) for name in names]
    return StackedProCoLoss(C, p, rules, seeds=range(len(names))).cuda()


def direct(C: int, p: int) -> Direct:
    return direct_twin(exact(C, p))


def direct_twin(loss: ProCoLoss) -> Direct:
    """Return the direct way from the same random start, in float32."""
    old, new = (0.9 * loss.bank.state(bank=bank).mu.float() for bank in ("old", "new"))
    return Direct(old, new)


def agreement(device: str) -> float:
    """Return the largest relative difference of the two ways over some steps of a small problem."""
    loss = ProCoLoss(10, 64, TAU, class_counts=torch.full((10,), 1000)).to(device)
    twin, worst = direct_twin(loss), 0.0
    z, y = problem(32, 10, 64, device)
    for _ in range(3):
        a, b = float(loss(z, y).detach()), float(twin(z, y).detach())
        worst = max(worst, abs(a / b - 1))
    return worst


def kernels(run: Callable[[], object], calls: int = 10) -> list[dict[str, Any]]:
    """Profile the kernels of a call: launches, time, and share of the total time."""
    run()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(calls):
            run()
        torch.cuda.synchronize()
    times: dict[str, list[float]] = {}
    for event in profile.events() or ():
        if event.device_type == DeviceType.CUDA:
            times.setdefault(event.name, []).append(event.time_range.elapsed_us())
    whole = sum(map(sum, times.values()))
    rows = [
        {
            "kernel": name,
            "launches": round(len(each) / calls, 1),
            "us": round(sum(each) / calls, 2),
            "share": round(sum(each) / whole, 4),
        }
        for name, each in times.items()
    ]
    return sorted(rows, key=lambda row: -row["us"])


def table(rows: list[dict[str, Any]]) -> str:
    lines = (
        f"{row['us']:9.1f} us {row['share']:6.1%} {row['launches']:5g} x  {row['kernel'][:100]}"
        for row in rows
    )
    return "\n".join(lines)


def products(N: int, C: int, p: int) -> list[dict[str, object]]:
    """Time the matrix products: the cosines of two views of queries, and their gradient."""
    z, mu = torch.randn(2, N, p, device="cuda"), torch.randn(2, C, p, device="cuda")
    slopes = torch.randn(N, 2, C, device="cuda").movedim(1, 0)
    timed = {"z mu^T": lambda: z @ mu.mT, "its gradient": lambda: slopes @ mu}
    return [
        {
            "what": f"2 x {N} x {C}, p = {p}, {name} alone",
            "graph_us": round(1e3 * milliseconds(captured(run), calls=5, repeats=7), 1),
        }
        for name, run in timed.items()
    ]


def measured(
    what: str, z: Tensor, y: Tensor, make: Callable[..., Callable[..., Tensor]], *settings: Any
) -> dict[str, object]:
    """Measure times as called and as a CUDA graph, the kernels, and the peak memory with banks."""
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    run = step(make(*settings), z, y)
    torch.cuda.reset_peak_memory_stats()
    # The third call records a graph, where the loss does so.
    for _ in range(4):
        run()
    peak = torch.cuda.max_memory_allocated() - before
    row = {
        "what": what,
        "kernels": round(sum(row["launches"] for row in kernels(run, calls=1))),
        "called_us": round(1e3 * milliseconds(run, calls=5, repeats=7), 1),
        "graph_us": round(1e3 * milliseconds(captured(run), calls=5, repeats=7), 1),
        "peak_mb": round(peak / 1e6, 1),
    }
    print(row, flush=True)
    return row


def main() -> None:
    out = parser("losses", __doc__).parse_args().out
    torch.manual_seed(0)
    if not torch.cuda.is_available():
        print(f"no CUDA device; the two ways agree to {agreement('cpu'):.1e}")
        return
    # Once, so that libraries allocate the memory that they keep.
    step(exact(10, 64), *problem(32, 10, 64, "cuda"))()
    rows: list[dict[str, object]] = []
    for (N, C, p), views in product(SIZES, (1, 2)):
        size = f"{'2 x ' if views == 2 else ''}{N} x {C}, p = {p}"
        z, y = problem(N, C, p, "cuda", views=views)
        for name in ("native", "angular"):
            rows.append(measured(f"{size}, {name}", z, y, exact, C, p, name))
            replayed = partial(exact, cuda_graph="auto")
            rows.append(measured(f"{size}, {name}, {REPLAYED}", z, y, replayed, C, p, name))
        rows.append(measured(f"{size}, the direct way", z, y, direct, C, p))
        if views == 2:
            rows += (alone := products(N, C, p))
            print(*alone, sep="\n", flush=True)
    N, C, p = SIZES[-1]
    largest = kernels(step(exact(C, p), *problem(N, C, p, "cuda")))
    largest_size = f"2 x {N} x {C}, p = {p}, native"
    print(f"{largest_size}:\n{table(largest)}", flush=True)
    z, y = problem(256, 10, 128, "cuda", (RUNS,))
    mixed = ("native", "temperature", "preserve", "angular") * (RUNS // 4)
    for names in (("native",) * RUNS, ("angular",) * RUNS, mixed):
        what = f"{RUNS} runs of 2 x 256 x 10, p = 128, {', '.join(dict.fromkeys(names))}"
        rows.append(measured(what, z, y, stacked, 10, 128, names))
    N, C, p = STREAMED
    z, y = problem(N, C, p, "cuda")
    for name in ("native", "angular"):
        rows.append(measured(f"2 x {N} x {C}, p = {p}, {name}", z, y, exact, C, p, name))
    result = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "date": today(),
        "agreement": agreement("cuda"),
        "rows": rows,
        "kernels": {"what": largest_size, "rows": largest},
    }
    write_text(out, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
