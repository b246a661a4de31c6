"""Rows of zero vectors: they are counted and refused, or left out with --drop-zero-rows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from resultant.cli import main as cli
from resultant.features.prepare import prepare
from resultant.features.store import FeatureStore
from small_features import COUNTS, small_features, untimed

pytest.importorskip("matplotlib")
pytest.importorskip("tyro")

Shown = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _in_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, brief: None) -> None:
    monkeypatch.chdir(tmp_path)


def dead(*train: int, test: tuple[int, ...] = ()) -> dict[str, Tensor]:
    """A small store with zero vectors in some rows."""
    arrays = small_features()
    arrays["train/projection"][list(train)] = 0
    arrays["test/projection"][list(test)] = 0
    return arrays


def written(name: str, arrays: dict[str, Tensor]) -> str:
    np.savez(name, allow_pickle=False, **{n: a.numpy() for n, a in arrays.items()})
    return name


def test_counted_and_refused(capsys: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """In all chunks of the file."""
    monkeypatch.setattr("resultant._core.chunks.MATRIX_BYTES", 32 * 50)
    path = written("a.npz", dead(7, 20, 149))
    for call in (["analyze", path], ["compare", path, path]):
        assert cli.main(call) == 2
        got = "without zero vectors, got 3 of 151 rows, the first in row 7; --drop-zero-rows"
        assert f"expected train/projection of a.npz {got} leaves them" in capsys.readouterr().err
    assert cli.main(["analyze", written("b.npz", dead(test=(3,)))]) == 2
    assert "without zero vectors, got one in row 3; --drop" in capsys.readouterr().err


@pytest.mark.slow
def test_left_out(capsys: Shown) -> None:
    """The report is that of the other rows, with notes."""
    arrays = dead(7, 20, 149, test=(3,))
    arrays["test/identities"] = torch.arange(len(arrays["test/labels"]))
    path, others = written("a.npz", arrays), {}
    for split in ("train", "test"):
        kept = (arrays[f"{split}/projection"] != 0).any(1)
        others |= {n: a[kept] for n, a in arrays.items() if n.startswith(split)}
    reports = {}
    for name, words in ((path, ["--drop-zero-rows"]), (written("b.npz", others), [])):
        assert cli.main(["analyze", name, "--out", name[0], *words]) == 0
        reports[name] = json.loads(Path(name[0], "results.json").read_text())
    one, other = (report["features"][0] for report in reports.values())
    assert one["data"]["notes"][:2] == [
        "1 row of zero vectors is left out of test, the first of them row 3.",
        "3 rows of zero vectors are left out of train, the first of them row 7.",
    ]
    assert untimed(one["methods"]) == untimed(other["methods"])
    assert one["data"]["splits"]["train"] == sum(COUNTS) - 3
    assert cli.main(["compare", path, path, "--drop-zero-rows", "--out", "c"]) == 0
    assert "on the same test rows" in capsys.readouterr().out
    assert json.loads(Path("c", "results.json").read_text())["comparisons"][0]["rows"] == 119


def test_class_of_zero_vectors() -> None:
    """A class without rows; a file of zero vectors only is refused."""
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


def test_row_is_left_out_of_every_feature() -> None:
    arrays = small_features(names=("encoder", "projection"))
    arrays["train/encoder"][4], arrays["train/projection"][9] = 0, 0
    written("a.npz", arrays)
    prepared = prepare(FeatureStore.open("a.npz"), drop_zeros=True)
    store, zeros = prepared.store, prepared.zeros
    assert zeros.keys() == {"train"} and zeros["train"].tolist() == [4, 9]
    kept = [row for row in range(sum(COUNTS)) if row not in (4, 9)]
    for name in ("train/encoder", "train/projection", "train/labels"):
        assert torch.equal(store[name], arrays[name][kept])
    store.check()


def test_identities_of_rows_are_left_out_too() -> None:
    """Rows with the same labels are still different rows."""
    arrays = dead(test=(3,))
    arrays["test/identities"] = torch.arange(len(arrays["test/labels"]))
    store = prepare(FeatureStore.open(written("a.npz", arrays)), drop_zeros=True).store
    kept = [row for row in range(len(arrays["test/labels"])) if row != 3]
    assert store["test/identities"].tolist() == kept


def test_refused_on_a_cluster(capsys: Shown) -> None:
    assert cli.main(["analyze", "*.parquet", "--engine", "ray", "--drop-zero-rows"]) == 2
    assert "expected no --drop-zero-rows with --engine ray" in capsys.readouterr().err
