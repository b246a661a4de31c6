"""``resultant verify``: run the checks, print their table, write numbers and figures."""

from __future__ import annotations

import json
import math
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resultant._core.files import replacing

if TYPE_CHECKING:
    from rich.console import Console

    from resultant_reproduction.options import Verify
    from resultant_reproduction.theory.check import Check

RESULTS = "verify.json"
CAPTION = (
    "Reference: the exact score of this package in float64, held against Arb in its tests. "
    "Grids and every number: {json}."
)


def verify(options: Verify) -> int:
    """Run the checks that are asked for; 1 if one does not hold and ``strict``."""
    from resultant.cli.progress import open_console
    from resultant.report import style as drawing
    from resultant_reproduction.theory import CHECKS, selected

    names, out = selected(options.only), options.out
    if options.figures:
        drawing.require()
    if out.exists() and not out.is_dir():
        raise ValueError(f"expected --out to be a folder, got a file: {out}")
    found = sorted(out.iterdir()) if out.is_dir() else []
    # A call that was interrupted has left figures alone.
    others = [path for path in found if path.stem not in CHECKS and path.name[0] != "."]
    if others and out / RESULTS not in found:
        rule = "expected --out to be new or of an earlier verify"
        raise ValueError(f"{rule}, got others' files: {others[0]}")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        got = f"{out} ({error.strerror})"
        raise ValueError(f"expected --out where a folder can be made, got {got}") from None
    console = open_console()
    results = run(names, out if options.figures else None, open_console(stderr=True))
    write(results, out / RESULTS)
    console.print(table(results, out / RESULTS))
    for check, _, _ in results:
        if check.note:
            console.print(f"{check.name}: {check.note}", style="dim", highlight=False)
    checks = [check for check, _, _ in results]
    failed, left = ([c.name for c in checks if c.holds is verdict] for verdict in (False, None))
    for names, what in ((failed, "do not hold"), (left, "not settled")):
        if names:
            console.print(f"{len(names)} of {len(checks)} {what}: {', '.join(names)}")
    if not failed and not left:
        console.print(f"all {len(checks)} hold")
    return 1 if options.strict and failed else 0


STYLES = {True: "green", False: "bold red", None: "yellow"}
# A check, its seconds, and the files of its figure.
Result = tuple["Check", float, list[Path]]


def run(names: Sequence[str], folder: Path | None, console: Console) -> list[Result]:
    """The checks of these names, with a progress bar; figures go to ``folder`` unless None."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

    from resultant.cli.progress import ProgressBar
    from resultant.report import style as drawing
    from resultant_reproduction.theory import CHECKS

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    results: list[Result] = []
    with ProgressBar(console, *columns) as shown:
        progress = shown.bar
        task = progress.add_task("", total=len(names))
        for name in names:
            progress.update(task, description=name)
            start = time.perf_counter()
            check = CHECKS[name]()
            seconds = time.perf_counter() - start
            files: list[Path] = []
            if folder is not None and check.draw is not None:
                progress.update(task, description=f"{name}, figure")
                files = drawing.save(check.draw(), folder / name)
            results.append((check, seconds, files))
            progress.advance(task)
    return results


def table(results: Sequence[Result], path: Path) -> Any:
    """The table: claim, paper, ours, verdict."""
    from rich.table import Table

    shown = Table(caption=CAPTION.format(json=path), caption_justify="left", expand=True)
    for name, ratio in (("claim", 5), ("paper", 3), ("ours", 4)):
        shown.add_column(name, ratio=ratio, overflow="fold")
    shown.add_column("verdict", no_wrap=True)
    for check, _, _ in results:
        verdict = f"[{STYLES[check.holds]}]{check.verdict}[/]"
        claim = f"{check.claim}\n[dim]{check.name}, {check.label}[/]"
        shown.add_row(claim, check.paper, check.ours, verdict)
    return shown


def write(results: Sequence[Result], path: Path) -> None:
    """verify.json: every check with its details, and the versions that computed them."""
    import numpy
    import scipy
    import torch

    record = {
        "holds": all(check.holds for check, _, _ in results),
        "versions": {
            "resultant": sys.modules["resultant"].__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": numpy.__version__,
            "scipy": scipy.__version__,
        },
        "checks": [
            {
                **{f.name: getattr(check, f.name) for f in fields(check) if f.name != "draw"},
                "seconds": round(seconds, 3),
                "figures": [file.name for file in files],
            }
            for check, seconds, files in results
        ],
    }
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(_plain(record), indent=1, allow_nan=False) + "\n")


def _plain(a: Any) -> Any:
    """The same with what JSON lacks, NaN and infinities, as null or strings."""
    if isinstance(a, dict):
        return {str(key): _plain(value) for key, value in a.items()}
    if isinstance(a, list | tuple):
        return [_plain(value) for value in a]
    if isinstance(a, float) and not math.isfinite(a):
        return None if math.isnan(a) else str(a)
    return a
