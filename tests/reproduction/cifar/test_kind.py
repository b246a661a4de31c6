"""Networks of CIFAR loaded from their files, and stores of their features."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from plain_resnet import PlainResNet32
from proco_alike import C, converted, full_size
from resultant._core import tensor_files
from resultant.features.store import FeatureStore
from resultant.images.evaluation import EvaluationView
from resultant.images.longtail import long_tail_indices
from resultant.images.photo_views import normalize
from resultant.training.checkpoints import load_network
from resultant.training.evaluation import accuracies
from resultant.training.extract import extract, open_network_images
from resultant.training.network_files import CHECKPOINT
from resultant_reproduction.cifar.views import MEAN, STD
from tiny_cifar import DATA, TWO, tiny_cifar


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_cifar_features(whole: Path, tmp_path: Path, dtype: Any) -> None:
    out = tmp_path / "x.safetensors"
    loaded = load_network(whole / f"{TWO[1].name}.safetensors")
    assert loaded.view == EvaluationView(32, 1.0)
    # The images of this test are small.
    loaded = replace(loaded, view=EvaluationView(8, 1.0))
    members = long_tail_indices(DATA.train_labels, 4, 3.0)
    extract(loaded, DATA.splits(members, {"imbalance": 3.0}), out, dtype=dtype, workers=0)
    store = FeatureStore.open(out)
    assert torch.equal(store["train/identities"], members)
    assert torch.equal(store["train/labels"], DATA.train_labels[members])
    assert torch.equal(store["test/identities"], torch.arange(20))
    assert torch.equal(store["test/labels"], DATA.test_labels)
    bits, close = (torch.float16, 1e-3) if dtype == "float16" else (torch.float32, 1e-5)
    plain = PlainResNet32(8, 4).eval()
    tensors, _ = tensor_files.load(whole / f"{TWO[1].name}.safetensors")
    for name, a in plain.named().items():
        a.copy_(tensors[name])
    for split, images in (("train", DATA.train_images[members]), ("test", DATA.test_images)):
        encoder, projection = store[f"{split}/encoder"], store[f"{split}/projection"]
        assert encoder.dtype == projection.dtype == bits
        with torch.no_grad():
            x, z, logits = plain(normalize(images.float(), MEAN, STD))
        torch.testing.assert_close(encoder.float(), x, rtol=close, atol=close)
        torch.testing.assert_close(projection.float(), z, rtol=close, atol=close)
    about = store.metadata
    assert about["run"] == asdict(TWO[1]) and about["config"]["dim"] == 8
    assert (about["dataset"], about["imbalance"], about["dtype"]) == ("cifar10", 3.0, dtype)
    assert store.num_classes == 4
    counts = torch.bincount(DATA.train_labels[members])
    expected = accuracies(logits.argmax(-1), DATA.test_labels, counts)
    assert about["classifier"] == pytest.approx(expected) and len(expected) > 1


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
    ("name", "cosine"), [("resnet32", False), ("resnet32", True), ("resnext50_32x4d", True)]
)
def test_a_network_of_the_authors(tmp_path: Path, name: str, cosine: bool) -> None:
    """Loaded as ours, the network equals a plain network of the authors' layout."""
    torch.manual_seed(3)
    small, x = name == "resnet32", torch.randn(2, 3, 64, 64)
    if small:
        plain = PlainResNet32(16, 100, cosine=cosine)
        x = normalize(tiny_cifar().train_images.float(), MEAN, STD)
        plain(x)
        plain.eval()
    else:
        plain = full_size(name, 365, cosine=cosine)
    loaded = load_network(converted(tmp_path, plain))
    settings = loaded.config
    facts = ("cifar100", 16, 100) if small else ("places-lt", 8, 365)
    assert (settings.dataset, settings.dim, loaded.num_classes) == facts
    assert (settings.architecture, settings.objective, loaded.run) == (name, "joint", None)
    with torch.no_grad():
        expected, result = plain(x), loaded.network(x)
    rtol, atol = (1e-4, 1e-5) if small else (1e-3, 1e-4)
    for a, b in zip(result, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=rtol, atol=atol)


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
        open_network_images(load_network(tmp_path / "proco.safetensors"), tmp_path)
