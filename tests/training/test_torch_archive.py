"""Hostile, damaged and altered archives of torch.save: nothing in them runs."""

from __future__ import annotations

import io
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
from resultant.training import _torch_archive
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
    "reduce of a stand-in": (call("loss.proco ProCoLoss"), "got REDUCE of loss.proco ProCoLoss"),
    "stand-in with arguments": (
        call("loss.proco ProCoLoss", text("touch {}"), operation=b"\x81"),
        "got NEWOBJ of loss.proco ProCoLoss with 1 arguments",
    ),
    "new of a function": (call("torch._utils _rebuild_tensor_v2", operation=b"\x81"), "got NEWOBJ"),
    "reduce of text": (text("os.system") + b"(" + text("touch {}") + b"tR", "a name to be called"),
    "attributes of a function": (
        b"ccollections\nOrderedDict\n}" + text("__call__") + b"Nsb",
        "got those of Global",
    ),
    "attributes of a class": (
        b"closs.proco\nProCoLoss\n}" + text("__setstate__") + b"Nsb",
        "got those of Global",
    ),
    "slots of a stand-in": (
        call("loss.proco ProCoLoss", operation=b"\x81") + b"N}" + text("a") + b"Ns\x86b",
        "got those of StandIn",
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
    refused(path, "older format of torch.save, a bare pickle, is not read")
    proof = tmp_path / "proof"
    path.write_bytes(pickle.dumps(Calls(os.system, (f"touch {proof}",))))
    refused(path, "older format")
    assert not proof.exists()
    path.write_bytes(b"")
    refused(path, "a zip archive of torch.save")
    with pytest.raises(FileNotFoundError):
        read_proco_checkpoint(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="expected a checkpoint of ProCo, got a folder"):
        read_proco_checkpoint(tmp_path)


@pytest.mark.parametrize("share", [0.001, 0.3, 0.9, 0.9999])
def test_truncated_file_is_refused(path: Path, model: Model, share: float) -> None:
    torch.save(checkpoint(model), path)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    refused(path, "broken one")


def rewritten(path: Path, change: Callable[[str, bytes], bytes | None], kind: int = 0) -> None:
    """Write the archive again, with entries changed or, for None, left out."""
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
        lambda n, d: d + bytes(1 << 20) if n.endswith("pkl") else d,
        "data.pkl of at most 1048576 bytes",
    ),
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
    """Compressed entries are never opened."""
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
        refused(path, "cannot read")


def test_damaged_pickle_does_not_run(path: Path) -> None:
    """Lost, repeated and changed instructions give inert data, or are refused."""
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
            _torch_archive.PickleInterpreter().run(bytes(damaged))
            ended += 1
        except _torch_archive.RefusedError:
            pass
    assert 0 < ended < 2000


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


def test_storage_type_must_be_known(path: Path) -> None:
    buffer = io.BytesIO()
    torch.save({"state_dict": {"a": torch.zeros(2, dtype=torch.complex64)}}, buffer)
    path.write_bytes(buffer.getvalue())
    refused(path, "the global 'torch ComplexFloatStorage'")
