"""The evidence of the packaged records, and the results computed from it once per session."""

from __future__ import annotations

from pathlib import Path

import pytest

from resultant_reproduction.artefacts import ARTEFACTS, Evidence, Outcome, Records, claims
from resultant_reproduction.spec import Claim

REPRODUCTION = Path(__file__).parents[2] / "reproduction"


@pytest.fixture(scope="session")
def records() -> Records:
    return Records.read(REPRODUCTION / "results")


@pytest.fixture(scope="session")
def evidence(records: Records) -> Evidence:
    return Evidence(records)


@pytest.fixture(scope="session")
def outcomes(evidence: Evidence) -> dict[str, Outcome]:
    return {name: artefact.compute(evidence) for name, artefact in ARTEFACTS.items()}


@pytest.fixture(scope="session")
def evaluated(evidence: Evidence) -> list[Claim]:
    return claims(evidence)
