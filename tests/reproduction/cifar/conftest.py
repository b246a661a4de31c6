"""Jobs that the tests of training share; a test that changes files copies the folder."""

from pathlib import Path

import pytest
import torch

from resultant_reproduction.cifar.job import CifarJob
from resultant_reproduction.cifar.train import train_cifar
from tiny_cifar import DATA, TWO, config, joint_job, one_thread

_one_thread = pytest.fixture(autouse=True)(one_thread)


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `joint_job`, trained without interruption."""
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("whole")
    train_cifar(joint_job(out), DATA)
    return out


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of two runs, trained for one epoch."""
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("finished")
    train_cifar(CifarJob(config(epochs=1), TWO, out), DATA)
    return out
