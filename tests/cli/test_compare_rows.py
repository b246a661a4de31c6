"""Rows that ``resultant compare`` pairs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from resultant.cli import main as cli
from small_features import small_features

pytest.importorskip("tyro")

Shown = pytest.CaptureFixture[str]


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
def test_named_identities_pair_the_rows(tmp_path: Path, capsys: Shown) -> None:
    """Those of a column with another name, in another order."""
    for name, noise in (("a", 1.2), ("b", 1.2)):
        arrays = {n: a.numpy() for n, a in small_features(noise=noise).items()}
        for split in ("train", "test"):
            arrays[f"{split}/image"] = np.array(
                [f"{split}{i}.jpg" for i in range(len(arrays[f"{split}/labels"]))]
            )
        if name == "b":
            arrays |= {n: a[::-1] for n, a in arrays.items() if n.startswith("test/")}
        np.savez(tmp_path / f"{name}.npz", allow_pickle=False, **arrays)
    words = [str(tmp_path / "a.npz"), str(tmp_path / "b.npz"), "--features", "projection"]
    for more, rows in (
        ([], "not known to be the same"),
        (["--identities", "image"], "on the same test rows"),
    ):
        out = ["--out", str(tmp_path / "out")]
        assert cli.main(["compare", *words, *more, *out]) == 0, capsys.readouterr().err
        assert rows in capsys.readouterr().out
