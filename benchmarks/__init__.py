"""Accuracy and speed beside the peers: ``python -m benchmarks``."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# The Arb reference lives with the tests.
sys.path.append(str(ROOT / "tests"))
