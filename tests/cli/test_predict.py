"""From pictures without labels to features and predictions, with the files they came from."""

import contextlib
import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from pyarrow import parquet

import resultant
from cli.conftest import Shown, call
from images.photos import photo_bytes, write_folder, write_parquet
from resultant import VMFClassifier
from resultant.features.store import FeatureStore
from resultant.images.opening import open_pictures
from resultant.images.photo_views import normalize
from resultant.images.vision import vision_module
from resultant.training.checkpoints import load_network

EXTRACT = "extract --device cpu --workers 0 --model test_resnet --size 32 --out x.safetensors"


@pytest.fixture
def album() -> Path:
    """Six pictures in a folder of any form."""
    root = write_folder(Path("album"), {"2025": 3, "2026/may": 2})
    (root / "cover.jpg").write_bytes(photo_bytes(9, "JPEG"))
    return root


def files_of(store: FeatureStore) -> list[str]:
    origin = store.origins["train"]
    return origin.columns["image"][torch.arange(len(origin))]


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
    # A hub that does not answer is not asked again, for which it would wait.
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("waits"))
    for name, remedy in (("hf_hub:timm/none", "local-dir:FOLDER"), ("resnet18", "--weights")):
        capsys.readouterr()
        assert call(f"{words.replace('local-dir:saved', name)} --out z.safetensors") == 2
        error = capsys.readouterr().err
        assert error.startswith("resultant: expected the ") and remedy in error
        assert "no answer of http://127.0.0.1:9" in error and error.count("\n") == 1


def write_colours(*names: str) -> None:
    """Write pictures ``data/NAME/i.png``, fourteen of each name, of one colour and noise."""
    rng = np.random.default_rng(0)
    for c, name in enumerate(names):
        Path(f"data/{name}").mkdir(parents=True)
        for i in range(14):
            pixels = rng.integers(0, 60, (40, 40, 3), dtype=np.uint8)
            pixels[..., c] += 180
            Image.fromarray(pixels).save(f"data/{name}/{i}.png")


def test_a_classifier_knows_its_network(brief: None, capsys: Shown) -> None:
    """Pictures by another network, at another size or with other weights are refused."""
    write_colours("0", "1", "2")
    torch.manual_seed(0)
    assert call(f"{EXTRACT} --data data") == 0
    assert call("analyze x.safetensors --references none --out page") == 0
    for seed, options, got in (
        (0, "--model test_resnet --size 32", ""),
        (1, "--model test_resnet --size 32", "test_resnet of 32 pixels with other weights"),
        (0, "--model test_resnet --size 64", "test_resnet of 64 pixels"),
        (0, "--model test_vit --size 32", "test_vit of 32 pixels"),
    ):
        torch.manual_seed(seed)
        capsys.readouterr()
        status = call(f"predict page data --out p.parquet {options} {PREDICT}")
        rule = f"features, test_resnet of 32 pixels, got {got}; give --model"
        assert status == (2 if got else 0) and (not got or rule in capsys.readouterr().err)


IMAGES = (
    "train images --architecture test_resnet --size 32 --dim 8 --epochs 1 --batch-size 8 "
    "--device cpu --workers 0 --out out --data data"
)
PREDICT = "--device cpu --workers 0"


