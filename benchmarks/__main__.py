"""Measure everything, write results.json and results.md, and put the tables into the README."""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path

import scipy
import torch

from benchmarks import ROOT, accuracy, render, speed

HERE = ROOT / "benchmarks"


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
            "environment": f"{processor()}, {versions}.",
        },
        "accuracy": accuracy.run(),
        "speed": speed.run(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--render", action="store_true", help="only redo the tables from the files")
    if not parser.parse_args().render:
        (HERE / "results.json").write_text(json.dumps(measure(), indent=1) + "\n")
    results = json.loads((HERE / "results.json").read_text())
    device = HERE / "gpu.json"
    gpu = json.loads(device.read_text()) if device.exists() else None
    full = render.report(results, gpu, full=True)
    (HERE / "results.md").write_text(f"# Benchmarks\n\n{full}\n")
    readme = ROOT / "README.md"
    short = render.report(results, gpu, full=False)
    readme.write_text(render.insert(readme.read_text(), short))
    print(full)


if __name__ == "__main__":
    main()
