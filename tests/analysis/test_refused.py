"""What steps of an analysis refuse."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import resultant
from resultant.analysis.metrics import UnansweredError, plain
from resultant.analysis.references import table
from resultant.analysis.split import Split, plan
from small_features import small_set

SET = small_set()
ONE = replace(SET, test=Split("test", SET.test.x[:1], SET.test.y[:1]))
REFUSED: list[tuple[type[Exception], Callable[[], Any], str]] = [
    (ValueError, lambda: table(SET, plan(SET), "some"), "references among"),
    (ValueError, lambda: resultant.analyze(np.eye(3), None), "expected labels y"),
    (ValueError, lambda: resultant.analyze(np.eye(3), [0, 1]), "features .N, p. and labels"),
    (ValueError, lambda: resultant.analyze("a.npz", [0, 1]), "expected a path alone"),
    (UnansweredError, lambda: plan(ONE), "two test rows"),
    (TypeError, lambda: plain({1}), "expected a result of numbers, names and arrays, got set"),
]


@pytest.mark.parametrize(("kind", "call", "message"), REFUSED)
def test_refused(kind: type[Exception], call: Callable[[], Any], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()