def table_of(path: str) -> Any:
    return parquet.read_table(path).to_pandas()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pictures, a network trained on most of them, and a report of its features."""
    folder = tmp_path_factory.mktemp("trained")
    with contextlib.chdir(folder):
        write_colours("a", "b", "c, d")
        assert call(IMAGES) == 0
        words = "--data data --device cpu --workers 0 --out x.safetensors"
        assert call(f"extract out {words}") == 0
        assert call("analyze x.safetensors --features encoder --references none --out page") == 0
    return folder


@pytest.fixture
def there(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)


@pytest.mark.slow
@pytest.mark.usefixtures("there")
def test_pictures_by_a_network(capsys: Shown, tmp_path: Path) -> None:
    """In a folder, a list and Parquet; pictures of the training are marked under any name."""
    loaded = load_network("out/native-seed0/native-seed0.safetensors")
    source, out = open_pictures("data"), tmp_path / "p.parquet"
    view = loaded.view
    x = torch.stack([view(source.read(i)) for i in range(len(source))])
    with torch.no_grad():
        p = loaded.network(normalize(x, *loaded.config.channels)).logits.softmax(-1)
    capsys.readouterr()
    assert call(f"predict out data --out {out} --top 2 {PREDICT}") == 0
    shown, table = capsys.readouterr().out, table_of(str(out))
    assert table["file"].tolist() == [source.name(i) for i in range(42)]
    names = np.array(["a", "b", "c, d"])
    assert table["predicted"].tolist() == names[p.argmax(1)].tolist()
    assert table["predicted_2"].tolist() == names[p.argsort(descending=True)[:, 1]].tolist()
    np.testing.assert_allclose(table["probability"], p.max(1).values, rtol=1e-4)
    assert "predicted_3" not in table
    contents: Any = source.contents
    trained: Any = loaded.trained
    seen = np.isin(contents, trained)
    assert table["trained_on"].tolist() == seen.tolist() and 20 < seen.sum() < 42
    assert f"{seen.sum()} rows that the network was trained on" in shown
    # A list of a copy of one trained picture and of a new one, as CSV.
    (tmp_path / "copy.png").write_bytes(Path(source.name(int(seen.argmax()))).read_bytes())
    (tmp_path / "new.png").write_bytes(photo_bytes(4000))
    (tmp_path / "list.csv").write_text("path,note\ncopy.png,x\nnew.png,y\n")
    (tmp_path / "list.txt").write_text("copy.png\nnew.png\n")
    assert call(f"predict out {tmp_path / 'list.txt'} --out {tmp_path / 'p.csv'} {PREDICT}") == 0
    lines = list(csv.DictReader((tmp_path / "p.csv").open()))
    assert [line["trained_on"] for line in lines] == ["True", "False"]
    assert lines[0]["predicted"] == table["predicted"][int(seen.argmax())]
    images = [photo_bytes(i) for i in range(3)]
    path = write_parquet(tmp_path / "new" / "x.parquet", [0, 0, 0], images=images)
    assert call(f"predict out {path.parent} --out {out} {PREDICT}") == 0
    assert table_of(str(out))["row"].tolist() == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.usefixtures("there")
def test_a_classifier_of_analyze(tmp_path: Path) -> None:
    """On features and on pictures through their network: as analyze predicts its test rows."""
    from_page = table_of("page/predictions.parquet")
    out, model = tmp_path / "p.parquet", "page/classifier.safetensors"
    assert call(f"predict {model} x.safetensors --out {out} {PREDICT}") == 0
    by_features = table_of(str(out))
    assert call(f"predict page x.safetensors --out {out} {PREDICT}") == 0
    assert table_of(str(out)).equals(by_features)
    assert len(by_features) == 42 and set(by_features["split"]) == {"train", "test"}
    names = sorted({Path(file).parent.name for file in by_features["image"]})
    assert sorted(set(by_features["label"])) == names == ["a", "b", "c, d"]
    assert set(by_features["predicted"]) <= set(names)
    network = "--network out"
    assert call(f"predict {model} data --out {out} {network} {PREDICT}") == 0
    by_pictures = table_of(str(out)).set_index("file")["probability"]
    by_features = by_features.set_index("image")["probability"]
    np.testing.assert_allclose(by_pictures[by_features.index], by_features, atol=0.02)
    test = from_page.set_index("image")["probability"]
    assert len(test) > 5
    np.testing.assert_allclose(by_features[test.index], test, atol=1e-5)


def _rows() -> tuple[Any, Any]:
    store = FeatureStore.open("x.safetensors")
    names = np.array(store.metadata["class_names"])
    return store["train/encoder"].float().numpy(), names[store["train/labels"].numpy()]


class Sets(VMFClassifier):
    """A classifier whose sets hold the classes of a probability above a threshold."""

    def predict_set(self, X: Any, error: float = 0.1) -> Any:  # type: ignore[override]
        return self.predict_proba(X) > 1 - error


@pytest.mark.slow
@pytest.mark.usefixtures("there")
def test_from_python() -> None:
    x, y = _rows()
    classifier = Sets().fit(x, y)
    p = classifier.predict_proba(x)
    table = resultant.predict(classifier, x, error=0.4, top=9).to_pandas()
    assert table["predicted"].tolist() == classifier.predict(x).tolist()
    assert table["none_of_these"].tolist() == (~(p > 0.6).any(1)).tolist()
    kept = [classifier.classes_[row].tolist() for row in p > 0.6]
    assert [list(row) for row in table["set"]] == kept
    model = resultant.load_model("out")
    table = model.predict("data/a/0.png")
    assert table["file"].to_pylist() == ["data/a/0.png"] and len(table) == 1
    network = "out/native-seed0/native-seed0.safetensors"
    both = resultant.predict(classifier, open_pictures("data"), network=network)
    assert len(both) == 42
    for wrong, message in (
        (lambda: resultant.predict(classifier, "data"), "a classifier alone; --network FILE or"),
        (lambda: resultant.predict("out", "x.safetensors"), "got features and a network"),
        (lambda: resultant.predict("out", "data", error=0.1), "one without predict_set"),
        (lambda: resultant.predict("out", "data", top=0), "expected top >= 1, got 0"),
        (lambda: resultant.predict(classifier, "nowhere"), "expected nowhere to exist"),
        (
            lambda: resultant.predict(classifier, "x.safetensors", features="projection"),
            "features of 96 numbers in test of x.safetensors, got projection of 8",
        ),
        (
            lambda: resultant.predict(VMFClassifier().fit(x[:, :5], y), "data", network=network),
            "with the 5 numbers of the classifier, got encoder of 96, projection of 8",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            wrong()
