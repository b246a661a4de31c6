"""The first command of the README with a wheel in an empty environment: a step of ``make dist``.

python tests/first_command.py dist
"""

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Two clusters with labels, as Parquet.
WRITE = """
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
y = np.arange(60) % 2
x = np.eye(2, 8)[y] + 0.2 * np.random.default_rng(0).normal(size=(60, 8))
pq.write_table(pa.table({"features": list(x), "label": y}), "features.parquet")
"""


def main(folder: Path) -> None:
    (wheel,) = folder.resolve().glob("resultant-*.whl")
    with tempfile.TemporaryDirectory() as name:
        venv.create(Path(name) / "empty", with_pip=True)
        programs = Path(name) / "empty" / ("Scripts" if sys.platform == "win32" else "bin")
        constraints = str(ROOT / "requirements" / "constraints.txt")
        install = ["install", "-q", "-c", constraints, str(wheel)]
        for command in (
            ["python", "-m", "pip", "--disable-pip-version-check", *install],
            ["python", "-c", WRITE],
            ["resultant", "analyze", "features.parquet"],
        ):
            subprocess.run([str(programs / command[0]), *command[1:]], cwd=name, check=True)
        assert (Path(name) / "out" / "analyze" / "index.html").is_file()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
