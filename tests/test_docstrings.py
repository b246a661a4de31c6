"""Docstrings of the public names: complete, and with an example that runs."""

import doctest
import importlib
import inspect
import re
from typing import Any

import pytest
import torch

import resultant
import resultant.analysis
import resultant.features

NAMES = [name for name in resultant._public() if name != "__version__"]
# Steps of `resultant.analysis.run`, whose arguments are what the step before has made.
STEPS = ("choose", "compare_sets", "evaluate", "explain", "fit", "plan", "write_files")
FUNCTIONS = [
    f"{module.__name__}.{name}"
    for module in (resultant.analysis, resultant.features)
    for name in module.__all__
    if name not in STEPS
    if inspect.isfunction(getattr(module, name)) or name in ("Result", "FeatureStore")
]
FUNCTIONS += [
    "resultant.images.indexable.open_indexable",
    "resultant.images.opening.open_images",
    "resultant.training.config.TrainConfig",
    "resultant.training.image_sets.train_images",
    "resultant.training.job.Job",
]
OPENINGS = re.compile(r"(What|Which|Whether|How|Where|Of|Beside)\b")


def run_example(name: str, text: str, names: dict[str, Any]) -> None:
    test = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    assert test.examples, f"{name}: expected an example"
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert not runner.run(test).failed, f"{name}: the example gave another result"


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_docstring(name: str) -> None:
    value = getattr(resultant, name)
    text = inspect.getdoc(value) or ""
    assert not OPENINGS.match(text), f"{name}: expected an imperative or a noun phrase"
    assert re.search(r"^(Args|Attributes):$", text, re.M), f"{name}: expected Args or Attributes"
    if inspect.isfunction(value):
        assert re.search(r"^Returns:$", text, re.M), f"{name}: expected Returns"
    state = resultant.ClassState(torch.eye(3), torch.tensor([1.0, 2.0, 4.0]), torch.ones(3))
    known = {n: getattr(resultant, n) for n in NAMES} | {"torch": torch, "state": state}
    run_example(name, text, known | {"z": torch.eye(3), "y": torch.arange(3)})


@pytest.mark.slow
@pytest.mark.parametrize("path", FUNCTIONS)
def test_example_of_a_module(path: str) -> None:
    module, _, name = path.rpartition(".")
    value = importlib.import_module(module)
    text, names = inspect.getdoc(getattr(value, name)) or "", {}
    if value is resultant.analysis:
        assert ">>>" in text, f"{name}: expected an example"
        text, names = f"{value.__doc__}\n{text}", {**vars(value), "torch": torch}
    run_example(name, text, names)
