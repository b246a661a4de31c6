"""From a folder of pictures to a tuned network with a classifier, and to predictions."""

import contextlib
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from pyarrow import parquet
from torch import Tensor

import resultant
from cli.conftest import Shown, call
from images.photos import photo_bytes, write_parquet
from resultant import VMFClassifier
from resultant.classifiers.calibration import fit_scale
from resultant.features.store import FeatureStore
from resultant.images.opening import open_images, open_pictures
from resultant.images.vision import vision_module
from resultant.training import encoder, tune_steps
from resultant.training.checkpoints import TRAINED
from resultant.training.export import PictureModule
from resultant.training.heads import folds
from resultant.training.tune import with_validation
from resultant.training.tune_steps import Watch

# A class with a comma, and one that looks like a number.
SIZES = {"a": 40, "b": 26, "c, d": 18, "007": 12}
COMMAND = (
    "tune --data data --model test_resnet --no-pretrained --size 32 --epochs 3 --batch-size 16 "
    "--validation 0.2 --device cpu --workers 0"
)


def write_colours(
    root: Path, sizes: Mapping[str, int] = SIZES, seed: int = 0, width: int = 20
) -> Path:
    """Write pictures of noise around a colour of the class, as ``root/CLASS/i.png``."""
    rng = np.random.default_rng(seed)
    for c, (name, number) in enumerate(sizes.items()):
        (root / name).mkdir(parents=True)
        colour = np.random.default_rng(c).integers(90, 166, 3)
        for i in range(number):
            pixels = (colour + 60 * rng.normal(size=(20, width, 3))).clip(0, 255)
            Image.fromarray(pixels.astype(np.uint8)).save(root / name / f"{i}.png")
    return root


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pictures, and the result of tuning in ``out``."""
    folder = tmp_path_factory.mktemp("tune")
    with contextlib.chdir(folder):
        write_colours(Path("data"))
        torch.manual_seed(0)
        assert call(f"{COMMAND} --out out") == 0
    return folder


@pytest.fixture
def there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def balanced(right: np.ndarray, y: np.ndarray) -> float:
    """The mean of the accuracies of the classes, naively."""
    return float(np.mean([right[y == c].mean() for c in np.unique(y)]))


@pytest.mark.slow
@pytest.mark.usefixtures("there")
@pytest.mark.parametrize("key", ["frozen", "own", "head", "refined"])
def test_what_is_reported_is_what_predict_does(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever is chosen: validated and tested numbers, from the files of the folder alone."""
    monkeypatch.setattr(
        tune_steps, "best_head", lambda heads, w: next(h for h in heads if h.key == key)
    )
    shutil.copytree("out", tmp_path / "out")
    result = run(tmp_path / "out")
    report = json.loads((tmp_path / "out" / "tune.json").read_text())
    assert report == result.report and report["chosen"] == key
    (method,) = (m for m in report["methods"] if m["key"] == key)
    splits = with_validation(open_images("data"), 0.2, 0)
    command = f"predict {tmp_path / 'out'} data --out {tmp_path / 'p.parquet'} --device cpu"
    assert call(command) == 0
    table = parquet.read_table(tmp_path / "p.parquet").to_pandas().set_index("file")
    numbers = {"test": method["test"]["balanced accuracy"]["value"]}
    if key == "own":
        # Classifiers of features have been fitted to the validation images since.
        numbers["val"] = method["validation"]
    for name, got in numbers.items():
        source = splits.held_out_splits[name]
        files = [source.name(i) for i in range(len(source))]
        truth = np.array([Path(file).parent.name for file in files])
        right = table["predicted"][files].to_numpy() == truth
        assert got == pytest.approx(balanced(right, truth), abs=1e-12), name
        assert table["trained_on"][files].all() == (name == "val")
    assert len(table) == sum(SIZES.values())
    assert set(table["predicted"]) <= set(SIZES)
    y = np.array([Path(f).parent.name for f in table.index])
    right = (table["predicted"] == y).to_numpy()
    tested = ~table["trained_on"].to_numpy()
    assert right[tested].mean() == pytest.approx(method["test"]["accuracy"]["value"])


