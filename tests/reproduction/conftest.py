"""The evidence of the packaged records, and the results computed from it once per session."""

from pathlib import Path

import pytest

from frozen_data import small_space
from resultant.analysis import FrozenSpace
from resultant_reproduction.pages.claims import Claim, claims
from resultant_reproduction.pages.compute import ITEMS, Evidence, Outcome, Records
from resultant_reproduction.runs.records import round_folder

RESULTS = Path(__file__).parents[2] / "reproduction" / "results"


@pytest.fixture(scope="session")
def small() -> FrozenSpace:
    """24 long-tailed classes in 12 dimensions."""
    return small_space()


@pytest.fixture(scope="session")
def evidence() -> Evidence:
    later = (Records.read(round_folder(RESULTS, number)) for number in (2, 3))
    return Evidence(Records.read(RESULTS), None, *later)


@pytest.fixture(scope="session")
def outcomes(evidence: Evidence) -> dict[str, Outcome]:
    return {name: item.compute(evidence) for name, item in ITEMS.items()}


@pytest.fixture(scope="session")
def judged(evidence: Evidence) -> dict[str, Claim]:
    return claims(evidence)
