"""``python -m resultant_reproduction.studies.calibration FILE``: rules with a fitted scale each, on
the features of the packaged network. Two minutes on a CPU."""

import json
import sys
from pathlib import Path

from resultant._core import files
from resultant.features.packaged import PACKAGED
from resultant_reproduction.frozen.calibration import calibrate
from resultant_reproduction.frozen.summarize import SPACES
from resultant_reproduction.runs.evidence import Evidence
from resultant_reproduction.runs.records import Records


def main(path: Path) -> None:
    """Compute the numbers of the packaged network."""
    evidence = Evidence(Records())
    numbers = {space: calibrate(evidence.space(PACKAGED, space)) for space in SPACES}
    files.write_text(path, json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
