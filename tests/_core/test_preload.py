"""Imports with the collector paused, and without packages that are optional."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import pytest

from resultant._core.preload import preload


def test_preload_hides_packages_for_the_import_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "preloaded.py").write_text(
        "import gc\n"
        "collecting = gc.isenabled()\n"
        "try:\n    import optional_package\nexcept ImportError:\n    optional_package = None\n"
    )
    (tmp_path / "optional_package.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    preload(["preloaded"], without=["optional_package"])
    module = sys.modules.pop("preloaded")
    assert module.optional_package is None and module.collecting is False
    assert gc.isenabled() and "optional_package" not in sys.modules
    import optional_package  # pyright: ignore[reportMissingImports]

    assert optional_package.value == 1
    del sys.modules["optional_package"]
