"""The fused score on a GPU, compared with a copy of the same bytes."""

import statistics
from collections.abc import Callable, Iterator

import torch

from benchmarks import Row, Tables
from resultant import vmf_score, vmf_score_and_slope

ROWS, CLASSES, P = 4096, 8142, 1024


def milliseconds(run: Callable[[], object], calls: int = 20, repeats: int = 15) -> float:
    """Return the milliseconds per call of calls issued back to back, median over repeats."""
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    times = []
    for _ in range(repeats):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(calls):
            run()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) / calls)
    return statistics.median(times)


def captured(run: Callable[[], object]) -> Callable[[], object]:
    """Record the call as a CUDA graph: device time without the host."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def measurements() -> Iterator[Row]:
    torch.manual_seed(0)
    # A trace has the operations of torch in the place of the kernel; nothing fuses them here.
    plain = torch.compile(vmf_score_and_slope, backend="eager")
    for dtype in (torch.float32, torch.float64):
        rho = torch.rand(ROWS, CLASSES, device="cuda", dtype=dtype) * 2 - 1
        kappa = P * 10 ** (torch.rand(CLASSES, device="cuda", dtype=dtype) - 0.5)
        tau = torch.full((), 0.1, device="cuda", dtype=dtype)
        # Reading rho and writing q, or q and slope, moves two or three times its bytes; a copy of
        # n bytes moves 2 n.
        sources = [torch.rand(rho.numel() * k // 2, device="cuda", dtype=dtype) for k in (2, 3)]
        targets = [torch.empty_like(a) for a in sources]
        one, both = (
            milliseconds(captured(lambda a=a, b=b: b.copy_(a)))
            for a, b in zip(sources, targets, strict=True)
        )
        for what, work, copy in (
            ("q", lambda: vmf_score(rho, kappa, tau, P), one),
            ("q and slope", lambda: vmf_score_and_slope(rho, kappa, tau, P), both),
            ("q and slope, torch operations", lambda: plain(rho, kappa, tau, P), both),
        ):
            graph = milliseconds(captured(work))
            yield {
                "rho ->": f"{what}, {str(dtype).removeprefix('torch.')}",
                "as a CUDA graph, us": 1e3 * graph,
                "as called, us": 1e3 * milliseconds(work),
                "copy of the same bytes, us": 1e3 * copy,
                "ratio": graph / copy,
            }


def run() -> Tables:
    yield f"{ROWS:,} x {CLASSES:,} cosines, p = {P}, tau = 0.1.", measurements()
