"""One page per table and figure of the paper, from the report of the reproduction."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

from names import PAPER
from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
REPORT = ROOT / "reproduction" / "REPORT.md"


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _write(app: Sphinx) -> None:
    text = REPORT.read_text()
    folder = Path(app.srcdir) / "reproduction" / "generated"
    digest = hashlib.sha256(text.encode() + Path(__file__).read_bytes()).hexdigest()
    stamp = folder / "report.sha256"
    if stamp.exists() and stamp.read_text() == digest:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pictures = _draw(folder / "run")
    first, *sections = re.split(r"^## ", text, flags=re.M)
    pages: list[tuple[str, str]] = []
    rest = [first.split("\n", 1)[1]]
    for section in sections:
        label, body = section.split("\n", 1)
        if not re.match(r"(tab|fig|beyond):", label):
            rest.append(f"## {section}")
            continue
        name = label.partition(":")[2]
        images = "\n".join(
            f"![{_title(label)}, ours](run/figures/{picture.name})\n"
            for picture in pictures
            if picture.name.startswith(f"{name}-")
        )
        page = f"# {_title(label)}\n\n*{label}*\n\n{images}\n{_deeper(body)}"
        (folder / f"{name}.md").write_text(page)
        pages.append((label, name))
    (folder / "summary.md").write_text(f"# Summary\n\n{_links(''.join(rest), dict(pages))}")
    names = "\n".join(["summary", *(name for _, name in sorted(pages, key=_place))])
    (folder / "contents.md").write_text(
        f"# Contents\n\n```{{toctree}}\n:maxdepth: 1\n{names}\n```\n"
    )
    stamp.write_text(digest)


def _draw(folder: Path) -> list[Path]:
    """Draw all figures of the reproduction; return the pictures."""
    program = "from resultant.cli.main import main; import sys; sys.exit(main())"
    options = ("--results", ROOT / "reproduction" / "results", "--out", folder)
    text = ("--text", folder.with_suffix(".txt"))
    call = [sys.executable, "-c", program, "reproduce", "all", *map(str, (*options, *text))]
    subprocess.run(call, check=True, capture_output=True)
    return sorted((folder / "figures").glob("*.png"))


def _title(label: str) -> str:
    if label in PAPER:
        return PAPER[label]["number"]
    return "Beyond the paper: " + label.partition(":")[2].replace("-", " ")


def _place(page: tuple[str, str]) -> tuple[int, int]:
    """Order pages as in the paper: tables, figures, the rest."""
    kind = ("tab", "fig", "beyond").index(page[0].partition(":")[0])
    number = re.search(r"\d+", _title(page[0]))
    return kind, int(number[0]) if number else 0


def _deeper(text: str) -> str:
    return re.sub(r"^(#{3,}) ", lambda match: match[1][1:] + " ", text, flags=re.M)


def _links(text: str, pages: dict[str, str]) -> str:
    """Turn labels of pages into links with the numbers of the paper."""
    pattern = "|".join(re.escape(label) for label in sorted(pages, key=len, reverse=True))
    return re.sub(pattern, lambda m: f"[{_title(m[0])}]({pages[m[0]]}.md)", text)
