"""All blocks of ResNet-32."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _all_blocks(all_blocks: None) -> None:
    pass
