"""Accuracy and speed, measured: ``python -m benchmarks NAME ...`` measures, and renders all tables.

A benchmark is a module with ``run(data)``, which returns its tables: rows, each a dict from column
to number or text, and a note. ``benchmarks/NAME.json`` keeps them with the machine and the date."""

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

Row = dict[str, Any]
Table = dict[str, Any]  # rows and note

# The Arb reference lives with the tests.
sys.path.append(str(ROOT / "tests"))


def progress(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)
