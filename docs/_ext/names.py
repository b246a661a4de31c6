"""Links of docstrings: from `name` to the reference, from a label to its number in the paper.

The formulas that a docstring names are shown below it.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst.states import Inliner
from sphinx import addnodes
from sphinx.application import Sphinx

import resultant

ROOT = Path(__file__).parents[2]
LABELS = ROOT / "reproduction" / "resultant_reproduction" / "printed" / "paper.toml"
PAPER = tomllib.loads(LABELS.read_text())
EQUATIONS = tomllib.loads((Path(__file__).parent.parent / "equations.toml").read_text())
LABEL = re.compile("|".join(re.escape(label) for label in sorted(PAPER, key=len, reverse=True)))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_role("name", _name)
    # Before napoleon, whose priority is 500.
    app.connect("autodoc-process-docstring", _keep_colon, priority=400)
    app.connect("autodoc-process-docstring", _number)
    app.connect("autodoc-skip-member", _skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _name(
    role: str,
    raw: str,
    text: str,
    line: int,
    inliner: Inliner,
    options: Any = None,
    content: Any = (),
) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    """Link a public name to the reference; other names are plain code."""
    literal = nodes.literal(raw, text)
    short = text.removeprefix("resultant.")
    if short.split(".")[0] not in resultant._public():
        return [literal], []
    target = f"resultant.{short}"
    link = addnodes.pending_xref(raw, literal, refdomain="py", reftype="obj", reftarget=target)
    return [link], []


def _keep_colon(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Begin an attribute with a comment: napoleon takes words before a colon there for a type."""
    if lines and what in ("attribute", "data", "property"):
        lines[:0] = ["..", ""]


def _number(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Replace labels by numbers of the paper, and append the formulas."""
    module, _, short = name.rpartition(".")
    more = EQUATIONS.get(short, []) if module == "resultant" else []
    labels = list(dict.fromkeys([*LABEL.findall("\n".join(lines)), *more]))
    lines[:] = [LABEL.sub(lambda match: PAPER[match[0]]["number"], text) for text in lines]
    # An underscore at the end of a name would be a link.
    lines[:] = [re.sub(r"^(\s*:ivar \w+)_:", r"\1\\_:", text) for text in lines]
    formulas = [PAPER[label] for label in labels if "formula" in PAPER[label]]
    for entry in formulas:
        lines += ["", f".. rubric:: {entry['number']} of the paper", "", ".. math::", ""]
        lines += [f"   {entry['formula']}", ""]


def _skip(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out the methods that scikit-learn adds to every estimator, overridden methods
    with the words of torch, and fields of tuples, which their class explains."""
    added = name.endswith("_request") or name == "get_metadata_routing"
    added |= name in ("forward", "expand", "extra_repr") and not obj.__doc__
    field = (getattr(obj, "__doc__", None) or "").startswith("Alias for field number")
    return True if added or field else None
