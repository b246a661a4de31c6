"""The advice: the headline is the truth, and the snippet gives the reported number."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from frozen_data import C, features
from resultant.analysis import Advice, FrozenSpace, advise, load_space
from resultant.analysis.advice import RuleRow
from resultant.analysis.headline import headline
from resultant.analysis.plain import UnansweredError
from resultant.analysis.snippet import Source, reference_snippet, store_code, vmf_snippet
from resultant.features import FeatureStore, packaged_file, write_store
from resultant.features.prepare import prepare

SPLITS, KEYS = ("train", "val", "test"), ("z", "labels")


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> tuple[Advice, Path]:
    """The advice for scikit-learn's digits, split by class, and the file of the digits."""
    pixels, digit = load_digits(return_X_y=True)
    x, q, y, t = map(
        torch.as_tensor,
        train_test_split(pixels, digit, test_size=0.2, stratify=digit, random_state=0),
    )
    path = tmp_path_factory.mktemp("digits") / "digits.safetensors"
    arrays = {"train/pixels": x, "train/labels": y, "test/pixels": q, "test/labels": t}
    write_store(path, arrays)
    store = prepare(FeatureStore.open(path)).store
    source = Source(store_code(str(path)), "pixels", "test", "mle")
    return advise(load_space(store, "pixels"), source=source)[0], path


@pytest.mark.slow
def test_a_mixture_is_advised_where_classes_have_several_modes(
    digits: tuple[Advice, Path],
) -> None:
    """kNN and logistic regression are far better than one vMF per digit; a mixture is not worse."""
    advice, _ = digits
    assert advice.advised == advice.best == "mixture" and advice.verdict == "tie"
    assert advice.headline[0].startswith("Undecided: Native mixture (")
    assert advice.headline[1].startswith("Use Native mixture (")
    assert advice.row("logistic").accuracy > 0.95 > 0.92 > advice.row("native").accuracy
    assert advice.row("mixture").accuracy > 0.98
    assert "the best by the first fold of 5-fold" in advice.headline[1]
    assert "one distribution per class (Native, 9" in advice.headline[2]
    assert json.loads(json.dumps(advice.to_dict()))["verdict"] == "tie"


@pytest.mark.slow
def test_fitted_scale_calibrates(digits: tuple[Advice, Path]) -> None:
    row = digits[0].row("cosine")
    assert row.after.nll < 0.4 < row.before.nll
    assert row.after.ece is not None and row.before.ece is not None
    assert row.after.ece < row.before.ece


