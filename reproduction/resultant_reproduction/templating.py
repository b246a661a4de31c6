"""Text written by hand in ``templates/``, filled in with numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from resultant_reproduction.stats import Effects

NOTHING = "(nothing measured)"


def render(name: str, **values: object) -> str:
    """Render a template as it is."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from resultant_reproduction.stats import seen_text

    environment = Environment(
        loader=PackageLoader("resultant_reproduction"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"of": _of, "means": _means, "seen": seen_text, "table": markdown_table}
    text: Any = environment.get_template(name).render(**values)
    return text


def fill(name: str, **values: object) -> str:
    """Render a template whose paragraphs are wrapped; each becomes one line."""
    return unwrap(render(name, **values))


def markdown_table(rows: Sequence[Sequence[str]], headings: Sequence[str]) -> str:
    """Format rows as a Markdown table."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(c.replace("|", r"\|") for c in row) + " |" for row in lines)


def _of(effects: Effects, dataset: str = "") -> str:
    """Effects of a dataset, or all, with their intervals."""
    from resultant_reproduction.stats import effects_text

    own = {p: i for p, i in effects.items() if not dataset or p.rpartition(" ")[0] == dataset}
    return effects_text(own) or NOTHING


def _means(effects: Effects, digits: int = 2) -> str:
    """The smallest and the largest mean."""
    from resultant_reproduction.stats import means_text

    return means_text(effects, digits) if effects else NOTHING


def unwrap(text: str) -> str:
    """Join the lines of each paragraph and of each list item."""
    blocks = re.split(r"\n\s*\n", text.strip())
    return "\n\n".join(
        "\n".join(" ".join(item.split()) for item in re.split(r"\n(?=- )", block))
        for block in blocks
    )
