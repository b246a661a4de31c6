"""JSON from outside: nesting and types."""

from __future__ import annotations

import pytest

from resultant._core.json_values import parse_json, require_types


@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ('{"a":', "}")])
def test_deep_nesting_is_refused(opened: str, closed: str) -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json(opened * 100_000 + "1" + closed * 100_000)


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
