"""Modules that commands load."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import resultant

CLI = Path(resultant.__file__).parent / "cli"


def loaded_by(names: list[str]) -> set[str]:
    """The modules that an interpreter has after it imported some."""
    code = f"import sys, {', '.join(names)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.slow
def test_analyze_loads_nothing_of_training() -> None:
    """Nor the compiler of torch, which takes two seconds and which losses do without too."""
    names = ["resultant.cli.analyze", "resultant.losses"]
    for file in ("analyze.py", "feature_options.py", "output.py"):
        for node in ast.walk(ast.parse((CLI / file).read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("resultant"):
                names.append(str(node.module))
    assert "resultant.features.store" in names and "resultant.analysis.analyze" in names
    modules = loaded_by(names)
    others = ("resultant.training", "resultant.networks", "resultant.images")
    assert not [m for m in modules if m.startswith((*others, "resultant_reproduction"))]
    assert not {"pandas", "torch._dynamo", "ray"} & modules


def test_options_load_no_torch() -> None:
    commands = ("analyze", "compare", "train", "extract", "probe")
    options = (*(f"resultant.cli.{name}" for name in commands), "resultant_reproduction.options")
    modules = loaded_by(list(options))
    assert not {"torch", "numpy", "rich", "matplotlib"} & modules
