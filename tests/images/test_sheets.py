"""CIFAR as sheets: written and read back, a subset alone, and images that are not there."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from resultant.images.cifar import Cifar, load_cifar
from resultant.images.longtail import long_tail_indices
from resultant.images.sheets import write_sheets
from resultant.training.cifar import train_cifar
from resultant.training.config import Run
from resultant.training.evaluation import evaluate_cifar
from resultant.training.job import Job
from resultant.training.probe import ProbeConfig
from tiny_cifar import tiny_cifar, tiny_config


@pytest.fixture(scope="module")
def data() -> Cifar:
    """Ten classes, as CIFAR-10 has."""
    return tiny_cifar(num_classes=10, each=6, test=3)


def test_whole(data: Cifar, tmp_path: Path) -> None:
    write_sheets(data, tmp_path / "cifar10", side=4)
    assert len(list((tmp_path / "cifar10").iterdir())) == -(-90 // 16) + 1
    found = load_cifar("cifar10", tmp_path)
    assert found.whole and torch.equal(found.train_images, data.train_images)
    assert found.dataset == "cifar10"
    assert torch.equal(found.train_labels, data.train_labels)
    assert torch.equal(found.test_images, data.test_images)
    assert not len(found.missing(torch.arange(60)))


def test_subset(data: Cifar, tmp_path: Path) -> None:
    """Its images are at their positions, and no others can be had."""
    members = long_tail_indices(data.train_labels, 10, 2.0)
    write_sheets(data, tmp_path / "cifar10", members, side=5)
    found = load_cifar("cifar10", tmp_path)
    assert not found.whole and len(found.held_images) == len(members) < 60
    assert torch.equal(found.train_labels, data.train_labels)
    assert torch.equal(found.test_images, data.test_images)
    shuffled = members[torch.randperm(len(members), generator=torch.Generator().manual_seed(0))]
    assert torch.equal(found.images_at(shuffled), data.train_images[shuffled])
    # A more imbalanced subset is part of it, a less imbalanced one is not.
    assert not len(found.missing(long_tail_indices(data.train_labels, 10, 3.0)))
    out = sorted(set(range(60)) - set(members.tolist()))
    assert found.missing(torch.arange(60)).tolist() == out
    rule = rf"among the {len(members)} held of 60, got 1 others, such as that at position {out[0]}"
    with pytest.raises(ValueError, match=rule):
        found.images_at(torch.tensor([int(members[0]), out[0]]))
    with pytest.raises(ValueError, match=f"got {len(out)} others"):
        _ = found.train_images
    # Writing over it leaves nothing of it.
    write_sheets(data, tmp_path / "cifar10", side=9)
    assert load_cifar("cifar10", tmp_path).whole


def test_missing_images_are_refused(data: Cifar, tmp_path: Path) -> None:
    """Black tiles in the place of images, and positions that cannot be."""
    members = long_tail_indices(data.train_labels, 10, 2.0)
    holes = torch.zeros_like(data.train_images)
    holes[members] = data.train_images[members]
    parts = (data.train_labels, data.test_images, data.test_labels, data.class_names)
    write_sheets(Cifar(holes, *parts), tmp_path / "cifar10")
    with pytest.raises(ValueError, match=rf"got {60 - len(members)} black ones, the first at"):
        load_cifar("cifar10", tmp_path)
    arrays = (holes.numpy(), *(a.numpy() for a in parts[:3]))
    names = ("train_images", "train_labels", "test_images", "test_labels")
    np.savez(tmp_path / "c.npz", **dict(zip(names, arrays, strict=True)))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="black ones"):
        load_cifar("cifar10", tmp_path / "c.npz")
    with pytest.raises(ValueError, match="expected 3 training images, got 60"):
        Cifar(holes, *parts, held=torch.arange(3))

    write_sheets(data, tmp_path / "cifar10", members)
    labels = tmp_path / "cifar10" / "labels.json"
    lists = json.loads(labels.read_text())
    held = sorted(members.tolist())
    for wrong, message in (
        ([*held[1:], held[0]], "to be ascending positions"),
        ([*held[:-1], 60], r"in \[0, 60\), got 60"),
        ([-1, *held[1:]], r"in \[0, 60\), got -1"),
        ([0.5], "to be ascending positions"),
        (list(range(60)) * 2, "to be ascending positions"),
    ):
        labels.write_text(json.dumps(lists | {"held": wrong}))
        with pytest.raises(ValueError, match=message):
            load_cifar("cifar10", tmp_path)
    del lists["held"]
    # Labels of more than there is: the rest of a sheet, or no tiles at all.
    for times, message in ((40, "black ones"), (50, "expected 3030 tiles .* got 2500")):
        labels.write_text(json.dumps(lists | {"train": lists["train"] * times}))
        with pytest.raises(ValueError, match=message):
            load_cifar("cifar10", tmp_path)


def test_images_that_are_not_there_leave_the_sheets(data: Cifar, tmp_path: Path) -> None:
    """What cannot be written whole takes nothing of what was."""
    folder = tmp_path / "cifar10"
    write_sheets(data, folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    parts = (data.train_labels, data.test_images, data.test_labels, data.class_names)
    part = Cifar(data.held_images[:10], *parts, torch.arange(10))
    for rows in (None, torch.arange(20)):
        with pytest.raises(ValueError, match="among the 10 held of 60"):
            write_sheets(part, folder, rows)
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    with pytest.raises(ValueError, match="among the 10 held of 60"):
        write_sheets(part, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_balanced_probes_are_left_out(tmp_path: Path) -> None:
    """Training and the other numbers are those with all images at hand."""
    data, config = tiny_cifar(each=6, test=20, size=16), tiny_config(batch_size=6, epochs=1)
    members = long_tail_indices(data.train_labels, 4, 3.0)
    held = members.sort().values
    part = Cifar(
        data.train_images[held],
        *(data.train_labels, data.test_images, data.test_labels, data.class_names),
        held,
    )
    probes, found = ProbeConfig(epochs=3, batch_size=8), []
    for number, images in enumerate((data, part)):
        job = Job(config, (Run("native"), Run("angular")), tmp_path / str(number))
        found.append(evaluate_cifar(train_cifar(job, images), images, probes))
    for whole, less in zip(*found, strict=True):
        assert set(whole["probes"]) == {"long_tail", "balanced"}
        assert set(less["probes"]) == {"long_tail"}
        assert less["probes"]["long_tail"] == whole["probes"]["long_tail"]
        assert less["frozen"] == whole["frozen"] and less["last"] == whole["last"]
        assert less["train_images"] == whole["train_images"] == len(members)
    with pytest.raises(ValueError, match="among the 14 held of 24"):
        train_cifar(Job(tiny_config(imbalance=2.0, batch_size=6), (Run(),), tmp_path / "x"), part)