@pytest.mark.slow
def test_snippets_give_the_reported_numbers(
    digits: tuple[Advice, Path], capsys: pytest.CaptureFixture[str], monkeypatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    source = Source(store_code(str(digits[1])), "pixels", "test", "mle")
    others = [reference_snippet(digits[0].row(k), source) for k in ("knn", "lda-equal")]
    for snippet in (digits[0].snippet, *others):
        reported = re.search(r"# reported: (.*)", snippet)
        assert reported is not None
        exec(snippet, {})
        assert capsys.readouterr().out.strip() == reported[1]
    from resultant import VMFClassifier

    advised = digits[0].row(digits[0].advised)
    loaded = VMFClassifier.load("classifier.safetensors")
    assert loaded.temperature == advised.settings["temperature"]


@pytest.mark.slow
@pytest.mark.parametrize("feature", ["encoder", "projection"])
def test_snippet_of_the_packaged_file(feature: str, capsys, monkeypatch, tmp_path: Path) -> None:
    with packaged_file() as path:
        store = prepare(FeatureStore.open(path)).store
    source = Source(store_code(None), feature, "test", "mle")
    given = None if feature == "encoder" else 0.1
    if feature == "projection":
        # A sample of the held-out rows judges, and the snippet draws the same.
        monkeypatch.setattr("resultant.analysis.advising.JUDGED", 3000)
    advice, _ = advise(
        load_space(store, feature), references="none", temperature=given, source=source
    )
    row = advice.row(advice.advised)
    assert advice.judged_rows == (3000 if feature == "projection" else 10_000)
    # Rows that the network has seen choose nothing odd.
    assert row.key == "angular" and row.settings["temperature"] == 0.1
    assert row.settings["beta"] == row.settings["prior"] == 0
    monkeypatch.chdir(tmp_path)
    exec(advice.snippet, {})
    assert capsys.readouterr().out.strip() == f"{row.accuracy:.2%}"
    assert Path("classifier.safetensors").exists()


def two_modes(seed: int, *counts: int) -> dict[str, torch.Tensor]:
    """Rows in two opposite modes per class, each row with a near copy of the same identity."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts) // 2)
    z = torch.eye(4)[labels] * torch.tensor([1.0, -1.0]).repeat(len(labels))[: len(labels), None]
    z = z + 0.45 * torch.randn(z.shape, generator=generator)
    near = z + 0.1 * torch.randn(z.shape, generator=generator)
    number = torch.arange(len(labels)) + 1000 * seed
    return {"z": torch.cat([z, near]), "labels": labels.repeat(2), "identities": number.repeat(2)}


def calibrated(kind: str) -> tuple[dict[str, dict[str, torch.Tensor]], dict[str, Any]]:
    """Rows by split, and options of the snippet's source."""
    if kind == "val":
        few = torch.full((C,), 12)
        pairs = {name: features(few, seed=i) for i, name in enumerate(SPLITS)}
        return {n: dict(zip(KEYS, pair, strict=True)) for n, pair in pairs.items()}, {"val": "val"}
    options = {"fit_fraction": 0.8} if kind == "apart" else {}
    return {"train": two_modes(0, 120, 80, 40), "test": two_modes(1, 40, 40, 40)}, options


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "method", "advised"),
    [
        ("val", "isotonic", None),
        ("folds", "isotonic", "mixture"),
        ("folds", "sigmoid", "native"),
        ("apart", "isotonic", "mixture"),
    ],
)
def test_calibration_of_scikit_learn(
    kind: str, method: str, advised: str | None, tmp_path: Path, monkeypatch, capsys
) -> None:
    """Log-loss and calibration error of the advised rule are those of the snippet's classifier,
    also if classes count alike and rows share identities."""
    splits, options = calibrated(kind)
    path = tmp_path / "z.safetensors"
    write_store(path, {f"{n}/{k}": a for n, arrays in splits.items() for k, a in arrays.items()})
    store = prepare(FeatureStore.open(path)).store
    source = Source(store_code(str(path)), "z", "test", "mle", **options)
    share = options.pop("fit_fraction", None)
    space = load_space(store, "z", fitting_share=share, **options)
    if advised == "native":
        monkeypatch.setattr("resultant.analysis.mixtures.ENTRIES", 0)
    advice, _ = advise(
        space, source=source, references="none", temperature=0.05, calibration=method
    )
    row = advice.row(advice.advised)
    assert advised in (None, row.key) and (kind == "val") == (advice.metric == "accuracy")
    assert f"its {method} calibration takes" in advice.headline[1]
    monkeypatch.chdir(tmp_path)
    exec(advice.snippet, names := {})
    assert capsys.readouterr().out.split() == [f"{row.accuracy:.2%}", f"{row.after.nll:.3f}"]
    p, y = names["classifier"].predict_proba(names["Xq"]).double(), names["yq"]
    own = p.gather(1, y[:, None]).clamp_min(2**-52)
    assert row.after.nll == pytest.approx(float(-own.log().mean()), rel=1e-3)
    decided = names["classifier"].decision_function(names["Xq"]).argmax(1)
    hit, confidence = (decided == y).double(), p.gather(1, decided[:, None])[:, 0]
    bins = (15 * confidence).ceil().clamp_min(1)
    gaps = [float((hit - confidence)[bins == b].sum().abs()) for b in range(1, 16)]
    assert row.after.ece == pytest.approx(sum(gaps) / len(y), abs=1e-2)


