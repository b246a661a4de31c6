"""Small fits use one thread of torch, since several wait for each other on a busy machine."""

from collections.abc import Iterator
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.model_selection import StratifiedKFold

from resultant import VMFClassifierCV
from resultant._core import threads


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


class Spying(StratifiedKFold):
    """Folds that note the number of threads."""

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Any:
        self.seen = torch.get_num_threads()
        return super().split(X, y, groups)


@pytest.mark.parametrize(("small", "threads_of_fit"), [(1 << 22, 1), (0, 2)])
def test_threads_of_a_search(
    small: int, threads_of_fit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "SMALL", small)
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    folds = Spying(2)
    VMFClassifierCV(cv=folds, refine=None).fit(X, y)
    assert folds.seen == threads_of_fit
    assert torch.get_num_threads() == 2


def test_threads_of_fits_that_overlap() -> None:
    """The second begins while the first has one thread, and ends after it."""
    began, ended = Event(), Event()

    def second() -> None:
        with threads.few_threads(1):
            began.set()
            ended.wait(60)

    with threads.few_threads(1):
        other = Thread(target=second)
        other.start()
        assert began.wait(60) and torch.get_num_threads() == 1
    ended.set()
    other.join()
    # A thread of Python starts with the number that was set last.
    found: list[int] = []
    last = Thread(target=lambda: found.append(torch.get_num_threads()))
    last.start()
    last.join()
    assert (torch.get_num_threads(), found) == (2, [2])
