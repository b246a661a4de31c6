"""The contents of a folder: the pages that its index links, in their order."""

from __future__ import annotations

import re

from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", _add)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _add(app: Sphinx, page: str, source: list[str]) -> None:
    """Add a hidden table of contents to an index that has none: the page is plain Markdown."""
    if page.endswith("/index") and "toctree" not in source[0]:
        pages = re.findall(r"\]\(([\w-]+)\.md\)", source[0])
        source[0] += "\n".join(["\n```{toctree}", ":hidden:", *dict.fromkeys(pages), "```", ""])
