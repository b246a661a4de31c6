"""The summary of an analysis, and the names and numbers in it."""

from __future__ import annotations

from dataclasses import replace

from resultant.analysis import Analysis
from resultant.analysis.advice import Advice
from resultant.report.analysis_page import analysis_page
from resultant.report.summary import foremost, summary
from small_features import NAMES


def test_the_advice_is_first(analysis: Analysis, advice: Advice) -> None:
    facts = summary({"z": replace(analysis, advice=advice)}, "file", NAMES)
    assert [heading for heading, _ in facts] == [
        *("found", "do", "worth", "features", "angular gain", "cosine", "warning")
    ]
    assert facts[0][1] == advice.headline[0] and facts[-1][1] == advice.warnings[0].text


def test_better_features_are_advised(analysis: Analysis, advice: Advice) -> None:
    """By the rows that choose: held-out rows have no say."""
    rows = tuple(replace(row, accuracy=0.0, balanced=0.0) for row in advice.table)
    better = replace(advice, table=rows, nearest=advice.nearest + 0.1)
    a, b = (replace(analysis, advice=x) for x in (better, advice))
    assert foremost({"b": b, "a": a}) == "a"
    facts = dict(summary({"b": b, "a": a}, "file", NAMES))
    assert facts["features"].endswith(
        f"(advice for a, the best class directions by {advice.chosen_on}; --features NAME selects "
        "one)"
    )
    assert "--features" not in dict(summary({"a": a}, "file", NAMES))["features"]


def test_references_that_were_fitted_to_a_sample_are_named(
    analysis: Analysis, advice: Advice
) -> None:
    note = "Fitted to a stratified sample of 2 of 9 rows; --references all fits more."
    row = replace(advice.table[-1], note=note)
    for names, were in ((("A",), "A was"), (("A", "B"), "A, B were")):
        table = (*advice.table[:-1], *(replace(row, name=name) for name in names))
        a = replace(analysis, advice=replace(advice, table=table, left_out="LDA is left out."))
        facts = dict(summary({"z": a}, "file", NAMES))
        expected = "fitted to a sample of the rows; --references all fits more. LDA is left out."
        assert facts["references"] == f"{were} {expected}"


def test_a_projection_is_not_chosen_by_training_rows(analysis: Analysis, advice: Advice) -> None:
    b, a = (replace(advice, nearest=x) for x in (advice.nearest + 0.1, advice.nearest))
    both = {n: replace(analysis, advice=x) for n, x in (("projection", b), ("encoder", a))}
    features = dict(summary(both, "file", NAMES))["features"]
    assert "(advice for encoder; projection was trained by the loss, so only a split" in features
    text = analysis_page(both, "file", NAMES, [], {}).sections[0].text
    assert text.startswith("Advice for encoder; projection was trained by the loss, so only ")


def test_native_that_is_kept_changes_nothing(analysis: Analysis, advice: Advice) -> None:
    a = replace(analysis, advice=replace(advice, advised="native"))
    page = analysis_page({"z": a}, "file", NAMES, [], {})
    (table,) = (t for s in page.sections for t in s.tables if t.name == "classes")
    assert [c.name for c in table.columns][-2:] == ["held-out rows", "Native"]
    assert table.sentence.endswith("its accuracy under Native.")
    assert {len(row) for row in table.rows} == {len(table.columns)}
