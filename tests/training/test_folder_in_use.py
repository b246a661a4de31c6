"""One job at a time in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from resultant._core.files import LOCK, lock_folder
from resultant.training.cifar import train_cifar
from resultant.training.job import Job
from tiny_job import DATA, TWO, config, metrics

pytest.importorskip("fcntl")


def test_a_second_job_is_refused(tmp_path: Path) -> None:
    job = Job(config(epochs=1), TWO, tmp_path)
    with lock_folder(tmp_path):
        with pytest.raises(ValueError, match="that no other training writes to, got"):
            train_cifar(job, DATA)
        assert [path.name for path in tmp_path.iterdir()] == [LOCK]
    train_cifar(job, DATA)
    assert len(metrics(tmp_path)) == len(TWO)
    assert not (tmp_path / LOCK).exists()
