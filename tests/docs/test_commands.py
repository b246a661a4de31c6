"""Every `resultant ...` line of the README and of the pages is a call that the command accepts."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from resultant.cli import main as cli

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "REPRODUCTION.md")),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "reproduction").rglob("*.md"),
]
PROGRAM = r"(?:resultant|torchrun .*? -m resultant) +"
LINE = re.compile(rf"^ *{PROGRAM}(.+)$", re.M)
SPAN = re.compile(rf"`{PROGRAM}([^`]+)`")


def calls(text: str) -> list[str]:
    """Return the arguments of the calls in blocks of code, and of those with options in a text."""
    fences = re.findall(r"^```[^\n]*\n(.*?)^```", text, re.M | re.S)
    blocks = "\n".join([*fences, *re.findall(r"^ {4}\S.*$", text, re.M)]).replace("\\\n", " ")
    spans = [" ".join(span.split()) for span in SPAN.findall(text)]
    return LINE.findall(blocks) + [span for span in spans if "--" in span]


CALLS = {
    call: page.relative_to(ROOT).as_posix()
    for page in PAGES
    if page.exists() and not {"_build", "gallery", "generated"} & set(page.parts)
    for call in calls(page.read_text())
}


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{CALLS[call]}: {call}"[:90])
def test_call_is_accepted(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, *arguments = shlex.split(re.sub(r" (2?>|\|).*", "", call), comments=True)
    if name == "COMMAND":
        return
    if name.startswith("-"):
        assert cli.main([name]) == 0
        return
    seen: list[Any] = []
    module, _, function = cli.find_command(name).target.partition(":")
    monkeypatch.setattr(f"{module}.{function}", seen.append)
    assert cli.main([name, *arguments]) == 0, f"{CALLS[call]}: resultant {call}"
    assert seen or "--help" in arguments


def test_calls_are_found() -> None:
    assert len(CALLS) >= 15
