"""Faults and hostile inputs: mutated files for every reader, killed commands.

``python -m torture --help`` lists the kinds. A failure is printed with the seed that repeats it; a
file that broke a reader is kept in ``torture/kept``, where the tests read it again.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT = Path(__file__).resolve().parent / "kept"

# The small data of the tests.
sys.path.append(str(ROOT / "tests"))
