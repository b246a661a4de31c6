"""Networks of ProCo's authors, converted and loaded."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from plain_resnet import PlainResNet32
from proco_alike import C, converted, full_size
from resultant._core import tensor_files
from resultant._core.network_files import CHECKPOINT
from resultant.images.drawing import normalize
from resultant.networks.stacked_resnet import patches
from resultant.training.extract import extract
from resultant.training.loading import load_network
from tiny_cifar import tiny_cifar


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
    for a, b in ((run.banks, same.banks), (run.network.state_dict(), same.network.state_dict())):
        assert a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)
    names = "angular-beta0.5-seed0, native-seed1"
    for path in (whole / CHECKPOINT, f"{whole / CHECKPOINT}:cosine-seed1"):
        with pytest.raises(ValueError, match=f"expected one of {names} behind {CHECKPOINT}"):
            load_network(path)
    with pytest.raises(ValueError, match="expected the checkpoint of a job before :x, got"):
        load_network(f"{finished / name}.safetensors:x")


@pytest.mark.usefixtures("all_blocks")
@pytest.mark.slow
@pytest.mark.parametrize("cosine", [False, True])
def test_a_small_network_of_the_authors(tmp_path: Path, cosine: bool) -> None:
    """Loaded as ours, the network equals a plain ResNet-32 of the authors' layout."""
    torch.manual_seed(3)
    plain = PlainResNet32(16, 100, cosine=cosine)
    x = normalize(tiny_cifar().train_images.float())
    plain(x)
    plain.eval()
    loaded = load_network(converted(tmp_path, plain))
    assert (loaded.run, loaded.banks, loaded.num_classes) == (None, {}, 100)
    config = loaded.config
    assert (config.dataset, config.dim, config.objective) == ("cifar100", 16, "joint")
    with torch.no_grad():
        expected = plain(x)
        result = loaded.network(patches(x[None]))
    for a, b in zip(result, expected, strict=True):
        torch.testing.assert_close(a[0], b, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("all_blocks")
@pytest.mark.slow
@pytest.mark.parametrize(("name", "cosine"), [("resnet50", False), ("resnext50_32x4d", True)])
def test_a_large_network_of_the_authors(tmp_path: Path, name: str, cosine: bool) -> None:
    plain = full_size(name, 365, cosine=cosine)
    loaded = load_network(converted(tmp_path, plain))
    config = loaded.config
    assert (config.dataset, config.architecture, config.dim) == ("places-lt", name, 8)
    assert loaded.imbalance is None
    x = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        expected, result = plain(x), loaded.network(x)
    for a, b in zip(result, expected, strict=True):
        torch.testing.assert_close(a[0], b, rtol=1e-3, atol=1e-4)


@pytest.mark.usefixtures("all_blocks")
def test_files_of_other_facts_are_refused(tmp_path: Path) -> None:
    """Files of an earlier import, or of other programs."""
    tensors, about = tensor_files.load(converted(tmp_path, PlainResNet32(8, C)))
    path = tmp_path / "a.safetensors"
    for facts, message in (
        ({"num_classes": 7}, "a number of classes among .*, got 7 in "),
        ({"proco": about["proco"] | {"arch": "resnet50"}}, "expected resnet32 for the 10 classes"),
        ({"proco": {"arch": "resnet32"}}, "expected the facts of a run in "),
        ({"proco": about["proco"] | {"classifier": "cosine"}}, "the tensors of resnet32 in "),
        ({"class_names": ["a"]}, "expected 10 class names in "),
    ):
        tensor_files.save(path, tensors, about | facts)
        with pytest.raises(ValueError, match=message) as caught:
            load_network(path)
        assert str(path) in str(caught.value)
    with pytest.raises(ValueError, match="the imbalance of the training images of cifar10"):
        extract(load_network(tmp_path / "proco.safetensors"), tiny_cifar(C), path)
