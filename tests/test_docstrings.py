"""Docstrings of the public names: complete, and with an example that runs."""

from __future__ import annotations

import doctest
import inspect
import re

import pytest

import resultant

NAMES = [name for name in resultant.__all__ if name != "__version__"]
OPENINGS = re.compile(r"(What|Which|Whether|How|Where|Of|Beside)\b")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_docstring(name: str) -> None:
    value = getattr(resultant, name)
    text = inspect.getdoc(value) or ""
    assert not OPENINGS.match(text), f"{name}: expected an imperative or a noun phrase"
    assert re.search(r"^(Args|Attributes):$", text, re.M), f"{name}: expected Args or Attributes"
    if inspect.isfunction(value):
        assert re.search(r"^Returns:$", text, re.M), f"{name}: expected Returns"
    parser = doctest.DocTestParser()
    test = parser.get_doctest(text, {}, name, None, 0)
    assert test.examples, f"{name}: expected an example"
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(test)
    assert not runner.failures, f"{name}: the example gave another result"
