"""``resultant verify``: run the checks of the theory, print a table, write numbers and figures."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from resultant._core.files import require_writable_folder, write_text

if TYPE_CHECKING:
    from rich.console import Console

    from resultant_reproduction.options import Verify
    from resultant_reproduction.theory.check import Check

RESULTS = "verify.json"
CAPTION = (
    "Reference: the exact score of the library in float64, which its tests compare with Arb. "
    "Grids and every number: {json}."
)
# Fields of a check that are no results.
PICTURE = ("panels", "layout")
STYLES = {True: "green", False: "bold red", None: "yellow"}


class Result(NamedTuple):
    """A check, its time in seconds and the files of its figure."""

    check: Check
    seconds: float
    files: list[Path]


def verify(options: Verify) -> int:
    """Run the checks; return 1 with --strict if one does not hold."""
    from resultant.cli.progress import open_console
    from resultant_reproduction.theory import selected

    names, out = selected(options.only), options.out
    require_output(out)
    results = run(names, out if options.figures else None, open_console(stderr=True))
    write(results, out / RESULTS)
    console = open_console()
    console.print(table(results, out / RESULTS))
    checks = [result.check for result in results]
    for check in checks:
        if check.note:
            console.print(f"{check.name}: {check.note}", style="dim", highlight=False)
    failed, unsettled = ([c.name for c in checks if c.holds is holds] for holds in (False, None))
    for which, verdict in ((failed, "do not hold"), (unsettled, "not settled")):
        if which:
            console.print(f"{len(which)} of {len(checks)} {verdict}: {', '.join(which)}")
    if not failed and not unsettled:
        console.print(f"all {len(checks)} hold")
    return 1 if options.strict and failed else 0


def require_output(out: Path) -> None:
    """Raise unless ``out`` is a new folder or a folder of verify; an interrupted call leaves
    figures without verify.json."""
    from resultant_reproduction.theory import CHECKS

    require_writable_folder(out)
    present = sorted(out.iterdir()) if out.is_dir() else []
    others = [path for path in present if path.stem not in CHECKS and path.name[0] != "."]
    if others and out / RESULTS not in present:
        rule = "expected --out to be a new folder or one of verify"
        raise ValueError(f"{rule}, got another file: {others[0]}")


def run(names: Sequence[str], folder: Path | None, console: Console) -> list[Result]:
    """Run checks with a progress bar; figures go to ``folder`` unless None."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

    from resultant.cli.progress import ProgressBar
    from resultant.report import style
    from resultant_reproduction.theory import CHECKS

    text = TextColumn("{task.description}")
    columns = text, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    results = []
    with ProgressBar(console, *columns) as progress:
        task = progress.add_task("", total=len(names))
        for name in names:
            progress.update(task, description=name)
            start = time.perf_counter()
            check = CHECKS[name]()
            seconds = time.perf_counter() - start
            files = []
            if folder is not None and check.draw is not None:
                progress.update(task, description=f"{name}, figure")
                files = style.save(check.draw(), folder / name)
            results.append(Result(check, seconds, files))
            progress.advance(task)
    return results


def table(results: Sequence[Result], path: Path) -> Any:
    """Return the table for the terminal: claim, paper, ours, verdict."""
    from rich.table import Table
    from rich.text import Text

    rows = Table(caption=CAPTION.format(json=path), caption_justify="left", expand=True)
    for name, ratio in (("claim", 5), ("paper", 3), ("ours", 4)):
        rows.add_column(name, ratio=ratio, overflow="fold")
    rows.add_column("verdict", no_wrap=True)
    for check, _, _ in results:
        verdict = Text(check.verdict, STYLES[check.holds])
        claim = Text(f"{check.claim}\n").append(f"{check.name}, {check.label}", "dim")
        rows.add_row(claim, check.paper, check.ours, verdict)
    return rows


def write(results: Sequence[Result], path: Path) -> None:
    """Write verify.json: every check with its details, and the versions of the software."""
    import numpy
    import scipy
    import torch

    from resultant._core.versions import versions

    numerics = {"numpy": numpy.__version__, "scipy": scipy.__version__}
    checks = [
        {
            **{f.name: getattr(check, f.name) for f in fields(check) if f.name not in PICTURE},
            "seconds": round(seconds, 3),
            "figures": [file.name for file in files],
        }
        for check, seconds, files in results
    ]
    record = {
        "holds": all(result.check.holds for result in results),
        "versions": versions(torch.device("cpu")) | numerics,
        "checks": checks,
    }
    write_text(path, json.dumps(_json(record), indent=1, allow_nan=False) + "\n")


def _json(a: Any) -> Any:
    """Replace NaN by null and infinities by strings."""
    if isinstance(a, dict):
        return {str(key): _json(value) for key, value in a.items()}
    if isinstance(a, list | tuple):
        return [_json(value) for value in a]
    if isinstance(a, float) and not math.isfinite(a):
        return None if math.isnan(a) else str(a)
    return a
