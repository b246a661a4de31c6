"""Tables of a step of the loss, from losses.json."""

from __future__ import annotations

import re
from typing import Any

from benchmarks.markdown import amount, number, table

Row = dict[str, Any]

# The loss of ProCo's authors in their own code, forward, backward and statistics, on an H200:
# milliseconds and, where known, GB. Timed once by hand for a batch of 256, not by this benchmark.
AUTHORS = {
    "256 x 100, p = 128": (31.0, None),
    "256 x 1000, p = 1024": (207.0, 3.2),
    "256 x 8142, p = 1024": (239.0, 25.8),
}
DIRECT = "the direct way"
REPLAYED = "replayed"
# Kernels with less than this share of the time are counted together.
LEAST = 0.01

NOTE = """\
A step of one or two views of 256 queries, also for 12 runs together: statistics, loss and
gradient. The direct way is the method of the ProCo authors, implemented without their host
synchronizations and timed in the same run; the last two columns are the ratio of its time to
ours. On a small problem the two agree to {agreement}. Replayed means cuda_graph=True; its peak
includes cuBLAS workspaces for one more stream. The products are the cosines and their gradient,
in float32. The authors' own code was timed separately, on the same kind of GPU, as called, for a
batch of 256. {device}, torch {torch}, {date}."""


def by_size(losses: Row) -> dict[str, dict[str, Row]]:
    """Group the rows by size, then by method."""
    sizes: dict[str, dict[str, Row]] = {}
    for row in losses["rows"]:
        found = re.fullmatch(r"(.*p = \d+), (.*)", row["what"])
        if found is None:
            raise ValueError(f"expected a row named 'SIZE, p = P, WAY', got {row['what']!r}")
        sizes.setdefault(found[1], {})[found[2]] = row
    return sizes


def loss_table(losses: Row) -> str:
    body: list[list[str]] = []
    sizes = by_size(losses)
    for size, ways in sizes.items():
        direct = ways.get(DIRECT)
        alone = [row["graph_us"] for way, row in ways.items() if way.endswith(" alone")]
        for way, row in ways.items():
            if way.endswith(" alone"):
                continue
            times = [row[key] / 1e3 for key in ("called_us", "graph_us")]
            ratios = ["", ""]
            if direct is not None and row is not direct:
                ratios = [f"{amount(direct[k] / row[k])} x" for k in ("called_us", "graph_us")]
            cells = [str(row["kernels"]), *map(amount, times), amount(row["peak_mb"]), *ratios]
            body.append([f"{size}, {way}", *cells])
        if alone:
            products = f"{size}, its {len(alone)} matrix products alone"
            body.append([products, "", "", amount(sum(alone) / 1e3), "", "", ""])
        batch = size.removeprefix("2 x ")
        if batch in AUTHORS and (size == batch or batch not in sizes):
            ms, gb = AUTHORS[batch]
            peak = "" if gb is None else amount(1e3 * gb)
            body.append([f"{batch}, the authors' own code", "", amount(ms), "", peak, "", ""])
    head = ["a step of the loss", "kernels", "as called, ms", "as a CUDA graph, ms", "peak, MB"]
    return table([*head, "direct way: as called", "as a graph"], body)


def kernel_table(losses: Row) -> str:
    """Render the kernels by the start of their names, slowest first; small kernels share one
    row."""
    totals: dict[str, list[float]] = {}
    for row in losses["kernels"]["rows"]:
        # The rest are template arguments, or the tuning of a matrix product.
        name = re.split("<|_stage", row["kernel"].removeprefix("void "))[0]
        if row["share"] < LEAST:
            name = "others"
        total = totals.setdefault(name, [0, 0, 0])
        totals[name] = [a + row[k] for a, k in zip(total, ("launches", "us", "share"), strict=True)]
    body = (
        [f"`{name}`" if name != "others" else name, f"{n:g}", f"{us:.1f}", f"{100 * share:.1f} %"]
        for name, (n, us, share) in sorted(
            totals.items(), key=lambda item: (item[0] == "others", -item[1][1])
        )
    )
    return table([losses["kernels"]["what"], "launches", "us", "share"], body)


def report(losses: Row) -> str:
    note = NOTE.format(**losses | {"agreement": number(losses["agreement"])})
    return "\n\n".join([loss_table(losses), note, kernel_table(losses)])
