"""The floors of the package, the cost of a bare import, and the public names."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import resultant

SOURCE = Path(resultant.__file__).parent
ENVIRONMENT = {"PYTHONPATH": str(SOURCE.parent)}

# A folder imports itself and the folders before it.
FLOORS = (
    *("_core", "special", "vmf", "score", "classes", "decisions", "theory", "losses"),
    *("classifiers", "features", "analysis", "images", "networks", "training", "report", "cli"),
)

HEAVY = (
    *("torch", "numpy", "scipy", "safetensors", "matplotlib", "triton", "sklearn", "pandas"),
    *("rich", "tyro", "torchvision", "timm", "ray", "pyarrow"),
)

MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE)


def imports(path: Path) -> Iterator[tuple[str, ...]]:
    """The dotted names that a module imports from this package, without ``resultant``."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"line {node.lineno}: expected an absolute import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            first, *rest = name.split(".")
            if first == "resultant":
                yield tuple(rest)


@pytest.mark.slow
@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_only_floors_above(path: Path) -> None:
    own = path.relative_to(SOURCE).parts[0]
    above = {*FLOORS[: FLOORS.index(own) + 1], "_version"}
    for name in imports(path):
        assert name[0] in above, f"{own} imports {'.'.join(name)}: expected a floor above {own}"
        if name[0] not in (own, "_version"):
            private = [part for part in name[1:] if part.startswith("_")]
            assert not private, f"{own} imports {'.'.join(name)}, private to {name[0]}"


def test_no_circle_of_imports() -> None:
    """Imports inside functions count, so that every folder can be read in one order."""
    paths = {path.relative_to(SOURCE).with_suffix("").parts: path for path in MODULES}
    uses = {
        name: {own for full in imports(path) for own in (full, full[:-1]) if own in paths} - {name}
        for name, path in paths.items()
        if name[-1] != "__init__"
    }
    TopologicalSorter(uses).prepare()


def test_private_names_stay_in_the_package() -> None:
    root = SOURCE.parents[1]
    folders = [root / name for name in ("reproduction", "benchmarks", "examples", "docs")]
    outside = [path for folder in folders for path in folder.rglob("*.py")]
    assert outside
    for path in outside:
        for name in imports(path):
            private = [part for part in name[1:] if part.startswith("_")]
            assert not private, f"{path.relative_to(root)} imports {'.'.join(name)}"


def test_floors_are_the_folders() -> None:
    assert {path.relative_to(SOURCE).parts[0] for path in MODULES} == set(FLOORS)
    assert {path.name for path in SOURCE.glob("*.py")} == {
        "__init__.py",
        "__main__.py",
        "_version.py",
    }


def test_each_folder_names_its_modules() -> None:
    """The docstring of a folder is its map."""
    for path in MODULES:
        text = ast.get_docstring(ast.parse((path.parent / "__init__.py").read_text())) or ""
        if not path.stem.startswith("_"):
            assert re.search(rf"`{path.stem}[`.]", text), f"expected {path.stem} in {path.parent}"


def test_import_is_light() -> None:
    """Torch and everything heavy load on first use."""
    code = f"import resultant, sys; print(*(m for m in {HEAVY} if m in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=ENVIRONMENT
    )
    assert not done.stdout.split(), f"import resultant loads {done.stdout.strip()}"


PUBLIC = [(room, n) for room in resultant._FOLDERS for n in getattr(resultant, room).__all__]


@pytest.mark.parametrize(("folder", "name"), PUBLIC)
def test_public_name(folder: str, name: str) -> None:
    """A public name leaves its folder, has a docstring of its own, and is defined in the folder."""
    value = getattr(resultant, name)
    assert value is getattr(sys.modules[f"resultant.{folder}"], name)
    assert inspect.cleandoc(value.__doc__ or ""), f"resultant.{name} has no docstring"
    module = getattr(value, "__module__", None)
    assert module in (None, "typing") or module.startswith(f"resultant.{folder}.")


def test_public_names_are_those_of_the_folders() -> None:
    names = ["__version__", *resultant._OTHERS, *(name for _, name in PUBLIC)]
    assert resultant.__all__ == sorted(names)
    assert len(set(resultant.__all__)) == len(resultant.__all__)


def test_package_has_its_names_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(resultant.__all__) <= set(dir(resultant))
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir()}
    assert {n for n in dir(resultant) if n[0] != "_"} <= {*resultant.__all__, *folders}
    # As before the first use of the folder.
    monkeypatch.delattr(resultant, "classes")
    assert resultant.classes.realize is resultant.realize
    for module in (resultant, resultant.classifiers):
        with pytest.raises(AttributeError, match=f"'{module.__name__}' has no attribute 'losss'"):
            _ = module.losss
