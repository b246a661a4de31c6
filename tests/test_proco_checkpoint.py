"""Checkpoints as ProCo's authors write them, made here of look-alikes; and hostile ones."""

from __future__ import annotations

import io
import json
import pickle
import struct
import sys
import types
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import Tensor, nn

from resultant import _torch_archive, proco_checkpoint
from resultant.bank import ProCoBank
from resultant.proco_checkpoint import convert, read_proco_checkpoint

C, P = 7, 16


@pytest.fixture(autouse=True)
def _loss_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of the authors' name, with classes of their names and attributes."""

    class EstimatorCV:
        def __init__(self, seed: int) -> None:
            generator = torch.Generator().manual_seed(seed)
            mean = torch.randn(C, P, generator=generator)
            self.class_num, self.feature_num = C, P
            self.Ave = 0.9 * nn.functional.normalize(mean, dim=1)
            self.Amount = torch.randint(0, 50, (C,), generator=generator).float()
            self.Amount[2] = 0
            self.kappa = torch.full((C,), P * 90 / 19)
            self.logc = torch.zeros(C, dtype=torch.float64)

    class ProCoLoss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.temperature = 0.1
            self.estimator_old, self.estimator = EstimatorCV(1), EstimatorCV(2)

    module = types.ModuleType("loss.proco")
    for value in (EstimatorCV, ProCoLoss):
        value.__module__, value.__qualname__ = "loss.proco", value.__name__
        setattr(module, value.__name__, value)
    monkeypatch.setitem(sys.modules, "loss", types.ModuleType("loss"))
    monkeypatch.setitem(sys.modules, "loss.proco", module)


