"""Which checks and which pair of classes figures are drawn from, and what is said of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from resultant.paper import ARTEFACTS, Evidence, Records
from resultant.paper.evidence import PACKAGED
from resultant.paper.feature_figures import _pair, finite_sample_claims
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


def sample(exact: list[float]) -> Any:
    """Of an analysis what its figures are read from, in round numbers."""
    numbers = torch.tensor
    support = {"sizes": (5, 10, 100), "error": numbers([0.04, 0.03, 0.01])}
    inclusion = {"count": numbers([5, 20, 500]), "exact": numbers(exact)}
    typical = {"centre_correlation": -0.5, "typical_correlation": None}
    fit = {"rejected": 2 / 3, "expected": 0.55, "kolmogorov": numbers([0.2, 0.4, 0.9])}
    fit |= {"mean_cosine": numbers([0.5, 0.6, 0.7]), "fitted": numbers([0.8, 0.9, 1.0])}
    changes = {(0.0, 0.0): 0.02, (2.0, 0.0): None, (1.0, 0.0): 0.0}

    def point(rule: str, beta: float, gamma: float) -> Any:
        assert rule == "temperature"
        return SimpleNamespace(change=changes[beta, gamma])

    return SimpleNamespace(
        support=SimpleNamespace(predicted_bias=numbers([0.02, 0.01, 0.001]), **support),
        self_inclusion=SimpleNamespace(predicted=numbers([1.0, 0.5, 0.01]), **inclusion),
        typical=SimpleNamespace(observed=numbers([[0.1, 0.2], [0.3, 0.2]]), **typical),
        gains=SimpleNamespace(count=numbers([5, 20, 500]), kappa=numbers([9.0, 5.0, 7.0])),
        fit=SimpleNamespace(**fit),
        grid=SimpleNamespace(betas=(0.0, 1.0, 2.0), gammas=(0.0,), point=point),
    )


class OfSample(Evidence):
    """A packaged analysis that is made up."""

    def __init__(self, exact: list[float]) -> None:
        super().__init__(Records())
        self.exact = exact

    def _analysis(self, store: str, space: str, estimator: str = "") -> Any:
        assert space == "projection"
        return sample(self.exact)


def test_what_figures_show_is_said() -> None:
    evidence = OfSample([1.02, 0.5, 0.0099])

    def note(name: str) -> str:
        return ARTEFACTS[name].compute(evidence).notes[-1]

    assert note("finite-sample") == (
        "CIFAR-100-LT: (a) mean error of R_n 0.0400 at n = 5 and 0.0100 at n = 100, the expected "
        "bias 0.0200 and 0.0010; (b) score gained over (1 - A^2) / (tau n), by class 0.990 to "
        "1.020, median 1.000 of 3."
    )
    scope = note("real-scope-app")
    assert "3 classes of 5 to 500 images, kappa 5 to 9, rank correlation of both -0.50; " in scope
    assert "p < 0.05 for 67 % of the classes, where of vMF samples of the same sizes" in scope
    assert "it would be 55 %, by a median distance of 0.40 " in scope
    assert scope.endswith("a mean cosine of 0.600 to their prototype, fitted is 0.900.")
    margins = note("real-margin-app")
    assert "-0.50 for the margin at the prototype and none for the typical one" in margins
    assert margins.endswith("over 4 ordered pairs whose mean error is 20.0 %.")
    prior = note("gain-prior")
    assert prior == "CIFAR-100-LT: points from ProCo, gamma = 0: +2.00 at beta = 0."
    assert "0.119" in ARTEFACTS["main-boundaries"].compute(evidence).notes[0]


def test_self_inclusion_is_judged_class_by_class() -> None:
    """One class that is more than a tenth off is enough."""
    near, far = (
        list(finite_sample_claims(OfSample(exact)))
        for exact in ([1.02, 0.5, 0.0099], [1.02, 0.5, 0.0088])
    )
    # Of one network neither is settled.
    assert [c.verdict for c in near] == ["holds where tested"] * 2
    assert [c.verdict for c in far] == ["holds where tested", "not settled"]
    assert far[1].ours.startswith("0.880 to 1.020, median 1.000 of 3 classes of 5 to 500 images, ")
    assert far[1].ours.endswith("shifts of 0.0088 to 1.0200; n = 1")


def test_self_inclusion_of_the_packaged_network() -> None:
    """The mean shift of the linear score by its definition; the exact one is judged beside it."""
    evidence = Evidence(Records())
    space = evidence.space(PACKAGED, "projection")
    own = evidence.analysis(PACKAGED, "projection").self_inclusion
    assert own is not None
    c = int(own.count.argmin())
    x = space.units("train", (space.labels == own.classes[c]).nonzero().squeeze(1)).double()
    n, total = len(x), x.sum(0)
    shift = ((x @ total) / n - (x * (total - x)).sum(1) / (n - 1)).mean() / space.tau
    assert n == int(own.count[c]) and float(own.predicted[c]) == pytest.approx(float(shift))
    claim = list(finite_sample_claims(evidence))[1]
    ratio = float(own.exact[c]) / float(shift)
    low, high = (float(v) for v in claim.ours.split(",")[0].split(" to "))
    assert low - 5e-4 <= ratio <= high + 5e-4 and claim.verdict == "holds where tested"