@pytest.mark.slow
@pytest.mark.usefixtures("there")
def test_probabilities_of_the_own_classifier_are_calibrated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a factor of the logits, fitted to validation images; predict and export use it."""
    monkeypatch.setattr(tune_steps, "best_head", lambda heads, w: heads[1])
    shutil.copytree("out", tmp_path / "out")
    model = run(tmp_path / "out").model
    assert model.network is not None and model.scale != 1.0
    network: Any = model.network.network
    store = FeatureStore.open(tmp_path / "out" / "tuned.safetensors")
    x, y = store["val/encoder"].float(), store["val/labels"]
    with torch.no_grad():
        logits = network.classifier(x).double()
    assert model.scale == pytest.approx(fit_scale(logits, y, torch.ones(len(y)).double()), rel=1e-4)
    p = (model.scale * logits).softmax(-1)
    val = with_validation(open_images("data"), 0.2, 0).val
    assert val is not None
    table = model.predict(val).to_pandas()
    np.testing.assert_allclose(table["probability"], p.max(1).values, rtol=1e-3)
    views = torch.stack([model.network.view(val.read(i)) for i in range(len(val))]) / 255
    with torch.no_grad():
        np.testing.assert_allclose(PictureModule(model)(views), p, rtol=1e-2, atol=1e-4)


@pytest.mark.slow
@pytest.mark.usefixtures("there")
@pytest.mark.parametrize("key", ["head", "refined"])
def test_validation_images_are_fitted_after_the_choice(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fit to both by hand; fits without a fifth of the validation rows validate and calibrate."""
    monkeypatch.setattr(
        tune_steps, "best_head", lambda heads, w: next(h for h in heads if h.key == key)
    )
    shutil.copytree("out", tmp_path / "out")
    result = run(tmp_path / "out")
    (method,) = (m for m in result.report["methods"] if m["key"] == key)
    model, store = result.model, FeatureStore.open(tmp_path / "out" / "tuned.safetensors")
    classifier, names = model.classifier, np.array(store.metadata["class_names"])
    x, y = store["val/encoder"].float(), names[store["val/labels"]]
    rows, own = store["train/encoder"].float().numpy(), names[store["train/labels"]]

    def fitted(used: np.ndarray) -> Any:
        kept = {**classifier.get_params(), "device": None}
        if key == "refined":
            kept |= {"refine": 0.3, "whiten": "within", "shrinkage": 0.85}
        return VMFClassifier(**kept).fit(np.r_[rows, x.numpy()[used]], np.r_[own, y[used]])

    parts = folds(y)
    assert sorted(np.concatenate(parts)) == list(range(len(y))) and len(parts) == 5
    pairs = [(part, fitted(~np.isin(np.arange(len(y)), part))) for part in parts]
    right = np.empty(len(y))
    for part, other in pairs:
        right[part] = other.predict(x.numpy()[part]) == y[part]
    assert method["validation"] == pytest.approx(balanced(right, y), abs=1e-12)
    by_hand = fitted(np.ones(len(y), dtype=bool)).calibrate(x.numpy(), y, without=pairs)
    expected = by_hand.predict_proba(x.numpy())
    np.testing.assert_allclose(classifier.predict_proba(x.numpy()), expected, rtol=1e-4)
    assert classifier.conformal_.held_out and len(classifier.conformal_.scores) == len(y)
    table = model.predict("data", error=0.4).to_pandas()
    sets = classifier.predict_set(x.numpy(), error=0.4)
    assert len(table["set"]) == sum(SIZES.values())
    for c in classifier.classes_:
        # In the rows that rank, at most the share and one misses the class.
        missed = ~sets[y == c, classifier.classes_.tolist().index(c)]
        assert missed.sum() <= 0.4 * (len(missed) + 1)


def run(
    out: Path,
    watch: Watch | None = None,
    data: str = "data",
    model: str = "test_resnet",
    **settings: Any,
) -> Any:
    torch.manual_seed(0)
    own: dict[str, Any] = {"epochs": 3, "batch_size": 16, "size": 32, "pretrained": False}
    given = {"validation": 0.2, "workers": 0, "watch": watch, "out": out}
    return resultant.tune(data, model, **given, **{**own, **settings})


