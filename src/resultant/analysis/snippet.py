"""Python that fits and saves an advised classifier and prints its accuracy."""

from __future__ import annotations

from dataclasses import dataclass

from resultant.analysis.advice import RuleRow

IDENTITIES = "identities = store['train/identities'] if 'train/identities' in store else None\n"


@dataclass(frozen=True)
class Source:
    """Code that opens the features.

    Attributes:
        opened: Lines of `store_code` that define ``store``.
        feature: Name of the features.
        test: Name of the split that judges.
        estimator: Estimator of kappa.
        fit_fraction: Fraction of training rows that are fitted, or None.
        val: Name of the split that chooses, or None.
        judged: Number of rows that judge, if they are a sample of the split.
    """

    opened: str
    feature: str
    test: str
    estimator: str
    fit_fraction: float | None = None
    val: str | None = None
    judged: int | None = None

    @property
    def apart(self) -> str:
        """Code of the rows and labels that are kept apart and choose, "" if there are none."""
        if self.val is not None:
            return self.arrays(self.val)
        if self.fit_fraction is None:
            return ""
        return f"(a[~fitted] for a in ({self.arrays('train')}))"

    def arrays(self, split: str) -> str:
        """Return the features and the labels of a split, in code."""
        return f"store[{f'{split}/{self.feature}'!r}], store[{f'{split}/labels'!r}]"


def store_code(
    path: str | None,
    *,
    features: str | None = None,
    labels: str | None = None,
    prepared: dict[str, bool] | None = None,
) -> str:
    """Return lines that open and prepare a store, as the command does.

    Args:
        path: Path of the features; None for those of the package.
        features: Name of the array of features, if given.
        labels: Name of the array of labels, if given.
        prepared: Keyword arguments of `prepare`.
    """
    named = [f"{k}={v!r}" for k, v in (("features", features), ("labels", labels)) if v is not None]
    options = "".join(f", {k}={v!r}" for k, v in (prepared or {}).items() if v)
    if path is None:
        return (
            "from resultant.features import FeatureStore, packaged_file\n"
            "from resultant.features.prepare import prepare\n\n"
            "with packaged_file() as path:\n"
            f"    store = prepare(FeatureStore.open({', '.join(['path', *named])}){options}).store"
        )
    return (
        "from resultant.features import FeatureStore\n"
        "from resultant.features.prepare import prepare\n\n"
        f"store = prepare(FeatureStore.open({', '.join([repr(path), *named])}){options}).store"
    )


def vmf_snippet(row: RuleRow, source: Source, metric: str) -> str:
    """Return code that fits and saves the vMF classifier of a row of the table.

    Args:
        row: The row.
        source: Code that opens the features.
        metric: "accuracy" or "balanced"; rows that calibrate are weighted by it.
    """
    s = row.settings
    settings = {
        "temperature": s["temperature"],
        "realization": "native" if "components" in s else row.key,
        "beta": s["beta"],
        "prior": s["prior"],
        "estimator": source.estimator,
        "scale": float(f"{s['scale']:.4g}"),
    }
    if "components" in s:
        settings["components"] = s["components"]
    arguments = "".join(f"    {name}={value!r},\n" for name, value in settings.items())
    return (
        "from resultant import VMFClassifier\n"
        f"{source.opened}\n{_arrays(source)}"
        f"classifier = VMFClassifier(\n{arguments}).fit(X, y)\n"
        f"{_calibrated(row, source, metric)}"
        'classifier.save("classifier.safetensors")  # VMFClassifier.load reads it\n'
        f"{_printed('classifier.score', row)}{_log_loss(row)}"
    )


