"""Measure accuracy and CPU speed into results.json, then render all tables: results.md, and the
marked places in training.md and the README."""

from __future__ import annotations

import argparse
import json
import platform
from datetime import date
from pathlib import Path

import scipy
import torch

from benchmarks import HERE, ROOT, accuracy, growth, render, speed
from resultant._core.files import write_text


def processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def measure() -> dict[str, object]:
    versions = f"torch {torch.__version__}, scipy {scipy.__version__}"
    return {
        "setting": {
            "queries": speed.QUERIES,
            "classes": speed.CLASSES,
            "environment": f"{processor()}, {versions}, {date.today()}.",
        },
        "accuracy": accuracy.run(),
        "speed": speed.run(),
        **growth.run(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--render", action="store_true", help="render the tables from the files without measuring"
    )
    if not parser.parse_args().render:
        write_text(HERE / "results.json", json.dumps(measure(), indent=1) + "\n")
    for path, text in render.documents(ROOT).items():
        write_text(ROOT / path, text)
        print(path)


if __name__ == "__main__":
    main()
