"""Stores of features of networks on images."""

from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from listed import SIZES, SMALL, open_listed, scaled, write_images
from resultant.features.store import FeatureStore
from resultant.images.source import ImageSplits
from resultant.training.checkpoints import load_network
from resultant.training.config import Run, TrainConfig
from resultant.training.evaluation import network_outputs
from resultant.training.extract import extract, keep_split, timm_network
from resultant.training.image_sets import train_images
from resultant.training.job import Job


def test_features_of_images(tmp_path: Path) -> None:
    """Those of torchvision's resize and centre crop, of all splits, with the class names."""
    from torchvision.transforms.v2 import CenterCrop, Compose, PILToTensor, Resize

    write_images(tmp_path)
    listed, out = open_listed(tmp_path), tmp_path / "x.safetensors"
    job = Job(TrainConfig(**SMALL), (Run(seed=2),), tmp_path)
    trainer = train_images(job, listed, workers=0).trainee
    images = ImageSplits(listed.train, val=listed.train.select([0, 9, 3]), test=listed.test)
    loaded = load_network(tmp_path / "native-seed2.safetensors")
    assert loaded.class_names == images.class_names == ("0", "1", "2", "3")
    extract(loaded, images, out, dtype="float32", workers=0)
    store = FeatureStore.open(out)
    view = Compose([Resize(36), CenterCrop(32), PILToTensor()])
    for split in ("train", "val", "test"):
        source = getattr(images, split)
        views = torch.stack([view(source.read(i)) for i in range(len(source))])
        with torch.no_grad():
            expected = trainer.network.eval()(scaled(views, loaded.config))
        for name in ("encoder", "projection"):
            values, result = getattr(expected, name), store[f"{split}/{name}"]
            torch.testing.assert_close(result, values, rtol=1e-4, atol=1e-5)
        assert store[f"{split}/labels"].tolist() == source.labels.tolist()
    assert store.label_counts().tolist() == list(SIZES["train"])
    assert store.metadata["imbalance"] is None and store.metadata["held_out"] == "test"
    assert store.metadata["class_names"] == ["0", "1", "2", "3"]
    # The only held-out split keeps its name.
    extract(loaded, keep_split(images, "val"), out, workers=0)
    with pytest.raises(ValueError, match="expected images with the split test, got val"):
        keep_split(ImageSplits(images.train, val=images.val), "test")
    again = FeatureStore.open(out)
    assert again.metadata["held_out"] == "val" and again["val/labels"].tolist() == [0, 1, 0]
    assert "test/labels" not in again
    for wrong, message in (
        (partial(extract, loaded, images, "x.npz"), r"ends in \.safetensors, got x.npz"),
        (partial(extract, loaded, images, out, dtype=cast(Any, "int8")), "float32, got 'int8'"),
    ):
        with pytest.raises(ValueError, match=message):
            wrong()
    (tmp_path / "names.txt").write_text("0\n1\ntwo\n3\n")
    images = open_listed(tmp_path, class_names=tmp_path / "names.txt")
    with pytest.raises(ValueError, match="expected the class '2' of the network, got 'two' as cl"):
        extract(loaded, images, out)


def test_features_beyond_float16(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are refused at their chunk, and nothing is written."""
    write_images(tmp_path)
    images, out = open_listed(tmp_path), tmp_path / "x.safetensors"
    loaded = timm_network(TrainConfig(architecture="test_resnet"), size=32)
    monkeypatch.setattr("resultant.images.evaluation.BATCH_IMAGES", 9)

    def scaled(factor: float, *arguments: Any) -> Any:
        for chunk, result in enumerate(network_outputs(*arguments)):
            if chunk == 1:
                result.encoder[2] *= factor
            yield result

    for factor, message in (
        (1e9, r"expected train/encoder as torch\.float16 finite, got inf in row 11"),
        (0.0, r"expected train/encoder as torch\.float16 without zero vectors, got one in row 11"),
    ):
        monkeypatch.setattr("resultant.training.extract.network_outputs", partial(scaled, factor))
        with pytest.raises(ValueError, match=message):
            extract(loaded, images, out, workers=0)
        assert not out.exists()
    with pytest.raises(FileNotFoundError, match=r"no file at .*nowhere"):
        load_network(tmp_path / "nowhere")
