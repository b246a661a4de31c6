"""Features that cannot be mapped: temporary copies, their size and their removal."""

from __future__ import annotations

import errno
import gc
import os
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from resultant._core import chunks
from resultant.cli import main as cli
from resultant.features import parquet
from resultant.features.store import FeatureStore, write_store
from resultant.features.subsets import held_out
from small_features import COUNTS, small_features
from small_store import ROWS, WIDTH, rows_and_labels


def opened_in(folder: Path) -> list[str]:
    """The files of a folder that this process has open, with a name or without."""
    result = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
        result += [target] if target.startswith(str(folder)) else []
    return result


def shard_store(folder: Path) -> FeatureStore:
    x, y = rows_and_labels()
    for i in range(3):
        rows = slice(20 * i, 20 * i + 20)
        save_file({"z": x[rows].clone(), "labels": y[rows]}, folder / f"train-{i}.safetensors")
    return FeatureStore.open(folder)


def compressed(folder: Path) -> FeatureStore:
    x, y = rows_and_labels()
    np.savez_compressed(folder / "a.npz", z=x.numpy(), labels=y.numpy())
    return FeatureStore.open(folder / "a.npz")


def one_parquet(folder: Path) -> FeatureStore:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    x, y = rows_and_labels()
    table = pa.table({"z": list(x.numpy()), "label": y.numpy()})
    pq.write_table(table, folder / "a.parquet", row_group_size=7)
    return FeatureStore.open(folder / "a.parquet")


COPIED = {"shards": shard_store, "npz": compressed, "parquet": one_parquet}


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
@pytest.mark.parametrize("kind", COPIED)
def test_copies_have_no_name_and_go_with_the_store(kind: str, tmp_path: Path, spool: Path) -> None:
    (tmp_path / "data").mkdir()
    opened = COPIED[kind](tmp_path / "data")
    assert opened.copied_bytes("train/z", "train/labels") == 4 * ROWS * WIDTH
    assert not opened_in(spool)
    x = opened.vectors("train/z")[:]
    assert torch.equal(x, rows_and_labels()[0])
    assert opened_in(spool) and not os.listdir(spool)
    # There now, and not copied again.
    assert opened.copied_bytes("train/z") == 0
    assert torch.equal(opened.vectors("train/z")[:], x)
    del opened, x
    gc.collect()
    assert not opened_in(spool)


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
@pytest.mark.parametrize("kind", COPIED)
def test_an_interrupted_copy_is_removed(
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
        opened.vectors("train/z")
    gc.collect()
    assert not opened_in(spool) and not os.listdir(spool)


def test_mapped_and_held_features_are_not_copied(tmp_path: Path, spool: Path) -> None:
    x, y = rows_and_labels()
    write_store(tmp_path / "a.safetensors", {"z": x, "labels": y})
    one = FeatureStore.open(tmp_path / "a.safetensors")
    assert one.copied_bytes("train/z") == 0
    assert FeatureStore("memory", {"z": x, "labels": y}).copied_bytes("train/z") == 0
    # Of every class a fifth of twelve rows is held out, and both parts are copied.
    divided = held_out(one)
    assert divided.copied_bytes("train/z") == 4 * WIDTH * 50
    assert divided.copied_bytes("train/z", "test/z") == 4 * WIDTH * 60


def test_too_little_disk_is_an_error_before_the_work(
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
    message = capsys.readouterr().err
    assert len(message.splitlines()) == 1
    rule = f"expected {size:,} bytes free in {spool} for a copy of {tmp_path / 'data'}"
    assert f"{rule}, got {size - 1:,}; TMPDIR" in message
    assert sorted(os.listdir(tmp_path)) == ["data", "spool"]
    both = ["compare", str(tmp_path / "data"), str(tmp_path / "data"), *words[2:]]
    free = 2 * size - 1
    assert cli.main(both) == 2
    assert f"expected {2 * size:,} bytes free" in capsys.readouterr().err
    free = 0
    with pytest.raises(ValueError, match="for a copy of train/projection of"):
        FeatureStore.open(tmp_path / "data").vectors("train/projection")


@pytest.mark.slow
def test_the_size_of_a_copy_is_printed(tmp_path: Path, spool: Path, capsys: Any) -> None:
    arrays: dict[str, Any] = {n: a.numpy() for n, a in small_features().items()}
    np.savez_compressed(tmp_path / "a.npz", **arrays)
    words = [str(tmp_path / "a.npz"), "--out", str(tmp_path / "out")]
    assert cli.main(["analyze", *words]) == 0
    assert f"0.0 GB of features are copied to {spool} meanwhile" in capsys.readouterr().err


def test_a_full_disk_is_a_plain_error(
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
        shard_store(tmp_path / "data").vectors("train/z")


def test_small_vectors_are_held(tmp_path: Path) -> None:
    assert isinstance(shard_store(tmp_path).vectors("train/z"), torch.Tensor)


def test_parquet_is_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece is decoded with no more than a batch of rows that were not asked for."""
    monkeypatch.setattr(chunks, "READ_BYTES", 4 * WIDTH * 5)
    rows: Any = one_parquet(tmp_path).rows("train/z")
    decoded, whole = [], parquet.ParquetRows.vectors

    def vectors(self: Any, batch: Any, top: int) -> torch.Tensor:
        decoded.append(batch.num_rows)
        return whole(self, batch, top)

    monkeypatch.setattr(parquet.ParquetRows, "vectors", vectors)
    x, _ = rows_and_labels()
    for start, stop in ((0, 4), (4, 12), (12, 13), (40, 44)):
        before = sum(decoded)
        assert torch.equal(rows.read(start, stop), x[start:stop])
        # A batch ends within what was asked for, and one begins at the row group.
        assert sum(decoded) - before <= stop - start + 5 + 7
    assert max(decoded) <= 5
