"""``resultant verify``: run the checks of the theory, print a table, write numbers and figures."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resultant._core.files import require_writable_folder, write_text

if TYPE_CHECKING:
    from resultant_reproduction.options import Verify
    from resultant_reproduction.theory.check import Check

RESULTS = "verify.json"
CAPTION = (
    "Reference: the exact score of the library in float64, which its tests compare with Arb. "
    "Grids and every number: {json}."
)
WRITTEN = ("ours", "holds", "details", "name", "label", "claim", "paper", "note")
STYLES = {True: "green", False: "bold red", None: "yellow"}


def verify(options: Verify) -> int:
    """Run the checks; return 1 with --strict if one does not hold."""
    from resultant.cli.progress import PlainConsole
    from resultant_reproduction.theory import CHECKS

    unknown, out = [name for name in options.only if name not in CHECKS], options.out
    if unknown:
        raise ValueError(f"expected names of checks ({', '.join(CHECKS)}), got {unknown[0]!r}")
    # In the order of the paper.
    names = [name for name in CHECKS if not options.only or name in options.only]
    require_output(out)
    checks = run(names, out, options.figures)
    console = PlainConsole()
    console.print(table(checks, out / RESULTS))
    for check in checks:
        if check.note:
            console.print(f"{check.name}: {check.note}", style="dim", highlight=False)
    for holds, verdict in ((False, "do not hold"), (None, "not settled")):
        if which := [check.name for check in checks if check.holds is holds]:
            console.print(f"{len(which)} of {len(checks)} {verdict}: {', '.join(which)}")
    if all(check.holds for check in checks):
        console.print(f"all {len(checks)} hold")
    return int(options.strict and any(check.holds is False for check in checks))


def require_output(out: Path) -> None:
    """Raise unless ``out`` is a new folder or a folder of verify."""
    from resultant_reproduction.theory import CHECKS

    require_writable_folder(out)
    present = sorted(out.iterdir()) if out.is_dir() else []
    others = [path for path in present if path.stem not in CHECKS and path.name[0] != "."]
    if others and out / RESULTS not in present:
        rule = "expected --out to be a new folder or one of verify"
        raise ValueError(f"{rule}, got another file: {others[0]}")


def run(names: Sequence[str], out: Path, figures: bool) -> list[Check]:
    """Run checks with a progress bar; write figures and verify.json."""
    import numpy
    import scipy
    import torch
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

    from resultant._core.device import versions
    from resultant.cli.progress import PlainConsole, ProgressBar
    from resultant.report import style
    from resultant_reproduction.theory import CHECKS

    text = TextColumn("{task.description}")
    columns = text, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    checks, written = [], []
    with ProgressBar(PlainConsole(stderr=True), *columns) as progress:
        task = progress.add_task("", total=len(names))
        for name in names:
            progress.update(task, description=name)
            start = time.perf_counter()
            check = CHECKS[name]()
            seconds = round(time.perf_counter() - start, 3)
            drawn = style.save(check.draw(), out / name) if figures and check.draw else []
            checks.append(check)
            about = {"seconds": seconds, "figures": [path.name for path in drawn]}
            written.append({key: getattr(check, key) for key in WRITTEN} | about)
            progress.advance(task)
    numerics = {"numpy": numpy.__version__, "scipy": scipy.__version__}
    record = {
        "holds": all(check.holds for check in checks),
        "versions": versions(torch.device("cpu")) | numerics,
        "checks": written,
    }
    write_text(out / RESULTS, json.dumps(_json(record), indent=1, allow_nan=False) + "\n")
    return checks


def table(checks: Sequence[Check], path: Path) -> Any:
    """Return the table for the terminal: claim, paper, ours, verdict."""
    from rich.table import Table
    from rich.text import Text

    rows = Table(caption=CAPTION.format(json=path), caption_justify="left", expand=True)
    for name, ratio in (("claim", 5), ("paper", 3), ("ours", 4)):
        rows.add_column(name, ratio=ratio, overflow="fold")
    rows.add_column("verdict", no_wrap=True)
    for check in checks:
        verdict = Text(check.verdict, STYLES[check.holds])
        claim = Text(f"{check.claim}\n").append(f"{check.name}, {check.label}", "dim")
        rows.add_row(claim, check.paper, check.ours, verdict)
    return rows


def _json(a: Any) -> Any:
    """Replace NaN by null and infinities by strings."""
    if isinstance(a, dict):
        return {str(key): _json(value) for key, value in a.items()}
    if isinstance(a, list | tuple):
        return [_json(value) for value in a]
    if isinstance(a, float) and not math.isfinite(a):
        return None if math.isnan(a) else str(a)
    return a
