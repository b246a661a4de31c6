"""Lists of labelled images: ``path label`` or ``path,class name`` per line."""

from __future__ import annotations

import csv
import os
import re
from contextlib import suppress
from pathlib import Path

import numpy as np

from resultant._core.files import read_bytes
from resultant._core.text import one_line
from resultant.images.decode import SUFFIXES
from resultant.images.files import MISSING, FileImages, file_facts
from resultant.images.labelling import DIGITS, RawSplit

_ENDINGS = "|".join(re.escape(suffix) for suffix in SUFFIXES)
# Names of files and of classes may hold commas: the name of a file ends in one of `SUFFIXES`.
NAMED = re.compile(rf"(?P<path>.*?(?:{_ENDINGS}))\s*,\s*(?P<label>.+)", re.IGNORECASE)
FORM = "'path label' with a label >= 0, or 'path,class name'"


def read_list(
    path: Path, root: Path, *, skip: bool = False, outside: bool = False
) -> tuple[RawSplit, list[str]]:
    """Read a list of labelled images.

    Args:
        path: Text file, one image per line.
        root: Folder that the paths are relative to.
        skip: Leave out missing files.
        outside: Allow absolute paths and paths that leave the folder by ``..``.

    Returns:
        The images in the order of the lines, and one line per file that was left out.

    Raises:
        ValueError: If the list is missing, a line has another form, or a file is missing; the
            error names the line.
    """
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except FileNotFoundError:
        raise ValueError(f"expected the list {path}, got no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"expected {path} to be a text file, got: {one_line(error)}") from None
    files, labels, numbers = [], [], []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        name, label = _parse(line.strip(), f"{path}:{number}")
        if not outside and (os.path.isabs(name) or ".." in Path(name).parts):
            rule = f"expected images below {root} at {path}:{number}"
            raise ValueError(f"{rule}, got {name[:200]}; --allow-outside reads such files")
        files.append(os.path.join(root, name))
        labels.append(label)
        numbers.append(number)
    if not files:
        raise ValueError(f"expected lines {FORM} in {path}, got none")
    facts = file_facts(files)
    missing = np.flatnonzero(facts[:, 0] == MISSING)
    if len(missing) and (not skip or len(missing) == len(files)):
        first = int(missing[0])
        rule = f"expected every image of {path} below {root}"
        got = f"{len(missing)} of {len(files)} missing: {files[first]} ({path}:{numbers[first]})"
        raise ValueError(f"{rule}, got {got}")
    skipped = [f"{files[i]} ({path}:{numbers[i]}), no such file" for i in missing]
    kept = np.setdiff1d(np.arange(len(files)), missing)
    files, labels, numbers = ([a[i] for i in kept] for a in (files, labels, numbers))
    # Longer numbers are names.
    numeric = all(label.isdecimal() and len(label) <= DIGITS for label in labels)
    # Objects: an array of strings gives every label the room of the longest.
    values = np.array(labels, dtype=np.int64 if numeric else object)
    listed = FileImages(files, values, (), facts[kept], str(path), np.array(numbers))
    return RawSplit(values, listed.name, listed.labelled), skipped


def _parse(line: str, place: str) -> tuple[str, str]:
    if line.startswith('"'):
        # A field that is too long is an error of the module.
        with suppress(csv.Error):
            fields = next(csv.reader([line], skipinitialspace=True))
            if len(fields) == 2 and all(fields):
                return fields[0], fields[1].strip()
    if match := NAMED.fullmatch(line):
        return match["path"], match["label"].strip()
    # Names of files may hold blanks: the label is the last word.
    words = line.rsplit(None, 1)
    if len(words) < 2 or not re.fullmatch("[0-9]{1,9}", words[1]):
        raise ValueError(f"expected {FORM} at {place}, got {line[:200]!r}")
    return words[0], words[1]
