"""Files beside a page: the saved classifier, predictions, rows to look at, numbers as JSON."""

import copy
import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resultant.analysis.analyze import Evaluated
from resultant.analysis.data import FeatureSet
from resultant.analysis.evaluate import probabilities
from resultant.analysis.explain import identity_text
from resultant.analysis.result import AnalysisResult
from resultant.features.selection import WORDS

RESULTS, CLASSIFIER, ROWS = "results.json", "classifier.safetensors", "rows.csv"
PREDICTIONS = "predictions.parquet"

# Probabilities of all classes up to this number of cells; the most likely classes beyond.
CELLS = 5_000_000
TOP = 5

# Beginnings that a spreadsheet takes for a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")

LOAD = """\
from resultant import VMFClassifier

model = VMFClassifier.load({path!r})
model.predict(X)"""


def write_files(
    folder: Path, result: AnalysisResult, evaluated: Sequence[Evaluated], shown: Path | None = None
) -> AnalysisResult:
    """Write the files beside the page."""
    first, method = evaluated[result.chosen], result.first.recommended
    files = {"results": RESULTS, "rows": write_rows(folder, result)}
    files["predictions"] = write_predictions(folder, first.data, first.used.model)
    if method is not None and method.family == "vmf":
        classifier, names = copy.copy(first.used.model), first.data.class_names
        # Words if the labels are words, else the numbers of the file.
        classifier.classes_ = np.arange(len(names))
        if all(name.isdecimal() for name in names):
            classifier.classes_ = np.array([int(name) for name in names])
        elif first.data.metadata.get("labels") == WORDS:
            classifier.classes_ = np.array(names)
        classifier.save(folder / CLASSIFIER)
        files["classifier"] = CLASSIFIER
        code = LOAD.format(path=str((shown or folder) / CLASSIFIER))
        chosen = replace(result.first.recommendation, code=code, saved=CLASSIFIER)
        features = list(result.features)
        features[result.chosen] = replace(result.first, recommendation=chosen)
        result = replace(result, features=tuple(features))
    result = replace(result, files=files)
    text = json.dumps(result.to_dict(), allow_nan=False) + "\n"
    (folder / RESULTS).write_text(text, encoding="utf-8")
    return result


def write_predictions(folder: Path, data: FeatureSet, model: Any) -> str:
    """Write the test rows with probabilities of all or of the top classes; return the file name."""
    everyone = len(data.test) * data.num_classes <= CELLS
    names, k, parts = np.array(data.class_names), min(TOP, data.num_classes), []
    for at, x, y in data.test.chunks(None, data.num_classes):
        p = probabilities(model, x, data.num_classes)
        top = p.topk(k, 1)
        columns: dict[str, np.ndarray] = {"row": np.arange(at.start, at.stop)}
        if data.test.identities is not None:
            columns["identity"] = identity_text(data.test, torch.arange(at.start, at.stop))
        columns |= {"label": names[y], "predicted": names[top.indices[:, 0]]}
        columns["probability"] = _rounded(top.values[:, 0])
        if everyone:
            columns |= {f"p_{name}": _rounded(p[:, c]) for c, name in enumerate(names)}
        else:
            for i in range(1, k):
                columns[f"predicted_{i + 1}"] = names[top.indices[:, i]]
                columns[f"probability_{i + 1}"] = _rounded(top.values[:, i])
        parts.append(columns)
    from pyarrow import parquet, table

    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    parquet.write_table(table(whole), folder / PREDICTIONS)
    return PREDICTIONS


def _rounded(p: Tensor) -> np.ndarray:
    return np.round(p.double().numpy(), 6)


def write_rows(folder: Path, result: AnalysisResult) -> str:
    """Write the rows to look at as CSV; return the name of the file."""
    header = ["features", "kind", "split", "row", "identity", "label", "other", "score", "copy"]
    lines = []
    for feature in result.features:
        classes = feature.data.class_names
        for t in feature.rows.values():
            for i, row in enumerate(t.row.tolist()):
                last = [f"{t.score[i]:.4g}", ""]
                if len(t.copy_split):
                    last = ["", f"{t.copy_split[i]} {int(t.score[i])}"]
                place = [feature.data.name, t.kind, t.split[i], row, t.identity[i]]
                lines.append([*place, classes[t.label[i]], classes[t.other[i]], *last])
    write_csv(folder / ROWS, header, lines)
    return ROWS


def write_csv(path: Path, header: Sequence[str], lines: Iterable[Sequence[Any]]) -> None:
    """Write a table in which no cell is a formula."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([csv_cell(name) for name in header])
        writer.writerows([[csv_cell(cell) for cell in line] for line in lines])


def csv_cell(value: object) -> object:
    """A cell of a table; a text that a spreadsheet would run as a formula begins with a quote."""
    if not isinstance(value, str) or not value.lstrip(" ").startswith(FORMULA):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value
