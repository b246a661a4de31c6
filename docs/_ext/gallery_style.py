"""Pictures of the gallery: in the style of the site, and sharp on every screen."""

from __future__ import annotations

from typing import Any

import matplotlib
from sphinx_gallery.scrapers import matplotlib_scraper

# The pictures that come first: what the project is about.
FIRST = (
    "boundary",
    "samples",
    "shared_temperature",
    "score_and_slope",
    "realizations",
    "class_gains",
)


class Order:
    """Sort key of the scripts: the first pictures, then the others by name."""

    def __init__(self, folder: str) -> None:
        pass

    def __call__(self, name: str) -> tuple[int, str]:
        stem = name.removesuffix(".py")
        return (FIRST.index(stem) if stem in FIRST else len(FIRST), name)


def reset(gallery_conf: dict[str, Any], name: str) -> None:
    """Return to the style of the site, which ``MATPLOTLIBRC`` names, before each script."""
    matplotlib.rc_file_defaults()


def svg(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save the figures of a script as SVG."""
    plain = {"Date": None}  # the same file in every build
    return matplotlib_scraper(block, block_vars, gallery_conf, format="svg", metadata=plain)
