"""Measure accuracy and CPU speed into results.json, then render all tables: results.md, and the
marked places in training.md and the README."""

from __future__ import annotations

import argparse
import json
import platform
import re
import shutil
import subprocess
from importlib.metadata import distributions, version

from benchmarks import HERE, ROOT, accuracy, calls, growth, render, speed, today
from resultant._core.files import write_text


def processor() -> str:
    """Return the name of the processor; that of an Arm core is known to lscpu alone."""
    if shutil.which("lscpu"):
        text = subprocess.run(["lscpu"], capture_output=True, text=True, check=False).stdout
        found = re.search(r"^Model name:\s*(.+)$", text, re.M)
        if found:
            return f"{found[1]} ({platform.machine()})"
    return platform.processor() or platform.machine()


def installed(name: str) -> bool:
    return any(True for _ in distributions(name=name))


PARTS = {
    "accuracy": lambda: {"accuracy": accuracy.run()},
    "speed": lambda: {"speed": speed.run()},
    "calls": lambda: {"calls": calls.run()},
    "growth": growth.run,
}


def setting() -> dict[str, object]:
    packages = ("torch", "scipy", "mpmath", "jax", "tensorflow-probability")
    versions = ", ".join(f"{name} {version(name)}" for name in packages if installed(name))
    return {
        "queries": speed.QUERIES,
        "classes": speed.CLASSES,
        "environment": f"{processor()}, {versions}.",
        "date": today(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--render", action="store_true", help="render the tables from the files without measuring"
    )
    parser.add_argument(
        "--part", action="append", choices=PARTS, help="measure a part alone; may be repeated"
    )
    options = parser.parse_args()
    if not options.render:
        path = HERE / "results.json"
        measured = {} if options.part else {"setting": setting()}
        for part in options.part or PARTS:
            measured |= PARTS[part]()
        # A part keeps the machine and the day of the others, which another process may have
        # measured meanwhile.
        results = json.loads(path.read_text()) if options.part else {}
        write_text(path, json.dumps(results | measured, indent=1) + "\n")
    for path, text in render.documents(ROOT).items():
        write_text(ROOT / path, text)
        print(path)


if __name__ == "__main__":
    main()
