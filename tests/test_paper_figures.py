"""Which checks and which pair of classes figures are drawn from."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from resultant.paper import ARTEFACTS, Evidence, Records
from resultant.paper.feature_figures import _pair
from resultant.verify import CHECKS

NAN = float("nan")


class OfChecks(Evidence):
    """Checks that are not computed."""

    def _check(self, name: str) -> Any:
        assert name in CHECKS
        said = {"claim": name, "paper": "", "ours": "", "verdict": "holds"}
        return SimpleNamespace(name=name, draw=lambda: None, **said)


def test_panels_of_the_transition() -> None:
    """(a, b) errors over margins, (c) exponents, (d) agreement of the rules."""
    names = ["error-transition", "error-exponents", "rule-agreement"]
    outcome = ARTEFACTS["synthetic-transition"].compute(OfChecks(Records()))
    assert list(outcome.drawings) == names == list(outcome.parts)


def pair(kinds: str, cosines: list[float], shifts: list[float]) -> int:
    kind, cosine, shift = tuple(kinds.split()), torch.tensor(cosines), torch.tensor(shifts)
    found: Any = SimpleNamespace(kind=kind, cosine=cosine, shift_degrees=shift)
    return _pair(SimpleNamespace(boundaries=found))  # type: ignore[arg-type]


def test_the_pair_that_is_drawn() -> None:
    """The closest head and tail with boundaries to draw, however far they move."""
    cosines = [0.9, 0.7, 0.8, 0.6]
    assert pair("HH HT HT TT", cosines, [9.0, 8.0, 0.1, 7.0]) == 2
    assert pair("HH HT HT TT", cosines, [9.0, 8.0, NAN, 7.0]) == 1
    assert pair("HH HT HT TT", cosines, [NAN, NAN, NAN, 7.0]) == 3
    assert pair("HH MM TT TT", cosines, [0.0, 8.0, 1.0, 7.0]) == 0
    assert pair("HH HT HT TT", cosines, [NAN] * 4) == 0
