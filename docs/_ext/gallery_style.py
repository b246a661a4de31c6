"""Pictures of the gallery: in the style of the site, and sharp on every screen."""

from __future__ import annotations

from typing import Any

import matplotlib
from sphinx_gallery.scrapers import matplotlib_scraper


def reset(gallery_conf: dict[str, Any], name: str) -> None:
    """Return to the style of the site, which ``MATPLOTLIBRC`` names, before each script."""
    matplotlib.rc_file_defaults()


def svg(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save the figures of a script as SVG."""
    return matplotlib_scraper(block, block_vars, gallery_conf, format="svg")
