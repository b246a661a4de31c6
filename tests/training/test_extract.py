"""Networks loaded from their files, and stores of their features."""

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from listed import SIZES, SMALL, open_listed, scaled, write_images
from plain_resnet import PlainResNet32
from proco_alike import C, converted, full_size
from resultant._core import tensor_files
from resultant.features.store import FeatureStore
from resultant.images.longtail import long_tail_indices
from resultant.images.photo_views import normalize
from resultant.images.source import ImageSplits
from resultant.networks.stacked_resnet import StackedResNet32, patches
from resultant.training.checkpoints import load_network
from resultant.training.cifar import train_cifar
from resultant.training.config import Run, preset
from resultant.training.extract import extract, keep_split, timm_network
from resultant.training.image_sets import train_images
from resultant.training.inference import network_outputs, outputs
from resultant.training.job import Job
from resultant.training.network_files import CHECKPOINT
from resultant.training.probe import accuracies
from tiny_cifar import DATA, TWO, config, tiny_cifar


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_cifar_features(
    whole: Path, tmp_path: Path, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In several chunks.
    monkeypatch.setattr("resultant.training.inference.CHUNK_IMAGES", 9)
    out, seen = tmp_path / "x.safetensors", []
    loaded = load_network(whole / f"{TWO[1].name}.safetensors")
    extract(loaded, DATA, out, dtype=dtype, progress=lambda *numbers: seen.append(numbers))
    store = FeatureStore.open(out)
    members = long_tail_indices(DATA.train_labels, 4, 3.0)
    assert torch.equal(store["train/identities"], members)
    assert torch.equal(store["train/labels"], DATA.train_labels[members])
    assert torch.equal(store["test/identities"], torch.arange(20))
    assert torch.equal(store["test/labels"], DATA.test_labels)
    assert seen == [(9, 34), (14, 34), (23, 34), (32, 34), (34, 34)]
    bits, close = (torch.float16, 1e-3) if dtype == "float16" else (torch.float32, 1e-5)
    assert isinstance(loaded.network, StackedResNet32)
    for split, images in (("train", DATA.train_images[members]), ("test", DATA.test_images)):
        encoder, projection = store[f"{split}/encoder"], store[f"{split}/projection"]
        assert encoder.dtype == projection.dtype == bits
        with torch.no_grad():
            expected = loaded.network(patches(normalize(images.float())[None])).encoder[0]
        torch.testing.assert_close(encoder.float(), expected, rtol=close, atol=close)
        assert projection.shape == (len(images), 8)
        length = projection.float().norm(dim=1)
        torch.testing.assert_close(length, torch.ones_like(length), rtol=0, atol=close)
    about = store.metadata
    assert about["run"] == asdict(TWO[1]) and about["config"]["dim"] == 8
    assert (about["dataset"], about["imbalance"], about["dtype"]) == ("cifar10", 3.0, dtype)
    assert store.num_classes == 4
    logits = outputs(loaded.network, DATA.test_images, torch.float32).logits
    assert logits is not None
    counts = torch.bincount(DATA.train_labels[members])
    expected = accuracies(logits[0].argmax(-1), DATA.test_labels, counts)
    assert about["classifier"] == pytest.approx(expected) and len(expected) > 1


def test_features_of_images(tmp_path: Path) -> None:
    """Those of torchvision's resize and centre crop, of all splits, with the class names."""
    from torchvision.transforms.v2 import CenterCrop, Compose, PILToTensor, Resize

    write_images(tmp_path)
    listed, out = open_listed(tmp_path), tmp_path / "x.safetensors"
    job = Job(preset("images", **SMALL), (Run(seed=2),), tmp_path)
    (stack,) = train_images(job, listed, workers=0).stacks
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
            expected = stack.network.eval()(scaled(views, loaded.config))
        for name in ("encoder", "projection"):
            values, result = getattr(expected, name)[0], store[f"{split}/{name}"]
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
    for wrong in (partial(extract, balanced=True), partial(extract, imbalance=2.0)):
        with pytest.raises(ValueError, match="only for CIFAR, got images"):
            wrong(loaded, images, out)
    with pytest.raises(ValueError, match="expected images of images, got those of cifar10"):
        extract(loaded, DATA, out)
    (tmp_path / "names.txt").write_text("0\n1\ntwo\n3\n")
    images = open_listed(tmp_path, class_names=tmp_path / "names.txt")
    with pytest.raises(ValueError, match="expected the class '2' of the network, got 'two' as cl"):
        extract(loaded, images, out)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["test_vit", "test_efficientnet"])
def test_features_of_any_timm_network(name: str, tmp_path: Path) -> None:
    """With the preprocessing of timm's own transform, and the weights of a file."""
    import timm
    from timm.data import create_transform, resolve_data_config

    write_images(tmp_path)
    images, out = open_listed(tmp_path), tmp_path / "x.safetensors"
    torch.manual_seed(0)
    encoder: Any = timm.create_model(name, num_classes=5)
    torch.save(encoder.state_dict(), tmp_path / "weights.pth")
    network = timm_network(
        preset("images", architecture=name), weights=str(tmp_path / "weights.pth")
    )
    extract(network, images, out, dtype="float32", workers=0)
    transform: Any = create_transform(**resolve_data_config(model=encoder), is_training=False)
    encoder.reset_classifier(0)
    assert images.test is not None
    x = torch.stack([transform(images.test.read(i)) for i in range(len(images.test))])
    store = FeatureStore.open(out)
    with torch.no_grad():
        torch.testing.assert_close(store["test/encoder"], encoder.eval()(x), rtol=1e-4, atol=1e-5)
    assert "test/projection" not in store and store.metadata["class_names"] == ["0", "1", "2", "3"]


