"""The glossary of a page."""

from __future__ import annotations

import re

from resultant.report.glossary import TERMS, link_terms
from resultant.report.words import NAMES


def test_terms_are_linked_once_and_exist() -> None:
    html = link_terms("The gain & Pure Angular; gains of <b>.")
    assert html.count("<a ") == 2 and "&amp;" in html and "&lt;b&gt;" in html
    slugs = {term.slug for term in TERMS}
    assert set(re.findall(r"#term-([\w-]+)", html)) <= slugs
    # Not within another word, nor within a longer term.
    assert "<a " not in link_terms("against a tailor")
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
