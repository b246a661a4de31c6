"""From pictures without labels to features, with the files that they came from."""

from pathlib import Path
from typing import Any

import pytest
import torch

from cli.conftest import Shown, call
from images.photos import photo_bytes, write_folder, write_parquet
from resultant.features.store import FeatureStore
from resultant.images.opening import open_pictures
from resultant.images.vision import vision_module

EXTRACT = "extract --device cpu --workers 0 --model test_resnet --size 32 --out x.safetensors"


@pytest.fixture
def album() -> Path:
    """Six pictures in a folder of any form."""
    root = write_folder(Path("album"), {"2025": 3, "2026/may": 2})
    (root / "cover.jpg").write_bytes(photo_bytes(9, "JPEG"))
    return root


def files_of(store: FeatureStore) -> list[str]:
    origin = store.origins["train"]
    return origin.columns["file"][torch.arange(len(origin))]


@pytest.mark.parametrize("form", ["folder", "list", "file", "parquet"])
def test_features_of_pictures_without_labels(form: str, album: Path, capsys: Shown) -> None:
    names = [
        "2025/0.png",
        "2025/1.png",
        "2025/2.png",
        "2026/may/0.png",
        "2026/may/1.png",
        "cover.jpg",
    ]
    expected, data = [str(album / name) for name in names], album
    if form == "list":
        data = album / "list.txt"
        data.write_text("\n".join(names[::2]) + "\n")
        expected = expected[::2]
    elif form == "file":
        data, expected = album / "cover.jpg", expected[-1:]
    elif form == "parquet":
        data = write_parquet(album / "a.parquet", [0.5, 1.5])
        expected = [f"{data} row 0", f"{data} row 1"]
    torch.manual_seed(0)
    assert call(f"{EXTRACT} --data {data} --no-labels") == 0
    store = FeatureStore.open("x.safetensors")
    assert files_of(store) == expected and "train/labels" not in store
    assert store.shape("train/encoder") == (len(expected), 96)
    # Each row is that of its own picture.
    one = open_pictures(data).select([len(expected) - 1]).read(0)
    one.save("one.png")
    torch.manual_seed(0)
    assert call(f"{EXTRACT.replace('x.s', 'y.s')} --data one.png --no-labels") == 0
    (row,) = FeatureStore.open("y.safetensors")["train/encoder"].float()
    torch.testing.assert_close(row, store["train/encoder"][-1].float(), rtol=1e-2, atol=1e-3)
    capsys.readouterr()
    assert call("analyze x.safetensors") == 2
    assert "expected labels in x.safetensors" in capsys.readouterr().err
    assert call(f"{EXTRACT} --data {album / '2025'}") == 2
    assert "expected a folder of images per class" in capsys.readouterr().err


def test_files_of_rows_are_shown_by_analyze(photos: Path) -> None:
    assert call(f"{EXTRACT} --data {photos}") == 0
    store = FeatureStore.open("x.safetensors")
    assert files_of(store)[0] == str(photos / "train" / "Ara macao" / "0.png")
    assert store.metadata["labels"] == "words"
    assert len(set(store["train/identities"].tolist())) == 11


def test_networks_of_a_folder_and_of_the_hub(
    album: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With their own images, in bfloat16 too; without a network one line names the hub."""
    hub: Any = vision_module("timm.models._hub")
    timm = vision_module("timm")
    torch.manual_seed(0)
    model = timm.create_model("test_resnet", num_classes=7)
    hub.save_for_hf(model, "saved", model_args={})
    words = f"extract --model local-dir:saved --pretrained --data {album} --no-labels --device cpu"
    assert call(f"{words} --dtype float32 --out x.safetensors") == 0
    model.reset_classifier(0)
    view = timm.data.create_transform(
        **timm.data.resolve_data_config(model=model), is_training=False
    )
    x = view(open_pictures(album / "cover.jpg").read(0))[None]
    with torch.no_grad():
        z = model.eval()(x)[0]
    store = FeatureStore.open("x.safetensors")
    torch.testing.assert_close(store["train/encoder"][-1], z, rtol=1e-4, atol=1e-5)
    assert call(f"{words} --precision bf16 --out y.safetensors") == 0
    other = FeatureStore.open("y.safetensors")
    assert other.metadata["precision"] == "bf16" and store.metadata["precision"] == "float32"
    rough = other["train/encoder"][-1].float()
    assert not torch.equal(rough, z.half().float())
    assert torch.cosine_similarity(rough, z, dim=0) > 0.999
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    capsys.readouterr()
    assert call(f"{words.replace('local-dir:saved', 'hf_hub:timm/none')} --out z.safetensors") == 2
    assert "expected the network timm/none of hf_hub, got: " in capsys.readouterr().err
