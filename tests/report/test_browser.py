"""The page of a report in a browser, if one is installed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

PROBE = """
<script>
addEventListener("load", () => {
  const wrong = [];
  const wide = document.documentElement.scrollWidth > innerWidth;
  if (wide) wrong.push(`page ${document.documentElement.scrollWidth} wide in ${innerWidth}`);
  for (const svg of document.querySelectorAll("figure svg")) {
    const box = svg.getBoundingClientRect();
    if (box.width < 200 || box.height < 120) wrong.push(`figure ${box.width} x ${box.height}`);
  }
  for (const table of document.querySelectorAll("table")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, i) => {
      for (const order of [-1, 1]) {
        head.firstElementChild.click();
        const keys = [...table.tBodies[0].rows].map((row) => row.cells[i].dataset.key);
        const known = keys.filter((k) => k !== "");
        if (keys.slice(known.length).some((k) => k !== "")) wrong.push("empty cells not last");
        if (!head.classList.contains("n")) continue;
        for (let j = 1; j < known.length; j++)
          if (order * (Number(known[j]) - Number(known[j - 1])) < 0) wrong.push(`column ${i}`);
      }
    });
  }
  const style = getComputedStyle(document.body);
  const text = getComputedStyle(document.querySelector("figure svg text"));
  document.title = JSON.stringify({ wrong, back: style.backgroundColor, ink: text.fill });
});
</script>
"""


def browse(html: str, folder: Path, *options: str) -> tuple[str, str, set[str]]:
    """The title of a page after its script, the messages of the browser, the requests of the page.

    Requests of the browser itself have no initiator; no request gets through.
    """
    (folder / "index.html").write_text(html)
    log = folder / "net.json"
    done = subprocess.run(
        [
            *(str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", *options),
            *("--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND"),
            *(f"--user-data-dir={folder / 'profile'}", "--no-first-run"),
            *(f"--log-net-log={log}", "--enable-logging=stderr", "--dump-dom"),
            (folder / "index.html").as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title is not None
    requests = re.findall(r'"initiator":"(?!not an origin)[^"]*".{0,400}?"url":"(\w+://[^"]*)"',
                       log.read_text())  # fmt: skip
    return unescape(title[1]), done.stderr, set(requests)


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
@pytest.mark.parametrize(("width", "theme"), [(390, "dark"), (1280, "light")])
def test_in_the_browser(width: int, theme: str, folder: Path, tmp_path: Path) -> None:
    """The page renders, sorts, fits the width, and has no console messages and no requests."""
    html = (folder / "index.html").read_text().replace("</body>", PROBE + "</body>")
    dark = ["--force-dark-mode"] if theme == "dark" else []
    title, messages, requests = browse(html, tmp_path, f"--window-size={width},900", *dark)
    seen = json.loads(title)
    assert seen["wrong"] == []
    brightness = {k: sum(map(int, re.findall(r"\d+", seen[k])[:3])) for k in ("back", "ink")}
    assert (brightness["back"] > 600) == (theme == "light")
    assert abs(brightness["back"] - brightness["ink"]) > 400
    assert "CONSOLE" not in messages, messages
    assert not requests


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_browser_reports_errors_and_requests(tmp_path: Path) -> None:
    """Those of a page that has some."""
    html = "<title>x</title><img src='http://example.invalid/a.png'><script>throw 1</script>"
    _, messages, requests = browse(html, tmp_path)
    assert "CONSOLE" in messages and requests == {"http://example.invalid/a.png"}
