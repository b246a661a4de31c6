"""Accuracy and speed, measured: ``python -m benchmarks NAME ...`` measures, and renders all tables.

A benchmark is a module with ``run``, which yields its tables: a note and rows, each a dict from
column to number or text. ``benchmarks/NAME.json`` keeps them with the machine and the date."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

Row = dict[str, Any]
Tables = Iterator[tuple[str, Iterable[Row]]]

# The Arb reference lives with the tests.
sys.path.append(str(ROOT / "tests"))
