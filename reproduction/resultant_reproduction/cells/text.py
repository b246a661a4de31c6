"""Text: numbers, Markdown tables, and templates filled in with numbers."""

from collections.abc import Sequence

from resultant._core.text import with_minus

SIGNIFICANCE = 0.05


def span(values: Sequence[float], digits: int, sign: str = "") -> str:
    """Format the smallest and the largest value."""
    low, high = (format(f(values), f"{sign}z.{digits}f") for f in (min, max))
    return low if low == high else f"{low} to {high}"


def p_text(p: float | None) -> str:
    """Format a p value with three digits, or four where three do not separate it from the level."""
    if p is None:
        return "–"
    near = abs(p - SIGNIFICANCE) < 0.0005
    return "< 0.001" if p < 0.0005 else f"{p:.{4 if near else 3}f}"


def p_equation(p: float | None) -> str:
    """Format a p value with its symbol."""
    text = p_text(p)
    return f"p {text}" if p is None or text.startswith("<") else f"p = {text}"


def seed_list(seeds: Sequence[int]) -> str:
    """Name seeds: ``seeds 0, 1``."""
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}" if seeds else "none"


def render(name: str, **values: object) -> str:
    """Render a template as it is, with one minus sign."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("resultant_reproduction", "pages/templates"),
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
