"""Names of others for a terminal, a spreadsheet, a page and a file name."""

from __future__ import annotations

import pytest

from resultant._core.text import (
    class_name,
    counted,
    csv_cell,
    data_size,
    file_name,
    one_line,
    printable,
    shortened,
)


def test_a_class_without_letters_is_visible() -> None:
    assert [class_name(name) for name in ("", "7", "cat")] == ['""', "class 7", "cat"]


def test_one_has_no_plural() -> None:
    texts = [counted(n, "class", "classes") for n in (0, 1, 2_000)]
    assert texts == ["0 classes", "1 class", "2,000 classes"]


def test_a_line_steers_no_terminal() -> None:
    assert one_line("a\x1b]0;b\x07\r\nc\x9b31m") == "a ]0;b c 31m"
    assert printable("out\x1b[2J/a") == "out [2J/a"


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (999, "999 B"), (999_600, "1 MB"), (85_536, "85.5 kB"), (2 * 10**15, "2e+03 TB")],
)
def test_sizes_have_a_unit(number: int, text: str) -> None:
    assert data_size(number) == text


@pytest.mark.parametrize("text", ["=1+1", "+1+1", "-1+1", "@sum", "\t=1", " =1"])
def test_formulas_are_text(text: str) -> None:
    assert csv_cell(text) == f"'{text}"


@pytest.mark.parametrize("value", ["a=1", "-0.5", "1e-3", -0.5, None, ""])
def test_other_cells_stay(value: object) -> None:
    assert csv_cell(value) == value


def test_a_long_message_keeps_its_ends() -> None:
    text = "begin " + "x" * 10**6 + " end"
    assert len(shortened(text)) == 2000
    assert shortened(text).startswith("begin x") and shortened(text).endswith("x end")


def test_file_names_are_short_and_plain() -> None:
    assert file_name("../../etc/passwd") == "etc-passwd"
    assert len(file_name("a" * 1000)) == 80 and file_name("/") == "features"
