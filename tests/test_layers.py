"""The floors of the package, the cost of a bare import, and the public names."""

import ast
import re
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import resultant
from programs import run_program

SOURCE = Path(resultant.__file__).parent

# A folder imports itself and the folders before it.
FLOORS = (
    *("_core", "special", "vmf", "score", "classes", "decisions", "theory", "losses"),
    *("classifiers", "features", "analysis", "images", "training", "report", "cli"),
)

HEAVY = (
    *("torch", "numpy", "scipy", "safetensors", "matplotlib", "triton", "sklearn", "pandas"),
    *("rich", "tyro", "torchvision", "timm", "ray", "pyarrow"),
)

MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE)

# The same for the reproduction; modules of its root import all of them.
REPRODUCTION = Path(__file__).parents[1] / "reproduction" / "resultant_reproduction"
PAPER_FLOORS = ("cells", "theory", "recipes", "cifar", "frozen", "runs", "studies", "pages")


def imports(path: Path, package: str = "resultant") -> Iterator[tuple[str, ...]]:
    """The dotted names that a module imports from a package, without the name of the package."""
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"line {node.lineno}: expected an absolute import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (tuple(n.split(".")[1:]) for n in names if n.split(".")[0] == package)


def test_imports_only_floors_above_and_no_private_names() -> None:
    root = SOURCE.parents[1]
    outside = [
        path
        for folder in ("reproduction", "benchmarks", "examples", "docs")
        for path in (root / folder).rglob("*.py")
    ]
    assert MODULES and outside
    for path in (*MODULES, *outside):
        own = path.relative_to(SOURCE).parts[0] if path in MODULES else "cli"
        above = {*FLOORS[: FLOORS.index(own) + 1], "_version"}
        for name in imports(path):
            place = f"{path.relative_to(root)} imports {'.'.join(name)}"
            private = any(part.startswith("_") for part in name[1:])
            if path in MODULES:
                assert name[0] in above, f"{place}: expected a floor above {own}"
                private = private and name[0] not in (own, "_version")
            assert not private, f"{place}: private to {name[0]}"


def test_folders_of_the_reproduction_import_only_those_above() -> None:
    folders = {path.name for path in REPRODUCTION.iterdir() if (path / "__init__.py").exists()}
    assert folders == set(PAPER_FLOORS)
    for own in PAPER_FLOORS:
        above = {*PAPER_FLOORS[: PAPER_FLOORS.index(own) + 1]}
        for path in (REPRODUCTION / own).glob("*.py"):
            for name in imports(path, "resultant_reproduction"):
                assert name[0] in above, f"{path.name} imports {'.'.join(name)}"


def test_no_circle_of_imports() -> None:
    """Imports inside functions count, so that every folder can be read in one order."""
    paths = {path.relative_to(SOURCE).with_suffix("").parts: path for path in MODULES}
    uses = {
        name: {own for full in imports(path) for own in (full, full[:-1]) if own in paths} - {name}
        for name, path in paths.items()
        if name[-1] != "__init__"
    }
    TopologicalSorter(uses).prepare()


def test_floors_are_the_folders() -> None:
    assert {path.relative_to(SOURCE).parts[0] for path in MODULES} == set(FLOORS)
    files = {path.stem for path in SOURCE.glob("*.py")}
    assert files == {"__init__", "__main__", "_version", "checks"}


def test_each_folder_names_its_modules() -> None:
    """The docstring of a folder is its map."""
    for path in MODULES:
        text = ast.get_docstring(ast.parse((path.parent / "__init__.py").read_text())) or ""
        if not path.stem.startswith("_"):
            assert re.search(rf"`{path.stem}[`.]", text), f"expected {path.stem} in {path.parent}"


def test_import_is_light() -> None:
    """Torch and everything heavy load on first use."""
    code = f"import resultant, sys; print(*(m for m in {HEAVY} if m in sys.modules))"
    output, _ = run_program(code)
    assert not output.split(), f"import resultant loads {output.strip()}"


PUBLIC = [(room, n) for room in resultant._FOLDERS for n in resultant._names(room)]


@pytest.mark.parametrize(("folder", "name"), PUBLIC)
def test_public_name(folder: str, name: str) -> None:
    """A public name leaves its folder, has a docstring of its own, and is defined in the folder."""
    value = getattr(resultant, name)
    assert value is getattr(sys.modules[f"resultant.{folder}"], name)
    assert value.__doc__, f"resultant.{name} has no docstring"
    module = getattr(value, "__module__", None)
    assert module in (None, "typing") or module.startswith(f"resultant.{folder}.")


def test_package_has_its_names_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["__version__", *resultant._OTHERS, *(name for _, name in PUBLIC)]
    assert resultant._public() == sorted(set(names)) and len(names) == len(set(names))
    assert set(resultant.__all__) < set(names) and len(resultant.__all__) <= 25
    assert dir(resultant) == sorted({*resultant.__all__, *resultant._FOLDERS})
    # As before the first use of the folder.
    monkeypatch.delattr(resultant, "classes")
    assert resultant.classes.realize is resultant.realize
    for module in (resultant, resultant.classifiers):
        with pytest.raises(AttributeError, match=f"'{module.__name__}' has no attribute 'losss'"):
            _ = module.losss


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("vMF", "VonMisesFisher"),
        ("VmfClassifier", "VMFClassifier"),
        ("ProcoLoss", "ProCoLoss"),
        ("gain", "angular_gain"),
        ("log_bessel", "log_bessel_i"),
        ("SphericalKmeans", "SphericalKMeans"),
        ("load", "load_classifier"),
    ],
)
def test_a_wrong_name_is_answered_with_the_right_one(wrong: str, right: str) -> None:
    with pytest.raises(ImportError, match=f"no attribute '{wrong}'; did you mean .*{right}"):
        exec(f"from resultant import {wrong}")
    with pytest.raises(AttributeError, match=right) as error:
        getattr(resultant, wrong)
    *_, names = str(error.value).rstrip("?").split("did you mean ")
    assert len(names.split(" or ")) == len({*names.split(" or ")})
    assert not hasattr(resultant, wrong)


def test_folders_and_modules_are_imported_as_ever() -> None:
    exec("from resultant import analysis, cli, theory, _version")
    with pytest.raises(ImportError, match="no attribute 'qwertz'"):
        exec("from resultant import qwertz")
