"""The short examples: each makes its picture, from the library alone."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
# That one measures beside its peers, which takes longer.
SHORT = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem != "exact_score")


@pytest.mark.parametrize("name", SHORT)
def test_makes_its_picture(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    picture = tmp_path / "out" / "examples" / f"{name}.png"
    assert picture.stat().st_size > 5000


def test_there_are_some() -> None:
    assert len(SHORT) == 4