def tensors_of(path: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    return load_file(path)


def require_equal(one: Path, other: Path) -> None:
    """The same tensors, bit for bit."""
    a, b = tensors_of(one), tensors_of(other)
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a), one.name


@pytest.mark.slow
@pytest.mark.usefixtures("there")
def test_a_killed_command_resumes_to_the_same_bits(tmp_path: Path) -> None:
    class KilledError(Exception):
        pass

    def kill(progress: Any) -> None:
        if progress.before + progress.epoch == 2:
            raise KilledError

    with pytest.raises(KilledError):
        run(tmp_path, Watch(epoch=kill))
    assert not (tmp_path / "network.safetensors").exists()
    epochs: list[int] = []
    result = run(tmp_path, Watch(epoch=lambda p: epochs.append(p.before + p.epoch)))
    # The resumed epochs, first the number of those that were there.
    assert epochs == [2, 3]
    for name in ("network", "tuned", "training/best", "training/angular-beta0-seed0"):
        file = f"{name}.safetensors"
        require_equal(tmp_path / file, Path("out", file))
    report = json.loads(Path("out/tune.json").read_text())
    assert result.report["methods"] == report["methods"]
    # Again: nothing is trained or extracted.
    before = (tmp_path / "tuned.safetensors").stat().st_mtime_ns
    assert run(tmp_path, Watch(epoch=lambda p: epochs.append(p.epoch))).report["epochs"]
    assert epochs == [2, 3, 0] and (tmp_path / "tuned.safetensors").stat().st_mtime_ns == before
    with pytest.raises(ValueError, match=r"expected the checkpoint of this job .* learning_rate"):
        run(tmp_path, learning_rate=1e-3)


@pytest.mark.slow
def test_test_images_have_no_part_in_the_network(tmp_path: Path, folder: Path) -> None:
    """Other pictures in the test folder change no bit of the networks and of the classifiers, and
    copies of training pictures are left out of it."""
    splits = with_validation(open_images(folder / "data"), 0.2, 0)
    roots = []
    for k in range(2):
        root = tmp_path / str(k)
        for name, source in {"train": splits.train, **splits.held_out_splits}.items():
            for i in range(len(source)):
                own = Path(source.name(i))
                file = root / name / own.parent.name / own.name
                file.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(own, file)
        roots.append(root)
    shutil.rmtree(roots[1] / "test")
    write_colours(roots[1] / "test", dict.fromkeys(SIZES, 3), seed=9)
    shutil.copy(splits.train.name(0), roots[1] / "test" / "b" / "copy.png")
    shutil.copy(splits.train.name(1), roots[1] / "val" / "b" / "copy.png")
    results = [run(tmp_path / f"out{k}", data=str(root)) for k, root in enumerate(roots)]
    assert results[0].report["left_out"] == []
    skipped = results[1].report["left_out"]
    assert [Path(text.split(" of ")[0]).name for text in skipped] == ["copy.png", "copy.png"]
    assert results[1].report["images"]["test"] == 12
    for file in ("training/best", "network", "classifier"):
        one, other = (tmp_path / f"out{k}" / f"{file}.safetensors" for k in range(2))
        assert one.exists() == other.exists()
        if one.exists():
            require_equal(one, other)
    # The network names what it knows: training and validation images, no test image.
    known = tensors_of(tmp_path / "out0" / "network.safetensors")[TRAINED].numpy()
    assert splits.test is not None and splits.val is not None
    assert not np.isin(splits.test.contents, known).any()
    assert np.isin(splits.train.contents, known).all() and np.isin(splits.val.contents, known).all()


