"""Check of the built site: local links lead somewhere, and nothing is loaded from elsewhere."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sphinx.application import Sphinx
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)
SOURCE = Path(__file__).parents[2]


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", _check, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class _Page(HTMLParser):
    """The anchors of a page, the addresses it links to and those that it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors, self.links, self.loads = {""}, set[str](), set[str]()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value for name, value in attrs if value is not None}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if "src" in found:
            self.loads.add(found["src"])
        if "href" in found:
            (self.links if tag == "a" else self.loads).add(found["href"])


def _check(app: Sphinx, error: Exception | None) -> None:
    if error is not None or app.builder.name != "html":
        return
    root = Path(app.outdir)
    paths = (root / f"{name}.html" for name in sorted(app.env.found_docs))
    pages = {path: _Page(path) for path in paths}
    for path, page in pages.items():
        name = path.relative_to(root)
        if str(SOURCE) in path.read_text():
            LOGGER.warning("%s names a folder of this machine: %s", name, SOURCE)
        for address in sorted(page.loads):
            if urlsplit(address).scheme in ("http", "https") or address.startswith("//"):
                LOGGER.warning("%s loads %s: the site works offline", name, address)
        for address in sorted(page.links | page.loads):
            parts = urlsplit(address)
            if parts.scheme or address.startswith("//"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not target.exists():
                LOGGER.warning("%s links to %s, which does not exist", name, address)
            elif target in pages and anchor not in pages[target].anchors:
                LOGGER.warning("%s links to %s, which has no such anchor", name, address)
