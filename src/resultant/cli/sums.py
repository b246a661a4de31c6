"""``resultant sums``, ``merge`` and ``forget``: files of sums that grow, merge and lose rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import tyro

from resultant.cli import arguments
from resultant.cli.arguments import shown_default

Files = tyro.conf.Positional[Annotated[tuple[Path, ...], tyro.conf.arg(metavar="SUMS SUMS ...")]]


@dataclass(frozen=True)
class Sums:
    """Sum the rows of feature files to a classifier that can grow, merge and forget.

    A file is read in pieces, and may have other classes than the others. The file of sums is a
    classifier: predict reads it, VMFClassifier.load too. It holds some of the rows as they are.

    Examples:
      resultant sums monday.parquet tuesday.parquet --out sums.safetensors
      resultant sums 'site-a/*.parquet' --out a.safetensors --engine ray
      resultant predict sums.safetensors new.parquet
    """

    files: tyro.conf.Positional[Annotated[tuple[str, ...], tyro.conf.arg(metavar="FILE ...")]]
    """Features and labels: files, folders or patterns, as analyze reads them."""
    out: Path
    """The file of sums to write; the name must end in .safetensors."""
    features: Annotated[Optional[str], shown_default("NAME", "inferred from the names")] = None
    """Array or column of the features."""
    labels: arguments.Labels = None
    """Array or column of the labels."""
    split: Literal["train", "val", "test"] = "train"
    """The split whose rows are summed; rows without a split are train."""
    whiten: Literal["within", "none"] = "within"
    """Whiten by the covariance within the classes, or not; whitened sums take p x p numbers."""
    shrinkage: float = 0.3
    """Shrinkage of the covariance."""
    temperature: float = 0.1
    """Temperature tau of the scores."""
    engine: Literal["local", "ray"] = "local"
    """Read the files one after the other, or as tasks on Ray."""


@dataclass(frozen=True)
class Merge:
    """Merge files of sums: the result is that of one sum over the rows of all.

    Rows that are in several files count as often. The parameters are those of the first file.

    Example:
      resultant merge a.safetensors b.safetensors --out both.safetensors
    """

    files: Files
    """Files of resultant sums."""
    out: Path
    """The file of sums to write; it may be one of those read."""


@dataclass(frozen=True)
class Forget:
    """Subtract rows, or whole classes, from a file of sums.

    Rows that cannot have been added are an error, and leave the file as it was.

    Examples:
      resultant forget sums.safetensors --rows withdrawn.parquet
      resultant forget sums.safetensors --label 'Ara macao' --out fewer.safetensors
    """

    file: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="SUMS")]]
    """A file of resultant sums."""
    rows: arguments.OptionalPath = None
    """Features and labels of the rows, as they were added."""
    label: Annotated[tuple[str, ...], shown_default("LABEL ...", "none")] = ()
    """Classes to drop."""
    out: Annotated[Optional[Path], shown_default("PATH", "SUMS itself")] = None
    """The file of sums to write."""
    features: Annotated[Optional[str], shown_default("NAME", "inferred from the names")] = None
    """Array or column of the features."""
    labels: arguments.Labels = None
    """Array or column of the labels."""
    split: Literal["train", "val", "test"] = "train"
    """The split whose rows are subtracted."""


def sums(options: Sums) -> None:
    """Write the sums of files."""
    from resultant.analysis.sums import sum_files
    from resultant.classifiers.vmf import VMFClassifier
    from resultant.features.naming import Names

    _require_output(options.out)
    whiten = None if options.whiten == "none" else options.whiten
    model = VMFClassifier(options.temperature, whiten=whiten, shrinkage=options.shrinkage)
    names = Names(options.features, options.labels)
    fitted = sum_files(model, options.files, names, split=options.split, engine=options.engine)
    _write(fitted, options.out)


def merge(options: Merge) -> None:
    """Write the sums of several files."""
    if len(options.files) < 2:
        raise ValueError(f"expected two files of sums or more, got {len(options.files)}")
    _require_output(options.out)
    first, *others = map(_load, options.files)
    for path, other in zip(options.files[1:], others, strict=True):
        try:
            first.merge(other)
        except ValueError as error:
            raise ValueError(f"{path} and {options.files[0]}: {error}") from None
    _write(first, options.out)


def forget(options: Forget) -> None:
    """Write the sums without rows, or without classes."""
    from resultant.analysis.sums import labelled_pieces
    from resultant.features.naming import Names

    if options.rows is None and not options.label:
        raise ValueError("expected --rows or --label, got neither")
    out = options.out or options.file
    _require_output(out)
    fitted = _load(options.file)
    for name in options.label:
        known = {str(label): label for label in fitted.classes_.tolist()}
        if name not in known:
            raise ValueError(f"expected --label among {', '.join(known)}, got {name}")
        fitted.drop(known[name])
    if options.rows is not None:
        names = Names(options.features, options.labels)
        for rows, labels in labelled_pieces(str(options.rows), names, options.split):
            fitted.forget(rows, labels)
    _write(fitted, out)


def _require_output(out: Path) -> None:
    from resultant._core.tensor_files import require_name

    require_name(out)
    arguments.require_output_file(out)


def _load(path: Path) -> Any:
    from resultant.classifiers.vmf import VMFClassifier

    return VMFClassifier.load(path)


def _write(fitted: Any, out: Path) -> None:
    """Write a file of sums, and print what it holds."""
    from resultant._core.text import counted
    from resultant.cli.progress import PlainConsole

    fitted.save(out, rows=True)
    number, kept = (int(a.sum()) for a in (fitted.statistics_.count, fitted.kept_))
    classes = counted(len(fitted.classes_), "class", "classes")
    text = f"{counted(number, 'row', 'rows')} of {classes}, {fitted.n_features_in_:,} dimensions"
    PlainConsole().print(f"sums: {out}: {text}; {kept:,} of the rows are kept as they are")
