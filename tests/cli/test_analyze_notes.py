"""What `resultant analyze` did to features unasked is told on the page and in the terminal."""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from resultant.classes.groups import group_rule
from resultant.cli import main as cli
from resultant.features.prepare import prepare
from resultant.features.store import FeatureStore
from resultant.report import analysis_page as content
from resultant.report.decision_figures import calibration, groups
from resultant.report.summary import summary
from resultant.report.words import class_name
from small_features import NAMES, small_features
from small_report import small_analysis

pytest.importorskip("matplotlib")
pytest.importorskip("tyro")


@pytest.fixture(autouse=True)
def no_figures(monkeypatch: Any) -> None:
    monkeypatch.setattr(content, "drawings", lambda *_: [])


def told(given: Path, capsys: Any) -> list[str]:
    """The notes in the terminal, which are those of the page and of its results."""
    out = given.parent / f"report-{given.name}"
    assert cli.main(["analyze", str(given), "--out", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    notes = [line.partition("note")[2].strip() for line in lines if line.startswith("note ")]
    page = unescape((out / "index.html").read_text())
    assert all(f"<li>{note}</li>" in page for note in notes)
    assert json.loads((out / "results.json").read_text())["notes"] == notes
    return notes


def test_the_file_of_the_labels(tmp_path: Path, capsys: Any) -> None:
    arrays, folder = small_features(), tmp_path / "f"
    y = arrays["train/labels"].numpy()
    folder.mkdir()
    np.save(folder / "other.npy", arrays["train/projection"].numpy())
    np.save(folder / "labels.npy", y)
    assert told(folder / "other.npy", capsys)[0] == f"The labels are those of {folder}/labels.npy."
    # That of its own name goes before; the folder has one of each name.
    np.save(folder / "other_labels.npy", np.roll(y, 1))
    own = FeatureStore.open(folder / "other.npy")
    assert own["train/labels"].tolist() == np.roll(y, 1).tolist()
    assert prepare(own).notes[0] == f"The labels are those of {folder}/other_labels.npy."
    for name in ("labels", "labels.npy"):
        asked = FeatureStore.open(folder / "other.npy", labels=name)
        assert asked.label_files == (f"{folder}/labels.npy",)
        assert asked["train/labels"].tolist() == y.tolist()
    with pytest.raises(ValueError, match=f"such as {folder}/none.npy, got it alone"):
        FeatureStore.open(folder / "other.npy", labels="none")
    whole = prepare(FeatureStore.open(folder))
    assert whole.notes[0] == f"The labels are those of {folder}/labels.npy."
    assert whole.notes[-1] == "Not read: other_labels."
    named = FeatureStore.open(folder, labels="other_labels")
    assert named.label_files == (f"{folder}/other_labels.npy",)


def test_labels_in_the_file_of_the_features_need_no_note(tmp_path: Path) -> None:
    np.savez(tmp_path / "z.npz", **{n: a.numpy() for n, a in small_features().items()})  # type: ignore[arg-type]
    store = FeatureStore.open(tmp_path / "z.npz")
    assert store.label_files == () and prepare(store).notes == ()


def test_notes_are_in_the_terminal(tmp_path: Path, capsys: Any) -> None:
    arrays: dict[str, Any] = {n: a.numpy() for n, a in small_features().items()}
    for what in ("labels", "projection"):
        arrays[f"val/{what}"] = arrays[f"test/{what}"]
    for split in ("train", "val", "test"):
        arrays[f"{split}/labels"] = arrays[f"{split}/labels"].astype(str)
    arrays["train/labels"][0] = ""
    np.savez(tmp_path / "z.npz", **arrays)
    assert told(tmp_path / "z.npz", capsys) == [
        "The split val is not used.",
        '1 class has a single training row and is left out with its 0 test rows: "".',
    ]


def test_a_name_without_letters_is_seen() -> None:
    assert [class_name(name) for name in ("", "7", "cat")] == ['""', "class 7", "cat"]


def test_several_features_can_be_chosen_from() -> None:
    a = small_analysis()
    one, two = (
        dict(summary(dict.fromkeys(names, a), "f", NAMES)) for names in (["x"], ["x", "logits"])
    )
    assert two["features"].endswith("(--features NAME takes one of them)")
    assert "--features" not in one["features"]
    assert "\u00a0% on logits)" in two["use"]


def test_groups_say_their_rule() -> None:
    a, rule = small_analysis(), group_rule(6)
    drawn = groups(a)
    assert drawn is not None and drawn.sentence.endswith(f"; {rule}.")
    assert dict(summary({"z": a}, "f", NAMES))["groups"].endswith(f" points ({rule})")


def test_a_share_of_one_is_drawn_whole() -> None:
    drawn = calibration(small_analysis())
    assert drawn is not None
    (ax,) = drawn.figure().axes
    curves = [line for line in ax.lines if line.get_marker() == "o"]
    assert curves and not any(line.get_clip_on() for line in curves)


@pytest.mark.parametrize(("label", "places"), [(10**15, [1, 0]), (-1, [0, 1])])
def test_labels_that_do_not_count(tmp_path: Path, label: int, places: list[int]) -> None:
    """Are refused with what to do instead, which works."""
    z = torch.randn(8, 4).numpy()
    odd = np.repeat([label, 3], 4)
    np.savez(tmp_path / "z.npz", features=z, labels=odd)
    rule = rf"in \[0, 4194304\), got {label} at row 0; .*can be stored as strings$"
    with pytest.raises(ValueError, match=rule):
        FeatureStore.open(tmp_path / "z.npz")
    np.savez(tmp_path / "z.npz", features=z, labels=odd.astype(str))
    found = FeatureStore.open(tmp_path / "z.npz")["train/labels"].tolist()
    assert found == [places[0]] * 4 + [places[1]] * 4


@pytest.mark.parametrize("kind", [".npz", ".npy", ".safetensors", ".parquet", ""])
def test_no_such_file(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"none{kind}"
    with pytest.raises(ValueError, match=f"^expected {path} to exist, got no such file$"):
        FeatureStore.open(path)
