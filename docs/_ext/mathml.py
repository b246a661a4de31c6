"""Write formulas as MathML, which browsers draw without a script."""

from __future__ import annotations

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx


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
    return convert(tex, display=display)
