"""Rules of the evaluator: ranges, sizes, bounds, single networks and guessed recipes."""

from __future__ import annotations

from scipy.stats import ttest_1samp, ttest_ind

from resultant_reproduction.evaluate import (
    POINT,
    SIZE,
    Evaluation,
    Statement,
    Tolerance,
    above,
    conclude,
    same_size,
    value,
    widened,
)
from resultant_reproduction.formats import span, span_of_networks
from resultant_reproduction.spec import Claim
from resultant_reproduction.value import Value

CLAIM = Statement("sec", "text", "1.00 / 2.00", [1.0, 2.0])


def verdict(holds: bool | None, **settings: object) -> Claim:
    return conclude(CLAIM, Evaluation("ours", holds, "near", **settings), "main")  # type: ignore[arg-type]


def test_verdicts() -> None:
    verdicts = [verdict(h, tested=1, of=2).verdict for h in (True, False, None)]
    assert verdicts == ["holds where tested", "does not hold", "not settled"]
    # More cases than planned do not lower the verdict.
    more = verdict(True, tested=3, of=2)
    assert (more.verdict, more.ours) == ("holds", "ours")
    assert verdict(True, tested=1, of=2).ours == "ours (1 of 2)"
    waiting = conclude(CLAIM, None, "main")
    assert waiting.verdict == "not run yet" and waiting.why == "resultant reproduce run main"
    lost = conclude(CLAIM, None, "asks for images")
    assert (lost.verdict, lost.ours, lost.why) == ("cannot be tested here", "", "asks for images")


def test_one_network_settles_nothing() -> None:
    """A claim that it meets holds where tested, one that it does not meet is open; two networks
    settle both."""
    for n, verdicts in (
        (1, ("holds where tested", "not settled")),
        (2, ("holds", "does not hold")),
    ):
        for met, expected in zip((True, False), verdicts, strict=True):
            claim = verdict(met, networks=n)
            assert claim.verdict == expected and claim.why.startswith("near")
            assert ("one network" in claim.why) == (n == 1)
    for settings in ({}, {"of": 2}):
        met = None if not settings else True
        assert verdict(met, networks=1, **settings) == verdict(met, **settings)


def test_guessed_recipes() -> None:
    for kind, verdicts in (
        ("size", ("holds where tested", "not settled")),
        ("order", ("holds where tested", "does not hold")),
        ("sign", ("holds where tested", "does not hold")),
    ):
        for met, expected in zip((True, False), verdicts, strict=True):
            claim = verdict(met, guessed=kind)
            assert claim.verdict == expected
            assert ("ours is a guess" in claim.why) == (kind != "sign")
            assert ("a size that differs" in claim.why) == (kind == "size")
        assert verdict(None, guessed=kind).verdict == "not settled"


def test_sizes() -> None:
    """Each near by the tolerance, with the p value of the printed number as one more draw."""

    def claim(tolerance: Tolerance, *own: list[float]) -> Claim:
        ours = [Value.of(v) for v in own]
        return conclude(CLAIM, value(CLAIM, ours, tolerance, 2, sign=True), "no images")

    near = claim(SIZE, [1.3, 1.4, 1.5], [2.0, 2.2])
    p = ttest_ind([1.3, 1.4, 1.5], [1.0]).pvalue  # type: ignore[attr-defined]
    other = ttest_ind([2.0, 2.2], [2.0]).pvalue  # type: ignore[attr-defined]
    assert p > 0.05 and near.verdict == "holds" and near.paper == "1.00 / 2.00"
    assert near.ours == f"+1.40 ± 0.10 (p = {p:.3f}) / +2.10 ± 0.14 (p = {other:.3f}); n = 2 to 3"
    # Near, and yet it differs.
    assert "+1.40 ± 0.01 (differs, p = 0.001)" in claim(SIZE, [1.39, 1.4, 1.41], [2.0]).ours
    assert claim(SIZE, [0.4, 0.5], [2.0, 2.2]).verdict == "does not hold"
    assert claim(POINT, [0.4, 0.5], [2.0, 2.2]).verdict == "holds"
    assert claim(POINT, [2.1, 2.2], [2.0, 2.2]).verdict == "does not hold"
    assert claim(SIZE, [1.4, 1.5], [2.0]).verdict == "holds where tested"
    # A mean over several networks is no draw.
    one = CLAIM._replace(numbers=[1.0])
    mean = value(one, [Value.of([1.3, 1.5])], SIZE, 2, single=False)
    assert mean is not None
    assert mean.ours == "1.40 ± 0.14; n = 2" and "draw" in near.why and "draw" not in mean.rule
    lost = claim(SIZE, [1.4], [])
    assert (lost.verdict, lost.ours, lost.why) == ("cannot be tested here", "", "no images")


def _above(settings: list[list[float]]) -> Evaluation:
    evaluation = above(settings, 1.0, 2, len(settings))
    assert evaluation is not None
    return evaluation


def _holds(settings: list[list[float]]) -> bool | None:
    return _above(settings).holds


def test_above() -> None:
    """A bound is cleared by more than networks vary; of one network the value counts."""
    sure, near = [1.1, 1.11, 1.12], [0.99, 1.0, 1.03]
    assert _holds([sure, [1.2]]) is True
    assert _holds([sure, near]) is None
    assert "not beyond their spread at 1 of 2" in _above([sure, near]).rule
    assert _holds([near, [0.88, 0.89, 0.9]]) is False
    assert _holds([[0.9]]) is False
    # Below with p = 0.04, which of two tests is not enough by Holm's correction.
    faint = [0.81, 0.86, 0.91]
    assert 0.025 < float(ttest_1samp(faint, 1.0).pvalue) < 0.05  # type: ignore[attr-defined]
    assert _holds([faint]) is False and _holds([faint, near]) is None


def test_ranges_and_sizes() -> None:
    rule = "means over networks in 0.5 to 2.5, the printed range widened by half its width"
    assert widened([1.0, 2.0], 1.0, 2.0) == (True, rule)
    assert widened([0.5, 2.5], 1.0, 2.0) == (True, f"{rule} (none in it as it is)")
    assert widened([1.5, 2.5], 1.0, 2.0) == (True, f"{rule} (not all in it as it is)")
    assert not widened([0.49], 1.0, 2.0)[0] and not widened([2.51], 1.0, 2.0)[0]
    # There is no more than all.
    assert "in 98.5 to 100, " in widened([99.5], 99.0, 100.0, 100)[1]
    assert same_size(1.0, 2.0) and not same_size(0.99, 2.0) and not same_size(-2.0, 2.0)


def test_single_networks_are_shown() -> None:
    """A mean may be above what one of its networks is below."""
    text = span_of_networks([[0.999948, 0.999954], [0.999997]], 6)
    assert text == "0.999951 to 0.999997; n = 1 to 2, single networks 0.999948 to 0.999997"
    assert span([-0.001, 0.001], 2, sign="+") == "+0.00"
