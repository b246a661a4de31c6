"""Settings of all tests."""

import os
from importlib import import_module

import pytest
from hypothesis import settings

# The same examples at every run; HYPOTHESIS_PROFILE=default draws new ones.
settings.register_profile("repeatable", derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.fixture(autouse=True)
def seeded() -> None:
    """The same random numbers in every test, whatever ran before."""
    import torch

    torch.manual_seed(0)


@pytest.fixture
def all_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """ResNet-32 with all its blocks."""
    from shallow import network

    monkeypatch.setattr(network, "BLOCKS", 5)


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


@pytest.fixture
def one_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Analyses that try one precision of refined classes: less than half of the time."""
    # In their package the names of modules such as this one are those of the steps.
    monkeypatch.setattr(import_module("resultant.analysis.fit"), "PRECISIONS", (0.3,))


@pytest.fixture
def unrefined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports without refined classes, theory and maps."""
    monkeypatch.setattr(import_module("resultant.analysis.fit"), "PRECISIONS", ())
    monkeypatch.setattr(import_module("resultant.analysis.run"), "explain", lambda *_: None)


@pytest.fixture
def brief(unrefined: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports without references, refined classes, theory and maps, for tests of everything else:
    a third of the time."""
    monkeypatch.setattr(import_module("resultant.analysis.fit"), "table", lambda *_: ())


def pytest_configure(config: pytest.Config) -> None:
    import torch

    if "PYTEST_XDIST_WORKER" in os.environ:
        # The workers share the cores.
        torch.set_num_threads(1)

    import shallow as shallow
    from resultant.images.vision import declare_operators

    declare_operators()


# Fixtures that take seconds: a test that asks for one is slow.
SLOW_FIXTURES = {"whole", "trained", "outcomes", "evaluated", "analysis"}


def shared(item: pytest.Item) -> str:
    """Return the folder or the file of a fixture that several tests share, or an empty text."""
    definitions = getattr(item, "_fixtureinfo").name2fixturedefs.values()  # noqa: B009
    own = [each[-1] for each in definitions if each[-1].baseid and each[-1].scope != "function"]
    # The shortest of a folder and its files.
    return min((fixture.baseid for fixture in own), key=len, default="")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    import torch

    device = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
    for item in items:
        if SLOW_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)
        if group := shared(item):
            # One worker makes it, by --dist loadgroup.
            item.add_marker(pytest.mark.xdist_group(group))
        if item.get_closest_marker("gpu"):
            item.add_marker(device)