@pytest.mark.slow
def test_without_references(small: FrozenSpace) -> None:
    advice, space = advise(small, references="none", temperature=0.05)
    assert advice.verdict == "alone" and "no reference was run" in advice.headline[0]
    assert {row.kind for row in advice.table} == {"vmf"}
    assert space.tau == 0.05 and advice.snippet == ""
    assert advice.headline[2].startswith(f"Against Cosine, {advice.row(advice.advised).name} ")
    assert advice.judged_rows == len(small.test)


def test_too_few_rows_are_said(small: FrozenSpace) -> None:
    one = replace(small, test=small.test[:1], test_labels=small.test_labels[:1])
    with pytest.raises(UnansweredError, match="two held-out rows"):
        advise(one, references="none")


@pytest.mark.slow
def test_headline_calls_ties_ties(small: FrozenSpace) -> None:
    from resultant.analysis.advice import Difference

    advice, _ = advise(small, references="none", temperature=0.1)
    row = advice.row(advice.advised)
    near = Difference(0.001, -0.002, 0.004, "equivalent")
    far = Difference(-0.05, -0.06, -0.04, "worse")
    options = {"metric": "accuracy", "margin": 0.005, "judged": 100, "how": "the best"}
    options["whom"] = "Against kNN, it gains"
    for change, lead, verdict, words in (
        (near, near, "tie", "A tie: "),
        (replace(near, high=0.05, verdict="undecided"), near, "tie", "Undecided: "),
        (replace(near, gain=0.02, high=0.05, verdict="undecided"), near, "tie", "kNN is ahead"),
        (far, far, "vmf", "is better than every reference"),
        (replace(near, gain=0.05, verdict="better"),) * 2 + ("reference", "better than every vMF"),
    ):
        other = replace(row, key="knn", name="kNN", kind="reference", difference=change)
        result, sentences = headline((row, other), row, row, other, lead, **options)
        assert result == verdict and words in sentences[0] and len(sentences) == 3
        assert sentences[2].startswith("Against kNN, it gains; vMF")


def test_a_scale_that_worsens_the_log_loss_is_said(small: FrozenSpace) -> None:
    advice, _ = advise(small, references="none", temperature=0.1)
    row = advice.row(advice.advised)
    options = {
        "metric": "accuracy",
        "margin": 0.005,
        "judged": 100,
        "how": "the best",
        "whom": "",
    }
    for change, words in ((-0.1, ""), (0.001, ", slightly worse."), (0.1, ", which is worse: ")):
        own = replace(row, after=replace(row.after, nll=row.before.nll + change))
        _, sentences = headline((own,), own, own, None, None, **options)
        assert words in sentences[1] and ("worse" in sentences[1]) == bool(words)


def rule_row(key: str, settings: dict[str, Any]) -> RuleRow:
    none: Any = None
    return RuleRow(key, key, "vmf", settings, 0.5, 0.4, 0.6, 0.5, {}, none, none, 0.0, 0.0, 9)


def test_snippets_open_what_was_analyzed() -> None:
    """Features of the package or of a file, and rows that are kept apart and choose."""
    assert "with packaged_file() as path:" in store_code(None, features="encoder")
    fields: dict[str, Any] = {"opened": "", "feature": "z", "test": "test", "estimator": "mle"}
    assert Source(**fields).apart == ""
    assert "store['val/z']" in Source(**fields, val="val").apart
    assert "a[~fitted]" in Source(**fields, fit_fraction=0.8).apart
    settings: dict[str, Any] = {"temperature": 0.1, "beta": 0.0, "prior": 0.0, "scale": 2.0}
    row = rule_row("native", settings)
    assert "calibrate" not in vmf_snippet(row, Source(**fields), "accuracy")
    assert reference_snippet(rule_row("tau-normalized", {}), Source(**fields)) == ""
