"""The glossary of a page."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from resultant.report.glossary import TERMS, find_term, link_terms
from resultant.report.words import NAMES

# Headings in plain English, which need no definition.
PLAIN = {
    *("class", "first class", "second class", "settings", "note", "quantity", "value", "before"),
    *("after", "shift (°)", "before (°)", "after (°)", "change", "classes predicted"),
    *("most predicted", "share (%)", "difference", "predicted (%)"),
    *(
        "Warning",
        "Glossary",
        "Move the sliders",
        "Between two classes",
        "All classes",
    ),
    *("Numbers at these settings", "Change per class", "Rows that a class needs"),
}


class Headings(HTMLParser):
    """Headings of sections, figures and tables, heads of tables, and options, each with the number
    of its terms that have a card."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, int]] = []
        self.cards: set[str] = set()
        self.shown: set[str] = set()
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if (given.get("id") or "").startswith("term-"):
            self.cards.add(str(given["id"]))
        if tag in ("h2", "h3", "th", "option") and given.get("scope") != "row":
            self._open = tag
            self.found.append(("", 0))
        elif self._open and "term" in (given.get("class") or ""):
            self.shown.add(str(given.get("data-term") or str(given.get("href"))[1:]))
            text, terms = self.found[-1]
            self.found[-1] = text, terms + 1

    def handle_data(self, data: str) -> None:
        if self._open:
            text, terms = self.found[-1]
            self.found[-1] = text + data, terms

    def handle_endtag(self, tag: str) -> None:
        if tag == self._open:
            self._open = ""


@pytest.mark.slow
def test_every_heading_is_plain_or_has_a_card(folder: Path) -> None:
    """Options have their card beside the list."""
    headings = Headings((folder / "index.html").read_text())
    assert headings.shown <= headings.cards and len(headings.found) > 60
    rules = set(NAMES.values())
    assert all(find_term(rule) for rule in rules)
    assert {text for text, terms in headings.found if not terms} <= PLAIN | rules


def test_terms_are_linked_once_and_exist() -> None:
    html = link_terms("The gain & Pure Angular; gains of <b>.")
    assert html.count("<a ") == 2 and "&amp;" in html and "&lt;b&gt;" in html
    slugs = {term.slug for term in TERMS}
    assert set(re.findall(r"#term-([\w-]+)", html)) <= slugs
    # Not within another word, nor within a longer term.
    assert "<a " not in link_terms("against a tailor")
    assert '#term-reference">Balanced logistic' in link_terms("Balanced logistic regression")
    assert 'href="#term-calibration">expected calibration error<' in link_terms(
        "an expected calibration error"
    )


def test_every_rule_is_defined_in_words_first() -> None:
    names = {term.name for term in TERMS}
    assert set(NAMES.values()) <= names
    for term in TERMS:
        assert term.text[0].isupper() and term.text.endswith(".")
        assert not re.match(r"[^ ]+ = ", term.text)
    assert {t.slug for t in TERMS if t.picture} == {"gain", "realization", "beta", "certificate"}
