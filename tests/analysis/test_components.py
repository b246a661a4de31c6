"""Classes of several components: the explanation is about one distribution per class."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sklearn.datasets import load_digits

import resultant

pytest.importorskip("jinja2")


@pytest.mark.slow
def test_report_where_all_methods_have_several_components(tmp_path: Path) -> None:
    digits: Any = load_digits()
    result = resultant.analyze(
        digits.data[:900], digits.target[:900], references="none", out=tmp_path
    )
    methods = [m for m in result.first.methods if m.family == "vmf"]
    assert any(m.settings.get("components", 1) > 1 for m in methods)
    assert result.first.explorer is not None and result.first.explorer.kappa.shape[1] == 10
    assert len(result.first.rows["label"].row) <= result.first.rows["label"].total
    assert (tmp_path / "index.html").stat().st_size < 4_000_000
    assert json.loads((tmp_path / "results.json").read_text())["title"] == result.title
