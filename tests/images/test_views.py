"""Views of photographs against PIL, torchvision and timm, and the distributions of their
parameters."""

import itertools
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torchvision import transforms

from images import photos
from images.photos import FILL, LEAST_P, column, seeded
from resultant.images import photo_views, rendering
from resultant.images.photo_views import COLUMNS, OPERATIONS, PhotoView, classification_view

SIZE = 24


@pytest.mark.parametrize(
    "view", [photo_views.contrastive_view(SIZE), photo_views.classification_view(SIZE)]
)
def test_views_equal_torchvision_and_timm(view: PhotoView) -> None:
    equal_views(view)


def equal_views(view: PhotoView) -> None:
    pixels, offsets, sizes = photos.photographs(160)
    parameters = view.draw(sizes, seeded(7))
    expected = photos.references(pixels, offsets, sizes, parameters, SIZE)
    out = rendering.levels(pixels, offsets, sizes, parameters, SIZE, FILL)
    assert torch.equal(out, expected)


@pytest.mark.parametrize("ratio", [(3.0, 4.0), (0.2, 0.3), (1.0, 1.0)])
def test_crop_that_never_fits(ratio: tuple[float, float]) -> None:
    view = PhotoView(size=SIZE, scale=(1.0, 1.0), ratio=ratio)
    drawn = view.draw(torch.full((5, 2), SIZE), seeded())[:, :4]
    image = torch.empty(3, SIZE, SIZE)
    expected = transforms.RandomResizedCrop.get_params(image, [1.0, 1.0], list(ratio))
    assert drawn.tolist() == [list(expected)] * 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "scale", "ratio"),
    [
        ((30, 40), (0.08, 1.0), (3 / 4, 4 / 3)),
        ((64, 20), (0.08, 1.0), (3 / 4, 4 / 3)),
        ((20, 64), (0.7, 1.0), (0.4, 0.9)),
    ],
)
def test_crops_have_the_distribution_of_torchvision(
    shape: tuple[int, int], scale: tuple[float, float], ratio: tuple[float, float]
) -> None:
    view = PhotoView(size=SIZE, scale=scale, ratio=ratio)
    ours = view.draw(torch.tensor([shape]).expand(20_000, -1), seeded(9))[:, :4].numpy()
    torch.manual_seed(10)
    crop = transforms.RandomResizedCrop.get_params
    image = torch.empty(3, *shape)
    theirs = np.array([crop(image, list(scale), list(ratio)) for _ in range(2000)])

    def faces(box: np.ndarray) -> list[np.ndarray]:
        top, left, height, width = box.T
        middle = (2 * top + height - shape[0]) * (2 * left + width - shape[1])
        return [height * width, width / height, height, width, top, left, middle]

    for a, b in zip(faces(ours), faces(theirs), strict=True):
        assert float(stats.ks_2samp(a, b).pvalue) > LEAST_P  # type: ignore[attr-defined]


def test_jitter_grey_and_flip_have_their_probabilities() -> None:
    check_probabilities(PhotoView)


def check_probabilities(kind: type[PhotoView]) -> None:
    n = 20_000
    view = kind(size=SIZE, jitter=(0.4, 0.3, 1.5, 0.1))
    drawn = view.draw(torch.tensor([[30, 30]]).expand(n, -1), seeded(11))
    codes = drawn[:, [COLUMNS.index(f"code{k}") for k in range(7)]]
    jittered = codes[:, 0] != 0
    for used, p in (
        *((column(drawn, "flip"), 0.5), (jittered.numpy(), 0.8)),
        (codes[:, 4].numpy() != 0, 0.2),
    ):
        assert stats.binomtest(int(used.sum()), n, p).pvalue > LEAST_P
    assert set(codes[:, 4].tolist()) == {0.0, OPERATIONS.index("grey")}
    assert not codes[:, 5:].any()
    orders = Counter(tuple(map(int, row)) for row in codes[jittered, :4].tolist())
    assert len(orders) == 24 and all(sorted(order) == [1, 2, 3, 4] for order in orders)
    assert stats.chisquare(list(orders.values())).pvalue > LEAST_P
    values = drawn[:, [COLUMNS.index(f"value{k}") for k in range(6)]]
    for code, (low, high) in {1: (0.6, 1.4), 2: (0.7, 1.3), 3: (0.0, 2.5), 4: (-0.1, 0.1)}.items():
        found = values[:, :4][codes[:, :4] == code].numpy()
        assert stats.kstest(found, "uniform", (low, high - low)).pvalue > LEAST_P


def test_random_augmentation_has_the_distribution_of_timm() -> None:
    """Operations with their interpolation, and their values, as timm calls them."""
    from timm.data import auto_augment as timm

    names = {"auto_contrast": "autocontrast", "color": "saturation"}
    theirs: dict[str, list[float]] = {name: [] for name in photo_views.RANDOM}
    ours: dict[str, list[float]] = {name: [] for name in photo_views.RANDOM}

    def record(name: str) -> Callable[..., Any]:
        return lambda image, value=0.0, **options: theirs[name].append(value)

    augment: Any = timm.rand_augment_transform("rand-m10-n2-mstd0.5", {"img_mean": (1, 2, 3)})
    for op in augment.ops:
        name: str = op.aug_fn.__name__
        op.aug_fn = record(names.get(name, name.removesuffix("_rel")))
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    for _ in range(8000):
        augment(None)
    n = 20_000
    drawn = classification_view(SIZE).draw(torch.tensor([[30, 30]]).expand(n, -1), seeded(2))
    cubic = dict.fromkeys(itertools.product(photo_views.RANDOM, (True, False)), 0)
    for k in (5, 6):
        parts = (column(drawn, f"{part}{k}") for part in ("code", "value", "filter"))
        for code, value, kind in zip(*parts, strict=True):
            if code:
                ours[OPERATIONS[int(code)]].append(float(value))
                cubic[OPERATIONS[int(code)], bool(kind)] += 1
    assert stats.binomtest(sum(cubic.values()), 2 * n, 0.5).pvalue > LEAST_P
    assert stats.chisquare(list(cubic.values())).pvalue > LEAST_P
    for name, values in ours.items():
        scale = SIZE if name.startswith("translate") else 1
        result: Any = stats.ks_2samp(np.array(values) / scale, theirs[name])
        assert result.pvalue > LEAST_P, name
