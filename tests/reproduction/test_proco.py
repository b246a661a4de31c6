"""Checkpoints of ProCo's authors, read and converted, and wrong content."""

import hashlib
import os
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from plain_resnet import PlainResNet32
from proco_alike import C, P, checkpoint, loss_modules, refused
from resultant._core import tensor_files
from resultant.images.longtail import long_tail_counts
from resultant.losses.bank import ProCoBank
from resultant_reproduction.import_proco import (
    IMBALANCES,
    convert,
    imbalance_of,
    read_proco_checkpoint,
)

pytestmark = pytest.mark.usefixtures("authors_modules", "all_blocks")


@pytest.fixture
def authors_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules of ProCo's authors, for pickling their classes."""
    for name, module in loss_modules().items():
        monkeypatch.setitem(sys.modules, name, module)


@pytest.fixture
def model(all_blocks: None) -> PlainResNet32:
    """A small network of ProCo's authors."""
    return PlainResNet32(P, C)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ckpt.pth.tar"


FACTS = {"arch": "resnet32", "dim": P, "classifier": "linear", "imbalance": None}
FACTS |= {"epoch": 200, "best_accuracy": 52.84}


@pytest.mark.parametrize("prefix", ["module.", ""])
def test_reads_a_small_network(path: Path, model: PlainResNet32, prefix: str) -> None:
    saved = checkpoint(model, prefix)
    torch.save(saved, path)
    read = read_proco_checkpoint(path)
    assert read.facts == FACTS and read.num_classes == C
    names = {"head": "projector", "fc": "classifier", "encoder": "encoder"}
    state = model.state_dict()
    assert len(read.weights) == len(state)
    for name, value in state.items():
        first, _, rest = name.partition(".")
        got = read.weights[f"{names[first]}.{rest}"]
        assert torch.equal(got, value)
        assert got.dtype == (torch.float32 if value.is_floating_point() else torch.int64)
    # Banks are what the loss reads: counts, directions and the authors' kappa of all classes.
    bank = ProCoBank(C, P)
    bank.load_state_dict({**read.banks, "epoch": torch.tensor(1)})
    loss = saved["criterion_scl"]
    for name, estimator in (("old", loss.estimator_old), ("new", loss.estimator)):
        state, length = bank.state(bank=name), estimator.Ave.double().norm(dim=1, keepdim=True)
        assert torch.equal(state.count, estimator.Amount.long()) and 0 in state.count
        torch.testing.assert_close(state.mu, estimator.Ave.double() / length)
        kappa = (P * length / (1 - length**2)).squeeze(1)
        torch.testing.assert_close(state.kappa, kappa)


def test_half_precision_views_parameters_and_scalars(path: Path, model: PlainResNet32) -> None:
    state = {f"module.{n}": a for n, a in model.state_dict().items()}
    name, whole = "module.head.0.weight", torch.randn(512, 20)
    state[name] = state[name].half()
    state["module.head.3.weight"] = whole[:, 2:18].T
    state["module.fc.bias"] = torch.nn.Parameter(torch.randn(C))
    for best in (np.float64(52.84), np.float32(52.84), torch.tensor([52.84]), torch.tensor(52.84)):
        torch.save(checkpoint(model, state_dict=state, best_acc1=best), path)
        read = read_proco_checkpoint(path)
        assert read.facts["best_accuracy"] == float(best)
        assert torch.equal(read.weights["projector.0.weight"], state[name].float())
        assert torch.equal(read.weights["projector.3.weight"], whole[:, 2:18].T)
        assert read.weights["projector.3.weight"].is_contiguous()
        assert torch.equal(read.weights["classifier.bias"], state["module.fc.bias"])


def test_banks_may_be_missing_or_modules(path: Path, model: PlainResNet32) -> None:
    saved = checkpoint(model)
    torch.save(saved, path)
    plain, loss = read_proco_checkpoint(path).banks, saved["criterion_scl"]
    for name in ("estimator_old", "estimator"):
        loss._modules[name] = loss.__dict__.pop(name)
    torch.save(saved, path)
    as_modules = read_proco_checkpoint(path).banks
    assert all(torch.equal(as_modules[name], bank) for name, bank in plain.items())
    del saved["criterion_scl"], saved["epoch"], saved["best_acc1"]
    torch.save(saved, path)
    read = read_proco_checkpoint(path)
    assert read.banks == {} and {read.facts["epoch"], read.facts["best_accuracy"]} == {None}


@pytest.mark.parametrize("cosine", [False, True])
def test_convert(path: Path, tmp_path: Path, cosine: bool) -> None:
    model = PlainResNet32(P, C, cosine=cosine)
    torch.save(checkpoint(model), path)
    out = tmp_path / "proco.safetensors"
    read = convert(path, out)
    tensors, about = tensor_files.load(out)
    facts = {"source_sha256": hashlib.sha256(path.read_bytes()).hexdigest(), **FACTS}
    facts |= {"classifier": "cosine", "classifier_scale": 30.0} if cosine else {}
    assert about.pop("config")["dataset"] == "cifar10"
    assert about == {"proco": facts, "num_classes": C}
    if cosine:
        weight = model.state_dict()["fc.weight"]
        assert weight.shape == (64, C) and "classifier.bias" not in tensors
        assert torch.equal(tensors["classifier.weight"], weight.T)
    expected = read.weights | {f"bank.{name}": bank for name, bank in read.banks.items()}
    assert tensors.keys() == expected.keys() > {"bank.old", "bank.new"}
    for name, value in expected.items():
        assert tensors[name].dtype == value.dtype
        assert torch.equal(tensors[name], value), name
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ckpt.pth.tar", "proco.safetensors"]


