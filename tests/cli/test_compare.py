"""`resultant.compare` from Python: the command's verdict, from files, data frames and arrays."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import resultant
from resultant.cli.main import main


def sides() -> tuple[list[np.ndarray], np.ndarray]:
    rng, y = np.random.default_rng(0), np.arange(240) % 3
    return [np.eye(5)[y] + s * rng.normal(size=(240, 5)) for s in (0.9, 0.3)], y


X, Y = sides()
FAST: dict[str, Any] = {"references": "none"}


def frame(side: int) -> pd.DataFrame:
    names = [f"x{i}" for i in range(5)]
    columns: Any = pd.Index(names)
    return pd.DataFrame(X[side], columns=columns).assign(
        species=np.array(["ant", "bee", "cow"])[Y], id=[f"row {i}" for i in range(len(Y))]
    )


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("kind", ["csv", "frame"])
def test_python_and_the_command_agree(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / f"{name}.{'csv' if kind == 'csv' else 'parquet'}" for name in "ab"]
    for side, path in enumerate(files):
        if kind == "csv":
            frame(side).to_csv(path, index=False)
        else:
            frame(side).to_parquet(path)
    given = [frame(0), frame(1)] if kind == "frame" else files
    result = resultant.compare(*given, **FAST)
    assert (
        main(
            ["compare", *map(str, files), "--references", "none", "--json", "-", "--quiet"]
            + ["--out", str(tmp_path / "out")]
        )
        == 0
    )
    told = json.loads(capsys.readouterr().out)["comparisons"][0]
    ours = result.comparisons[0]
    assert ours.sentence == told["sentence"] and ours.paired and ours.difference.verdict == "better"
    assert result.chosen == 1


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
def test_arrays_are_paired_by_their_ids(tmp_path: Path) -> None:
    ids = np.arange(len(Y))
    back = (X[1][::-1], Y[::-1], ids[::-1])
    result = resultant.compare((X[0], Y, ids), back, out=tmp_path / "page", **FAST)
    assert result.comparisons[0].paired and (tmp_path / "page" / "index.html").is_file()
    apart = resultant.compare((X[0], Y), (X[1], Y), **FAST).comparisons[0]
    assert not apart.paired and "not known to be the same" in apart.sentence
    same = resultant.compare((X[0], Y, ids), (X[0], Y, ids), **FAST).comparisons[0].difference
    assert same.gain == 0 and same.verdict == "tie"
