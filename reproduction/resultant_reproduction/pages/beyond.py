"""Final studies beyond the paper: pages that are kept, and their main numbers from the records.

``beyond.toml`` says what is compared with what. No further runs are planned for these studies.
"""

import json
import re
from collections.abc import Iterator
from itertools import product
from typing import Any

from resultant_reproduction.cells.cells import Outcome, load
from resultant_reproduction.cells.statistics import Estimate, contrast
from resultant_reproduction.frozen.summarize import SPACES
from resultant_reproduction.pages.queries import arms
from resultant_reproduction.runs.evidence import Evidence
from resultant_reproduction.runs.records import packaged_folder


def kept(study: str, suffix: str) -> str:
    """Read a file of the page of a study."""
    folder = packaged_folder("pages")
    if folder is None:
        raise FileNotFoundError(f"expected the kept pages beside the package, for {study}")
    return (folder / f"beyond-{study}{suffix}").read_text()


def answer(study: str, evidence: Evidence) -> Outcome:
    """Return the answer of a kept page, which stands above its label."""
    found = re.search(r"^\*\*Ours\.\*\* (.*)", kept(study, ".md").partition("\n*beyond")[0], re.M)
    return Outcome(headline=found[1] if found else "")


def contrasts(study: str) -> Iterator[dict[str, Any]]:
    """Contrasts of a study, one per combination of the words in ``each``."""
    for entry in load("pages/beyond")["contrast"]:
        for words in product(*entry.get("each", ())) if entry["study"] == study else ():
            text = json.dumps(entry)
            for word, value in (pair for own in words for pair in own.items()):
                text = text.replace(f'"{{{word}}}"', json.dumps(value))
                text = text.replace(f"{{{word}}}", str(value))
            yield json.loads(text)


def listed(kind: str, evidence: Evidence) -> str:
    """List the ``listed`` effects of the stand-in with networks and direction."""
    texts = []
    for entry in contrasts("stand-in"):
        terms = arms(evidence, entry) if entry.get("listed") == kind else ()
        if terms:
            own, networks = contrast(terms), " and ".join(str(value.n) for _, value in terms)
            side = (own.sign or 0) * entry["printed"]
            direction = "open" if not side else "same direction" if side > 0 else "other direction"
            space = next(word for word in SPACES if word in entry["row"])
            texts.append(f"{space} {own.text(2)} [{networks}] ({direction})")
    return ", ".join(texts)


def estimate(evidence: Evidence, entry: dict[str, Any]) -> Estimate | None:
    """Compute a contrast; None without records."""
    terms = arms(evidence, entry)
    return contrast(terms) if terms else None


def rows(study: str, evidence: Evidence) -> list[tuple[str, ...]]:
    """Rows and columns of a kept page with the numbers of the given records."""
    texts = []
    for entry in contrasts(study):
        i, digits = estimate(evidence, entry), entry.get("digits", 2)
        text = "no record" if i is None else f"{i.text(digits, 'level' not in entry)} [{i.n}]"
        row, _, change = entry["row"].partition(" | ")
        texts.append((row, entry.get("column", change), text))
    return texts
