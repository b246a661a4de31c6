"""Hostile, damaged and altered checkpoints of ProCo: nothing in them runs."""

from __future__ import annotations

import pickle
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

from proco_alike import C, Model, checkpoint, refused
from resultant.training.proco_checkpoint import read_proco_checkpoint

pytestmark = pytest.mark.usefixtures("authors_modules")


class Calls:
    """An object that is pickled as the call of a function."""

    def __init__(self, *reduction: Any) -> None:
        self.reduction = reduction

    def __reduce__(self) -> Any:
        return self.reduction


def write_archive(path: Path, program: bytes, **storages: bytes) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", program)
        archive.writestr("archive/version", b"3\n")
        for key, data in storages.items():
            archive.writestr(f"archive/data/{key.lstrip('_')}", data)


def text(value: str) -> bytes:
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def call(function: str, *arguments: bytes, operation: bytes = b"R") -> bytes:
    """Write GLOBAL, a tuple of the arguments, and the operation on them."""
    module, _, name = function.rpartition(" ")
    return b"c" + f"{module}\n{name}\n".encode() + b"(" + b"".join(arguments) + b"t" + operation


HOSTILE = {
    "os.system": (call("posix system", text("touch {}")), r"other objects \(posix\.system\)"),
    "eval": (call("builtins eval", text("open('{}', 'w')")), "other objects"),
    "python 2 eval": (call("__builtin__ eval", text("open('{}', 'w')")), "other objects"),
    "open": (call("io open", text("{}"), text("w")), "other objects"),
    "getattr chain": (call("builtins getattr", b"cos\npath\n", text("os")), "other objects"),
    "torch.load": (call("torch load", text("{}")), "other objects"),
    "torch internals": (call("torch.storage _load_from_bytes", text("{}")), "other objects"),
    "dotted name": (call("torch._utils os.system", text("touch {}")), "other objects"),
    "module of a stand-in": (call("loss.proco os.system", text("touch {}")), "other objects"),
    "inst": (b"(" + text("touch {}") + b"ios\nsystem\n", "got: "),
    "obj": (b"(cbuiltins\nset\n" + text("touch {}") + b"o", "got: "),
    "extension": (b"\x82\x01", "got: "),
    "stand-in": (call("loss.proco ProCoLoss", operation=b"\x81"), "a dict with state_dict"),
    "stand-in with arguments": (
        call("loss.proco ProCoLoss", text("touch {}"), operation=b"\x81"),
        "takes no arguments",
    ),
    "reduce of text": (text("os.system") + b"(" + text("touch {}") + b"tR", "other objects"),
    "attributes of a class": (
        b"closs.proco\nProCoLoss\n}" + text("__setstate__") + b"Nsb",
        "other objects",
    ),
    "class of a stand-in": (
        call("loss.proco ProCoLoss", operation=b"\x81")
        + (b"N}" + text("__class__") + b"cbuiltins\nset\n" + b"s\x86b"),
        "got: ",
    ),
    "append to a stand-in": (call("loss.proco ProCoLoss", operation=b"\x81") + b"Na", "other"),
    "wrong arguments": (call("_codecs encode"), "got: "),
    "numpy object": (call("numpy dtype", text("O8")), "got: 'O8'"),
    "number without a type": (call("numpy.core.multiarray scalar", b"N", b"N"), "got: "),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_pickle_is_refused(path: Path, tmp_path: Path, case: str) -> None:
    """Nothing is executed: the file that the payload would create does not appear."""
    program, message = HOSTILE[case]
    proof = tmp_path / "x"
    # Whole strings: the pickle has their lengths too.
    for value in ("touch {}", "open('{}', 'w')", "{}"):
        program = program.replace(text(value), text(value.format(proof)))
    write_archive(path, b"\x80\x02" + program + b".")
    refused(path, message)
    assert not proof.exists()


@pytest.mark.parametrize("where", ["state_dict", "criterion_scl", "optimizer", "Ave", "unused"])
def test_hostile_object_anywhere_is_refused(
    path: Path, tmp_path: Path, model: Model, where: str
) -> None:
    """In parts that are never read too; the payload works in a plain pickle."""
    import os

    proof = tmp_path / "proof"
    saved = checkpoint(model)
    hostile = Calls(os.system, (f"touch {proof}",))
    if where == "Ave":
        saved["criterion_scl"].estimator.Ave = hostile
    else:
        saved[where] = hostile
    torch.save(saved, path)
    refused(path, r"other objects \((posix|nt)\.system\)")
    assert not proof.exists()
    with zipfile.ZipFile(path) as archive:
        pickled = next(name for name in archive.namelist() if name.endswith("data.pkl"))
        assert b"touch" in archive.read(pickled)
    pickle.loads(pickle.dumps(hostile))
    assert proof.exists(), "expected a payload that would have worked"


@pytest.mark.filterwarnings("ignore:Couldn't retrieve source code")
def test_older_format_is_refused(path: Path, tmp_path: Path, model: Model) -> None:
    import os

    torch.save(checkpoint(model), path, _use_new_zipfile_serialization=False)
    refused(path, "other objects")
    proof = tmp_path / "proof"
    path.write_bytes(pickle.dumps(Calls(os.system, (f"touch {proof}",))))
    refused(path, "a whole file of torch.save")
    assert not proof.exists()
    path.write_bytes(b"")
    refused(path, "a whole file of torch.save")
    with pytest.raises(FileNotFoundError):
        read_proco_checkpoint(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="expected a checkpoint of ProCo, got a folder"):
        read_proco_checkpoint(tmp_path)


@pytest.mark.parametrize("share", [0.001, 0.3, 0.9, 0.9999])
def test_truncated_file_is_refused(path: Path, model: Model, share: float) -> None:
    torch.save(checkpoint(model), path)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    refused(path, "a whole file of torch.save")


def rewritten(path: Path, change: Callable[[str, bytes], bytes | None], kind: int = 0) -> None:
    """Write the archive again, with entries changed or, for None, left out."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", kind) as archive:
        for name, data in entries.items():
            if (new := change(name, data)) is not None:
                archive.writestr(name, new)


ALTERED: dict[str, tuple[Callable[[str, bytes], bytes | None], str]] = {
    "short storage": (lambda n, d: d[:-4] if n.endswith("/data/0") else d, "torch.save, got: "),
    "no storage": (lambda n, d: None if n.endswith("/data/0") else d, "torch.save, got: "),
    "no pickle": (lambda n, d: None if n.endswith("data.pkl") else d, "torch.save, got: "),
    "half a pickle": (lambda n, d: d[: len(d) // 2] if n.endswith("pkl") else d, "torch.save, got"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", ALTERED)
def test_altered_archive_is_refused(path: Path, model: Model, case: str) -> None:
    change, message = ALTERED[case]
    torch.save(checkpoint(model), path)
    rewritten(path, lambda _, data: data)
    assert read_proco_checkpoint(path).epoch == 200
    rewritten(path, change)
    refused(path, message)


def test_zip_bomb_is_refused(path: Path, model: Model) -> None:
    torch.save(checkpoint(model), path)
    rewritten(path, lambda _, data: data, zipfile.ZIP_DEFLATED)
    refused(path, "tensors that fit in the file, got more")


def test_flipped_byte_is_refused(path: Path, model: Model) -> None:
    saved = checkpoint(model)
    saved["state_dict"]["module.fc.bias"] = torch.full((C,), 1.2345)
    torch.save(saved, path)
    data = path.read_bytes()
    pattern = struct.pack("<f", 1.2345) * C
    assert data.count(pattern) == 1
    path.write_bytes(data.replace(pattern, struct.pack("<f", 1.2346) * C))
    refused(path, "another checksum of")


@pytest.mark.slow
def test_damage_anywhere_is_refused(path: Path) -> None:
    """Seeded damage to a small archive and its directory always gives this error."""
    state = OrderedDict((f"module.a{i}", torch.ones(i, 3)) for i in range(6))
    torch.save({"state_dict": state, "best_acc1": np.float64(2), "epoch": 3}, path)
    data, random = path.read_bytes(), Random(0)
    for _ in range(400):
        damaged = bytearray(data)
        for _ in range(random.choice((1, 2, 5))):
            # Most of the structure is in the directory at the end.
            position = random.randrange(len(data) if random.random() < 0.5 else 1200)
            damaged[-1 - position] = random.choice((0, 255, random.randrange(256)))
        path.write_bytes(damaged)
        refused(path, "cannot read|a whole file of torch.save")


def test_damaged_pickle_is_refused(path: Path) -> None:
    """Lost, repeated and changed instructions."""
    torch.save({"state_dict": {"a": torch.ones(2)}, "best": np.float64(2), "e": [1, (2, 3)]}, path)
    with zipfile.ZipFile(path) as archive:
        name = next(name for name in archive.namelist() if name.endswith("data.pkl"))
        program = archive.read(name)
    random = Random(0)
    for _ in range(300):
        damaged = bytearray(program)
        i, j = random.randrange(len(program)), random.randrange(len(program))
        damaged[i : i + random.randrange(3)] = random.choice((program[j : j + 20], b"", b"R", b"b"))
        write_archive(path, bytes(damaged), _0=bytes(8))
        refused(path, "cannot read|a whole file of torch.save")


def tensor_program(
    numel: int, offset: int, size: tuple[int, ...], stride: tuple[int, ...]
) -> bytes:
    """Write the pickle of a checkpoint with one tensor, in a storage of ``numel`` floats."""

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
        ((4, 1, (4,), (1,)), "storage that is not resizable"),
        ((4, 0, (2, 2), (3, 1)), "storage that is not resizable"),
        ((4, -1, (2,), (1,)), "got: "),
        ((4, 0, (-2,), (1,)), "got: "),
        ((4, 0, (2,), (-1,)), "got: "),
        ((4, 0, (2, 2), (1,)), "got: "),
        ((1 << 62, 0, (1,), (1,)), "got: "),
    ],
)
def test_tensors_outside_their_storage_are_refused(path: Path, shape: Any, message: str) -> None:
    """The first tensor is valid; its checkpoint is refused for another reason."""
    write_archive(path, tensor_program(*shape), _0=bytes(16))
    refused(path, message)


def test_shared_storage_longer_than_the_file_is_refused(path: Path, model: Model) -> None:
    """Weights that are views of one storage are longer together than the file."""
    state = model.state_dict()
    whole = torch.zeros(max(a.numel() for a in state.values()))
    views = {
        n: whole[: a.numel()].view(a.shape) if a.is_floating_point() else a
        for n, a in state.items()
    }
    torch.save({"state_dict": views}, path)
    refused(path, "tensors that fit in the file, got more")


def test_expanded_tensor_is_refused(path: Path, model: Model) -> None:
    """A few stored numbers could stand for any number of weights."""
    state = model.state_dict()
    state["head.1.bias"] = torch.zeros(1).expand(512)
    torch.save({"state_dict": state}, path)
    refused(path, "tensors of real numbers stored as they are, got others")
    state["head.1.bias"] = torch.zeros(512)
    state["encoder.bn1.num_batches_tracked"] = torch.zeros((), dtype=torch.complex64)
    torch.save({"state_dict": state}, path)
    refused(path, "tensors of real numbers stored as they are, got others")
