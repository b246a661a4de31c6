"""Pages of the reproduction, copied as they are committed; links are adapted to the site."""

from __future__ import annotations

import os
import re
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "REPRODUCTION.md"
PAGES = ROOT / "reproduction" / "pages"
# Other texts that the pages lead to, by their names on the site.
TEXTS = {
    DOCUMENT: "summary.md",
    ROOT / "reproduction" / "protocol.md": "protocol.md",
    ROOT / "reproduction" / "queries.md": "queries.md",
    ROOT / "reproduction" / "README.md": "package.md",
}
# Groups of pages in the order of the contents, by the first word of their names.
GROUPS = {
    "table": "Tables",
    "figure": "Figures",
    "beyond": "Beyond the paper",
    "": "Behind the numbers",
}
LINK = re.compile(r"\[([^][]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _write(app: Sphinx) -> None:
    folder = Path(app.srcdir) / "reproduction" / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    sources = sorted(path for path in PAGES.glob("*.md") if path.stem != "README")
    texts = {path.name: _adapt(path, folder) for path in sources}
    texts |= {name: _adapt(path, folder) for path, name in TEXTS.items()}
    texts["contents.md"] = _contents([Path(name).stem for name in texts if name != "summary.md"])
    wanted: dict[str, bytes] = {name: text.encode() for name, text in texts.items()}
    wanted |= {path.name: path.read_bytes() for path in PAGES.glob("*.svg")}
    for path in folder.iterdir():
        if path.name not in wanted and path.is_file():
            path.unlink()
    for name, content in wanted.items():
        # Sphinx reads a file again if its time changed.
        if not (folder / name).exists() or (folder / name).read_bytes() != content:
            (folder / name).write_bytes(content)


def _adapt(source: Path, folder: Path) -> str:
    """Return the text of a page whose links lead to pages of the site, or download files."""

    def link(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        path = (source.parent / target).resolve()
        if "://" in target or not path.exists():
            return match[0]
        if path in TEXTS:
            return f"[{text}]({TEXTS[path]}{anchor})"
        if path.parent == PAGES:
            name = "contents.md" if path.stem == "README" else path.name
            return f"[{text}]({name}{anchor})"
        if path.is_dir() or path.suffix == ".md":
            return f"{text} (`{path.relative_to(ROOT)}`)"
        return f"[{text}]({os.path.relpath(path, folder)})"

    return LINK.sub(link, source.read_text())


def _contents(names: list[str]) -> str:
    text = ["# All tables and figures", ""]
    for first, title in GROUPS.items():
        group = [name for name in names if _group(name) == first]
        if group:
            text += [f"## {title}", "", "```{toctree}", ":maxdepth: 1", *group, "```", ""]
    return "\n".join(text)


def _group(name: str) -> str:
    first = name.partition("-")[0]
    return first if first in GROUPS else ""