@pytest.mark.slow
def test_features_beyond_float16(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are refused at their chunk, and nothing is written."""
    monkeypatch.setattr("resultant.training.inference.CHUNK_IMAGES", 9)
    loaded = load_network(finished / f"{TWO[0].name}.safetensors")

    def scaled(factor: float, *arguments: Any) -> Any:
        for chunk, result in enumerate(network_outputs(*arguments)):
            if chunk == 1:
                result.encoder[0, 2] *= factor
            yield result

    for factor, message in (
        (1e9, r"expected train/encoder as torch\.float16 finite, got inf in row 11"),
        (0.0, r"expected train/encoder as torch\.float16 without zero vectors, got one in row 11"),
    ):
        monkeypatch.setattr("resultant.training.extract.network_outputs", partial(scaled, factor))
        with pytest.raises(ValueError, match=message):
            extract(loaded, DATA, tmp_path / "x.safetensors")
        assert not list(tmp_path.iterdir())


def test_refused(finished: Path, tmp_path: Path) -> None:
    loaded, path = load_network(finished / f"{TWO[0].name}.safetensors"), tmp_path / "x.safetensors"
    other, dtype = replace(DATA, dataset="cifar100"), cast(Any, "int8")
    job = Job(config(), TWO, tmp_path)
    for wrong, message in (
        (partial(extract, loaded, DATA, "x.npz"), r"ends in \.safetensors, got x.npz"),
        (partial(extract, loaded, DATA, path, dtype=dtype), "float16 or float32, got 'int8'"),
        (partial(extract, loaded, other, path), "images of cifar10, got those of cifar100"),
        (partial(train_cifar, job, other), "images of cifar10, got those of cifar100"),
    ):
        with pytest.raises(ValueError, match=message):
            wrong()
    with pytest.raises(FileNotFoundError, match=r"no file at .*nowhere"):
        load_network(tmp_path / "nowhere")


@pytest.mark.slow
def test_a_run_of_a_checkpoint(whole: Path, finished: Path) -> None:
    """A run is named after a colon, and equals the run's own file."""
    name = "native-seed1"
    run, same = (
        load_network(path)
        for path in (whole / f"{name}.safetensors", f"{whole / CHECKPOINT}:{name}")
    )
    assert (run.config, run.run, run.num_classes) == (same.config, same.run, same.num_classes)
    assert same.about["epoch"] == 4
    a, b = run.network.state_dict(), same.network.state_dict()
    assert a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)
    names = "angular-beta0.5-seed0, native-seed1"
    for path in (whole / CHECKPOINT, f"{whole / CHECKPOINT}:cosine-seed1"):
        with pytest.raises(ValueError, match=f"expected one of {names} behind {CHECKPOINT}"):
            load_network(path)
    with pytest.raises(ValueError, match="expected the checkpoint of a job before :x, got"):
        load_network(f"{finished / name}.safetensors:x")


@pytest.mark.usefixtures("all_blocks")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "cosine"),
    [("resnet32", False), ("resnet32", True), ("resnet50", False), ("resnext50_32x4d", True)],
)
def test_a_network_of_the_authors(tmp_path: Path, name: str, cosine: bool) -> None:
    """Loaded as ours, the network equals a plain network of the authors' layout."""
    torch.manual_seed(3)
    small, x = name == "resnet32", torch.randn(2, 3, 64, 64)
    if small:
        plain = PlainResNet32(16, 100, cosine=cosine)
        x = normalize(tiny_cifar().train_images.float())
        plain(x)
        plain.eval()
    else:
        plain = full_size(name, 365, cosine=cosine)
    loaded = load_network(converted(tmp_path, plain))
    settings = loaded.config
    facts = ("cifar100", 16, 100) if small else ("places-lt", 8, 365)
    assert (settings.dataset, settings.dim, loaded.num_classes) == facts
    assert (settings.architecture, settings.objective, loaded.run) == (name, "joint", None)
    assert small or loaded.imbalance is None
    with torch.no_grad():
        expected, result = plain(x), loaded.network(patches(x[None]) if small else x)
    rtol, atol = (1e-4, 1e-5) if small else (1e-3, 1e-4)
    for a, b in zip(result, expected, strict=True):
        torch.testing.assert_close(a[0], b, rtol=rtol, atol=atol)


@pytest.mark.usefixtures("all_blocks")
def test_files_of_other_facts_are_refused(tmp_path: Path) -> None:
    """Files of an earlier import, or of other programs."""
    tensors, about = tensor_files.load(converted(tmp_path, PlainResNet32(8, C)))
    path, proco = tmp_path / "a.safetensors", about["proco"]
    missing = {k: a for k, a in tensors.items() if k != "projector.0.weight"}
    short = tensors | {"projector.0.bias": tensors["projector.0.bias"][:3]}
    for weights, facts, message in (
        (tensors, {"config": None}, "or one that import-proco of this version wrote, got "),
        (tensors, {"config": about["config"] | {"depth": 3}}, "the facts of a run in .*'depth'"),
        (tensors, {"proco": {"arch": "resnet32"}}, "expected the facts of a run in "),
        (tensors, {"proco": proco | {"classifier": "cosine"}}, "the tensors of resnet32 in "),
        (tensors, {"class_names": ["a"]}, "expected 10 class names in "),
        (missing, {}, "the tensors of resnet32 .*projector.0.weight"),
        (short, {}, "the tensors of resnet32 .*projector.0.bias"),
    ):
        tensor_files.save(path, weights, about | facts)
        with pytest.raises(ValueError, match=message) as caught:
            load_network(path)
        assert str(path) in str(caught.value)
    with pytest.raises(ValueError, match="the imbalance of the training images of cifar10"):
        extract(load_network(tmp_path / "proco.safetensors"), tiny_cifar(C), path)
