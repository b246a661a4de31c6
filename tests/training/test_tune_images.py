"""The images of a fine-tuning: those that train and test look alike, and how many validate."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from resultant.images import rendering
from resultant.images.indexable import open_indexable
from resultant.images.source import ImageSplits
from resultant.training import encoder, extract
from resultant.training.config import TuneConfig
from resultant.training.encoder import build
from resultant.training.tune import with_validation
from training.test_tune import run, write_colours

# A network of timm that is tested on pictures resized by another filter than test_resnet.
BICUBIC = "test_efficientnet"


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["center", "squash"])
def test_a_network_is_trained_on_what_it_is_tested_on(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This network is tested on pictures resized by the bicubic filter, and sees the difference;
    others see the whole of a wide picture."""
    settings, used, build = encoder.model_settings, [], rendering.Rendering.__init__
    assert settings(BICUBIC).interpolation == "bicubic"

    def spy(self: Any, *given: Any, **named: Any) -> None:
        build(self, *given, **named)
        used.append(self.resizing)

    monkeypatch.setattr(extract, "model_settings", lambda name: replace(settings(name), mode=mode))
    monkeypatch.setattr(rendering.Rendering, "__init__", spy)
    data = str(write_colours(tmp_path / "wide", width=35))
    result = run(tmp_path / "out", data=data, model=BICUBIC, epochs=1)
    assert used == [Image.Resampling.BICUBIC]
    (line,) = (tmp_path / "out/training/metrics.jsonl").read_text().splitlines()
    own = next(m for m in result.report["methods"] if m["key"] == "own")
    assert json.loads(line)["accuracy"] == pytest.approx(own["validation"], abs=1e-6)
    assert result.model.network is not None and result.model.network.view.mode == mode


@pytest.mark.parametrize(("images", "expected"), [(400, 40), (5_000, 500), (20_000, 500)])
def test_the_default_share_of_validation_images(images: int, expected: int) -> None:
    """A tenth, of at most 500, and one of each class of four."""
    # No two are copies: the bytes of a number are one pixel.
    pixels = [np.array([[[*i.to_bytes(3, "big")]]], np.uint8) for i in range(images + 5)]
    classes = [*(i % 4 for i in range(images)), 4, 4, 4, 4]
    train = open_indexable(list(zip(pixels, classes, strict=False)))
    splits = with_validation(ImageSplits(train, test=open_indexable([(pixels[-1], 4)])), None, 0)
    assert splits.val is not None
    counts = np.bincount(splits.val.labels, minlength=5)
    assert abs(len(splits.val) - 1 - expected) <= 4 and counts[4] == 1


def test_stochastic_depth_where_a_network_has_it() -> None:
    """The share of the last branch; networks without branches are built as they are."""
    modules = encoder.timm_encoder("test_resnet", drop_path=0.3).modules()
    shares = [getattr(m, "drop_prob", 0) for m in modules]
    assert max(shares) == pytest.approx(0.3)
    assert encoder.timm_encoder("vgg11", drop_path=0.3).state_dict().keys()
    built = build(TuneConfig(architecture="test_resnet", drop_path=0.3, pretrained=False), 0, None)
    assert [getattr(m, "drop_prob", 0) for m in built.encoder.modules()] == shares
