"""Features that cannot be mapped: how they are streamed, copied to disk, and the copies dropped."""

from __future__ import annotations

import errno
import gc
import os
import re
import shutil
import tempfile
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from resultant._core import chunks
from resultant.cli import main as cli
from resultant.features import numpy_files, parquet
from resultant.features.numpy_files import ArchiveRows, map_npz
from resultant.features.rows import MappedRows
from resultant.features.store import FeatureStore, write_store
from resultant.features.subsets import held_out
from small_features import COUNTS, small_features

N, D = 60, 8


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files; 100 bytes are much, and pieces are small."""
    folder = tmp_path / "spool"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(chunks, "HELD_BYTES", 100)
    monkeypatch.setattr(chunks, "READ_BYTES", 300)
    return folder


def opened_in(folder: Path) -> list[str]:
    """The files of a folder that this process has open, with a name or without."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
        found += [target] if target.startswith(str(folder)) else []
    return found


def given() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(N, D, generator=torch.Generator().manual_seed(1))
    return x, torch.arange(N) % 5


def shards(folder: Path) -> FeatureStore:
    x, y = given()
    for i in range(3):
        rows = slice(20 * i, 20 * i + 20)
        save_file({"z": x[rows].clone(), "labels": y[rows]}, folder / f"train-{i}.safetensors")
    return FeatureStore.open(folder)


def compressed(folder: Path) -> FeatureStore:
    x, y = given()
    np.savez_compressed(folder / "a.npz", z=x.numpy(), labels=y.numpy())
    return FeatureStore.open(folder / "a.npz")


def one_parquet(folder: Path) -> FeatureStore:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    x, y = given()
    table = pa.table({"z": list(x.numpy()), "label": y.numpy()})
    pq.write_table(table, folder / "a.parquet", row_group_size=7)
    return FeatureStore.open(folder / "a.parquet")


COPIED = {"shards": shards, "npz": compressed, "parquet": one_parquet}


# What is copied, and that nothing of it stays


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
@pytest.mark.parametrize("kind", COPIED)
def test_copies_have_no_name_and_go_with_the_store(kind: str, tmp_path: Path, spool: Path) -> None:
    (tmp_path / "data").mkdir()
    opened = COPIED[kind](tmp_path / "data")
    assert opened.copied_bytes("train/z", "train/labels") == 4 * N * D
    assert not opened_in(spool)
    x = opened["train/z"]
    assert torch.equal(x, given()[0])
    assert opened_in(spool) and not os.listdir(spool)
    # There now, and not copied again.
    assert opened.copied_bytes("train/z") == 0
    assert torch.equal(opened["train/z"], x)
    del opened, x
    gc.collect()
    assert not opened_in(spool)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
@pytest.mark.parametrize("kind", COPIED)
def test_an_interrupted_copy_is_gone(
    kind: str, tmp_path: Path, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    opened, whole = COPIED[kind](tmp_path / "data"), FeatureStore.chunks

    def chunks(self: FeatureStore, name: str) -> Any:
        for i, piece in enumerate(whole(self, name)):
            if i == 2:
                assert opened_in(spool)
                raise KeyboardInterrupt
            yield piece

    monkeypatch.setattr(FeatureStore, "chunks", chunks)
    with pytest.raises(KeyboardInterrupt):
        opened["train/z"]
    gc.collect()
    assert not opened_in(spool) and not os.listdir(spool)


def test_what_is_mapped_or_held_is_not_copied(tmp_path: Path, spool: Path) -> None:
    x, y = given()
    write_store(tmp_path / "a.safetensors", {"z": x, "labels": y})
    one = FeatureStore.open(tmp_path / "a.safetensors")
    assert one.copied_bytes("train/z") == 0
    assert FeatureStore("memory", {"z": x, "labels": y}).copied_bytes("train/z") == 0
    # Of every class a fifth of twelve rows is held out, and both parts are copied.
    divided = held_out(one)
    assert divided.copied_bytes("train/z") == 4 * D * 50
    assert divided.copied_bytes("train/z", "test/z") == 4 * D * 60


# Too little disk


def test_too_little_disk_is_told_before_the_work(
    tmp_path: Path, spool: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    (tmp_path / "data").mkdir()
    arrays = small_features()
    for i, rows in enumerate(torch.arange(sum(COUNTS)).split(50)):
        part = {n: a[rows] for n, a in arrays.items() if n.startswith("train/")}
        save_file(part, tmp_path / "data" / f"train-{i}.safetensors")
    save_file(
        {n: a for n, a in arrays.items() if n.startswith("test/")},
        tmp_path / "data" / "test-0.safetensors",
    )
    # The held-out rows are in one file, and mapped.
    size = 4 * arrays["train/projection"].numel()
    words = ["analyze", str(tmp_path / "data"), "--out", str(tmp_path / "out")]
    free = size - 1
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=free))

    def looked_at(*_: Any) -> None:
        raise AssertionError("no feature is looked at before there is room for them")

    with monkeypatch.context() as patch:
        patch.setattr(FeatureStore, "chunks", looked_at)
        assert cli.main(words) == 2
    told = capsys.readouterr().err
    assert len(told.splitlines()) == 1
    rule = f"expected {size:,} bytes free in {spool} for a copy of {tmp_path / 'data'}"
    assert f"{rule}, got {size - 1:,}; TMPDIR" in told
    assert sorted(os.listdir(tmp_path)) == ["data", "spool"]
    both = ["compare", str(tmp_path / "data"), str(tmp_path / "data"), *words[2:]]
    free = 2 * size - 1
    assert cli.main(both) == 2
    assert f"expected {2 * size:,} bytes free" in capsys.readouterr().err
    free = 0
    with pytest.raises(ValueError, match="for a copy of train/projection of"):
        FeatureStore.open(tmp_path / "data")["train/projection"]


