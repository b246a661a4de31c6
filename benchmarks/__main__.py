"""The command ``python -m benchmarks``."""

import importlib
import inspect
import json
import platform
import re
from datetime import date
from importlib.metadata import distributions
from pathlib import Path
from typing import Literal

import torch
import tyro
from torch.utils import collect_env

from benchmarks import ROOT
from benchmarks.tables import BENCHMARKS, documents, table
from resultant._core.files import write_text

ON_A_GPU = ("gpu", "losses", "training", "images")
PACKAGES = ("torch", "scipy", "scikit-learn", "jax", "tensorflow-probability")


def machine(gpu: bool) -> str:
    """Return the device of a measurement and the versions of the packages."""
    # lscpu alone knows the name of an Arm core.
    name = re.search(r"^Model name:\s*(.+)$", collect_env.get_cpu_info(collect_env.run) or "", re.M)
    cpu = f"{name[1]} ({platform.machine()})" if name else platform.processor()
    known = {package.name: package.version for package in distributions()}
    versions = [f"{name} {known[name]}" for name in PACKAGES if name in known]
    return ", ".join([torch.cuda.get_device_name() if gpu else cpu, *versions])


def main(
    names: tyro.conf.Positional[tuple[Literal[tuple(BENCHMARKS)], ...]] = (),  # pyright: ignore
    data: Path = Path(),
) -> None:
    """Measure the named benchmarks, then render results.md and the table of the README.

    Without a name the tables are rendered from the known measurements.

    Args:
        names: The benchmarks.
        data: The folder of the files that a benchmark reads.
    """
    for name in names:
        run, tables = importlib.import_module(f"benchmarks.{name}").run, []
        for note, rows in run(data) if inspect.signature(run).parameters else run():
            tables.append({"rows": [*rows], "note": note})
            print(table(tables[-1]["rows"]))
        setting = {"machine": machine(name in ON_A_GPU), "date": date.today().isoformat()}
        result = setting | {"tables": tables}
        write_text(ROOT / f"benchmarks/{name}.json", json.dumps(result, indent=1) + "\n")
    for path, text in documents(ROOT).items():
        write_text(ROOT / path, text)
        print(path)


if __name__ == "__main__":
    tyro.cli(main)
