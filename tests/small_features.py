"""Features that are small enough to be analysed within a second, and comparisons of results."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from resultant.analysis.split import FeatureSet, Split

COUNTS = (60, 40, 25, 12, 8, 6)
# From dimension 62 on, expansions need no recurrences, which are slow for small tensors.
DIM = 64
HELD_OUT = 20
# Of the classes, such as a page must not take for its own.
NAMES = ("<script>alert(1)</script>", "a & b", '"quoted"', "$x^$", "five", "six")


def small_features(
    seed: int = 0,
    dim: int = DIM,
    noise: float = 1.2,
    names: tuple[str, ...] = ("projection",),
    sizes: Sequence[int] = COUNTS,
) -> dict[str, Tensor]:
    """Classes in a long tail, wider towards its end, and twenty held-out rows of each."""
    generator = torch.Generator().manual_seed(seed)
    arrays = {}
    centres = functional.normalize(torch.randn(len(sizes), dim, generator=generator), dim=1)
    for split, counts in (("train", sizes), ("test", len(sizes) * [HELD_OUT])):
        y = torch.arange(len(sizes)).repeat_interleave(torch.tensor(counts))
        width = 2 * noise * (1 + 0.1 * y[:, None]) / dim**0.5
        arrays[f"{split}/labels"] = y
        for name in names:
            z = centres[y] + width * torch.randn(len(y), dim, generator=generator)
            arrays[f"{split}/{name}"] = z
    return arrays


def small_set(val: bool = False, noise: float = 0.6, **options: Any) -> FeatureSet:
    """Six classes in a long tail."""
    arrays = small_features(dim=16, noise=noise)
    splits = {
        name: Split(name, arrays[f"{name}/projection"], arrays[f"{name}/labels"])
        for name in ("train", "test")
    }
    if val:
        other = small_features(seed=1, dim=16, noise=0.6)
        splits["val"] = Split("val", splits["test"].x + 0.01, other["test/labels"])
    names = tuple(map(str, range(len(COUNTS))))
    return FeatureSet("memory", "projection", names, **splits, **options)


def untimed(value: Any) -> Any:
    """Results without the seconds that they took, and without the names of files in snippets."""
    if isinstance(value, dict):
        timed = ("seconds", "fit_seconds", "predict_seconds", "code")
        return {k: untimed(v) for k, v in value.items() if k not in timed}
    return [untimed(v) for v in value] if isinstance(value, list) else value


def alike(actual: Any, expected: Any, rel: float, tolerance: float, where: str = "") -> None:
    """Compare results but for times: floats up to rounding, everything else exactly."""
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys(), where
        for key in (k for k in expected if "seconds" not in k):
            alike(actual[key], expected[key], rel, tolerance, f"{where}.{key}")
    elif isinstance(expected, list):
        assert len(actual) == len(expected), where
        for i, (a, b) in enumerate(zip(actual, expected, strict=True)):
            alike(a, b, rel, tolerance, f"{where}[{i}]")
    elif isinstance(expected, float):
        assert actual == pytest.approx(expected, rel=rel, abs=tolerance), where
    else:
        assert actual == expected, where
