"""Accuracy and speed compared with other libraries: ``python -m benchmarks``."""

import argparse
import sys
from datetime import date
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

# The Arb reference lives with the tests.
sys.path.append(str(ROOT / "tests"))


def today() -> str:
    """Return the day of a measurement."""
    return date.today().isoformat()


def parser(name: str, text: str | None) -> argparse.ArgumentParser:
    """Return the options of ``python -m benchmarks.NAME``; ``text`` is its description."""
    options = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}",
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument(
        "--out", type=Path, default=HERE / f"{name}.json", help="where to write the measurements"
    )
    return options
