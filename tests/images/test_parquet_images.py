"""Images in Parquet: splits, parts, broken rows, and files that declare more than they hold."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from images.photos import counts, photo, photo_bytes, same, write_parquet
from resultant.images.decode import ImageError
from resultant.images.opening import open_images
from resultant.images.parquet import read_parquet


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize(
    "labels",
    [
        [0, 1, 2, 1, 0, 1, 1],
        ["a", "b", "c", "b", "a", "b", "b"],
        pa.array(["a", "b", "c", "b", "a", "b", "b"]).dictionary_encode(),
    ],
)
def test_parquet(labels: Any, plain: bool, tmp_path: Path) -> None:
    for split in ("train-00000-of-00002", "train-00001-of-00002", "test"):
        write_parquet(tmp_path / "data" / f"{split}.parquet", labels, plain=plain)
    splits = open_images(tmp_path)
    assert splits.class_names in (("0", "1", "2"), ("a", "b", "c"))
    assert splits.counts.tolist() == [4, 8, 2] and counts(splits.test) == [2, 4, 1]
    train = splits.train
    for i in (13, 0, 6, 7, 12):
        assert same(train.read(i), photo(i % 7))
    second = tmp_path / "data" / "train-00001-of-00002.parquet"
    assert train.name(8) == f"{second} row 1"


def test_one_parquet_file_or_a_pattern(tmp_path: Path) -> None:
    for part in range(2):
        images = [photo_bytes(10 * part + i) for i in range(10)]
        path, names = tmp_path / f"part-{part}.parquet", ["crow", "crane"]
        write_parquet(path, [0, 1] * 5, names=names, images=images)
    one = open_images(tmp_path / "part-0.parquet", held_out=0.9)
    assert one.counts.tolist() == [2, 2] and one.class_names == ("crow", "crane")
    both = open_images(tmp_path / "part-*.parquet", held_out=0.5)
    assert len(both.train) + len(both.held_out_splits["test"]) == 20


def test_null_and_damaged_rows_of_parquet(tmp_path: Path) -> None:
    images = [photo_bytes(0), None, b"text", photo_bytes(3)]
    path = write_parquet(tmp_path / "train.parquet", [0, 1, 0, 1], images=images, group=2)
    write_parquet(tmp_path / "test.parquet", [0, 1])
    source = open_images(tmp_path).train
    with pytest.raises(ImageError, match=rf"^expected an image at {path} row 1, got null$"):
        source.read(1)
    with pytest.raises(ImageError, match=rf"^expected {path} row 2 to be a whole image, got no"):
        source.read(2)
    splits = open_images(tmp_path, skip_broken=True)
    assert splits.counts.tolist() == [1, 1] and len(splits.skipped) == 2
    # Damaged pages behind an intact footer.
    column = pq.ParquetFile(path).metadata.row_group(1).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + 40] = bytes(40)
    path.write_bytes(content)
    source = open_images(tmp_path).train
    assert source.read(0).mode == "RGB"
    rule = rf"^expected {path} row 2 to be the start of a whole row group, got: [^\n]+$"
    with pytest.raises(ImageError, match=rule):
        source.read(3)


def test_parquet_that_declares_far_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One copy is held of an image that many rows share; what exceeds the memory is refused."""
    image = photo_bytes(0) + bytes(50_000)
    for plain in (True, False):
        rows = [image] * 100 if plain else [{"bytes": image}] * 100
        table = pa.table({"image": rows, "label": [0, 1] * 50})
        pq.write_table(table, tmp_path / "train.parquet")
        images: Any = read_parquet([tmp_path / "train.parquet"]).images
        assert images[99] == image
        assert images._images(0).nbytes < 10 * len(image)
    monkeypatch.setattr("resultant.features.declared.total_memory", lambda: 1000)
    images = read_parquet([tmp_path / "train.parquet"]).images
    with pytest.raises(ImageError, match=r"train\.parquet row 0 .* bytes of row group 0, beyond"):
        _ = images[0]