def _calibrated(row: RuleRow, source: Source, metric: str) -> str:
    """Lines that fit scikit-learn's calibration to the rows that chose, "" without one."""
    if "calibration" not in row.settings:
        return ""
    method = row.settings["calibration"]
    if source.apart:
        return (
            "from resultant.analysis.choice import row_weights\n"
            f"Xv, yv = {source.apart}\n"
            f"weights = row_weights(yv, store.num_classes, {metric!r})\n"
            f"classifier.calibrate(Xv, yv, {method!r}, weights)\n"
        )
    # The first fold alone chooses a mixture.
    first = " * (folds == 0)" if "components" in row.settings else ""
    return (
        "from resultant.analysis.choice import row_weights, stratified_folds\n"
        f"{IDENTITIES}folds = stratified_folds(y, identities)\n"
        f"weights = row_weights(y, store.num_classes, {metric!r}){first}\n"
        f"classifier.calibrate(X, y, {method!r}, weights, folds)\n"
    )


def _log_loss(row: RuleRow) -> str:
    """Lines that print the log-loss of scikit-learn's calibration, "" without one."""
    if "calibration" not in row.settings:
        return ""
    return (
        "from sklearn.metrics import log_loss\n"
        "p = classifier.predict_proba(Xq.double())\n"
        'print(f"{log_loss(yq, p, labels=classifier.classes_):.3f}")'
        f"  # reported log-loss: {row.after.nll:.3f}\n"
    )


def _arrays(source: Source) -> str:
    lines = f"X, y = {source.arrays('train')}\n"
    if source.fit_fraction is not None:
        lines = (
            "from resultant.analysis.sampling import split\n"
            f"{lines}{IDENTITIES}fitted = split(y, identities, {source.fit_fraction!r}, 0)\n"
            "X, y = X[fitted], y[fitted]\n"
        )
    lines += f"Xq, yq = {source.arrays(source.test)}\n"
    if source.judged is not None:
        lines = (
            f"from resultant.analysis.sampling import sample_rows\n{lines}"
            f"judged = sample_rows(len(yq), {source.judged}, 0)\n"
            "Xq, yq = Xq[judged], yq[judged]\n"
        )
    return lines


def _printed(score: str, row: RuleRow) -> str:
    return f'print(f"{{{score}(Xq, yq):.2%}}")  # reported: {100 * row.accuracy:.2f}%\n'


REFERENCES = {
    "logistic": ("sklearn.linear_model", "LogisticRegression", "C={C!r}, tol=1e-8, max_iter=2000"),
    "logistic-balanced": (
        "sklearn.linear_model",
        "LogisticRegression",
        'C={C!r}, class_weight="balanced", tol=1e-8, max_iter=2000',
    ),
    "lda": (
        "sklearn.discriminant_analysis",
        "LinearDiscriminantAnalysis",
        'solver="lsqr", shrinkage="auto"',
    ),
    "lda-equal": (
        "sklearn.discriminant_analysis",
        "LinearDiscriminantAnalysis",
        'solver="lsqr", shrinkage="auto"',
    ),
    "knn": ("sklearn.neighbors", "KNeighborsClassifier", "n_neighbors={k}"),
    "centroid": ("sklearn.neighbors", "NearestCentroid", ""),
}


def reference_snippet(row: RuleRow, source: Source) -> str:
    """Return code that fits a reference of scikit-learn; "" for one that takes more than a call."""
    if row.key not in REFERENCES:
        return ""
    module, name, arguments = REFERENCES[row.key]
    arguments = arguments.format(**row.settings)
    # The solver of scikit-learn ends some rows away from the optimum in float32.
    dtype = "double" if name == "LogisticRegression" else "float"
    prior = ""
    if row.key == "lda-equal":
        prior = "model.intercept_ -= np.log(model.priors_)\n"
    return (
        ("import numpy as np\n" if prior else "")
        + f"from {module} import {name}\n"
        + "from sklearn.preprocessing import normalize\n"
        + f"{source.opened}\n{_arrays(source)}"
        + f"X, Xq = (normalize(a.{dtype}().numpy()) for a in (X, Xq))\n"
        + "y, yq = y.numpy(), yq.numpy()\n"
        + f"model = {name}({arguments}).fit(X, y)\n{prior}"
        + _printed("model.score", row)
    )
