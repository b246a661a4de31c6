"""A small frozen space."""

import pytest

from frozen_data import small_space
from resultant_reproduction.frozen.space import FrozenSpace


@pytest.fixture(scope="session")
def small() -> FrozenSpace:
    """24 long-tailed classes in 12 dimensions."""
    return small_space()
