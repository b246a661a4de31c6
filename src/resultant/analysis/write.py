"""Files beside a page: the saved classifier, predictions, rows to look at, numbers as JSON."""

from __future__ import annotations

import copy
import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resultant.analysis.candidate import probabilities
from resultant.analysis.duplicates import conflicts
from resultant.analysis.explain import DEVIATIONS, places_of
from resultant.analysis.result import AnalysisResult, Places
from resultant.analysis.run import Study
from resultant.analysis.sets import sets_of
from resultant.analysis.split import FeatureSet
from resultant.classifiers.files import OF_NETWORK
from resultant.features.selection import CLASS_LABELS, COLUMNS

RESULTS, CLASSIFIER, ROWS = "results.json", "classifier.safetensors", "rows.csv"
PREDICTIONS, ALL_ROWS = "predictions.parquet", "rows.parquet"

# Probabilities of all classes up to this number of cells; the most likely classes beyond.
CELLS = 5_000_000
TOP = 5

# Beginnings that a spreadsheet takes for a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")

LOAD = """\
import resultant

model = resultant.load_classifier({path!r})
model.predict(X)"""


def write_files(
    folder: Path,
    result: AnalysisResult,
    studies: Sequence[Study],
    shown: Path | None = None,
    others: Mapping[str, str] = MappingProxyType({}),
) -> AnalysisResult:
    """Write the files beside the page, whose folder is ``shown`` in code, and which has ``others``
    that are written later, by their content."""
    first, method = studies[result.chosen], result.first.recommended
    files = {"results": RESULTS, "rows": write_rows(folder, result)}
    files["all rows"] = write_parquet(folder / ALL_ROWS, row_columns(first))
    files["predictions"] = write_predictions(folder, first.data, first.used.model)
    if method is not None:
        saved_classifier(first).save(folder / CLASSIFIER)
        files["classifier"] = CLASSIFIER
        where = shown or folder
        # A page that is passed on names no folder of the machine that it was made on.
        path = CLASSIFIER if where.is_absolute() else str(where / CLASSIFIER)
        code = LOAD.format(path=path)
        chosen = replace(result.first.recommendation, code=code, saved=CLASSIFIER)
        features = list(result.features)
        features[result.chosen] = replace(result.first, recommendation=chosen)
        result = replace(result, features=tuple(features))
    result = replace(result, files={**files, **others})
    text = json.dumps(result.to_dict(), allow_nan=False) + "\n"
    (folder / RESULTS).write_text(text, encoding="utf-8")
    return result


def saved_classifier(study: Study) -> Any:
    """Return the classifier that is used, with the labels of the user."""
    classifier, data = copy.copy(study.used.model), study.data
    classifier.classes_ = user_labels(data)
    if columns := data.metadata.get(COLUMNS, {}).get(data.name):
        # New rows are matched by the names of their columns.
        classifier.feature_names_in_ = np.array(columns, dtype=object)
    if network := data.metadata.get(OF_NETWORK):
        setattr(classifier, OF_NETWORK, network)
    return classifier


def user_labels(data: FeatureSet) -> np.ndarray:
    """Return the labels [C] as the user has them: numbers, words or booleans."""
    return np.array(data.metadata.get(CLASS_LABELS, data.class_names))


def write_predictions(folder: Path, data: FeatureSet, model: Any) -> str:
    """Write the test rows with probabilities of all or of the top classes; return the file name."""
    everyone = len(data.test) * data.num_classes <= CELLS
    names, k, parts = np.array(data.class_names), min(TOP, data.num_classes), []
    for at, x, y in data.test.chunks(None, data.num_classes):
        p = probabilities(model, x, data.num_classes)
        top = p.topk(k, 1)
        found: dict[str, Any] = {"label": names[y], "predicted": names[p.argmax(1)]}
        found["probability"] = _rounded(top.values[:, 0])
        if everyone:
            found |= {f"p_{name}": _rounded(p[:, c]) for c, name in enumerate(names)}
        else:
            for i in range(1, k):
                found[f"predicted_{i + 1}"] = names[top.indices[:, i]]
                found[f"probability_{i + 1}"] = _rounded(top.values[:, i])
        if (sets := sets_of(model, x)) is not None:
            found["set"] = set_column(sets, names)
        places = places_of(data.test, torch.arange(at.start, at.stop))
        parts.append({**place_columns(places, found), **found})
    return write_parquet(folder / PREDICTIONS, _in_file_order(parts))


