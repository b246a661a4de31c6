"""A command of the test, and small datasets."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

import pytest

from resultant.cli import main as cli


@dataclass(frozen=True)
class Options:
    """For this test."""

    RENAMED: ClassVar[dict[str, str]] = {"--old-number": "--number"}

    number: int = 0
    loud: bool = False


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of a command ``test``; the test sets its ``function``."""
    module: Any = ModuleType("command_of_test")
    module.Options = Options
    monkeypatch.setitem(sys.modules, module.__name__, module)
    entry = cli.Command("command_of_test:Options", "command_of_test:function", "for this test")
    monkeypatch.setitem(cli.COMMANDS, "test", entry)
    return module
