"""Host pipeline: views, workers, ranks and random generators."""

from __future__ import annotations

import random
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from listed import image_files
from resultant._core import distributed
from resultant.images import loader as images
from resultant.images.files import FileImages, file_facts
from resultant.training.batches import normalized
from resultant.training.config import preset

MEAN, SIZE = (0.466, 0.471, 0.380), 24


def dataset(folder: Path, number: int = 13, seed: int = 4) -> images.ViewDataset:
    names = image_files(folder, number)
    paths = [str(folder / n) for n in names]
    listed = FileImages(paths, np.arange(number) % 3, tuple("abc"), file_facts(paths))
    contrastive = images.contrastive_view(SIZE)
    views = [contrastive, contrastive, images.classification_view(MEAN, SIZE)]
    return images.ViewDataset(listed, views, seed)


def epoch_of(loader: images.Loader, epoch: int) -> list[list[torch.Tensor]]:
    loader.set_epoch(epoch)
    return [list(batch) for batch in loader]


def equal(a: list[list[torch.Tensor]], b: list[list[torch.Tensor]]) -> bool:
    pairs = zip(chain(*a), chain(*b), strict=True)
    return all(torch.equal(x, y) for x, y in pairs)


@pytest.mark.slow
def test_views_do_not_depend_on_the_number_of_workers(tmp_path: Path) -> None:
    data = dataset(tmp_path)
    alone = images.loader(data, 4, train=True, workers=0)
    several = images.loader(data, 4, train=True, workers=2)
    first = [epoch_of(alone, e) for e in (0, 1)]
    # Persistent workers follow the epoch, and a loader may start at any epoch.
    assert [equal(epoch_of(several, e), first[e]) for e in (0, 1)] == [True, True]
    torch.manual_seed(99)
    resumed = images.loader(data, 4, train=True, epoch=1, workers=0)
    assert equal([list(batch) for batch in resumed], first[1])
    views, labels, indices = first[0][0]
    assert views.shape == (4, 3, 3, SIZE, SIZE) and views.dtype == torch.uint8
    assert (labels == indices % 3).all() and len(first[0]) == 3
    # Views, epochs, images and seeds all differ.
    assert not torch.equal(views[:, 0], views[:, 1])
    item = {k: data[k][0] for k in ((0, 5), (1, 5), (0, 6))}
    assert not torch.equal(item[0, 5], item[1, 5]) and not torch.equal(item[0, 5], item[0, 6])
    assert not torch.equal(item[0, 5], dataset(tmp_path, seed=5)[0, 5][0])
    assert torch.equal(data[5][0], item[0, 5])


def test_ranks_share_the_epoch(tmp_path: Path) -> None:
    data = dataset(tmp_path)
    ranks = [images.loader(data, 2, train=True, workers=0, rank=r, world_size=3) for r in range(3)]
    seen = [torch.cat([b[2] for b in epoch_of(loader, 2)]).tolist() for loader in ranks]
    assert [len(s) for s in seen] == [4, 4, 4] and len(set(chain(*seen))) == 12
    one = {int(i): v for v, _, i in (data[2, k] for k in seen[1])}
    for views, _, indices in epoch_of(ranks[1], 2):
        assert all(torch.equal(v, one[int(i)]) for v, i in zip(views, indices, strict=True))
    test = [images.loader(data, 5, train=False, workers=0, rank=r, world_size=3) for r in range(3)]
    rows = [torch.cat([b[2] for b in loader]).tolist() for loader in test]
    assert set(chain(*rows)) == set(range(13)) and [len(r) for r in rows] == [5, 5, 5]


def test_global_generators_are_restored(tmp_path: Path) -> None:
    data = dataset(tmp_path, 2)

    def draws() -> tuple[float, float, float]:
        return float(torch.rand(())), random.random(), float(np.random.rand())  # noqa: NPY002

    def seeded() -> None:
        torch.manual_seed(1)
        random.seed(1)
        np.random.seed(1)  # noqa: NPY002

    seeded()
    expected = draws()
    seeded()
    data[0, 1]
    assert draws() == expected


