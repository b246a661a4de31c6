"""References in a process of their own: the same fits, errors in one line, a common end."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from resultant.classifiers.reference_process import ReferenceProcess
from resultant.classifiers.references import ReferenceFits, Task


def task(classes: int) -> Task:
    """Sixty rows of a few classes, half of them to choose by."""
    draws = np.random.default_rng(classes)
    y = np.arange(60) % classes
    x = draws.normal(size=(60, 5)) + 3 * np.eye(5)[y]
    x = (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)
    all_rows, half = np.arange(60), np.arange(30)
    keys = ("logistic", "logistic-balanced", "lda", "centroid", "knn")
    samples: dict[str, tuple[np.ndarray, np.ndarray]] = dict.fromkeys(keys, (half, all_rows))
    return Task(classes, "accuracy", 100, 60, x, y, samples, x[30:], y[30:], np.full(30, 1 / 30))


@pytest.fixture(scope="module")
def process() -> Iterator[ReferenceProcess]:
    with ReferenceProcess() as process:
        yield process


@pytest.mark.slow
def test_fits_are_those_of_this_process(process: ReferenceProcess) -> None:
    """Answers can be asked for in any order."""
    local, tasks = ReferenceFits(), [task(4), task(3)]
    numbers = [process.begin(t) for t in tasks]
    for number, own in reversed([*zip(numbers, map(local.begin, tasks), strict=True)]):
        fits, expected = process.finish(number), local.finish(own)
        assert [fit.key for fit in fits] == [fit.key for fit in expected]
        for a, b in zip(fits, expected, strict=True):
            assert (a.settings, a.rows, a.stopped) == (b.settings, b.rows, b.stopped)
            for name in b.arrays:
                np.testing.assert_allclose(a.arrays[name], b.arrays[name], rtol=1e-4, atol=1e-5)
        rows = tasks[own].x[:7]
        near = process.neighbours(number, rows, 3)
        np.testing.assert_array_equal(near, local.neighbours(own, rows, 3))


@pytest.mark.slow
def test_a_fit_that_fails_is_an_error(process: ReferenceProcess) -> None:
    wrong = task(4)
    wrong.samples["knn"][0][:] = 60
    with pytest.raises(ChildProcessError, match="to be fitted, got IndexError: index 60 is out"):
        process.finish(process.begin(wrong))


def test_a_process_that_is_killed_is_an_error() -> None:
    with ReferenceProcess() as process:
        process.process.kill()
        with pytest.raises(ChildProcessError, match="to live, got its end with status -9"):
            process.finish(process.begin(task(4)))


def test_a_library_that_is_missing_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "sklearn.py").write_text("raise ImportError('no sklearn here')\n")
    monkeypatch.syspath_prepend(tmp_path)
    rule = "expected the references to be fitted, got ImportError: no sklearn here"
    with ReferenceProcess() as process, pytest.raises(ChildProcessError, match=rule):
        process.finish(process.begin(task(4)))


def test_the_process_ends_with_the_one_that_started_it() -> None:
    """Also if that is killed; neither loads torch."""
    code = (
        "import os, signal, sys\n"
        "import resultant.classifiers.softmax\n"
        "from resultant.classifiers.reference_process import ReferenceProcess\n"
        "assert 'torch' not in sys.modules\n"
        "print(ReferenceProcess().process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert done.returncode == -signal.SIGKILL
    stat, end = Path(f"/proc/{int(done.stdout)}/stat"), time.monotonic() + 60
    # A zombie has ended, too.
    while stat.exists() and stat.read_text().split()[2] != "Z":
        assert time.monotonic() < end
        time.sleep(0.02)
