"""REPRODUCTION.md is what ``resultant reproduce all`` makes of the records in results/.

To make it again takes a minute. So its digest of records, packaged features and code is
compared, and those parts are made again that need no features.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from resultant_reproduction import ARTEFACTS, Evidence, Records, inputs
from resultant_reproduction.inputs import MARK, digest
from resultant_reproduction.words import HEAD, foreign_section, listing, plans_section, section

ROOT = Path(__file__).parents[2]
RESULTS, TEXT = ROOT / "results", ROOT / "REPRODUCTION.md"
AGAIN = "run: resultant reproduce all"


class ComputedError(Exception):
    """Something was asked for that takes long."""


class OfRecords(Evidence):
    """Evidence from records alone."""

    def _check(self, name: str) -> Any:
        raise ComputedError(name)

    def _space(self, store: str, space: str, estimator: str) -> Any:
        raise ComputedError(store)


def test_made_from_these_inputs() -> None:
    assert TEXT.read_text().rstrip().endswith(MARK.format(digest([RESULTS]))), AGAIN


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
    for row in listing(ARTEFACTS, made, records):
        assert f"| {' | '.join(row)} |" in text, AGAIN
    assert foreign_section(ARTEFACTS) in text, AGAIN
    assert plans_section(records) in text, AGAIN


def test_digest_tells_changes(tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(RESULTS, results)
    before = digest([results])
    assert before == digest([RESULTS])
    path = next(results.glob("*.jsonl"))
    lines = path.read_text()
    path.write_text(lines.replace("0.", "1.", 1))
    assert digest([results]) != before
    path.write_text(lines)
    (results / "more.jsonl").write_text(lines.splitlines()[0] + "\n")
    assert digest([results]) != before
    (results / "more.jsonl").unlink()
    assert digest([results], brought=[path]) != before


def test_digest_is_of_stores(tmp_path: Path) -> None:
    """Files and folders, by the names they are given."""
    folder = tmp_path / "store"
    (folder / "part").mkdir(parents=True)
    for name in ("train.npy", "part/test.npy"):
        (folder / name).write_bytes(name.encode())
    seen = [digest([]), digest([], {"imagenet-lt": folder}), digest([], {"inaturalist18": folder})]
    assert digest([], {"imagenet-lt": folder}) == seen[1]
    (folder / "part" / "test.npy").rename(folder / "part" / "val.npy")
    seen.append(digest([], {"imagenet-lt": folder}))
    (folder / "part" / "val.npy").write_bytes(b"other")
    seen.append(digest([], {"imagenet-lt": folder}))
    seen.append(digest([], {"imagenet-lt": folder / "train.npy"}))
    assert len(set(seen)) == len(seen)


def test_digest_is_of_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line more in any module that speaks is another digest, whether it stands in this package or
    in what that asks; words beside the code are not."""
    package = tmp_path / "resultant"
    skipped = shutil.ignore_patterns("__pycache__", "resources")
    shutil.copytree(Path(inputs.__file__).parents[1], package, ignore=skipped)
    monkeypatch.setattr(inputs, "__file__", str(package / "paper" / "inputs.py"))
    before = digest([])
    for name, speaks in (
        ("paper/claims.py", True),
        ("verify/transition.py", True),
        ("frozen/decisions.py", True),
        ("frozen/recommend.py", True),
        ("gain.py", True),
        ("records.py", True),
        ("presets.py", True),
        ("paper/run.py", False),
        ("report/page.py", False),
        ("commands.py", False),
    ):
        path = package / name
        text = path.read_text()
        path.write_text(f"{text}LAST = 1 > 2\n")
        assert (digest([]) != before) == speaks, name
        path.write_text(text)
    path = package / "gain.py"
    path.write_text("# Why.\n" + path.read_text().replace('"""', '"""So: ', 1))
    assert digest([]) == before


def test_code_is_what_runs() -> None:
    """Without comments and docstrings; what looks like one within a string stays."""
    text = '''"""A module
# of words."""

import os  # why

TEXT = """
# printed

"""


def f(x):
    """Says
    little."""
    # nothing
    return f"{x}#"


class Empty: """Short."""
'''
    assert inputs.read(text).code.splitlines() == [
        *("import os  # why", 'TEXT = """', "# printed", "", '"""'),
        *("def f(x):", '    return f"{x}#"', 'class Empty: """Short."""'),
    ]