class Runs(str):
    """The path of a folder that is created when the object is unpickled."""

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self),)


def test_nothing_is_imported_or_called(path: Path, model: PlainResNet32) -> None:
    """The authors' classes are never imported: a module without them makes no difference. A hostile
    object is refused, and so is a part of a file."""
    torch.save(checkpoint(model), path)
    data, proof = path.read_bytes(), path.parent / "proof"
    torch.save(checkpoint(model, best_acc1=Runs(proof)), path)
    refused(path, r"a whole file of torch\.save, got: other objects .*mkdir")
    assert not proof.exists()
    for share in (0.0, 0.3, 0.99):
        path.write_bytes(data[: int(share * len(data))])
        refused(path, r"a whole file of torch\.save")
    path.write_bytes(data)
    sys.modules["loss.proco"] = types.ModuleType("loss.proco")
    assert read_proco_checkpoint(path).banks.keys() == {"old", "new"}


NAN, BIAS, CONV = torch.full((C,), torch.nan), "module.fc.bias", "module.encoder.conv1.weight"


@pytest.mark.parametrize(
    ("part", "name", "value", "message"),
    [
        ("list", "", None, "a dict with state_dict, itself a dict"),
        ("root", "state_dict", None, "a dict with state_dict"),
        ("root", "epoch", "last", "epoch to be an integer, got str"),
        ("root", "best_acc1", float("nan"), "best_acc1 to be a finite number"),
        ("root", "criterion_scl", {"estimator": 3}, "of ProCo, got dict"),
        ("state", CONV, torch.zeros(8, 3, 3, 3), "first convolutions of resnet32"),
        ("state", "module.head.3.weight", None, "a projector"),
        ("state", "module.fc.weight", None, "fc.weight of two"),
        ("state", BIAS, 3, "as 'fc.bias', got int"),
        ("state", BIAS, torch.zeros(C).long(), "floating weights, got torch.int64 for fc.bias"),
        ("state", "fc.bias", torch.zeros(C), "names that differ by more than 'module.'"),
        ("state", BIAS, NAN, "finite weights, got others in fc.bias"),
        ("state", BIAS, torch.zeros(1).expand(1 << 30), "tensors that fit in the file, got more"),
        (
            *("bank", "Ave", torch.zeros(C, P + 1)),
            r"Ave of estimator_old to be a tensor \(10, 16\), got \(10, 17\)",
        ),
        ("bank", "Amount", None, "Amount of .*, got NoneType"),
        ("bank", "Amount", NAN, "Amount of estimator_old"),
        ("bank", "Ave", torch.ones(C, P), "than one, got 4"),
        ("bank", "Amount", -torch.ones(C), "whole numbers >= 0"),
    ],
)
def test_wrong_content_is_refused(
    path: Path, model: PlainResNet32, part: str, name: str, value: Any, message: str
) -> None:
    saved = checkpoint(model)
    bank = vars(saved["criterion_scl"].estimator_old)
    place = {"root": saved, "state": saved["state_dict"], "bank": bank}.get(part, {})
    place.pop(name, None)
    place |= {} if value is None else {name: value}
    torch.save([saved] if part == "list" else saved, path)
    refused(path, message)


@pytest.mark.parametrize(
    ("num_classes", "hidden", "message"),
    [
        (7, 512, r"classes among 10 \(cifar10\), 100 .*\), got 7 in "),
        (1000, 512, "resnet50 or resnext50 for the 1000 classes of imagenet-lt, got resnet32 in "),
        (10, 256, r"expected the tensors of resnet32 in .*, got: .*projector\.0\.weight"),
    ],
)
def test_a_network_that_this_package_lacks_is_not_converted(
    path: Path, tmp_path: Path, num_classes: int, hidden: int, message: str
) -> None:
    model = PlainResNet32(8, num_classes, hidden)
    torch.save({"state_dict": model.state_dict()}, path)
    assert read_proco_checkpoint(path).num_classes == num_classes
    with pytest.raises(ValueError, match=message) as caught:
        convert(path, tmp_path / "out.safetensors")
    assert str(path) in str(caught.value)
    assert [path] == list(tmp_path.iterdir())


@pytest.mark.parametrize("num_classes", [10, 100])
@pytest.mark.parametrize("views", [1, 2, 4])
def test_imbalance_by_the_counts_of_epochs(num_classes: int, views: int) -> None:
    """Batches of 256 in random order, with one or more views per image."""
    generator = torch.Generator().manual_seed(views)
    for imbalance in (*IMBALANCES, 5.0, 51.0, 114.0, 237.0):
        sizes = long_tail_counts(50_000 // num_classes, num_classes, imbalance)
        known = imbalance if imbalance in IMBALANCES else None
        assert imbalance_of(views * sizes) == known
        if known is None:
            continue
        labels = torch.arange(num_classes).repeat_interleave(sizes)
        seen = labels[torch.randperm(len(labels), generator=generator)][: len(labels) // 256 * 256]
        count = views * torch.bincount(seen, minlength=num_classes)
        assert imbalance_of(count) == imbalance
        # Other sizes, another order, and one image too many.
        assert imbalance_of(count // 3) is None
        assert imbalance == 1 or imbalance_of(count.flip(0)) is None
        assert imbalance_of(views * sizes + (torch.arange(num_classes) == 3)) is None
    assert imbalance_of(torch.full((1000,), 500)) is None
