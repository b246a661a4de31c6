"""From image lists and a checkpoint of the authors' kind to a filled cell of tab:cross-backbone,
by the commands that the page shows."""

import re
import shlex
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import listed
from proco_alike import full_size, saved
from resultant.cli.main import main
from resultant.features.store import FeatureStore
from resultant.training.config import IMAGENET_CHANNELS
from resultant_reproduction import ITEMS, import_proco
from resultant_reproduction.frozen.decisions import realization_grid
from resultant_reproduction.frozen.space import load_space
from resultant_reproduction.recipes import published

Shown = pytest.CaptureFixture[str]


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four classes in the layout of ImageNet-LT, and a ResNet-50 as the authors save theirs."""
    monkeypatch.setitem(listed.SIZES, "val", (5, 5, 5, 5))
    about = published.PUBLISHED["imagenet-lt"]
    monkeypatch.setitem(published.PUBLISHED, "imagenet-lt", about._replace(num_classes=4))
    monkeypatch.setitem(import_proco.RECIPES, listed.NUM_CLASSES, import_proco.RECIPES[1000])
    listed.write_images(tmp_path)
    # Labels of the lists, which neither the pictures nor their folders tell.
    generator = np.random.default_rng(0)
    for path in tmp_path.glob("ImageNet_LT_*.txt"):
        files, labels = zip(*(line.split() for line in path.read_text().splitlines()), strict=True)
        pairs = zip(files, generator.permutation(labels), strict=True)
        (tmp_path / "lists").mkdir(exist_ok=True)
        text = "".join(f"{file} {label}\n" for file, label in pairs)
        path.rename(tmp_path / "lists" / path.name).write_text(text)
    network = full_size("resnet50", listed.NUM_CLASSES, cosine=True)
    with torch.no_grad():
        # Projections in all directions, where those of random weights are nearly one.
        files = sorted((tmp_path / "train").rglob("*.png"))
        pixels = [np.asarray(Image.open(file).resize((224, 224))) / 255 for file in files[::2]]
        mean, std = (torch.tensor(values).view(3, 1, 1) for values in IMAGENET_CHANNELS)
        pictures = (torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2).float() - mean) / std
        network.head[3].bias -= network.head(network.encoder(pictures)).mean(0)
    checkpoint = saved(tmp_path, network)
    checkpoint.rename(tmp_path / "resnet50.pth.tar")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def changes(path: Path) -> dict[tuple[float, float], float]:
    """The changes of accuracy in points by beta and gamma, of the written features."""
    space = load_space(FeatureStore.open(path), "projection", test="val", estimator="proco")
    grid = realization_grid(space, (0.0, 0.5, 1.5), (-1.0, 0.0, 1.0))
    found = {}
    for beta, gamma in product((0.0, 0.5, 1.5), (-1.0, 0.0, 1.0)):
        edited, native = grid.point("temperature", beta, gamma), grid.point("native", gamma=gamma)
        assert edited.accuracy is not None and native.accuracy is not None
        found[beta, gamma] = 100 * (edited.accuracy - native.accuracy)
    return found


@pytest.mark.slow
def test_lists_to_a_cell(stand_in: Path, capsys: Shown) -> None:
    *lines, last = ITEMS["cross-backbone"].entry.commands
    own = [line for line in lines if "resnet50" in line]
    assert len(own) == 2 and "imagenet-lt-resnet50=" in last
    places = {"LISTS": str(stand_in / "lists"), "IMAGES": str(stand_in)}
    for line in own:
        words = [places.get(word, word) for word in shlex.split(line)[1:]]
        assert main([*words, *["--device", "cpu"] * (words[0] == "extract")]) == 0
    capsys.readouterr()
    words = [w for w in shlex.split(last)[1:] if "resnext50" not in w]
    assert main(words) == 0
    page = capsys.readouterr().out
    expected = changes(stand_in / "imagenet-lt-resnet50.safetensors")
    assert any(expected.values())
    for (beta, gamma), value in expected.items():
        row = rf"β = {beta:g}, γ = {gamma:g} \| [^|]*/ ([^ |]+)".replace("-", "−")
        shown = re.search(row, page)
        assert shown is not None, page
        assert float(shown[1].replace("−", "-")) == pytest.approx(value, abs=6e-4), (beta, gamma)
