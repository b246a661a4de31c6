"""Resizing and cropping as torchvision does with Pillow, without torchvision."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from PIL import Image

from images.photos import photo, write_folder
from programs import run_program
from resultant.images.decode import ImageError
from resultant.images.evaluation_view import EvaluationView, evaluation_batches
from resultant.images.opening import open_images


@pytest.mark.parametrize("size", [(41, 30), (30, 41), (24, 24), (300, 25), (17, 90)])
@pytest.mark.parametrize(
    ("interpolation", "short"), [("bilinear", 27), ("bicubic", 24), ("nearest", 25)]
)
def test_equals_torchvision(size: tuple[int, int], interpolation: str, short: int) -> None:
    from torchvision.transforms.v2 import CenterCrop, Compose, PILToTensor, Resize

    image = photo(3, size)
    mode = Image.Resampling[interpolation.upper()]
    expected = Compose([Resize(short, mode), CenterCrop(24), PILToTensor()])(image)
    assert torch.equal(EvaluationView(24, short, interpolation)(image), expected)


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_batches_in_order_and_errors_in_one_line(tmp_path: Path, workers: int) -> None:
    write_folder(tmp_path, {"a": 6, "b": 2})
    source, view = open_images(tmp_path, held_out=0.1).train, EvaluationView(8, 8)
    batches = list(evaluation_batches(source, view, 4, workers))
    expected = torch.stack([view(source.read(i)) for i in range(6)])
    assert torch.equal(torch.cat(batches), expected) and len(batches) == 2
    broken = Path(source.name(4))
    broken.write_bytes(b"text")
    rest = evaluation_batches(source, view, 4, workers)
    next(rest)
    with pytest.raises(ImageError, match=f"^expected {broken} to be a whole image, got no known"):
        next(rest)


WITHOUT = """
import sys
from pathlib import Path

sys.modules["torchvision"] = sys.modules["timm"] = None

from resultant.images.evaluation_view import EvaluationView, evaluation_batches
from resultant.images.opening import open_images

source = open_images(Path(sys.argv[1])).train
(batch,) = evaluation_batches(source, EvaluationView(8, 9), 4, 0)
print(tuple(batch.shape))
"""


@pytest.mark.slow
def test_needs_neither_torchvision_nor_timm(tmp_path: Path) -> None:
    write_folder(tmp_path, {"a": 3, "b": 3})
    out, _ = run_program(WITHOUT, str(tmp_path))
    assert out == "(4, 3, 8, 8)\n"
