"""Write formulas as MathML, which browsers draw without a script."""

from __future__ import annotations

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

# Browsers ignore the style of a letter; these are letters of their own.
LETTERS = {
    'double-struck">E': "&#x1D53C;",
    'double-struck">S': "&#x1D54A;",
    'script">N': "&#x1D4A9;",
    'bold">1': "&#x1D7CF;",
}
STYLED = re.compile(rf'<m[in] mathvariant="({"|".join(LETTERS)})</m[in]>')


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _inline(writer: nodes.NodeVisitor, node: nodes.Element) -> None:
    writer.body.append(_mathml(node.astext(), "inline"))  # pyright: ignore
    raise nodes.SkipNode


def _block(writer: nodes.NodeVisitor, node: nodes.Element) -> None:
    tex = node.astext()
    # Several lines aligned at & are an environment, as in LaTeX.
    if ("&" in tex or r"\\" in tex) and r"\begin" not in tex:
        tex = rf"\begin{{aligned}}{tex}\end{{aligned}}"
    writer.body.append(f'<div class="formula">{_mathml(tex, "block")}</div>')  # pyright: ignore
    raise nodes.SkipNode


def _mathml(tex: str, display: str) -> str:
    tex = tex.replace(r"\arg\max_c", r"\text{arg max}_c\,")
    # Names of functions are set apart from letters, as TeX does.
    tex = re.sub(r"(?<=[A-Za-z}])\s*\\(log|exp)\b", r"\\,\\\1", tex)
    tex = re.sub(r"\\(log|exp)\s*(?=[A-Za-z]|\\(?!left|bigl|,))", r"\\\1\\,", tex)
    return STYLED.sub(lambda found: f"<mi>{LETTERS[found[1]]}</mi>", convert(tex, display=display))
