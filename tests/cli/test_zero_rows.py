"""Rows of zeros, as dead units leave them: they are counted, or left out where that is asked."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from resultant.cli import main as cli
from resultant.cli.compare import same_rows
from resultant.features.prepare import prepare
from resultant.features.store import FeatureStore
from resultant.features.subsets import without_zeros
from resultant.report import analysis_page as content
from small_features import COUNTS, small_features

pytest.importorskip("matplotlib")
pytest.importorskip("tyro")

Shown = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _no_figures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(content, "drawings", lambda *_: [])
    monkeypatch.setattr("resultant.report.comparison_page.drawings", lambda *_: [])
    monkeypatch.chdir(tmp_path)


def dead(*train: int, test: tuple[int, ...] = ()) -> dict[str, Tensor]:
    """A small store with zeros in some rows."""
    arrays = small_features()
    arrays["train/projection"][list(train)] = 0
    arrays["test/projection"][list(test)] = 0
    return arrays


def written(name: str, arrays: dict[str, Tensor]) -> str:
    np.savez(name, allow_pickle=False, **{n: a.numpy() for n, a in arrays.items()})
    return name


def test_they_are_counted_and_refused(capsys: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of pieces that are yet to be read."""
    monkeypatch.setattr("resultant._core.chunks.READ_BYTES", 32 * 50)
    path = written("a.npz", dead(7, 20, 149))
    for call in (["analyze", path], ["compare", path, path]):
        assert cli.main(call) == 2
        told = "without zero vectors, got 3 of 151 rows, the first in row 7; --drop-zero-rows"
        assert f"expected train/projection of a.npz {told} leaves them" in capsys.readouterr().err
    assert cli.main(["analyze", written("b.npz", dead(test=(3,)))]) == 2
    assert "without zero vectors, got one in row 3; --drop" in capsys.readouterr().err


def test_they_are_left_out(capsys: Shown) -> None:
    """As if they had never been there, which the report says."""
    arrays = dead(7, 20, 149, test=(3,))
    path, stays = written("a.npz", arrays), {}
    for split in ("train", "test"):
        kept = (arrays[f"{split}/projection"] != 0).any(1)
        stays |= {n: a[kept] for n, a in arrays.items() if n.startswith(split)}
    reports = {}
    for name, words in ((path, ["--drop-zero-rows"]), (written("b.npz", stays), [])):
        assert cli.main(["analyze", name, "--out", name[0], *words]) == 0
        reports[name] = json.loads(Path(name[0], "results.json").read_text())
    said = reports[path].pop("notes")
    assert said == [
        "1 row of zero vectors is left out of test, the first of them row 3.",
        "3 rows of zero vectors are left out of train, the first of them row 7.",
    ]
    one, other = (report["features"]["projection"] for report in reports.values())
    assert one | {"seconds": None} == other | {"seconds": None}
    assert reports[path]["features"]["projection"]["space"]["fitting"] == sum(COUNTS) - 3
    assert cli.main(["compare", path, path, "--drop-zero-rows", "--out", "c"]) == 0
    assert "right on the same of 119 rows" in capsys.readouterr().out
    assert len(json.loads(Path("c", "results.json").read_text())["notes"]) == 4


def test_a_whole_class_of_them() -> None:
    """It is a class without rows; of all rows nothing would be left."""
    arrays = {n.removeprefix("train/"): a for n, a in dead(*range(60)).items() if "train" in n}
    written("a.npz", arrays)
    prepared = prepare(FeatureStore.open("a.npz"), drop_zeros=True)
    assert prepared.names == ("1", "2", "3", "4", "5")
    first, _, gap, *_ = prepared.notes
    assert first == "60 rows of zero vectors are left out of train, the first of them row 0."
    assert gap == "1 label below 5 has no rows and is left out."
    arrays["projection"].zero_()
    written("b.npz", arrays)
    with pytest.raises(ValueError, match=r"train of b.npz not all zero, got zero vectors"):
        prepare(FeatureStore.open("b.npz"), drop_zeros=True)


def test_a_row_goes_from_every_feature() -> None:
    arrays = small_features(names=("encoder", "projection"))
    arrays["train/encoder"][4], arrays["train/projection"][9] = 0, 0
    written("a.npz", arrays)
    store, zeros = without_zeros(FeatureStore.open("a.npz"))
    assert zeros.keys() == {"train"} and zeros["train"].tolist() == [4, 9]
    kept = [row for row in range(sum(COUNTS)) if row not in (4, 9)]
    for name in ("train/encoder", "train/projection", "train/labels"):
        assert torch.equal(store[name], arrays[name][kept])
    store.check()


def test_other_rows_left_out_are_other_rows() -> None:
    """Labels alone would not tell two that were of one class."""
    sides = [
        prepare(FeatureStore.open(written(f"{row}.npz", dead(test=(row,)))), drop_zeros=True)
        for row in (3, 4, 3)
    ]
    assert torch.equal(sides[0].store["test/labels"], sides[1].store["test/labels"])
    assert not same_rows(sides[0], sides[1])
    assert same_rows(sides[0], sides[2])


def test_not_on_a_cluster(capsys: Shown) -> None:
    assert cli.main(["analyze", "*.parquet", "--engine", "ray", "--drop-zero-rows"]) == 2
    assert "expected no --drop-zero-rows with --engine ray" in capsys.readouterr().err
