"""The reference shows a formula for every public name, with its number if it is in the paper."""

import inspect
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

import resultant
import resultant.analysis

ROOT = Path(__file__).parents[2]
PRINTED = ROOT / "reproduction" / "resultant_reproduction" / "printed"
PAPER = tomllib.loads((PRINTED / "paper.toml").read_text())
EQUATIONS = tomllib.loads((ROOT / "docs" / "equations.toml").read_text())
ANALYSIS = EQUATIONS.pop("analysis")
NAMES = [n for n in resultant._public() if n != "__version__" and n not in resultant._OTHERS]
# Analysis names that compute nothing themselves, as their page says.
PLAIN = {"ask_theory", "load_space", "load_classifier", "compare_sets"}
# Steps of a run, and the run.
PLAIN |= {"read", "plan", "fit", "choose", "evaluate", "explain", "write_files", "run"}
ROOTS = {"FrozenSpace"}
QUESTIONS = [
    name
    for name in resultant.analysis.__all__
    if (inspect.isfunction(getattr(resultant.analysis, name)) or name in ROOTS)
    and name not in PLAIN
]


@pytest.mark.parametrize("name", NAMES)
def test_name_has_a_formula(name: str) -> None:
    value = getattr(resultant, name)
    members = vars(value).values() if inspect.isclass(value) else ()
    assert has_formula((value, *members), EQUATIONS.get(name, ()))


@pytest.mark.parametrize("name", QUESTIONS)
def test_question_has_a_formula(name: str) -> None:
    """In the docstring of the question, or of the result below it."""
    value = getattr(resultant.analysis, name)
    result = re.findall(r"\w+", str(inspect.signature(value).return_annotation))
    items = (value, *(getattr(resultant.analysis, word, None) for word in result))
    assert has_formula(items, ANALYSIS.get(name, ()))


def has_formula(items: Iterable[object], labels: Iterable[str]) -> bool:
    text = "\n".join(inspect.getdoc(item) or "" for item in items)
    found = {label for label in PAPER if re.search(rf"{re.escape(label)}\b", text)} | set(labels)
    return ":math:" in text or any("formula" in PAPER[label] for label in found)


def test_equations_are_those_of_public_names_and_of_the_paper() -> None:
    assert set(EQUATIONS) <= set(NAMES)
    assert set(ANALYSIS) <= set(resultant.analysis.__all__)
    labels = (*EQUATIONS.values(), *ANALYSIS.values())
    assert {label for each in labels for label in each} <= set(PAPER)
