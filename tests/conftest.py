"""Settings of all tests."""

from __future__ import annotations

import atexit
import gc
import os

import pytest
from hypothesis import settings

# The same examples at every run; HYPOTHESIS_PROFILE=default draws new ones.
settings.register_profile("repeatable", derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.fixture
def all_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """ResNet-32 with all its blocks."""
    from shallow import stacked_resnet

    monkeypatch.setattr(stacked_resnet, "BLOCKS", 5)


@pytest.fixture(params=["kernel", "torch"])
def with_and_without_kernel(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiled kernel for CPUs, then the functions in torch."""
    from resultant.special import compiled

    if request.param == "torch":
        monkeypatch.setattr(compiled, "_library", None)
    elif compiled._library is None:
        pytest.skip("the kernel is not built")


def pytest_configure(config: pytest.Config) -> None:
    worker = "PYTEST_XDIST_WORKER" in os.environ
    if not worker and config.getoption("numprocesses", None):
        # This process hands the tests to others, and starts them sooner without these imports.
        from programs import start_server

        # The workers share the cores: threads of linear algebra would wait for each other.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        start_server()
        return
    # Imported modules and collected tests are hardly garbage, and it takes seconds to see.
    gc.disable()
    import torch

    import shallow as shallow
    from resultant._core.vision import declare_operators

    if worker:
        # The workers share the cores.
        torch.set_num_threads(1)
    declare_operators()


def pytest_collection_finish() -> None:
    """Leave imported modules and collected tests out of every later garbage collection."""
    gc.collect()
    gc.freeze()
    # Rarely: by default a twentieth of all time goes to looking for garbage.
    gc.set_threshold(100_000, 20, 20)
    gc.enable()
    # Not before pytest's own collections at its end.
    atexit.register(gc.unfreeze)


# Files with single tests of many seconds. They come first, so that no process ends with one while
# the others have nothing left.
FIRST = (
    "torture/test_torture.py",
    "analysis/test_ray.py",
    "losses/test_proco_devices.py",
    "score/test_exact.py",
    "training/test_image_sets.py",
    "training/test_stacked_loss.py",
    "losses/test_softmax_kernel.py",
)

# Fixtures that take seconds: a test that asks for one is slow.
SLOW_FIXTURES = {"whole", "trained", "outcomes", "evaluated", "analysis"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    import torch

    items.sort(key=lambda item: not item.nodeid.partition("::")[0].endswith(FIRST))
    for item in items:
        if SLOW_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)
    if torch.cuda.is_available():
        return
    skip = pytest.mark.skip(reason="needs a CUDA device")
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(skip)