def set_column(sets: Tensor, names: np.ndarray) -> np.ndarray:
    """Return the names [n] of the classes in sets [n, C], as one list per row."""
    column = np.empty(len(sets), object)
    own, classes = (a.numpy() for a in sets.nonzero(as_tuple=True))
    ends = np.bincount(own, minlength=len(sets)).cumsum()[:-1]
    column[:] = [part.tolist() for part in np.split(names[classes], ends)]
    return column


def write_parquet(path: Path, columns: dict[str, Any]) -> str:
    """Write columns as Parquet; return the name of the file."""
    from pyarrow import parquet, table

    parquet.write_table(table(columns), path)
    return path.name


def row_columns(study: Study) -> dict[str, Any]:
    """Return the columns of the table of all rows, see `resultant.rows`."""
    data, findings = study.data, study.findings
    names, counts, start, parts = user_labels(data), data.counts, 0, []
    conflicting = conflicts(data)
    for part, deviation, p_value in zip(
        findings.scored, findings.deviation, findings.p_value, strict=True
    ):
        split, n = part.split, len(part.split)
        found: dict[str, Any] = {
            "split": np.full(n, split.name),
            "fold": part.fold.numpy(),
            "label": names[split.y],
        }
        for i in range(part.top.shape[1]):
            end = f"_{i + 1}" if i else ""
            found[f"predicted{end}"] = names[part.top[:, i]]
            found[f"probability{end}"] = np.round(part.p[:, i].double().numpy(), 6)
        suggested = np.where(part.flagged, names[part.suggested].astype(object), None)
        group = findings.groups.group[start : start + n]
        inside = split is data.train
        found |= {
            "label_quality": np.round(part.quality.numpy(), 6),
            "is_label_issue": part.flagged.numpy(),
            "suggested_label": suggested,
            "outlier_p": np.round(p_value.numpy(), 6),
            "is_outlier": (deviation > DEVIATIONS).numpy(),
            "duplicate_group": group,
            "label_conflict": conflicting[start : start + n],
            "class_share": (1 / counts[split.y].double()).numpy() if inside else np.zeros(n),
        }
        places = places_of(split, torch.arange(n))
        parts.append({**place_columns(places, found), **found})
        start += n
    return _in_file_order(parts)


def _in_file_order(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Join columns part by part, and sort the rows."""
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = file_order(whole["file"], whole["row"])
    return {name: values[order] for name, values in whole.items()}


def file_order(file: Any, row: Any) -> np.ndarray:
    """Return the order [N] of rows by their files, as these come first, and their numbers there."""
    import pyarrow as pa

    return np.lexsort((row, pa.array(np.asarray(file)).dictionary_encode().indices))


def place_columns(places: Places, taken: Iterable[str] = ()) -> dict[str, Any]:
    """Return columns that lead back to the rows: file, number and columns of the user."""
    columns: dict[str, Any] = {"file": places.file.astype(str), "row": places.row}
    for name, values in places.columns.items():
        free = name not in columns and name not in taken
        columns[name if free else f"{name} (of the file)"] = np.array(values, object)
    return columns


def _rounded(p: Tensor) -> np.ndarray:
    return np.round(p.double().numpy(), 6)


def write_rows(folder: Path, result: AnalysisResult) -> str:
    """Write the rows to look at as CSV; return the name of the file."""
    header = ["features", "kind", "split", "file", "row"]
    tables = [(f, t) for f in result.features for t in f.rows.values()]
    columns = dict.fromkeys(name for _, t in tables for name in t.places.columns)
    own = ["label", "other", "score", "copy_file", "copy_row"]
    lines = []
    for feature, t in tables:
        classes, places = feature.data.class_names, t.places
        for i, row in enumerate(places.row.tolist()):
            texts = [values[i] if (values := places.columns.get(n)) else "" for n in columns]
            last = [f"{t.score[i]:.4g}", "", ""]
            if t.copies is not None:
                last = [last[0] if t.kind == "near" else ""]
                last += [t.copies.file[i], int(t.copies.row[i])]
            place = [feature.data.name, t.kind, places.split[i], places.file[i], row, *texts]
            lines.append([*place, classes[t.label[i]], classes[t.other[i]], *last])
    names = [name if name not in (*header, *own) else f"{name} (of the file)" for name in columns]
    write_csv(folder / ROWS, [*header, *names, *own], lines)
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
