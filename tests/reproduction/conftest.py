"""The evidence of the packaged records, and the results computed from it once per session."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from frozen_data import small_space
from resultant.features.packaged import PACKAGED
from resultant_reproduction.frozen.space import FrozenSpace
from resultant_reproduction.pages.claims import Claim, claims
from resultant_reproduction.pages.compute import ITEMS, Evidence, Outcome, Records
from resultant_reproduction.runs.records import round_folder

RESULTS = Path(__file__).parents[2] / "reproduction" / "results"


def once(compute: Callable[..., Any]) -> Callable[..., Any]:
    """A method of `Evidence` whose results, but those of stores that a test adds, are kept."""
    known: dict[tuple[str, ...], Any] = {}

    def found(self: Evidence, name: str, *more: str) -> Any:
        if more and name != PACKAGED:
            return compute(self, name, *more)
        if (name, *more) not in known:
            known[name, *more] = compute(self, name, *more)
        return known[name, *more]

    return found


# Checks of the theory and results of the packaged features are computed once. Not by a fixture,
# which would bind all tests of the folder to one worker.
for name in ("_check", "_space", "_analysis", "_summary"):
    setattr(Evidence, name, once(getattr(Evidence, name)))


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
