"""Labels and identities as whole numbers, of files that have numbers or words."""

import hashlib
import math
import re

import torch
from torch import Tensor

from resultant.features import naming
from resultant.features.rows import AnyArray, NonNumericArray, Rows, TensorRows

# The parts of each array by name: the file of a part, and the part.
Parts = dict[str, list[tuple[str, AnyArray]]]


def class_numbers(
    where: str, parts: Parts, called: dict[str, str]
) -> tuple[dict[str, Rows], list[str]]:
    """Return class numbers [N] of each split, and the sorted names of classes that are words."""
    pieces = [(called[name], *part) for name, of_name in parts.items() for part in of_name]
    words = [(name, file) for name, file, a in pieces if isinstance(a, NonNumericArray)]
    for name, file, array in pieces:
        if words and isinstance(array, Rows):
            rule = f"expected {name} of {where} as strings, as are {words[0][0]} of {words[0][1]}"
            raise ValueError(f"{rule}, got {array.dtype} in {file}")
    values = {n: [_values(called[n], *part) for part in of_name] for n, of_name in parts.items()}
    names = sorted({word for of_name in values.values() for found, _ in of_name for word in found})
    if all(map(naming.is_numeral, names)):
        names.sort(key=float)
    numbers = {word: c for c, word in enumerate(names)}
    labels: dict[str, Rows] = {}
    for name, of_name in values.items():
        pairs = ((torch.tensor([numbers[word] for word in found]), y) for found, y in of_name)
        labels[name] = TensorRows(torch.cat([c[y] if len(c) else y for c, y in pairs]))
    return labels, names


def row_numbers(file: str, name: str, array: AnyArray) -> Rows:
    """Return identities [N]: integers, also as text, or 64 bits of a hash of strings."""
    words, values = _values(name, file, array)
    numbers = torch.tensor([_number(word) for word in words], dtype=torch.int64)
    return TensorRows(numbers[values] if words else values)


def _number(word: str) -> int:
    """Return the number of a word, the same in all files."""
    if re.fullmatch(r"0|-?[1-9]\d{0,17}", word):
        return int(word)
    digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _values(name: str, file: str, array: AnyArray) -> tuple[list[str], Tensor]:
    """The whole numbers of an array [N] or [N, 1]; or its distinct strings, and those of rows."""
    one, hint = bool(array.shape) and math.prod(array.shape[1:]) == 1, ""
    if isinstance(array, NonNumericArray):
        if array.read is not None and one:
            words, codes = array.read()
            if None not in words:
                return words, codes
            missing = (codes == words.index(None)).nonzero()[:, 0].tolist()
            if not missing:
                used, codes = codes.unique(return_inverse=True)
                return [words[c] for c in used.tolist()], codes
            number = "" if len(missing) == 1 else f", the first of {len(missing):,} rows"
            hint = "; fill in these rows"
            got = f"nothing in row {missing[0]}{number}"
            raise ValueError(f"expected {name} of {file} in every row, got {got}{hint}")
        rule, got = "[N] integers or strings", str(array)
        hint = "; save it by .astype(str)" * array.kind.startswith("object")
    elif not one or array.dtype.is_complex:
        rule, got = "[N] integers", str(array)
        hint = "; take the argmax of one-hot rows" * (len(array.shape) == 2)
    else:
        values = array.read(0, len(array)).reshape(-1)
        # Beyond 2^53 every float is whole; NaN differs from itself.
        real = values if values.is_floating_point() else values[:0].float()
        bad = ((real != real.round()) | (real.abs() > 2.0**53)).nonzero()[:, 0].tolist()
        if not bad:
            return [], values.to(torch.int64)
        rule, got = "whole numbers", f"{float(values[bad[0]])} in {array.where(bad[0])}"
    raise ValueError(f"expected {name} of {file} to be {rule}, got {got}{hint}")
