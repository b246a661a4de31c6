"""Views for evaluation: the transforms of timm, of every crop mode."""

from __future__ import annotations

from typing import Any

import torch

from images.photos import photo
from resultant._core.vision import vision_module
from resultant.images.evaluation_view import EvaluationView
from resultant.networks.timm_encoder import model_settings


def models() -> list[str]:
    """Return the smallest pretrained model of timm for every crop mode and filter."""
    timm: Any = vision_module("timm")
    kinds: dict[tuple[str, str], tuple[int, str]] = {}
    for name in timm.list_models(pretrained=True):
        about = timm.get_pretrained_cfg(name)
        kind, model = (about.crop_mode, about.interpolation), (about.input_size[-1], name)
        kinds[kind] = min(model, kinds.get(kind, model))
    assert {mode for mode, _ in kinds} >= {"center", "squash"}
    return [name for _, name in kinds.values()]


def test_equals_the_transform_of_timm() -> None:
    data: Any = vision_module("timm.data")
    for name in models():
        about = vision_module("timm").get_pretrained_cfg(name).to_dict()
        transform = data.create_transform(**data.resolve_data_config(pretrained_cfg=about))
        settings = model_settings(name)
        mean, std = (torch.tensor(a)[:, None, None] for a in (settings.mean, settings.std))
        for size in ((410, 300), (300, 411), (70, 50)):
            assert EvaluationView(size[0]).short_side == size[0] * 256 // 224
            levels = settings(photo(3, size)).float() / 255
            expected = transform(photo(3, size))
            torch.testing.assert_close((levels - mean) / std, expected, rtol=0, atol=1e-5)
