"""Accuracy and speed beside the peers: ``python -m benchmarks``."""

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

# The Arb reference lives with the tests.
sys.path.append(str(ROOT / "tests"))


def parser(name: str, text: str | None) -> argparse.ArgumentParser:
    """The options of ``python -m benchmarks.NAME``, of which the document says what it does."""
    found = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}",
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument(
        "--out", type=Path, default=HERE / f"{name}.json", help="what is measured goes here"
    )
    return found
