"""Small or damaged files that claim much: one-line errors, bounded memory, no hang, no SIGBUS."""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from embedding_files import X, Y, write_parquet
from programs import run_program
from resultant.features.store import FeatureStore, write_store
from small_store import rows_and_labels


def flip(path: Path, content: bytes) -> None:
    """Flip one bit of a content in a file."""
    data = bytearray(path.read_bytes())
    data[data.index(content) + len(content) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("name", ["z", "zz", "zzz", "zzzz"])
def test_a_flipped_bit_of_an_npz(name: str, tmp_path: Path) -> None:
    """The alignment of a name decides whether its member is read in its place."""
    path, x = tmp_path / "a.npz", np.tile(X, (100, 1))
    np.savez(path, **{name: x, "y": np.tile(Y, 100)})
    assert len(FeatureStore.open(path)[f"train/{name}"]) == len(x)
    flip(path, x.tobytes())
    with pytest.raises(ValueError, match=r"a\.npz.*(got another: it is damaged|Bad CRC-32)"):
        FeatureStore.open(path).check()


@pytest.mark.parametrize("array", ["z", "labels"])
def test_a_flipped_bit_of_a_store(array: str, tmp_path: Path) -> None:
    x, y = rows_and_labels()
    path = tmp_path / "a.safetensors"
    write_store(path, {"z": x, "labels": y})
    flip(path, {"z": x, "labels": y}[array].numpy().tobytes())
    with pytest.raises(ValueError, match=r"a\.safetensors, got another: it is damaged"):
        FeatureStore.open(path).check()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("labels", [np.zeros(10**7, np.int8), np.zeros(10**6, "<U3")])
def test_row_counts_are_compared_first(labels: Any, order: Any, tmp_path: Path) -> None:
    """Before the labels are inflated: reading them would fail the test."""
    path = tmp_path / "a.npz"
    np.savez_compressed(path, X=np.asarray(X, order=order), y=labels)
    with pytest.raises(ValueError, match=f"expected .* rows in train/.*got {len(labels)}|got 40"):
        FeatureStore.open(path)


def test_a_compressed_bomb_in_fortran_order(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    header = "{'descr': '<f4', 'fortran_order': True, 'shape': (40, 500000), }\n"
    start = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", start + bytes(80 * 10**6))
    with pytest.raises(ValueError, match=r"a\.npz .* decodes to 80,\d+,\d+ bytes or more from"):
        FeatureStore.open(path)


STREAM = """
import resource, sys
from resultant._core import chunks
from resultant.features.store import FeatureStore
chunks.HELD_BYTES, chunks.READ_BYTES = 1 << 20, 1 << 20
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
# Once before, for what is loaded at the first call.
FeatureStore.open(sys.argv[1]).check()
before = peak()
FeatureStore.open(sys.argv[2]).check()
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has other units elsewhere")
def test_compressed_fortran_order_is_streamed(tmp_path: Path) -> None:
    """Eighteen megabytes in a few."""
    x = np.random.default_rng(0).integers(1, 3, (9000, 500)).astype(np.float32)
    for number in (400, 9000):
        arrays = {"X": np.asfortranarray(x[:number]), "y": np.arange(number) % 5}
        np.savez_compressed(tmp_path / f"{number}.npz", **arrays)
    assert int(run_program(STREAM, tmp_path / "400.npz", tmp_path / "9000.npz")[0]) < 12


def test_the_number_of_arrays_costs_linearly(tmp_path: Path) -> None:
    """Function calls for twice as many empty arrays."""
    calls = []
    for number in (200, 400):
        path = tmp_path / f"{number}.safetensors"
        arrays = {f"a{i}": torch.zeros(0) for i in range(number)}
        save_file({**arrays, "z": torch.ones(4, 3), "labels": torch.arange(4)}, path)
        count = 0

        def called(*_: object) -> None:
            nonlocal count
            count += 1

        sys.setprofile(called)
        try:
            FeatureStore.open(path)
        finally:
            sys.setprofile(None)
        calls.append(count)
    assert calls[1] < 2.2 * calls[0]


@pytest.mark.parametrize("suffix", ["csv", "npz", "safetensors", "pt", "parquet", "arrow", "h5ad"])
def test_pipes_are_refused(suffix: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / f"a.{suffix}")
    with pytest.raises(ValueError, match=rf"got a pipe or a device: .*a\.{suffix}"):
        FeatureStore.open(tmp_path / f"a.{suffix}")


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_table_truncated_while_it_is_read(kind: str, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    path, number = tmp_path / f"a.{kind}", 40_000
    x = np.random.default_rng(1).normal(size=(number, 8)).astype(np.float32)
    table = pa.table({"x": list(x), "label": np.arange(number) % 2})
    if kind == "parquet":
        write_parquet(path, table, row_group_size=10_000)
    else:
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table, 1000)
    pieces = FeatureStore.open(path).chunks("train/x", 500)
    next(pieces)
    os.truncate(path, 200_000)
    with pytest.raises(ValueError, match=rf"a\.{kind} to be a whole file of features, got"):
        list(pieces)


def test_a_store_truncated_while_it_is_read(tmp_path: Path) -> None:
    """An error, where a map would end the process."""
    path, x = tmp_path / "a.safetensors", torch.ones(40_000, 8)
    save_file({"z": x, "labels": torch.arange(40_000) % 2}, path)
    pieces = FeatureStore.open(path).chunks("train/z", 1000)
    next(pieces)
    os.truncate(path, 100_000)
    with pytest.raises(ValueError, match=r"a\.safetensors, got .*: the file became shorter"):
        list(pieces)


def test_parquet_counts_that_lie(tmp_path: Path) -> None:
    """The values of a column of labels, in the footer, are more than its rows."""
    path, number = tmp_path / "a.parquet", 20_000
    write_parquet(path, {"x": [[1.0, 2.0]] * number, "label": np.arange(number) % 3})
    data = path.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")

    def varint(value: int) -> bytes:
        value, out = 2 * value, b""
        while value > 127:
            out, value = out + bytes([value & 127 | 128]), value >> 7
        return out + bytes([value])

    # The second count of the footer is that of the values of the labels, after those of x.
    place = data.index(varint(number), data.index(b"label", data.index(b"element", footer)))
    lie = varint(1_000_000)
    path.write_bytes(data[:place] + lie + data[place + len(lie) :])
    with pytest.raises(ValueError, match=r"a\.parquet"):
        FeatureStore.open(path).check()


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_an_arrow_bomb(kind: str, tmp_path: Path) -> None:
    """A hundred megabytes of zeros, compressed ten thousand times, of which none are decoded."""
    pa = pytest.importorskip("pyarrow")
    path, pool = tmp_path / "a.arrow", pa.default_memory_pool()
    table = pa.table(
        {"x": np.zeros(12 << 20), "x2": np.ones(12 << 20), "label": np.zeros(12 << 20)}
    )
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    make = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    with make(str(path), table.schema, options=options) as writer:
        writer.write_table(table)
    before = pool.bytes_allocated()
    with pytest.raises(ValueError, match=r"a\.arrow .* decodes to \d+,\d+,\d+ bytes or more"):
        FeatureStore.open(path)
    assert pool.bytes_allocated() == before


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("kind", ["file", "stream"])
def test_whole_arrow_files(kind: str, compression: str | None, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    x, y = np.random.default_rng(1).normal(size=(500, 3)), np.arange(500) % 4
    names = pa.array([f"class {i}" for i in y]).dictionary_encode()
    table = pa.table({"x": list(x), "label": names})
    make = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with make(str(tmp_path / "a.arrow"), table.schema, options=options) as writer:
        writer.write_table(table, 200)
    store = FeatureStore.open(tmp_path / "a.arrow")
    assert (store["train/x"].numpy() == x).all() and (store["train/labels"].numpy() == y).all()


def test_strings_beyond_unicode(tmp_path: Path) -> None:
    labels = np.full(len(X), 0x7FFFFFFF, np.uint32).view("<U1")
    np.savez(tmp_path / "a.npz", X=X, y=labels)
    with pytest.raises(ValueError, match="expected strings of Unicode characters"):
        FeatureStore.open(tmp_path / "a.npz")


def test_a_flipped_bit_of_a_pt(tmp_path: Path) -> None:
    x, y = rows_and_labels()
    path = tmp_path / "a.pt"
    torch.save({"features": x, "labels": y}, path)
    flip(path, x.numpy().tobytes())
    with pytest.raises(ValueError, match=r"a\.pt .* another checksum of .*: it is damaged"):
        FeatureStore.open(path)
