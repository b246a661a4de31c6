"""Tables in CSV and TSV files, read by pyarrow into memory."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t
from pyarrow import csv

from resultant.features import naming
from resultant.features.columns import is_number
from resultant.features.declared import require_content
from resultant.features.naming import Names, usual_name

# Bytes of text of a CSV file that are decoded at once.
BLOCK = 1 << 26

# A vector that was written as text, by Python or NumPy.
_VECTOR = re.compile(r"\s*\[[-+0-9.eE,\sainf]+\]\s*")


# A number as text, of decimal points or commas, and the fewest beside which a word is a mistake.
_NUMBER = r"^\s*[-+]?(\d+([.,]\d*)?|[.,]\d+)([eE][-+]?\d+)?\s*$"
FEW = 10
_OF_NUMBERS = pc.MatchSubstringOptions(_NUMBER)


def read_csv(path: Path, names: Names) -> pa.Table:
    """Read a table; columns are integers, floats of 32 bits, strings, or lists of such floats."""
    parse = csv.ParseOptions(delimiter=_delimiter(path), newlines_in_values=True)
    with _opened(path) as file:
        header = csv.open_csv(file, csv.ReadOptions(block_size=BLOCK), parse).schema.names
    if all(map(naming.is_numeral, header)):
        raise ValueError(f"numbers in the first line: {', '.join(header[:3])}, ...")
    # Where semicolons part the columns, a comma may part the decimals.
    points = ".," if parse.delimiter == ";" else "."
    inferred = [(_inferred(path, header, parse, point), point) for point in points]
    types, point = max(inferred, key=lambda one: sum(map(is_number, one[0].values())))
    label = names.labels or usual_name(header, naming.LABELS)
    ids = {names.identities, *filter(naming.is_identity, header)} - {label, names.features}
    # As the user spells them: 007 is not 7.
    types |= {name: pa.string() for name in ids if types.get(name) == pa.int64()}
    convert = csv.ConvertOptions(column_types=types, decimal_point=point)
    batches, size = [], 0
    with _opened(path) as file:
        reader = csv.open_csv(file, csv.ReadOptions(block_size=BLOCK), parse, convert)
        for batch in reader:
            size += batch.nbytes
            require_content(size, "columns")
            batches.append(batch)
    table = pa.Table.from_batches(batches, reader.schema)
    roles = (*ids, label, names.groups)
    for i, field in enumerate(table.schema):
        text = t.is_string(field.type) and len(table)
        if text and _VECTOR.fullmatch(str(table.column(i)[0])):
            table = table.set_column(i, field.name, _lists(table.column(i), field.name))
        elif text and field.name not in roles:
            refuse_words(table.column(i), field.name)
    return table


def refuse_words(column: Any, name: str) -> None:
    """Raise for a column of numbers with a few words, which would be left out as a whole."""
    numbers = np.asarray(pc.call_function("match_substring_regex", [column], _OF_NUMBERS))
    words = ~numbers & (np.asarray(pc.call_function("utf8_length", [column])) > 0)
    found, others = int(words.sum()), int(numbers.sum())
    if found and others >= max(FEW, 100 * (found - 1)):
        row = int(words.argmax())
        got = f"{str(column[row])[:40]!r} in row {row} of {name!r}"
        raise ValueError(f"{got}, where {others:,} rows have numbers; mend it, or drop the column")


def _inferred(path: Path, names: list[str], parse: Any, point: str) -> dict[str, Any]:
    """Return the types of columns; Arrow infers those of the first block alone."""
    kinds: dict[str, set[pa.DataType]] = {name: set() for name in names}
    convert = csv.ConvertOptions(decimal_point=point)
    with _opened(path) as file:
        file.readline()
        while block := file.read(BLOCK) + file.readline():
            if block.strip():
                source, options = pa.BufferReader(block), csv.ReadOptions(column_names=names)
                for field in csv.read_csv(source, options, parse, convert).schema:
                    kinds[field.name].add(field.type)
    types = {}
    for name, found in kinds.items():
        numbers = found - {pa.null()}
        types[name] = pa.float32() if pa.float64() in numbers else pa.int64()
        if not numbers or not all(map(is_number, numbers)):
            types[name] = pa.string()
    return types


def _opened(path: Path) -> Any:
    """Open a file of text, packed or not."""
    return gzip.open(path, "rb") if path.name.lower().endswith(".gz") else path.open("rb")


def _delimiter(path: Path) -> str:
    """Return what parts the columns: a tab, or of the first line the most frequent."""
    if naming.kind_of(path) == ".tsv":
        return "\t"
    with _opened(path) as file:
        line = re.sub(r'"[^"]*"', "", file.readline(BLOCK).decode("utf-8", "replace"))
    return max(",;\t|", key=line.count)


def _lists(column: Any, name: str) -> Any:
    """Return texts such as [0.1, 0.2] as lists of numbers."""
    texts = column.to_pylist()
    bad = next((i for i, text in enumerate(texts) if not _VECTOR.fullmatch(text)), None)
    if bad is not None:
        raise ValueError(f"{texts[bad][:40]!r} in row {bad} of {name!r}, and a vector before")
    rows = [np.array(text.strip("[] \n").replace(",", " ").split(), np.float32) for text in texts]
    return pa.array(rows, pa.list_(pa.float32()))
