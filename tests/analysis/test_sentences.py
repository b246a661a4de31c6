"""Toy files from their rows to the sentences of the report: some that must appear, some that must
not, and none that contradicts the numbers beside it."""

import re
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import resultant
from resultant.analysis.read import read
from resultant.analysis.result import FeatureResult
from resultant.report.methods import method_charts

RNG = np.random.default_rng
STOPPED = "The search of vMF settings was stopped"


class Toy(NamedTuple):
    """Features with labels, options, and patterns of sentences."""

    X: np.ndarray
    y: np.ndarray
    options: dict[str, Any]
    must: tuple[str, ...] = ()
    never: tuple[str, ...] = ()


def blobs(
    sizes: list[int], dim: int = 8, noise: float = 0.4, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Draw classes around random directions."""
    rng, y = RNG(seed), np.repeat(np.arange(len(sizes)), sizes)
    means = RNG(1).normal(size=(len(sizes), dim))
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    return means[y] + noise * rng.normal(size=(len(y), dim)), y


def ties() -> Toy:
    X, y = blobs([60, 60, 60], noise=0.05)
    return Toy(
        X,
        y,
        {},
        (r"the simplest of the \d+ methods within one standard error of the best: ",),
        ("the best of all",),
    )


def random_labels() -> Toy:
    X, y = blobs([100, 100, 100])
    y = RNG(3).permutation(y)
    must = "These features do not carry these labels", "no method is clearly ahead"
    return Toy(X, y, {}, must, ("Use ", "tie"))


def copies() -> Toy:
    """Noise, each row four times: a nearest neighbour knows the copies."""
    rng = RNG(0)
    X, y = rng.normal(size=(100, 16)), rng.integers(0, 3, 100)
    must = ("300 rows repeat another row of the same split",)
    never = ("network", "in another split", r"100\.0 %")
    return Toy(np.repeat(X, 4, 0), np.repeat(y, 4), {}, must, never)


def copied_twice() -> Toy:
    """Two of three copies of training rows are equal: they repeat a row of their own split, too."""
    X, y = blobs([30, 30, 30])
    must = "3 rows are in train and in another split", "1 row repeats another row of the same split"
    return Toy(X, y, {"test": (X[[0, 0, 50]], y[[0, 0, 50]])}, must)


def one_name_twice() -> Toy:
    """Half of the rows of a class have a trailing blank in their label."""
    X, y = blobs([40, 40, 40])
    names = np.array(["basic", "pro", "team"], dtype="<U5")[y]
    names[40:60] = "pro "
    return Toy(X, names, {}, ("2 classes are called pro but for capitals and white space",))


def shifted() -> Toy:
    """Test rows of another site: columns are moved."""
    X, y = blobs([80, 80, 80, 80], noise=0.25)
    q, t = blobs([30, 30, 30, 30], noise=0.25, seed=1)
    q[:, :3] += 0.8
    must = ("Either the features were trained on the training rows, or the test rows differ",)
    return Toy(X, y, {"test": (q, t)}, must, ("the network",))


def two_classes() -> Toy:
    X, y = blobs([100, 100], noise=0.6)
    return Toy(X, y, {}, ("The metric is accuracy", r"Use .* accuracy on the test rows"))


def many_classes() -> Toy:
    X, y = blobs([4] * 400, dim=64, noise=0.1)
    must = ("400 classes have fewer than 3 test rows",)
    return Toy(X, y, {}, must, ("stratified sample",))


def single_rows() -> Toy:
    """Some classes have one row; they are left out with a note."""
    X, y = blobs([40, 40, 40, 1, 1], noise=0.3)
    return Toy(X, y, {}, ("2 classes have a single training row, left out",))


def few_test_rows() -> Toy:
    """The test rows are less accurate than the validation rows, by chance."""
    X, y = blobs([20, 20, 20], noise=0.5)
    must = ("Only 12 test rows: accuracies are rough",)
    return Toy(X, y, {}, must, ("Either the features were trained",))


def dominant() -> Toy:
    X, y = blobs([400, 20, 20], noise=0.3)
    return Toy(X, y, {"metric": "accuracy"}, (r"90\.9 % of the test rows are class 0",))


def digits() -> Toy:
    digits: Any = load_digits()
    never = ("do not carry", "repeat", "seen", "sorted", "white space")
    must = (r"Use .*: (9\d\.\d|100\.0) % accuracy",)
    return Toy(digits.data[:700], digits.target[:700], {}, must, never)


# Sentences on methods need all of them, those on rows and classes do not.
METHODS = [("unrefined", toy) for toy in (ties, random_labels, copies, two_classes, digits)]
ROWS = [
    ("brief", toy)
    for toy in (
        copied_twice,
        one_name_twice,
        shifted,
        single_rows,
        few_test_rows,
        dominant,
        many_classes,
    )
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fixture", "toy"), METHODS + ROWS, ids=lambda a: getattr(a, "__name__", a)
)
def test_sentences_of_toy_files(
    fixture: str, toy: Callable[[], Toy], request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(fixture)
    X, y, options, must, never = toy()
    assert_sentences(resultant.analyze(X, y, **options).first, must, never)


def assert_sentences(result: FeatureResult, must: Sequence[str], never: Sequence[str] = ()) -> None:
    """Some sentences appear, some do not, and all agree with the numbers."""
    data, advice = result.data, result.recommendation
    warnings = (warning.text for warning in data.warnings)
    text = "\n".join([*advice.sentences, data.metric_reason, *warnings, *data.notes])
    for pattern in must:
        assert re.search(pattern, text), (pattern, text)
    for pattern in (*never, STOPPED):
        assert not re.search(pattern, text), (pattern, text)
    agrees(result)


def agrees(result: FeatureResult) -> None:
    """The sentences agree with the numbers of the table."""
    advice, metric = result.recommendation, result.data.metric
    methods = {m.key: m for m in result.methods if m.family != "baseline"}
    best = max(m.validation.value for m in methods.values())
    assert methods[advice.best].validation.value == best
    text = " ".join(advice.sentences)
    for m in methods.values():
        assert m.accuracy.low < m.accuracy.high and m.balanced.low < m.balanced.high
        if m.difference is not None:
            assert m.difference.low < m.difference.high
    if advice.key is None:
        return
    used = methods[advice.key]
    value = used.metric(metric)
    assert f"Use {used.name}: {100 * value.value:.1f} % {metric} on the test rows" in text
    assert f"{100 * used.validation.value:.1f} % {metric} on the validation rows" in text
    if "best of all" in text:
        assert used.validation.value == best
    words = {"is not clearly different from": "tie", "beats": "worse", "is behind": "better"}
    verdicts = "|".join(words)
    said = re.search(rf"it ({verdicts}) (.*): (.*) points \[(.*), (.*)\]", text)
    assert said is not None
    (other,) = (m for m in methods.values() if m.name == said[2])
    assert other.difference is not None and other.difference.verdict == words[said[1]]
    gain, low, high = (float(v.replace("−", "-")) for v in said.groups()[2:])
    d = other.difference
    assert (gain, low, high) == tuple(
        pytest.approx(-100 * v, abs=0.051) for v in (d.gain, d.high, d.low)
    )
    assert low <= gain <= high
    # An interval that is shown contains zero if it is a tie, and else it does not.
    assert (low <= 0 <= high) == (d.verdict == "tie")


@pytest.mark.usefixtures("brief")
def test_a_search_that_is_stopped_says_so() -> None:
    X, y = blobs([60, 60, 60])
    result = resultant.analyze(X, y, time_limit=1e-9).first
    assert any(f"{STOPPED} after 1e-09 s and 1 point;" in note for note in result.data.notes)
    with pytest.raises(ValueError, match="expected time_limit > 0"):
        resultant.rows(X, y, time_limit=-1)


@pytest.mark.slow
@pytest.mark.usefixtures("unrefined")
def test_wine_is_within_two_points_of_plain_references() -> None:
    """Standardized logistic regression and discriminant analysis, on the same test rows."""
    X, y = load_wine(return_X_y=True)
    (data,) = read(X, y)
    result = resultant.analyze(X, y).first
    use = r"Use (linear discriminant|logistic|nearest centroid)"
    assert_sentences(result, (r"Column 12 \(from 0\) varies .* No outliers are named", use))
    assert not resultant.rows(X, y, references="none").is_outlier.any()
    train = data.train.read(slice(None)).numpy()  # pyright: ignore[reportArgumentType]
    test = data.test.read(slice(None)).numpy()  # pyright: ignore[reportArgumentType]
    for key, model in (
        ("LogisticRegression", make_pipeline(StandardScaler(), LogisticRegression())),
        ("LinearDiscriminantAnalysis", LinearDiscriminantAnalysis()),
    ):
        plain = model.fit(train, data.train.y).score(test, data.test.y)
        assert result.method(key).accuracy.value >= plain - 0.02, key


@pytest.mark.slow
@pytest.mark.parametrize("files", [("part.csv",), ("a/part.csv", "b/part.csv")])
@pytest.mark.usefixtures("one_precision")
def test_sentences_of_tables_with_wrong_labels(
    tmp_path: Path, files: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They name a row by the number and the file where it is, and the errors of the classifier by
    an interval; numbers of the map and of the drawn methods are those of the picture."""
    monkeypatch.setattr(import_module("resultant.analysis.pictures"), "MAP_ROWS", 20)
    X, y = blobs([60, 60, 60], noise=0.15)
    order = RNG(5).permutation(len(y))
    X, words = X[order], np.array(["ant", "bee", "cow"])[y[order]]
    wrong = np.arange(86, 94)
    words[wrong] = np.roll(["ant", "bee", "cow"], -1)[y[order][wrong]]
    for part, name in zip(np.array_split(np.arange(len(y)), len(files)), files, strict=True):
        lines = [",".join([*map(str, X[i]), str(words[i])]) for i in part]
        head = ",".join([*(f"x{k}" for k in range(8)), "label"])
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True)
        path.write_text("\n".join([head, *lines]))
    source = tmp_path / "in" / (files[0] if len(files) == 1 else "")
    one = resultant.analyze(source, out=tmp_path / "out").first
    assert one.recommended is not None
    agrees(one)
    pages = ((tmp_path / "out" / name).read_text() for name in ("index.html", "summary.md"))
    page, summary = (text.replace("\u00a0", " ").replace("\\", "") for text in pages)
    # The labels, and how often the classifier is wrong itself.
    right = one.recommended.accuracy
    own, low, high = (f"{100 - 100 * v:.1f}" for v in (right.value, right.high, right.low))
    doubt = f"{one.recommended.name}, which is itself wrong on {own} % of the test rows "
    doubt += f"(95 % interval {low} to {high} %, wrong labels counted as its errors): look before "
    doubt += "you change any"
    (step,) = (step for step in one.steps if "disagree" in step)
    number = one.rows["label"].total
    assert step.startswith(f"Check {number} labels that disagree clearly with {doubt}; begin with ")
    assert step in page and step in summary
    assert f"These labels disagree with {doubt}." in page
    assert "may be right" not in page + summary
    # The row of the file has one of the labels that were changed.
    place = re.search(r"begin with row (\d+) of (\S+) \((train|test)\)[.;]", step)
    assert place is not None
    (file,) = (i for i, name in enumerate(files) if place[2].endswith(name))
    assert len(files) > 1 or place[2] == files[0]
    first = file * len(y) // len(files) + int(place[1])
    assert first in wrong
    # The map and the methods.
    assert one.map is not None
    shown, number = len(one.map.x), one.data.splits["test"]
    assert shown < number
    drawn = f"PCA of {shown} of {number} test rows; "
    drawn += f"{(one.map.label != one.map.predicted).sum()} of the {shown} rows drawn are "
    assert f"{drawn}misclassified by {one.recommended.name}." in page
    assert "One of 5 vMF rules is drawn, and refined classes." in page
    assert sum("vMF" in name for name in method_charts(one)[0].y.names) == 2
    # Probabilities of scikit-learn, in the table and by the code.
    code = page[page.index("Code of the other methods") :]
    assert code.index("the code here is without this factor") < code.index("make_pipeline")
