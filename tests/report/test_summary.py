"""The summary of an analysis, and the names and numbers in it."""

from __future__ import annotations

from dataclasses import replace

from resultant.analysis import Analysis, FrozenSpace, analyze_space
from resultant.classes.groups import group_rule
from resultant.report import words
from resultant.report.analysis_page import drawings
from resultant.report.decision_figures import groups
from resultant.report.summary import foremost, summary
from resultant.report.tables import tables
from small_features import NAMES, small_features


def test_more_accurate_features_are_recommended(analysis: Analysis) -> None:
    arrays = small_features(noise=0.3)
    names = ("train/projection", "train/labels", "test/projection", "test/labels")
    questions = ("recommendation",)
    better = analyze_space(FrozenSpace.fit(*(arrays[n] for n in names)), questions)
    both = {"a": analysis, "b": better}
    assert foremost(both) == "b" and foremost({"a": analysis}) == "a"
    text = summary(both, "file", NAMES)[0][1]
    assert "on b features" in text
    # The accuracy of native on the other features is given too.
    assert analysis.recommendation is not None
    assert f"{words.percent(analysis.recommendation.accuracy_before)} on a)" in text


def test_every_number_names_its_rows(analysis: Analysis) -> None:
    """The gain is measured on the judging half, everything else on all held-out rows."""
    r = analysis.recommendation
    assert r is not None
    used = replace(r, realization="angular", candidate="angular", beta=0.0, candidate_beta=0.0)
    used = replace(used, gain=0.0342, better=3, accuracy_before=0.3971, accuracy_after=0.4271)
    facts = dict(summary({"z": replace(analysis, recommendation=used)}, "file", NAMES))
    assert "42.71\u00a0% accurate on all 120 held-out rows" in facts["use"]
    assert facts["use"].endswith("(Native: 39.71\u00a0%)")
    assert "+3.42 points over Native on z features" in facts["accuracy"]
    assert facts["accuracy"].startswith("judging half (60 rows")
    assert facts["accuracy"].endswith("all rows: +3.00 points")
    for name in ("calibration", "groups", "rise most", "fall most"):
        assert facts[name].startswith("all rows: ")


def test_native_that_is_kept_changes_nothing(analysis: Analysis) -> None:
    r = analysis.recommendation
    assert r is not None
    kept = replace(r, realization="native", candidate="native", candidate_beta=1.0)
    a = replace(analysis, recommendation=kept)
    facts = dict(summary({"features": a}, "file", NAMES))
    assert facts["use"].startswith("Native on features, ")
    assert {facts[name] for name in ("groups", "rise most", "fall most")} == {"no change"}
    assert " to " not in facts["calibration"]
    captions = {d.name: d.sentence for d in drawings(a, NAMES)}
    assert "classes" not in captions and " to " not in captions["calibration"]
    (table,) = (t for t in tables(a, NAMES) if t.name == "classes")
    assert [c.name for c in table.columns][-2:] == ["held out", "native"]
    assert table.sentence.endswith("its accuracy under Native.")
    assert {len(row) for row in table.rows} == {len(table.columns)}
    # A candidate that is not advised is named in every fact; no interval has zero width.
    other = replace(r, realization="native", candidate="angular", candidate_beta=0.5)
    for better in (3, 0):
        tried = replace(other, better=better, worse=0)
        facts = dict(summary({"z": replace(analysis, recommendation=tried)}, "file", NAMES))
        for name in ("accuracy", "calibration", "groups", "rise most", "fall most"):
            assert facts[name].startswith("Pure Angular at β = 0.5 (not advised), ")
        judged = f"judging half ({r.queries} rows that did not choose): "
        assert judged in facts["accuracy"]
        assert ("interval" in facts["accuracy"]) == bool(better)


def test_name_without_letters_is_visible() -> None:
    assert [words.class_name(name) for name in ("", "7", "cat")] == ['""', "class 7", "cat"]


def test_several_features_can_be_selected(analysis: Analysis) -> None:
    one, two = (
        dict(summary(dict.fromkeys(names, analysis), "f", NAMES))
        for names in (["x"], ["x", "logits"])
    )
    assert two["features"].endswith("(--features NAME selects one)")
    assert "--features" not in one["features"]
    assert "\u00a0% on logits)" in two["use"]


def test_groups_state_their_rule(analysis: Analysis) -> None:
    rule, drawn = group_rule(6), groups(analysis)
    assert drawn is not None and drawn.sentence.endswith(f"; {rule}.")
    assert dict(summary({"z": analysis}, "f", NAMES))["groups"].endswith(f" points ({rule})")
