"""Fixtures of the images tests."""

from __future__ import annotations

import pytest
from PIL import Image

from images import pictures


@pytest.fixture
def blended_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blend in Pillow with the roundings of x86, which are those of the views, also on ARM."""
    monkeypatch.setattr(Image, "blend", pictures.blend)
