"""The reference shows a formula for every public name, with its number if it is in the paper."""

from __future__ import annotations

import inspect
import re
import tomllib
from pathlib import Path

import pytest

import resultant

ROOT = Path(__file__).parents[2]
PRINTED = ROOT / "reproduction" / "resultant_reproduction" / "printed"
PAPER = tomllib.loads((PRINTED / "paper.toml").read_text())
EQUATIONS = tomllib.loads((ROOT / "docs" / "equations.toml").read_text())
NAMES = [name for name in resultant.__all__ if name != "__version__"]


@pytest.mark.parametrize("name", NAMES)
def test_name_has_a_formula(name: str) -> None:
    value = getattr(resultant, name)
    members = vars(value).values() if inspect.isclass(value) else ()
    text = "\n".join(inspect.getdoc(item) or "" for item in (value, *members))
    labels = {label for label in PAPER if re.search(rf"{re.escape(label)}\b", text)}
    labels |= set(EQUATIONS.get(name, ()))
    assert ":math:" in text or any("formula" in PAPER[label] for label in labels)


def test_equations_are_those_of_public_names_and_of_the_paper() -> None:
    assert set(EQUATIONS) <= set(NAMES)
    assert {label for labels in EQUATIONS.values() for label in labels} <= set(PAPER)
