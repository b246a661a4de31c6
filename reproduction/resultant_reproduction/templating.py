"""Text written by hand in ``templates/``, filled in with numbers."""

from __future__ import annotations

from collections.abc import Sequence

from resultant._core.text import with_minus


def render(name: str, **values: object) -> str:
    """Render a template as it is, with one minus sign."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("resultant_reproduction"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["table"] = markdown_table
    return with_minus(environment.get_template(name).render(**values))


def markdown_table(rows: Sequence[Sequence[str]], headings: Sequence[str]) -> str:
    """Format rows as a Markdown table."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(c.replace("|", r"\|") for c in row) + " |" for row in lines)
