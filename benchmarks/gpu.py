"""The fused score on a GPU compared with a copy of the same bytes; writes benchmarks/gpu.json.

python -m benchmarks.gpu
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable

import torch

import resultant
from benchmarks import parser, today
from resultant._core.files import write_text

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
    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def main() -> None:
    out = parser("gpu", __doc__).parse_args().out
    torch.manual_seed(0)
    rows: list[dict[str, object]] = []
    # A trace has the operations of torch in the place of the kernel; nothing fuses them here.
    plain = torch.compile(resultant.vmf_score_and_slope, backend="eager")
    for dtype in (torch.float32, torch.float64):
        size = torch.finfo(dtype).bits // 8
        name = str(dtype).removeprefix("torch.")
        rho = torch.rand(ROWS, CLASSES, device="cuda", dtype=dtype) * 2 - 1
        kappa = P * 10 ** (torch.rand(CLASSES, device="cuda", dtype=dtype) - 0.5)
        tau = torch.full((), 0.1, device="cuda", dtype=dtype)

        # Reading rho and writing q, or q and slope, moves two or three times its bytes; a copy of
        # n bytes moves 2 n.
        one = torch.rand(ROWS * CLASSES, device="cuda", dtype=dtype)
        both = torch.rand(ROWS * CLASSES * 3 // 2, device="cuda", dtype=dtype)
        target_one, target_both = torch.empty_like(one), torch.empty_like(both)
        copy_one = milliseconds(captured(lambda: target_one.copy_(one)))
        copy_both = milliseconds(captured(lambda: target_both.copy_(both)))
        timed = {
            "q": (lambda: resultant.vmf_score(rho, kappa, tau, P), copy_one),
            "q and slope": (lambda: resultant.vmf_score_and_slope(rho, kappa, tau, P), copy_both),
            "q and slope, torch path": (lambda: plain(rho, kappa, tau, P), copy_both),
        }
        for what, (run, copy) in timed.items():
            time, called = milliseconds(captured(run)), milliseconds(run)
            rows.append(
                {
                    "what": f"rho -> {what}, {ROWS} x {CLASSES} {name}, p = {P}",
                    "value": f"{time * 1e3:.0f} us ({called * 1e3:.0f} as called)",
                    "reference": f"copy of the same bytes: {copy * 1e3:.0f} us"
                    f" ({2 * both.numel() * size / copy_both / 1e9:.2f} TB/s)",
                    "ratio": round(time / copy, 2),
                }
            )
            print(rows[-1], flush=True)
    result = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    result |= {"date": today(), "rows": rows}
    write_text(out, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
