"""Text written by hand in ``templates/``, filled in with numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any


def render(name: str, **values: object) -> str:
    """Render a template as it is."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("resultant_reproduction"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["table"] = markdown_table
    text: Any = environment.get_template(name).render(**values)
    return text


def fill(name: str, **values: object) -> str:
    """Render a template whose paragraphs are wrapped; each becomes one line."""
    return unwrap(render(name, **values))


def markdown_table(rows: Sequence[Sequence[str]], headings: Sequence[str]) -> str:
    """Format rows as a Markdown table."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(c.replace("|", r"\|") for c in row) + " |" for row in lines)


def unwrap(text: str) -> str:
    """Join the lines of each paragraph and of each list item."""
    blocks = re.split(r"\n\s*\n", text.strip())
    return "\n\n".join(
        "\n".join(" ".join(item.split()) for item in re.split(r"\n(?=- )", block))
        for block in blocks
    )
