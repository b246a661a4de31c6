"""Rows that ``resultant compare`` pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from resultant.cli import main as cli
from resultant.cli.compare import matched_rows
from resultant.features.prepare import prepare
from resultant.features.store import FeatureStore
from small_features import small_features

pytest.importorskip("bokeh")
pytest.importorskip("tyro")

Shown = pytest.CaptureFixture[str]


def test_identities_decide_about_the_same_rows() -> None:
    """Equal labels do not; rows in another order are matched."""
    arrays = small_features()
    rows = len(arrays["test/labels"])
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(0))

    def prepared(identities: torch.Tensor | None, order: torch.Tensor | None = None) -> Any:
        own = dict(arrays)
        if identities is not None:
            own["test/identities"] = identities
        if order is not None:
            own |= {n: a[order] for n, a in own.items() if n.startswith("test/")}
        return prepare(FeatureStore("memory", own))

    own = torch.arange(rows) + 7
    plain, numbered = prepared(None), prepared(own)
    assert matched_rows(plain, plain) is None and matched_rows(plain, numbered) is None
    match = matched_rows(numbered, prepared(own, order))
    assert match is not None and torch.equal(own[match[0]], own[order][match[1]])
    assert matched_rows(numbered, prepared(own + rows)) is None
    # Several views of one image: the order is all there is.
    views = own // 2
    assert matched_rows(prepared(views), prepared(views)) is not None
    assert matched_rows(prepared(views), prepared(views, order)) is None


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
        (["--identities", "image"], "the same 120 held-out rows"),
    ):
        out = ["--out", str(tmp_path / "out")]
        assert cli.main(["compare", *words, *more, *out]) == 0, capsys.readouterr().err
        assert rows in capsys.readouterr().out
