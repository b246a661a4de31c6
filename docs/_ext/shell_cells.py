"""Helpers of notebooks that call the command: a folder of their own, shell cells, screenshots."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from IPython.core.magic import register_cell_magic
from IPython.display import Image, display

# The kernel asks for colours, which a page does not show.
ENVIRONMENT = {
    **{k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "CLICOLOR_FORCE")},
    "NO_COLOR": "1",
    "TERM": "dumb",
    "COLUMNS": "88",
}


def start() -> None:
    """Work in an empty folder, and let %%bash show the output of a script as one piece."""
    os.chdir(tempfile.mkdtemp())
    register_cell_magic(bash)


def bash(line: str, cell: str) -> None:
    done = subprocess.run(
        ["bash", "-e", "-c", cell],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=ENVIRONMENT,
        check=False,
    )
    print(done.stdout)
    done.check_returncode()


def screenshot(page: str, height: int = 1300) -> None:
    """Show the top of a page, if there is a browser to draw it."""
    names = ("chromium", "chromium-browser", "google-chrome")
    browser = next(filter(None, map(shutil.which, names)), None)
    if browser is None:
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        flags = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
        size = (f"--window-size=1100,{height}", "--virtual-time-budget=8000")
        files = (f"--user-data-dir={profile}", "--screenshot=page.png")
        address = Path(page).absolute().as_uri()
        command = [browser, *flags, *size, *files, address]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
    display(Image("page.png"))
