"""REPRODUCTION.md is what ``resultant reproduce all`` makes of the records in results/.

To make it again takes a minute. So its digest of records, packaged features and code is
compared, and those parts are made again that need no features.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from resultant.paper import ARTEFACTS, Evidence, Records
from resultant.paper.inputs import MARK, code, digest
from resultant.paper.words import HEAD, foreign_section, listing, plans_section, section

ROOT = Path(__file__).parent.parent
RESULTS, TEXT = ROOT / "results", ROOT / "REPRODUCTION.md"
AGAIN = "run: resultant reproduce all"


class ComputedError(Exception):
    """Something was asked for that takes long."""


class OfRecords(Evidence):
    """Evidence from records alone."""

    def _check(self, name: str) -> Any:
        raise ComputedError(name)

    def _space(self, store: str, space: str, estimator: str = "") -> Any:
        raise ComputedError(store)


def test_made_from_these_inputs() -> None:
    assert TEXT.read_text().rstrip().endswith(MARK.format(digest(RESULTS))), AGAIN


def test_what_records_say() -> None:
    text, records = TEXT.read_text(), Records.read(RESULTS)
    assert text.startswith(HEAD.format(records=len(records))), AGAIN
    evidence, made = OfRecords(records), {}
    for name, artefact in ARTEFACTS.items():
        try:
            made[name] = artefact.compute(evidence)
        except ComputedError:
            continue
        assert section(artefact, made[name]) in text, f"{name}; {AGAIN}"
    assert {"angular-training", "joint-fc", "c10-if50-u", "stronger-views", "baseline"} <= set(made)
    assert not {"beta-sweep", "synthetic-transition", "estimator", "guide"} & set(made)
    for row in listing(ARTEFACTS, made):
        assert f"| {' | '.join(row)} |" in text, AGAIN
    assert foreign_section(ARTEFACTS) in text, AGAIN
    assert plans_section(RESULTS) in text, AGAIN


def test_digest_tells_changes(tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(RESULTS, results)
    before = digest(results)
    assert before == digest(RESULTS)
    path = next(results.glob("*.jsonl"))
    lines = path.read_text()
    path.write_text(lines.replace("0.", "1.", 1))
    assert digest(results) != before
    path.write_text(lines)
    assert digest(results) == before
    (results / "more.jsonl").write_text(lines.splitlines()[0] + "\n")
    assert digest(results) != before
    (results / "more.jsonl").unlink()
    assert digest(results, [path]) != before


KNOWN = """\"Words.\"
A = 1.5  # why


def f(x):
    \"\"\"Words
    of a docstring.\"\"\"
    if x > A:
        x = g(x, f"{x!r:>{A}} and {h('y')}")
    return x
"""


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ('"Words."', '"""Other words."""', True),
        ("  # why", "", True),
        ("why", "because", True),
        ("docstring", "function", True),
        ("\n\n\n", "\n\n", True),
        ("g(x, f", "g(\n            x,  # this\n            f", True),
        ("1.5", "1.6", False),
        ("x > A", "x >= A", False),
        ("x > A", "A > x", False),
        ("and", "or", False),
        ("{x!r", "{x!s", False),
        ("    return", "        return", False),
        ("g(x", "g(A", False),
        ("A = 1.5", "A = 1.5\nB = A", False),
    ],
)
def test_code(old: str, new: str, same: bool) -> None:
    assert KNOWN.count(old) == 1
    assert (code(KNOWN.replace(old, new)) == code(KNOWN)) == same


def test_code_is_the_same_in_every_python() -> None:
    """An f-string is one token, as it was before 3.12."""
    assert code(KNOWN) == [
        *("A", "=", "1.5", "NEWLINE", "def", "f", "(", "x", ")", ":", "NEWLINE", "INDENT"),
        *("if", "x", ">", "A", ":", "NEWLINE", "INDENT", "x", "=", "g", "(", "x", ","),
        *("STRING f\"{x!r:>{A}} and {h('y')}\"", ")", "NEWLINE", "DEDENT"),
        *("return", "x", "NEWLINE", "DEDENT"),
    ]
    lines = 'x = f"""a\n{b}\nc""", 1\n'
    assert code(lines) == ["x", "=", 'STRING f"""a\n{b}\nc"""', ",", "1", "NEWLINE"]


def test_digest_is_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """A comparison that is turned round in any module that speaks is another digest."""
    before, read = digest(RESULTS), Path.read_text
    for module in ("paper/claims.py", "verify/transition.py"):

        def changed(path: Path, *args: Any, module: str = module, **kwargs: Any) -> str:
            text = read(path, *args, **kwargs)
            return text.replace(" < ", " > ", 1) if str(path).endswith(module) else text

        monkeypatch.setattr(Path, "read_text", changed)
        assert digest(RESULTS) != before, module
    monkeypatch.setattr(Path, "read_text", read)
    assert digest(RESULTS) == before
