"""The features of a store: which of them the headline is about."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from resultant.analysis import QUESTIONS
from resultant.cli._analysis import held_out_notes
from resultant.cli._store import FIRST, REST, analyze_store
from resultant.features.prepare import prepare
from resultant.features.store import FeatureStore, write_store
from resultant.report.analysis_page import sampled
from resultant.report.summary import foremost
from small_features import small_features


def test_every_question_is_in_one_part() -> None:
    parts = [question for part in (FIRST, *REST) for question in part]
    assert sorted(parts) == sorted(QUESTIONS)


@pytest.mark.slow
@pytest.mark.parametrize("references", ["none", "fast"])
def test_held_out_rows_do_not_choose_the_features(references: str, tmp_path: Path) -> None:
    """One feature set has the better training rows, the other the better held-out rows."""
    arrays = small_features(dim=8, noise=0.6, names=("encoder", "projection"))
    generator = torch.Generator().manual_seed(1)
    noise = {n: torch.randn(z.shape, generator=generator) for n, z in arrays.items() if z.dim() > 1}
    arrays["train/projection"] += 0.6 * noise["train/projection"]
    arrays["test/encoder"] = noise["test/encoder"]
    write_store(tmp_path / "z.safetensors", arrays)
    prepared = prepare(FeatureStore.open(tmp_path / "z.safetensors"))
    results = analyze_store(
        prepared, (), lambda *_: None, temperature=0.1, estimator="mle", references=references
    )
    advice = {name: a.advice for name, (_, a) in results.items()}
    encoder, projection = advice["encoder"], advice["projection"]
    assert encoder is not None and projection is not None
    assert encoder.nearest > projection.nearest + 0.1
    assert encoder.row("cosine").accuracy < projection.row("cosine").accuracy - 0.1
    assert (encoder.verdict != "alone") == (references == "fast") and projection.verdict == "alone"
    analyses = {name: a for name, (_, a) in results.items()}
    assert foremost(analyses) == "encoder"
    (note,) = held_out_notes(analyses, "encoder")
    assert note.startswith("The advice is for encoder, but on the held-out rows projection has ")
    assert held_out_notes(analyses, "projection") == []


def test_many_classes_are_asked_about_on_a_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The advice has all held-out rows, and the page says how many the others have."""
    write_store(tmp_path / "z.safetensors", small_features(dim=8, names=("projection",)))
    monkeypatch.setattr("resultant.cli._store.ASKED_CELLS", 6 * 20)
    prepared = prepare(FeatureStore.open(tmp_path / "z.safetensors"))
    results = analyze_store(
        prepared, ("grid",), lambda *_: None, temperature=0.1, estimator="mle", mixtures=False
    )
    _, analysis = results["projection"]
    held_out = analysis.space.held_out
    assert analysis.advice is not None and analysis.advice.judged_rows == held_out > 20
    assert analysis.grid is not None and int(analysis.grid.queries.sum()) == 20
    assert f"a random 20 of the {held_out} held-out rows" in sampled(analysis)