class Block(nn.Module):
    def __init__(self, into: int, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(into, width, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, bias=False)
        self.bn2 = nn.BatchNorm2d(width)


class Small(nn.Module):
    """The tensors of the CIFAR ResNet-32."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, bias=False), nn.BatchNorm2d(16)
        into = 16
        for s, width in enumerate((16, 32, 64), 1):
            blocks = [Block(into if i == 0 else width, width) for i in range(5)]
            setattr(self, f"layer{s}", nn.Sequential(*blocks))
            into = width


class Cosine(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, C))


class Model(nn.Module):
    def __init__(self, encoder: nn.Module, width: int, hidden: int, *, cosine: bool) -> None:
        super().__init__()
        self.encoder = encoder
        first, last = nn.Linear(width, hidden), nn.Linear(hidden, P)
        self.head = nn.Sequential(first, nn.BatchNorm1d(hidden), nn.ReLU(), last)
        self.fc = Cosine(width) if cosine else nn.Linear(width, C)


def small(*, cosine: bool = False) -> Model:
    torch.manual_seed(0)
    return Model(Small(), 64, 32, cosine=cosine)


def large(name: str) -> Model:
    """Torchvision's own, of shapes alone."""
    import torchvision

    with torch.device("meta"):
        encoder = getattr(torchvision.models, name)()
        encoder.fc = nn.Identity()
        return Model(encoder, 2048, 48, cosine=True)


def checkpoint(model: nn.Module, prefix: str = "module.", **changes: Any) -> dict[str, Any]:
    state = model.state_dict()
    renamed = OrderedDict((prefix + name, value) for name, value in state.items())
    renamed._metadata = state._metadata  # type: ignore[attr-defined]
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    sum(p.sum() for p in model.parameters()).backward()  # type: ignore[union-attr]
    optimizer.step()
    return {
        "epoch": 200,
        "arch": "anything",
        "state_dict": renamed,
        "best_acc1": 52.84,
        "best_many": np.float64(60.5),
        "optimizer": optimizer.state_dict(),
        "criterion_scl": sys.modules["loss.proco"].ProCoLoss(),
    } | changes


@pytest.fixture(scope="session")
def model() -> Model:
    return small()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ckpt.pth.tar"


@pytest.mark.parametrize("prefix", ["module.", ""])
def test_reads_a_small_one(path: Path, model: Model, prefix: str) -> None:
    saved = checkpoint(model, prefix)
    torch.save(saved, path)
    read = read_proco_checkpoint(path)
    facts = (read.arch, read.num_classes, read.dim, read.classifier)
    assert facts == ("resnet32", C, P, "linear")
    assert (read.epoch, read.best_accuracy) == (200, 52.84)
    names = {"head": "projector", "fc": "classifier", "encoder": "encoder"}
    state = model.state_dict()
    assert len(read.weights) == len(state)
    for name, value in state.items():
        first, _, rest = name.partition(".")
        got = read.weights[f"{names[first]}.{rest}"]
        assert torch.equal(got, value)
        assert got.dtype == (torch.float32 if value.is_floating_point() else torch.int64)
    for bank, estimator in (
        (read.old, saved["criterion_scl"].estimator_old),
        (read.new, saved["criterion_scl"].estimator),
    ):
        assert bank is not None and bank.kappa is not None
        assert torch.equal(bank.mean, estimator.Ave)
        assert torch.equal(bank.count, estimator.Amount.long())
        assert torch.equal(bank.kappa, estimator.kappa)
        expected = estimator.Ave.double() * estimator.Amount.double()[:, None]
        seen = estimator.Amount > 0
        assert not seen[2]
        assert torch.equal(bank.sums[seen, :-1], expected[seen])
        assert torch.equal(bank.sums[:, -1].round(), estimator.Amount.double())


def test_banks_are_read_by_the_loss(path: Path, model: Model) -> None:
    """Counts, directions and the authors' kappa, of classes with samples and without."""
    saved = checkpoint(model)
    torch.save(saved, path)
    read = read_proco_checkpoint(path)
    assert read.old is not None and read.new is not None
    bank = ProCoBank(C, P)
    bank.load_state_dict({"old": read.old.sums, "new": read.new.sums, "epoch": torch.tensor(1)})
    for name, estimator in (
        ("old", saved["criterion_scl"].estimator_old),
        ("new", saved["criterion_scl"].estimator),
    ):
        state = bank.state(bank=name)
        assert torch.equal(state.count, estimator.Amount.long())
        length = estimator.Ave.double().norm(dim=1, keepdim=True)
        torch.testing.assert_close(state.mu, estimator.Ave.double() / length)
        kappa = (P * length / (1 - length**2)).squeeze(1)
        torch.testing.assert_close(state.kappa, kappa)


def test_nothing_is_imported_or_called(path: Path, model: Model) -> None:
    """The authors' classes are never looked up: a module that would fail is not touched."""
    torch.save(checkpoint(model), path)
    sys.modules["loss.proco"] = types.ModuleType("loss.proco")
    assert read_proco_checkpoint(path).old is not None


def test_cosine_classifier(path: Path) -> None:
    model = small(cosine=True)
    torch.save(checkpoint(model), path)
    read = read_proco_checkpoint(path)
    assert read.classifier == "cosine"
    weight = model.state_dict()["fc.weight"]
    assert weight.shape == (64, C)
    assert torch.equal(read.weights["classifier.weight"], weight.T)
    assert "classifier.bias" not in read.weights


@pytest.mark.parametrize(
    ("name", "arch"), [("resnet50", "resnet50"), ("resnext50_32x4d", "resnext50")]
)
def test_shapes_of_the_large_ones(name: str, arch: str) -> None:
    """Against torchvision's own networks."""
    shapes = {n: tuple(a.shape) for n, a in large(name).state_dict().items()}
    assert proco_checkpoint._recognize(shapes) == (arch, C, P, "cosine")


def test_half_precision_and_views(path: Path, model: Model) -> None:
    state = {f"module.{n}": a for n, a in model.state_dict().items()}
    name = "module.head.0.weight"
    state[name] = state[name].half()
    whole = torch.randn(32, 20)
    state["module.head.3.weight"] = whole[:, 2:18].T
    torch.save(checkpoint(model, state_dict=state), path)
    weights = read_proco_checkpoint(path).weights
    assert torch.equal(weights["projector.0.weight"], state[name].float())
    assert torch.equal(weights["projector.3.weight"], whole[:, 2:18].T)
    assert weights["projector.3.weight"].is_contiguous()


@pytest.mark.parametrize(
    "best", [np.float64(52.84), np.float32(52.84), torch.tensor([52.84]), torch.tensor(52.84)]
)
def test_accuracy_as_a_scalar_of_other_kinds(path: Path, model: Model, best: Any) -> None:
    torch.save(checkpoint(model, best_acc1=best), path)
    assert read_proco_checkpoint(path).best_accuracy == float(best)


def test_banks_may_be_missing_or_without_kappa(path: Path, model: Model) -> None:
    saved = checkpoint(model)
    del saved["criterion_scl"].estimator.kappa
    torch.save(saved, path)
    read = read_proco_checkpoint(path)
    assert read.old is not None and read.old.kappa is not None
    assert read.new is not None and read.new.kappa is None
    del saved["criterion_scl"], saved["epoch"], saved["best_acc1"]
    torch.save(saved, path)
    read = read_proco_checkpoint(path)
    assert (read.old, read.new, read.epoch, read.best_accuracy) == (None, None, None, None)


def test_estimators_may_be_modules(path: Path, model: Model) -> None:
    saved = checkpoint(model)
    loss = saved["criterion_scl"]
    for name in ("estimator_old", "estimator"):
        loss._modules[name] = loss.__dict__.pop(name)
    torch.save(saved, path)
    read = read_proco_checkpoint(path)
    assert read.old is not None
    assert torch.equal(read.old.mean, loss._modules["estimator_old"].Ave)


def test_convert(path: Path, model: Model, tmp_path: Path) -> None:
    torch.save(checkpoint(model), path)
    out = tmp_path / "proco.safetensors"
    read = convert(path, out)
    assert read.old is not None and read.new is not None
    with safe_open(out, framework="pt") as file:
        tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = file.metadata()
    facts = {
        "arch": "resnet32",
        "dim": P,
        "classifier": "linear",
        "epoch": 200,
        "best_accuracy": 52.84,
    }
    assert json.loads(metadata["resultant"]) == {"proco": facts, "num_classes": C}
    expected = read.weights | {"bank.old": read.old.sums, "bank.new": read.new.sums}
    assert tensors.keys() == expected.keys()
    for name, value in expected.items():
        assert tensors[name].dtype == value.dtype
        assert torch.equal(tensors[name], value), name
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ckpt.pth.tar", "proco.safetensors"]


def test_convert_says_the_scale_of_a_cosine_classifier(path: Path, tmp_path: Path) -> None:
    torch.save(checkpoint(small(cosine=True)), path)
    convert(path, tmp_path / "out.safetensors")
    with safe_open(tmp_path / "out.safetensors", framework="pt") as file:
        facts = json.loads(file.metadata()["resultant"])["proco"]
    assert facts["classifier_scale"] == 30.0


def refused(path: Path, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        read_proco_checkpoint(path)
    assert str(path) in str(caught.value)


def without(saved: dict[str, Any], name: str) -> dict[str, Any]:
    return {k: v for k, v in saved.items() if k != name}


def changed_state(saved: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    state = dict(saved["state_dict"])
    state.pop(name, None)
    if value is not None:
        state[name] = value
    return saved | {"state_dict": state}


def changed_bank(saved: dict[str, Any], part: str, value: Any) -> dict[str, Any]:
    setattr(saved["criterion_scl"].estimator_old, part, value)
    return saved


WRONG: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a list": (lambda s: [s], "a dict with state_dict"),
    "no state_dict": (lambda s: without(s, "state_dict"), "a dict with state_dict"),
    "a missing weight": (
        lambda s: changed_state(s, "module.encoder.layer2.3.bn1.bias", None),
        r"'encoder.layer2.3.bn1.bias' of resnet32 to be \(32,\), got none",
    ),
    "one too many": (
        lambda s: changed_state(s, "module.encoder.layer4.0.conv1.weight", torch.zeros(2)),
        r"'encoder.layer4.0.conv1.weight' of resnet32 to be no such tensor, got \(2,\)",
    ),
    "a wrong shape": (
        lambda s: changed_state(s, "module.fc.bias", torch.zeros(C + 1)),
        r"'fc.bias' of resnet32 to be \(7,\), got \(8,\)",
    ),
    "another network": (
        lambda s: changed_state(s, "module.encoder.conv1.weight", torch.zeros(8, 3, 3, 3)),
        "first convolutions of resnet32",
    ),
    "no projector": (
        lambda s: changed_state(s, "module.head.3.weight", None),
        "head.3.weight of 2 dimensions, got none",
    ),
    "not a tensor": (
        lambda s: changed_state(s, "module.fc.bias", 3),
        "a tensor as 'fc.bias', got int",
    ),
    "integers": (
        lambda s: changed_state(s, "module.fc.bias", torch.zeros(C, dtype=torch.int64)),
        "floating weights, got torch.int64 for fc.bias",
    ),
    "both prefixes": (
        lambda s: changed_state(s, "fc.bias", torch.zeros(C)),
        "names that differ by more than 'module.'",
    ),
    "nan": (
        lambda s: changed_state(s, "module.fc.bias", torch.full((C,), torch.nan)),
        "finite weights, got others in classifier.bias",
    ),
    "epoch": (lambda s: s | {"epoch": "last"}, "epoch to be an integer, got str"),
    "accuracy": (lambda s: s | {"best_acc1": float("nan")}, "best_acc1 to be a finite number"),
    "no estimator": (
        lambda s: s | {"criterion_scl": {"estimator": 3}},
        "object with estimator_old to be of ProCo, got dict",
    ),
    "bank shape": (
        lambda s: changed_bank(s, "Ave", torch.zeros(C, P + 1)),
        r"Ave of estimator_old to be a tensor \(7, 16\), got \(7, 17\)",
    ),
    "bank without count": (
        lambda s: changed_bank(s, "Amount", None),
        "Amount of estimator_old to be a tensor .*, got NoneType",
    ),
    "bank nan": (
        lambda s: changed_bank(s, "kappa", torch.full((C,), torch.nan)),
        "finite kappa of estimator_old",
    ),
    "bank too long": (
        lambda s: changed_bank(s, "Ave", torch.ones(C, P)),
        "no longer than one, got 4",
    ),
    "bank negative": (lambda s: changed_bank(s, "Amount", -torch.ones(C)), "whole numbers >= 0"),
    "bank in parts": (
        lambda s: changed_bank(s, "Amount", torch.full((C,), 0.5)),
        "whole numbers >= 0",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_content_is_refused(path: Path, model: Model, case: str) -> None:
    change, message = WRONG[case]
    torch.save(change(checkpoint(model)), path)
    refused(path, message)


class Calls:
    """Pickles as the call of a function."""

    def __init__(self, *reduction: Any) -> None:
        self.reduction = reduction

    def __reduce__(self) -> Any:
        return self.reduction


def write_archive(path: Path, program: bytes, **storages: bytes) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", program)
        for key, data in storages.items():
            archive.writestr(f"archive/data/{key.lstrip('_')}", data)


def text(value: str) -> bytes:
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def call(function: str, *arguments: bytes, operation: bytes = b"R") -> bytes:
    """GLOBAL, a tuple of the arguments, and what is done with them."""
    module, _, name = function.rpartition(" ")
    return b"c" + f"{module}\n{name}\n".encode() + b"(" + b"".join(arguments) + b"t" + operation


HOSTILE = {
    "os.system": (call("posix system", text("touch {}")), "the global 'posix system'"),
    "eval": (call("builtins eval", text("open('{}', 'w')")), "the global 'builtins eval'"),
    "python 2 eval": (
        call("__builtin__ eval", text("open('{}', 'w')")),
        "the global '__builtin__ eval'",
    ),
    "open": (call("io open", text("{}"), text("w")), "the global 'io open'"),
    "getattr chain": (
        call("builtins getattr", b"cos\npath\n", text("os")),
        "the global 'builtins getattr'",
    ),
    "torch.load": (call("torch load", text("{}")), "the global 'torch load'"),
    "torch internals": (
        call("torch.storage _load_from_bytes", text("{}")),
        "the global 'torch.storage _load_from_bytes'",
    ),
    "dotted name": (call("torch._utils os.system", text("touch {}")), "_utils os.system"),
    "module of a stand-in": (
        call("loss.proco os.system", text("touch {}")),
        "loss.proco os.system",
    ),
    "protocol 4": (
        text("os") + text("system") + b"\x93",
        "instructions of torch.save, got STACK_GLOBAL",
    ),
    "inst": (b"(" + text("touch {}") + b"ios\nsystem\n", "got INST"),
    "obj": (b"(cbuiltins\nset\n" + text("touch {}") + b"o", "got OBJ"),
    "extension": (b"\x82\x01", "ValueError|got EXT1"),
    "reduce of a stand-in": (call("loss.proco ProCoLoss"), "no REDUCE of loss.proco ProCoLoss"),
    "stand-in with arguments": (
        call("loss.proco ProCoLoss", text("touch {}"), operation=b"\x81"),
        "no NEWOBJ of loss.proco ProCoLoss with 1 arguments",
    ),
    "new of a function": (call("torch._utils _rebuild_tensor_v2", operation=b"\x81"), "no NEWOBJ"),
    "reduce of text": (text("os.system") + b"(" + text("touch {}") + b"tR", "a name to be called"),
    "attributes of a function": (
        b"ccollections\nOrderedDict\n}" + text("__call__") + b"Nsb",
        "no attributes for Name",
    ),
    "attributes of a class": (
        b"closs.proco\nProCoLoss\n}" + text("__setstate__") + b"Nsb",
        "no attributes for Name",
    ),
    "slots of a stand-in": (
        call("loss.proco ProCoLoss", operation=b"\x81") + b"N}" + text("a") + b"Ns\x86b",
        "no attributes for StandIn",
    ),
    "append to a stand-in": (call("loss.proco ProCoLoss", operation=b"\x81") + b"Na", "a list"),
    "keys that take for ever": (b"})" + b"2\x86" * 3, "got DUP"),
    "tuples as keys": (b"})q\x00h\x00\x86q\x00Ns", "keys of text or integers"),
    "encode elsewhere": (call("_codecs encode", text("x"), text("rot13")), "text in latin1"),
    "wrong arguments": (call("_codecs encode"), "TypeError"),
    "underflow": (b"R", "IndexError"),
    "no mark": (b"t", "IndexError"),
    "memo": (b"h\x07", "KeyError"),
    "numpy object": (call("numpy dtype", text("O8")), "NumPy number"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_pickle_is_refused(path: Path, tmp_path: Path, case: str) -> None:
    """Nothing runs: the file that the payload would make does not appear."""
    program, message = HOSTILE[case]
    proof = tmp_path / "x"
    # Whole strings, since their lengths are part of the pickle.
    for value in ("touch {}", "open('{}', 'w')", "{}"):
        program = program.replace(text(value), text(value.format(proof)))
    write_archive(path, b"\x80\x02" + program + b".")
    refused(path, message)
    assert not proof.exists()


@pytest.mark.parametrize("where", ["state_dict", "criterion_scl", "optimizer", "Ave", "unused"])
def test_hostile_object_anywhere_is_refused(
    path: Path, tmp_path: Path, model: Model, where: str
) -> None:
    """Also where nothing would read it, and the payload is one that works."""
    import os

    proof = tmp_path / "proof"
    saved = checkpoint(model)
    hostile = Calls(os.system, (f"touch {proof}",))
    if where == "Ave":
        saved["criterion_scl"].estimator.Ave = hostile
    else:
        saved[where] = hostile
    torch.save(saved, path)
    refused(path, "the global '(posix|nt) system'")
    assert not proof.exists()
    with zipfile.ZipFile(path) as archive:
        pickled = next(name for name in archive.namelist() if name.endswith("data.pkl"))
        assert b"touch" in archive.read(pickled)
    pickle.loads(pickle.dumps(hostile))
    assert proof.exists(), "expected a payload that would have worked"


@pytest.mark.parametrize("protocol", [0, 1, 3, 4, 5])
def test_other_protocols_are_refused(path: Path, model: Model, protocol: int) -> None:
    torch.save(checkpoint(model), path, pickle_protocol=protocol)
    refused(path, "protocol 2|instructions of torch.save")


@pytest.mark.filterwarnings("ignore:Couldn't retrieve source code")
def test_older_format_is_refused(path: Path, tmp_path: Path, model: Model) -> None:
    import os

    torch.save(checkpoint(model), path, _use_new_zipfile_serialization=False)
    refused(path, "older format is a bare pickle, and not read")
    proof = tmp_path / "proof"
    path.write_bytes(pickle.dumps(Calls(os.system, (f"touch {proof}",))))
    refused(path, "older format")
    assert not proof.exists()
    path.write_bytes(b"")
    refused(path, "a zip archive of torch.save")
    with pytest.raises(FileNotFoundError):
        read_proco_checkpoint(tmp_path / "nowhere")


@pytest.mark.parametrize("share", [0.001, 0.3, 0.9, 0.9999])
def test_truncated_file_is_refused(path: Path, model: Model, share: float) -> None:
    torch.save(checkpoint(model), path)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    refused(path, "broken one")


def rewritten(path: Path, change: Callable[[str, bytes], bytes | None], kind: int = 0) -> None:
    """The archive again, its entries changed or (None) left out."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", kind) as archive:
        for name, data in entries.items():
            if (new := change(name, data)) is not None:
                archive.writestr(name, new)


ALTERED: dict[str, tuple[Callable[[str, bytes], bytes | None], str]] = {
    "short storage": (lambda n, d: d[:-4] if n.endswith("/data/0") else d, "bytes of data/0, got"),
    "long storage": (lambda n, d: d + d if n.endswith("/data/0") else d, "bytes of data/0, got"),
    "no storage": (lambda n, d: None if n.endswith("/data/0") else d, "an entry data/0, got none"),
    "no pickle": (lambda n, d: None if n.endswith("data.pkl") else d, "one data.pkl, got 0"),
    "big endian": (lambda n, d: b"big   " if n.endswith("byteorder") else d, "little-endian"),
    "half a pickle": (lambda n, d: d[: len(d) // 2] if n.endswith("pkl") else d, "whole pickle"),
    "huge pickle": (
        lambda n, d: d + bytes(1 << 24) if n.endswith("pkl") else d,
        "data.pkl of at most 16777216 bytes",
    ),
}


@pytest.mark.parametrize("case", ALTERED)
def test_altered_archive_is_refused(path: Path, model: Model, case: str) -> None:
    change, message = ALTERED[case]
    torch.save(checkpoint(model), path)
    rewritten(path, lambda _, data: data)
    assert read_proco_checkpoint(path).epoch == 200
    rewritten(path, change)
    refused(path, message)


def test_zip_bomb_is_refused(path: Path, model: Model) -> None:
    """Compressed entries are not opened at all."""
    torch.save(checkpoint(model), path)
    rewritten(path, lambda _, data: data, zipfile.ZIP_DEFLATED)
    refused(path, "stored as it is, got it compressed")


def test_entry_twice_is_refused(path: Path, model: Model) -> None:
    torch.save(checkpoint(model), path)
    with zipfile.ZipFile(path, "a") as archive:
        pickled = next(name for name in archive.namelist() if name.endswith("data.pkl"))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr(pickled, b"")
    refused(path, "one twice")


def test_flipped_byte_is_refused(path: Path, model: Model) -> None:
    saved = checkpoint(model)
    saved["state_dict"]["module.fc.bias"] = torch.full((C,), 1.2345)
    torch.save(saved, path)
    data = path.read_bytes()
    pattern = struct.pack("<f", 1.2345) * C
    assert data.count(pattern) == 1
    path.write_bytes(data.replace(pattern, struct.pack("<f", 1.2346) * C))
    refused(path, "broken one .*CRC")


def test_damage_anywhere_is_refused(path: Path) -> None:
    """Seeded damage to a small archive and its directory: always this error, and no other."""
    state = OrderedDict((f"module.a{i}", torch.ones(i, 3)) for i in range(6))
    torch.save({"state_dict": state, "best_acc1": np.float64(2), "epoch": 3}, path)
    data, random = path.read_bytes(), Random(0)
    for _ in range(400):
        damaged = bytearray(data)
        for _ in range(random.choice((1, 2, 5))):
            # Most of the meaning stands in the directory at the end.
            place = random.randrange(len(data) if random.random() < 0.5 else 1200)
            damaged[-1 - place] = random.choice((0, 255, random.randrange(256)))
        path.write_bytes(damaged)
        refused(path, "cannot read")


def test_damaged_pickle_does_not_run(path: Path) -> None:
    """Instructions lost, doubled and changed: data of known kinds, or refused."""
    torch.save({"state_dict": {"a": torch.ones(2)}, "best": np.float64(2), "e": [1, (2, 3)]}, path)
    with zipfile.ZipFile(path) as archive:
        name = next(name for name in archive.namelist() if name.endswith("data.pkl"))
        program = archive.read(name)
    random, ended = Random(0), 0
    for _ in range(2000):
        damaged = bytearray(program)
        i, j = random.randrange(len(program)), random.randrange(len(program))
        damaged[i : i + random.randrange(3)] = random.choice((program[j : j + 20], b"", b"R", b"b"))
        try:
            _torch_archive.Machine().run(bytes(damaged))
            ended += 1
        except _torch_archive.RefusedError:
            pass
    assert 0 < ended < 2000


def tensor_program(
    numel: int, offset: int, size: tuple[int, ...], stride: tuple[int, ...]
) -> bytes:
    """A checkpoint's dict with one tensor, of one storage of ``numel`` floats."""

    def whole(value: int) -> bytes:
        data = value.to_bytes(9, "little", signed=True)
        return b"\x8a\x09" + data

    def several(values: tuple[int, ...]) -> bytes:
        return b"(" + b"".join(map(whole, values)) + b"t"

    identity = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu")
    storage = identity + whole(numel) + b"tQ"
    hooks = call("collections OrderedDict")
    arguments = (storage, whole(offset), several(size), several(stride), b"\x89", hooks)
    tensor = call("torch._utils _rebuild_tensor_v2", *arguments)
    return b"\x80\x02}" + text("state_dict") + b"}" + text("fc.weight") + tensor + b"ss."


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((4, 0, (4,), (1,)), "encoder.conv1.weight of 4 dimensions, got none"),
        ((4, 1, (4,), (1,)), "a tensor inside its storage"),
        ((4, 0, (2, 2), (3, 1)), "a tensor inside its storage"),
        ((4, 0, (1 << 40,), (0,)), "a tensor inside its storage"),
        ((4, -1, (2,), (1,)), "sizes >= 0"),
        ((4, 0, (-2,), (1,)), "sizes >= 0"),
        ((4, 0, (2,), (-1,)), "sizes >= 0"),
        ((4, 0, (2, 2), (1,)), "as many strides as sizes"),
        ((1 << 62, 0, (1,), (1,)), "a storage length >= 0"),
    ],
)
def test_tensors_outside_their_storage_are_refused(path: Path, shape: Any, message: str) -> None:
    """The first one is sound, and so refused for other reasons only."""
    write_archive(path, tensor_program(*shape), _0=bytes(16))
    refused(path, message)


def test_shared_storage_longer_than_the_file_is_refused(path: Path, model: Model) -> None:
    """Every weight a view of one storage: together more than the file holds."""
    state = model.state_dict()
    whole = torch.zeros(max(a.numel() for a in state.values()))
    views = {
        n: whole[: a.numel()].view(a.shape) if a.is_floating_point() else a
        for n, a in state.items()
    }
    torch.save({"state_dict": views}, path)
    refused(path, "tensors that fit in the file, got more")


def test_storage_type_must_be_known(path: Path) -> None:
    buffer = io.BytesIO()
    torch.save({"state_dict": {"a": torch.zeros(2, dtype=torch.complex64)}}, buffer)
    path.write_bytes(buffer.getvalue())
    refused(path, "the global 'torch ComplexFloatStorage'")


def test_failed_conversion_leaves_no_file(path: Path, tmp_path: Path) -> None:
    path.write_bytes(b"PK nothing")
    out = tmp_path / "out.safetensors"
    out.write_bytes(b"before")
    with pytest.raises(ValueError, match="broken one"):
        convert(path, out)
    assert out.read_bytes() == b"before"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ckpt.pth.tar", "out.safetensors"]