def test_evaluation_view_is_resize_and_centre(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    image = Image.fromarray(rng.integers(0, 256, (300, 400, 3), dtype=np.uint8))
    view = images.evaluation_view()(image)
    small = image.resize((341, 256), Image.Resampling.BILINEAR)
    left, top = round((341 - 224) / 2), (256 - 224) // 2
    expected = np.asarray(small.crop((left, top, left + 224, top + 224)))
    assert np.array_equal(view.numpy(), expected.transpose(2, 0, 1))


@pytest.mark.parametrize("name", ["imagenet-lt", "inaturalist18"])
def test_views_are_exact_in_uint8(name: str) -> None:
    """Every augmentation is of PIL images, so that uint8 views lose nothing."""
    mean, std = preset(name).channels
    views: list[Any] = [
        images.contrastive_view(SIZE),
        images.classification_view(mean, SIZE),
        images.evaluation_view(SIZE),
    ]
    rng = np.random.default_rng(1)
    image = Image.fromarray(rng.integers(0, 256, (40, 30, 3), dtype=np.uint8))
    for index, view in enumerate(views * 4):
        with images.item_randomness(0, 0, index):
            picture = image
            for step in view.transforms[:-2]:
                picture = step(picture)
                assert isinstance(picture, Image.Image) and picture.mode == "RGB"
        with images.item_randomness(0, 0, index):
            got = normalized(view(image)[None, None], (mean, std), torch.device("cpu"))[0]
        exact = (np.asarray(picture, np.float64) / 255 - mean) / std
        np.testing.assert_allclose(got.permute(1, 2, 0), exact, rtol=0, atol=2e-6)


@pytest.mark.slow
def test_contrastive_view_has_the_probabilities_of_the_recipe() -> None:
    """Grey (.2), flip (.5) and jitter (.8) within four standard deviations of 800 draws."""
    view = images.contrastive_view(8)
    ramp = np.zeros((8, 64, 3), np.uint8)
    ramp[..., 0] = 100 + np.arange(64)
    ramp[..., 1], ramp[..., 2] = 60, 200
    image = Image.fromarray(ramp)
    grey = flipped = plain = 0
    for index in range(800):
        with images.item_randomness(0, 0, index):
            out = view(image)
        grey += bool((out[0] == out[1]).all() and (out[1] == out[2]).all())
        plain += bool((out[1] == 60).all() and (out[2] == 200).all())
        flipped += bool(out[0, 0, 0] > out[0, 0, -1])
    for count, p in ((grey, 0.2), (plain, 0.2 * 0.8)):
        assert abs(count - 800 * p) < 4 * (800 * p * (1 - p)) ** 0.5
    # A hue may reverse the ramp, so that the share of flips is only roughly a half.
    assert 250 < flipped < 550


@pytest.mark.parametrize("workers", [0, 2])
def test_errors_of_workers_are_one_line(tmp_path: Path, workers: int) -> None:
    data = dataset(tmp_path, 6)
    broken = data.images.name(4)
    Path(broken).write_bytes(b"text")
    batches = iter(images.loader(data, 2, train=False, workers=workers))
    assert [next(batches)[2].tolist() for _ in range(2)] == [[0, 1], [2, 3]]
    whole = f"^expected {broken} to be a whole image, got no known format$"
    with pytest.raises(images.ImageError, match=whole):
        next(batches)


def test_workers_start_with_the_epoch(tmp_path: Path) -> None:
    """They do not wait for the first batch."""
    loader = images.loader(dataset(tmp_path, 2), 1, train=False, workers=1)
    batches = iter(loader)
    assert loader._iterator is not None
    assert len(list(batches)) == 2


def test_ranks_of_the_process_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = dataset(tmp_path, 6)
    monkeypatch.setattr(distributed, "rank", lambda: 1)
    monkeypatch.setattr(distributed, "world_size", lambda: 3)
    rows = [batch[2].tolist() for batch in images.loader(data, 1, train=False, workers=0)]
    assert rows == [[1], [4]]


def test_bad_arguments(tmp_path: Path) -> None:
    data = dataset(tmp_path, 3)
    for arguments, message in (
        ({"batch_size": 4, "train": True}, "one batch of 4 per rank .1., got 3 images"),
        ({"batch_size": 0, "train": True}, "batch_size >= 1 and workers >= 0, got 0 and 8"),
        ({"batch_size": 1, "train": True, "rank": 0}, "both rank and world_size"),
    ):
        with pytest.raises(ValueError, match=message):
            images.loader(data, **arguments)
    with pytest.raises(ValueError, match="expected seed >= 0, got -1"):
        images.ViewDataset(data.images, data.views, -1)
    with pytest.raises(ValueError, match="one view or more"):
        images.ViewDataset(data.images, [])
    with pytest.raises(IndexError, match=r"an index in \[0, 3\), got 3"):
        data[0, 3]
