"""JSON from outside: size, depth, numbers and types."""

from __future__ import annotations

import pytest

from resultant._core import bounded_json
from resultant._core.bounded_json import MAX_DEPTH, parse_json, require_types


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 900, 100_000])
@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ('{"a":', "}")])
def test_deep_nesting_is_refused(depth: int, opened: str, closed: str) -> None:
    with pytest.raises(ValueError, match="nested deeper than 64"):
        parse_json(opened * depth + "1" + closed * depth)
    parse_json(opened * MAX_DEPTH + "1" + closed * MAX_DEPTH)


def test_size_and_numbers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="a whole number of 401 digits"):
        parse_json('{"beta": 1' + "0" * 400 + "}")
    assert parse_json(b'{"beta": -9223372036854775807}') == {"beta": -(2**63) + 1}
    monkeypatch.setattr(bounded_json, "MAX_BYTES", 10)
    with pytest.raises(ValueError, match="JSON of 12 bytes, beyond the limit of 10"):
        parse_json('["aaaaaaaa"]')


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"versions": 3}, "expected versions to be an object here, got 3"),
        ({"trajectory": {"epoch": 3}}, "trajectory.epoch to be a list here, got 3"),
        ({"seconds": "9"}, "seconds to be a number here, got '9'"),
        ({"seconds": True}, "seconds to be a number here, got True"),
        ([], r"expected an object here, got \[\]"),
    ],
)
def test_types(values: object, message: str) -> None:
    kinds = {"versions": dict, "trajectory.epoch": list, "seconds": float}
    with pytest.raises(ValueError, match=message):
        require_types(values, kinds, "here")
    require_types({"versions": {}, "seconds": 3, "trajectory": None}, kinds, "here")
