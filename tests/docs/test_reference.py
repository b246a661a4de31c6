"""The reference shows a formula for every public name, with its number if it is in the paper."""

import inspect
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

import resultant

ROOT = Path(__file__).parents[2]
PRINTED = ROOT / "reproduction" / "resultant_reproduction" / "printed"
PAPER = tomllib.loads((PRINTED / "paper.toml").read_text())
EQUATIONS = tomllib.loads((ROOT / "docs" / "equations.toml").read_text())
NAMES = [n for n in resultant._public() if n != "__version__" and n not in resultant._OTHERS]


@pytest.mark.parametrize("name", NAMES)
def test_name_has_a_formula(name: str) -> None:
    value = getattr(resultant, name)
    members = vars(value).values() if inspect.isclass(value) else ()
    assert has_formula((value, *members), EQUATIONS.get(name, ()))


def has_formula(items: Iterable[object], labels: Iterable[str]) -> bool:
    text = "\n".join(inspect.getdoc(item) or "" for item in items)
    found = {label for label in PAPER if re.search(rf"{re.escape(label)}\b", text)} | set(labels)
    return ":math:" in text or any("formula" in PAPER[label] for label in found)


def test_equations_are_those_of_public_names_and_of_the_paper() -> None:
    assert set(EQUATIONS) <= set(NAMES)
    assert {label for labels in EQUATIONS.values() for label in labels} <= set(PAPER)
