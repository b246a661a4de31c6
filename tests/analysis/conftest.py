"""Small frozen spaces."""

import pytest

from frozen_data import small_space
from resultant.analysis import Analysis, FrozenSpace, analyze_space


@pytest.fixture(scope="session")
def small() -> FrozenSpace:
    """24 long-tailed classes in 12 dimensions."""
    return small_space()


@pytest.fixture(scope="session")
def small_analysis(small: FrozenSpace) -> Analysis:
    """All questions about the small space."""
    return analyze_space(small)
