"""The evidence of the packaged records, and the results computed from it once per session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from resultant.features.packaged import PACKAGED
from resultant.report import style
from resultant_reproduction.artefacts import ARTEFACTS, Evidence, Outcome, Records
from resultant_reproduction.claims import Claim, claims

RESULTS = Path(__file__).parents[2] / "reproduction" / "results"


@pytest.fixture(scope="session", autouse=True)
def _quick_pdf() -> Iterator[None]:
    """PDF files with Type 3 fonts: subsets of TrueType fonts take most of the time of a report."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(style.STYLE, "pdf.fonttype", 3)
        yield


@pytest.fixture(autouse=True, scope="session")
def _packaged_once() -> Iterator[None]:
    """Share checks and results of the packaged features among all `Evidence`. Subclasses, which
    replace features, compute their own."""

    def shared(compute: Callable[..., Any]) -> Callable[..., Any]:
        results: dict[tuple[str, ...], Any] = {}

        def cached(evidence: Evidence, *key: str) -> Any:
            if type(evidence) is not Evidence or (key[1:] and key[0] != PACKAGED):
                return compute(evidence, *key)
            if key not in results:
                results[key] = compute(evidence, *key)
            return results[key]

        return cached

    with pytest.MonkeyPatch.context() as patch:
        for name in ("_check", "_space", "_analysis", "_summary"):
            patch.setattr(Evidence, name, shared(getattr(Evidence, name)))
        yield


@pytest.fixture(scope="session")
def evidence() -> Evidence:
    return Evidence(Records.read(RESULTS), second=Records.read(RESULTS / "second-round"))


@pytest.fixture(scope="session")
def outcomes(evidence: Evidence) -> dict[str, Outcome]:
    return {name: artefact.compute(evidence) for name, artefact in ARTEFACTS.items()}


@pytest.fixture(scope="session")
def judged(evidence: Evidence) -> dict[str, Claim]:
    return claims(evidence)
