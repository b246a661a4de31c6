"""The wheel without a C compiler."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from _core import test_autograd

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_wheel_without_a_compiler(tmp_path: Path) -> None:
    """The wheel is built, says that it lacks the kernel, and computes the same in torch alone."""
    pytest.importorskip("hatchling")
    source, wheels, site = (tmp_path / name for name in ("source", "wheels", "site"))
    source.mkdir()
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__"))
    # A library from an earlier build must not get into the wheel.
    (source / "src" / "resultant" / "special" / "_kernel.shared").touch()
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)],
        cwd=source,
        env=os.environ | {"CC": "/bin/false"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert "resultant is built without its compiled kernel" in built.stderr
    (wheel,) = wheels.glob("resultant-*-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if "special/_kernel" in name]
        archive.extractall(site)
    program = (
        f"import runpy; module = runpy.run_path({test_autograd.__file__!r}); import resultant\n"
        "from resultant.special import compiled\n"
        "assert compiled._library is None\n"
        "print(resultant.__file__, *module['results']().tolist())"
    )
    path, *values = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(site)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert path.startswith(str(site))
    assert [float(x) for x in values] == pytest.approx(test_autograd.results().tolist(), rel=1e-13)
