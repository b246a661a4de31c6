"""The tables are those of the measured files, and the methods that are compared agree."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import accuracy, longtail_page, losses, peers
from benchmarks.tables import documents

ROOT = Path(__file__).parents[2]


def test_files_are_as_rendered() -> None:
    for path, text in documents(ROOT).items():
        assert (ROOT / path).read_text() == text, f"{path}; run: python -m benchmarks"


def test_climb_reaches_a_narrow_peak() -> None:
    """A peak a thousandth of the box wide, which random points miss."""
    rng = np.random.default_rng(0)

    def error(points: np.ndarray) -> np.ndarray:
        x, y = points
        return 1 / (1 + abs(x - 0.3)) + np.exp(-(((x - 0.3) / 1e-3) ** 2)) + 0.1 * y

    starts = rng.uniform(-1, 1, (2, 30))
    ends = accuracy.climb(error, [(-1, 1), (-1, 1)], starts, 200, rng)
    assert error(starts).max() < 1.5 < 2.09 < error(ends).max()
    assert (error(ends) >= error(starts)).all() and (abs(ends) <= 1).all()


def test_an_error_that_is_not_a_number_is_the_largest() -> None:
    def error(points: np.ndarray) -> np.ndarray:
        return np.where(points[0] == 1, np.nan, points[0])

    ends = accuracy.climb(error, [(0, 1)], np.zeros((1, 4)), 200, np.random.default_rng(0))
    assert (ends == 1).any()


@pytest.mark.slow
def test_errors_of_every_quantity() -> None:
    """Ours and the peers agree at p = 17 to what the table says of them."""
    for quantity in accuracy.quantities():
        points = accuracy.draw(quantity.box(17), 8, np.random.default_rng(1))
        errors = quantity.errors(points, 17, quantity.methods, exact=True)
        assert errors["resultant, float64"].max() < 4e-15, quantity.what
        given = *accuracy.arguments(points), 17
        ours = quantity.methods["resultant, float64"](*given)
        np.testing.assert_allclose(ours, np.vectorize(quantity.exact)(*given), rtol=1e-12)
        for name, error in errors.items():
            assert np.median(error) < 0.2, (quantity.what, name)
    # The private ratio of scipy has no logarithm, and no score.
    ratios = set(peers.ratios()) - {"scipy _iv_ratio, private"}
    assert set(peers.OURS) < set(peers.scores()) == ratios


def test_direct_loss_is_ours() -> None:
    torch.manual_seed(0)
    assert losses.agreement("cpu") < 1e-3


def test_the_readme_says_what_the_long_tails_say() -> None:
    """Its cases, points and losses are those of the records, for both kinds of features."""
    summary = longtail_page.summary()
    led = re.findall(r"leads in (\d+) of (\d+) cells [^,]*, on average by ([+-]\d\.\d)", summary)
    (first, cases, points), (ahead, of, _) = led
    parts = re.split("On features of rows that their network was trained on", summary)
    assert "half a point: nowhere" in parts[0]
    behind = max(re.findall(r" by (\d\.\d\d) to ", parts[1]), key=float)
    readme = " ".join((ROOT / "README.md").read_text().split())
    pretrained = f"in {first} of {cases} cases with features of pretrained networks and pixels, by"
    assert f"{pretrained} {points[1:]} points on average, and nowhere behind by" in readme
    own = f"it is ahead in {ahead} of {of}, and behind by up to {float(behind):.1f}"
    assert own in readme
