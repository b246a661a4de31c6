"""Measure the named benchmarks, then render results.md and the table of the README.

Without a name the tables are rendered from the known measurements.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import re
import shutil
import subprocess
from datetime import date
from importlib.metadata import distributions
from pathlib import Path

import torch

from benchmarks import HERE, ROOT
from benchmarks.tables import BENCHMARKS, documents
from resultant._core.files import write_text

LSCPU = shutil.which("lscpu")
ON_A_GPU = ("gpu", "losses", "training", "images")
PACKAGES = ("torch", "scipy", "scikit-learn", "jax", "tensorflow-probability")


def processor() -> str:
    """Return the name of the processor; that of an Arm core is known to lscpu alone."""
    text = subprocess.run(["lscpu"], capture_output=True, text=True).stdout if LSCPU else ""
    name = re.search(r"^Model name:\s*(.+)$", text, re.M)
    return f"{name[1]} ({platform.machine()})" if name else platform.processor()


def machine(gpu: bool) -> str:
    """Return the device of a measurement and the versions of the packages."""
    known = {package.name: package.version for package in distributions()}
    versions = [f"{name} {known[name]}" for name in PACKAGES if name in known]
    return ", ".join([torch.cuda.get_device_name() if gpu else processor(), *versions])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--data", type=Path, help="folder of the files that a benchmark reads")
    options = parser.parse_args()
    if unknown := set(options.names) - set(BENCHMARKS):
        parser.error(f"expected names among {', '.join(BENCHMARKS)}, got {', '.join(unknown)}")
    for name in options.names:
        module = importlib.import_module(f"benchmarks.{name}")
        setting = {"machine": machine(name in ON_A_GPU), "date": date.today().isoformat()}
        result = {**setting, "tables": module.run(options.data)}
        write_text(HERE / f"{name}.json", json.dumps(result, indent=1) + "\n")
    for path, text in documents(ROOT).items():
        write_text(ROOT / path, text)
        print(path)


if __name__ == "__main__":
    main()
