"""Promises of the classifiers about calibration, columns, groups and files."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import save_file
from scipy.sparse import csr_matrix
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator

from resultant import VMFClassifier, VMFClassifierCV, VMFMixture

CURVES = ("sigmoid", "isotonic")


def rows(seed: int, classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng, y = np.random.default_rng(seed), np.arange(160) % classes
    return np.eye(6)[y] + 0.5 * rng.normal(size=(160, 6)), y


X, Y = rows(0)
NEW, T = rows(1)


@pytest.mark.parametrize("method", CURVES)
@pytest.mark.parametrize("weighted", [False, True])
def test_calibration_of_a_class_that_was_not_fitted(method: Any, weighted: bool) -> None:
    """It keeps a probability of zero; the others have that of a fit without it."""
    kept, new = Y != 2, T != 2
    if weighted:
        fitted = VMFClassifier().fit(X, Y, sample_weight=kept.astype(float))
    else:
        fitted = VMFClassifier().partial_fit(X[kept], Y[kept], classes=range(4))
    p = fitted.calibrate(NEW, T, method=method).predict_proba(X)
    assert (p[:, 2] == 0).all() and np.allclose(p.sum(1), 1)
    without = VMFClassifier(scale=fitted._scale()).fit(X[kept], Y[kept])
    theirs: Any = CalibratedClassifierCV(FrozenEstimator(without), method=method)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs.fit(NEW[new], T[new])
    np.testing.assert_allclose(p[:, [0, 1, 3]], theirs.predict_proba(X), atol=1e-5)
    with pytest.raises(ValueError, match="got none of class number 3; use method='scale'"):
        fitted.calibrate(NEW[T < 2], T[T < 2], method=method)


@pytest.mark.parametrize("method", CURVES)
def test_a_calibration_does_not_outlive_its_scores(method: str, tmp_path: Path) -> None:
    def made() -> VMFClassifier:
        return VMFClassifier().fit(X, Y).calibrate(NEW, T, method=method)

    changed = made().set_params(temperature=0.01)
    with pytest.warns(UserWarning, match="the calibration is dropped; call calibrate again"):
        assert changed.score(NEW, T) == VMFClassifier(temperature=0.01).fit(X, Y).score(NEW, T)
    added = made()
    with pytest.warns(UserWarning, match="added rows have other scores"):
        added.partial_fit(NEW, T)
    assert added.calibration_ is None
    # Nothing is lost where nothing changes.
    made().save(tmp_path / "a.safetensors")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = VMFClassifier.load(tmp_path / "a.safetensors")
        np.testing.assert_array_equal(again.predict_proba(NEW), made().predict_proba(NEW))


def test_names_of_columns_are_kept(tmp_path: Path) -> None:
    """By all that a fit makes: scikit-learn warns where names are lost, and refuses others."""
    frame = pd.DataFrame(X, columns=list("abcdef"))
    chosen = VMFClassifierCV(components=1).fit(frame, Y)
    chosen.save(tmp_path / "a.safetensors")
    loaded = VMFClassifier.load(tmp_path / "a.safetensors")
    stream = VMFClassifier().partial_fit(frame, Y, classes=range(4)).partial_fit(frame, Y)
    mixture = VMFMixture(4, random_state=0).fit(frame)
    for model in (chosen, chosen.best_estimator_, loaded, stream, mixture):
        assert list(model.feature_names_in_) == list("abcdef")  # type: ignore[union-attr]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.predict(frame)
        with pytest.raises(ValueError, match="feature names"):
            model.predict(frame.rename(columns={"a": "z"}))


@pytest.mark.parametrize("missing", [np.nan, None])
def test_a_missing_group_is_refused(missing: Any) -> None:
    groups = np.arange(len(Y)).astype(float if missing is not None else object)
    groups[7] = missing
    with pytest.raises(ValueError, match="expected a group for each row, got none in row 7"):
        VMFClassifierCV(components=1).fit(X, Y, groups=groups)


CRAFTED = [
    ({"labels": [0, 1]}, "2 labels of 4 sums"),
    ({"chosen": {"predict": "evil"}}, None),
    ({"parameters": {"evil": 1}}, "unexpected keyword argument 'evil'"),
    ({"chosen": {"calibration_": {"method": "sigmoid", "curves": []}}}, "do not fit"),
    ({"tensors": ["total"]}, "'total'"),
    ({"tensors": ["kept.key"]}, "key"),
    ({"tensors": ["conformal.number"]}, "conformal.number"),
    ({"cut": "kept.rows"}, r"expected kept.rows \(160, 6\), got \(159, 6\)"),
    ({"labels": None}, "do not fit"),
]


@pytest.mark.parametrize(("change", "said"), CRAFTED)
def test_crafted_files_are_refused_in_a_line(change: Any, said: str | None, tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    VMFClassifier().fit(X, Y).save(path, rows=True)
    with safe_open(path, "np") as file:
        about = json.loads(file.metadata()["resultant"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    for name in change.pop("tensors", []) if "tensors" in change else []:
        del tensors[name]
    if (cut := change.get("cut")) is not None:
        tensors[cut] = tensors[cut][1:]
    about.pop("sha256")
    save_file(tensors, path, {"resultant": json.dumps({**about, **change})})
    if said is None:
        found = VMFClassifier.load(path)
        assert callable(found.predict) and np.mean(found.predict(X) == Y) > 0.5
        return
    with pytest.raises(ValueError, match=said) as caught:
        VMFClassifier.load(path)
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor, csr_matrix])
def test_rows_of_zeros_are_told(kind: Any) -> None:
    """In fits and in queries; rows with a zero in the first column are no such rows."""
    rows = X.copy()
    rows[:, 0] = 0
    model = VMFClassifier().fit(kind(rows), Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(kind(rows))
    rows[[7, 9]] = 0
    told = (
        "2 of 160 rows in X are zeros, which have no direction and say nothing; the first is row 7"
    )
    with pytest.warns(UserWarning, match=told):
        model.predict(kind(rows))
    with pytest.warns(UserWarning, match=told):
        VMFClassifier().fit(kind(rows), Y)
