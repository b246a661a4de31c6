"""Names of others for a terminal, a spreadsheet, a page and a file name."""

from collections.abc import Callable

import pytest

from resultant._core import text
from resultant.analysis.write import csv_cell
from resultant.images.store import data_size
from resultant.report.page import file_name

CASES: list[tuple[Callable[..., object], dict[object, object]]] = [
    (text.class_name, {"": '""', "7": "class 7", "cat": "cat"}),
    (text.one_line, {"a\x1b]0;b\x07\r\nc\x9b31m": "a ]0;b c 31m"}),
    (text.printable, {"out\x1b[2J/a": "out [2J/a"}),
    (text.signed, {1.26: "+1.3", -0.3: "−0.3", -0.02: "0.0"}),
    (
        lambda ends: text.in_points(0.01, *ends),
        {
            (-0.0003, 0.02): "+1.0 points [0.0, +2.0]",
            (0.0003, 0.02): "+1.00 points [+0.03, +2.00]",
            (0.0006, 0.02): "+1.0 points [+0.1, +2.0]",
            (-0.02, -0.00004): "+1.000 points [−2.000, −0.004]",
        },
    ),
    (data_size, {0: "0 B", 999_600: "1 MB", 85_536: "85.5 kB", 2 * 10**15: "2e+03 TB"}),
    (csv_cell, {text: f"'{text}" for text in ("=1+1", "+1+1", "-1+1", "@sum", "\t=1", " =1")}),
    (csv_cell, {value: value for value in ("a=1", "-0.5", "1e-3", -0.5, None, "")}),
    (file_name, {"../../etc/passwd": "etc-passwd", "a" * 1000: "a" * 80, "/": "features"}),
]


@pytest.mark.parametrize(("function", "cases"), CASES)
def test_text(function: Callable[..., object], cases: dict[object, object]) -> None:
    assert {given: function(given) for given in cases} == cases