def test_the_size_of_a_copy_is_told(
    tmp_path: Path, spool: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    from resultant.report import analysis_page as content

    monkeypatch.setattr(content, "drawings", lambda *_: [])
    arrays: dict[str, Any] = {n: a.numpy() for n, a in small_features().items()}
    np.savez_compressed(tmp_path / "a.npz", **arrays)
    words = [str(tmp_path / "a.npz"), "--out", str(tmp_path / "out")]
    assert cli.main(["analyze", *words]) == 0
    assert f"0.0 GB of features are copied to {spool} meanwhile" in capsys.readouterr().err


def test_a_disk_that_fills_up_is_a_plain_error(
    tmp_path: Path, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        def close(self) -> None:
            pass

        def write(self, data: Any) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "TemporaryFile", Full)
    (tmp_path / "data").mkdir()
    message = rf"expected room for a copy of train/z of .* in {spool}, got: .*No space left"
    with pytest.raises(ValueError, match=message):
        shards(tmp_path / "data")["train/z"]


# Arrays of an .npz


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("name", ["z", "zz", "zzz", "zzzz"])
def test_stored_arrays_are_mapped_where_they_are_aligned(
    name: str, dtype: Any, tmp_path: Path
) -> None:
    """Whatever the length of a name makes of the place of its array."""
    x = np.random.default_rng(0).normal(size=(N, D)).astype(dtype)
    np.savez(tmp_path / "a.npz", **{"first": x[:1], name: x, "labels": np.arange(N)})
    rows = map_npz(tmp_path / "a.npz", keep_open=True)[name]
    place = (tmp_path / "a.npz").read_bytes().index(x.tobytes())
    assert isinstance(rows, MappedRows if place % x.itemsize == 0 else ArchiveRows)
    assert (rows.read(0, N).numpy() == x).all() and (rows.read(7, 9).numpy() == x[7:9]).all()
    found = FeatureStore.open(tmp_path / "a.npz", features=name)[f"train/{name}"]
    assert (found.numpy() == x).all()
    found.zero_()
    assert (np.load(tmp_path / "a.npz")[name] == x).all()


@pytest.mark.parametrize("step", [1, 100, 1 << 20])
def test_compressed_rows_in_any_order(
    step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numpy_files, "STEP", step)
    x, _ = given()
    np.savez_compressed(tmp_path / "a.npz", z=x.numpy())
    rows = map_npz(tmp_path / "a.npz", keep_open=True)["z"]
    assert isinstance(rows, ArchiveRows) and rows.shape == (N, D)
    for start, stop in ((0, 3), (3, 9), (20, 21), (5, 60), (0, 60), (59, 60), (10, 10)):
        assert torch.equal(rows.read(start, stop), x[start:stop])


def test_compressed_rows_that_are_broken_or_change(tmp_path: Path) -> None:
    path, x = tmp_path / "a.npz", torch.randn(6000, D)
    np.savez_compressed(path, z=x.numpy())
    rows = map_npz(path, keep_open=True)["z"]
    assert isinstance(rows, ArchiveRows) and torch.equal(rows.read(0, 5), x[:5])
    np.savez_compressed(path, z=x.numpy(), more=x.numpy())
    with pytest.raises(ValueError, match=r"a\.npz .* got: it changed"):
        rows.read(0, N)
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        place = archive.getinfo("z.npy").header_offset + 30 + len("z.npy") + 20 + 99_000
    data[place] ^= 1
    path.write_bytes(data)
    broken = map_npz(path, keep_open=True)["z"]
    assert isinstance(broken, ArchiveRows)
    with pytest.raises(ValueError, match=r"expected .*a\.npz to be a whole \.npz"):
        broken.read(0, len(x))


# Parquet of many row groups


def test_parquet_is_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece is decoded with no more than a batch of rows that were not asked for."""
    monkeypatch.setattr(chunks, "READ_BYTES", 4 * D * 5)
    rows: Any = one_parquet(tmp_path).rows("train/z")
    decoded, whole = [], parquet.ParquetRows._vectors

    def vectors(self: Any, column: Any, top: int) -> torch.Tensor:
        decoded.append(len(column))
        return whole(self, column, top)

    monkeypatch.setattr(parquet.ParquetRows, "_vectors", vectors)
    x, _ = given()
    for start, stop in ((0, 4), (4, 12), (12, 13), (40, 44)):
        before = sum(decoded)
        assert torch.equal(rows.read(start, stop), x[start:stop])
        # A batch ends within what was asked for, and one begins at the row group.
        assert sum(decoded) - before <= stop - start + 5 + 7
    assert max(decoded) <= 5


def test_messages_name_the_file(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", z=np.ones((4, 3), "c8"), labels=np.arange(4))
    rule = f"expected features in {tmp_path / 'a.npz'}, [N, d] floats"
    with pytest.raises(
        ValueError, match=re.escape(f"{rule}, got train/z (torch.complex64 [4, 3])")
    ):
        FeatureStore.open(tmp_path / "a.npz")


# Rows here and there


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("one", [True, False])
def test_rows_here_and_there(dtype: torch.dtype, one: bool, tmp_path: Path, spool: Path) -> None:
    x, y = given()
    x = x.to(dtype)
    save_file({"z": x[:40].clone(), "labels": y[:40]}, tmp_path / "train-0.safetensors")
    save_file({"z": x[40:].clone(), "labels": y[40:]}, tmp_path / "train-1.safetensors")
    path = tmp_path / "train-0.safetensors"
    opened = FeatureStore.open(path if one else tmp_path)
    expected, found = (x[:40] if one else x), opened.vectors("train/z")
    assert isinstance(found, MappedRows) and len(found) == len(expected)
    for rows in (torch.tensor([3, 39, 0, 3]), torch.arange(len(found)), torch.arange(0)):
        assert torch.equal(found[rows], expected[rows])
    for part in (slice(0, 7), slice(5, 5), slice(30, 1000), slice(None)):
        assert torch.equal(found[part], expected[part])
    found[torch.tensor([1])].zero_()
    assert torch.equal(found[torch.tensor([1])], expected[1:2])


def test_vectors_of_a_file_that_is_cut(tmp_path: Path, spool: Path) -> None:
    write_store(tmp_path / "a.safetensors", {"z": given()[0], "labels": given()[1]})
    found = FeatureStore.open(tmp_path / "a.safetensors").vectors("train/z")
    os.truncate(tmp_path / "a.safetensors", 1500)
    with pytest.raises(ValueError, match=r"expected 60 rows in .*a\.safetensors, got 59"):
        found[torch.tensor([59])]


def test_small_vectors_are_held(tmp_path: Path) -> None:
    assert isinstance(shards(tmp_path).vectors("train/z"), torch.Tensor)


@pytest.mark.usefixtures("spool")
def test_a_large_feature_is_mapped_once(tmp_path: Path) -> None:
    """However often it is asked for; its memory can be given back in between."""
    x, y = given()
    path = tmp_path / "x.safetensors"
    write_store(path, {"train/x": x, "train/labels": y})
    opened = FeatureStore.open(path)
    found = opened["train/x"]
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        opened.release()
        assert torch.equal(opened["train/x"], x)
    assert len(os.listdir("/proc/self/fd")) == before
    assert opened["train/x"].data_ptr() == found.data_ptr()