@pytest.mark.slow
@pytest.mark.usefixtures("there")
def test_the_page_and_later_commands(capsys: Shown, tmp_path: Path) -> None:
    text = Path("out/tune.md").read_text()
    report = json.loads(Path("out/tune.json").read_text())
    for method in report["methods"]:
        assert f"{100 * method['test']['accuracy']['value']:.1f}" in text and method["name"] in text
    assert report["images"] == {"train": 56, "val": 13, "test": 27} or sum(
        report["images"].values()
    ) == sum(SIZES.values())
    assert call(f"extract out --data data --device cpu --out {tmp_path / 'x.safetensors'}") == 0
    store = FeatureStore.open(tmp_path / "x.safetensors")
    # Neither training nor validation images are judged on.
    assert store.metadata["trained_on"]["test"] == 0
    capsys.readouterr()
    model = resultant.load_model("out")
    assert model.labels == sorted(SIZES)
    table = model.predict(open_pictures("data").select([0]))
    assert len(table) == 1


@pytest.mark.slow
def test_a_folder_of_a_network_is_not_needed_later(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tuned from a folder of timm, from Parquet with classes by name; used after both are gone."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    timm: Any = vision_module("timm")
    hub: Any = vision_module("timm.models._hub")
    hub.save_for_hf(timm.create_model("test_resnet", num_classes=7), "saved", model_args={})
    images, labels = [], []
    for name in SIZES:
        for path in sorted((folder / "data" / name).iterdir()):
            images.append(path.read_bytes())
            labels.append(name)
    images.append(photo_bytes(5))
    labels.append("single")
    write_parquet(Path("table/train.parquet"), labels, images=images)
    settings: dict[str, Any] = {"epochs": 1, "batch_size": 16, "size": 32, "references": "none"}
    result = resultant.tune("table", "local-dir:saved", out="out", **settings)
    report = result.report
    assert report["unknown"] == ["single"] and "do not know: single." in result.text
    # Head and tail by all images that train or validate.
    train = open_images("table").train
    sizes = np.bincount(train.labels)
    assert report["counts"] == [sizes.min(), sizes.max()]
    assert report["images"]["train"] + report["images"]["val"] == len(train)
    shutil.rmtree("saved")
    encoder.configuration_of.cache_clear()
    table = resultant.predict("out", "table").to_pandas()
    assert len(table) == len(labels) and table["row"].tolist() == list(range(len(labels)))
    assert set(table["predicted"]) <= {*SIZES, "single"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--model test_resnet", "expected --data FOLDER, or --train-list"),
        ("--data data --model nothing --no-pretrained", "an architecture of timm, such as"),
        ("--data data --model test_resnet --epochs 2 --warmup 2", "warmup in \\[0, 2\\)"),
        ("--data data --model test_resnet --crop 1.5", "crop in \\(0, 1\\], got 1.5"),
        (
            "--data data --model test_resnet --batch-size 4 --accumulate 5",
            "accumulate of 4 or less",
        ),
        ("--data data --model test_resnet --validation 1", "expected validation in \\(0, 1\\)"),
        (
            "--data data --model test_resnet --no-pretrained --size 32 --stages 9 --epochs 1",
            "expected stages of 5 or less",
        ),
    ],
)
def test_refusals(options: str, message: str, tmp_path: Path, folder: Path, capsys: Shown) -> None:
    with contextlib.chdir(folder):
        assert call(f"tune {options} --device cpu --workers 0 --out {tmp_path}") == 2
    (line,) = capsys.readouterr().err.strip().splitlines()[-1:]
    assert re.search(message, line), line


@pytest.mark.gpu
@pytest.mark.usefixtures("there")
def test_gpu(tmp_path: Path) -> None:
    """In bfloat16, with views by the kernel; the CPU predicts alike, and a rerun trains nothing."""
    result = run(tmp_path, device="cuda")
    methods = result.report["methods"]
    assert result.report["config"]["precision"] == "bfloat16" and result.report["gpu_bytes"] > 0
    table = result.model.predict("data").to_pandas()
    tested = table[~table["trained_on"]]
    truth = [Path(file).parent.name for file in tested["file"]]
    (chosen,) = (m for m in methods if m["key"] == result.report["chosen"])
    share = (tested["predicted"] == truth).mean()
    assert share == pytest.approx(chosen["test"]["accuracy"]["value"], abs=0.1)
    epochs: list[int] = []
    assert run(tmp_path, Watch(epoch=lambda p: epochs.append(p.epoch)), device="cuda").report
    assert epochs == [0]
