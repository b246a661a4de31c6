"""The short examples: each makes its picture, from the library alone."""

from __future__ import annotations

import runpy
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
SHORT = sorted(path.stem for path in EXAMPLES.glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("name", SHORT)
def test_makes_its_picture(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also a copy elsewhere, in the folder it is called from, which it says."""
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [p for p in sys.path if Path(p or ".") != EXAMPLES.parent])
    copy = shutil.copy(EXAMPLES / f"{name}.py", tmp_path)
    runpy.run_path(str(copy), run_name="__main__")
    *_, said = capsys.readouterr().out.splitlines()
    assert said == f"out/examples/{name}.png"
    assert (tmp_path / said).stat().st_size > 5000


def test_the_exact_score_is_the_most_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    example = runpy.run_path(str(EXAMPLES / "exact_score.py"))
    for p, kappa in example["POINTS"]:
        found = {k: float(v[0]) for k, v in example["errors"](p, np.array([kappa])).items()}
        assert found["resultant, float64"] < 2e-15 and found["resultant, float32"] < 1e-6
        # NaN, where scipy underflows, is not below it either.
        assert not found["scipy ive"] < 5 * found["resultant, float64"]
        assert found["ProCo recurrence"] > 1e-6


def test_there_are_some() -> None:
    assert len(SHORT) == 5
