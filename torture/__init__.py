"""Faults and hostile inputs for the commands: files, crashes, resources, numbers, long runs.

``python -m torture --help`` lists the kinds; CONTRIBUTING.md describes them. Every failure is
printed with the seed that repeats it, and hostile files are minimised and kept in ``torture/kept``,
where the tests find them.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT = Path(__file__).resolve().parent / "kept"

# The small data of the tests.
sys.path.append(str(ROOT / "tests"))
