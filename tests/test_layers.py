"""The order of the layers, what a bare import costs, and where public names are."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import resultant

SOURCE = Path(resultant.__file__).parent
ENVIRONMENT = {"PYTHONPATH": str(SOURCE.parent)}

# A module imports only what stands before it.
LAYERS = [
    *("_version", "_exact", "_debye", "_differences", "_elementwise", "_checks", "_replacing"),
    "checkpoint",
    *("bessel", "_angle", "vmf"),
    *("_polynomial", "_kernel_device", "_score_kernel", "_evaluate", "score"),
    *("expansion", "propagation"),
    *("_features", "classes", "shots", "finite_sample", "gain"),
    *("geometry", "_roots", "boundaries", "pair_selection", "certificates"),
    *("_projection", "_plane", "population"),
    *(
        "_ranks",
        "_bank_kernel",
        "bank",
        "_entropy_kernel",
        "_entropy",
        "_replay",
        "_prior",
        "losses",
    ),
    *("classifier", "_left_out", "selection", "calibration"),
    *("data", "_norm_kernel", "_inference_kernel", "norm", "_conv_kernel", "fused_block", "models"),
    *("_image_ops", "augment", "_view_kernel", "batches"),
    *(
        "precision",
        "presets",
        "options",
        "stack",
        "records",
        "metrics",
        "job_files",
        "train",
        "probe",
        "train_images",
        "evaluation",
    ),
    *("_torch_archive", "proco_checkpoint", "extract", "frozen", "ray_engine"),
    *("watch", "figures", "verify", "paper", "report"),
    *("places", "commands", "analyze", "compare", "reproduce", "cli", "__main__"),
]

HEAVY = (
    "torch",
    "numpy",
    "scipy",
    "safetensors",
    "matplotlib",
    "triton",
    "sklearn",
    "pandas",
    "rich",
    "tyro",
    "torchvision",
    "timm",
    "ray",
    "pyarrow",
)


def layer(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(tree: ast.AST) -> set[str]:
    """The layers that a module imports; the empty string stands for the package itself."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            paths = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"line {node.lineno}: expected an absolute import"
            module = node.module or ""
            paths = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        for path in paths:
            first, _, rest = path.partition(".")
            if first == "resultant":
                names.add(rest.partition(".")[0])
    return names


MODULES = [path for path in sorted(SOURCE.rglob("*.py")) if path != SOURCE / "__init__.py"]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_only_layers_before(path: Path) -> None:
    name = layer(path)
    assert name in LAYERS, f"place {name} in LAYERS, after all that it imports"
    before = LAYERS[: LAYERS.index(name)]
    for other in imported(ast.parse(path.read_text())) - {name}:
        assert other in LAYERS, (
            f"{name} imports resultant.{other}: expected a module of LAYERS, not a name of the "
            "package"
        )
        assert other in before, f"{name} imports {other}, which stands after it in LAYERS"


def test_every_module_is_found() -> None:
    assert {"bessel", "score"} <= {layer(path) for path in MODULES}


def test_import_is_light() -> None:
    """Torch, pictures, estimators and kernels are loaded by those who use them."""
    code = f"import resultant, sys; print(*(m for m in {HEAVY} if m in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=ENVIRONMENT,
    )
    assert not done.stdout.split(), f"import resultant loads {done.stdout.strip()}"


@pytest.mark.parametrize("name", resultant.__all__)
def test_public_name_has_docstring(name: str) -> None:
    # Its own: a class would otherwise answer with that of its base.
    value = getattr(resultant, name)
    assert inspect.cleandoc(value.__doc__ or ""), f"resultant.{name} has no docstring"


def test_type_checkers_see_the_same_names() -> None:
    """The imports under TYPE_CHECKING and the table that is used when running."""
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            # Said twice, the name is public.
            assert alias.name == alias.asname
            seen[alias.name] = node.module
    assert seen == resultant._MODULES
    assert resultant.__all__ == sorted([*seen, "__version__"])


@pytest.mark.parametrize("name", [name for name in resultant.__all__ if name != "__version__"])
def test_public_name_is_defined_where_it_is_loaded_from(name: str) -> None:
    value = getattr(resultant, name)
    module = sys.modules[resultant._MODULES[name]]
    assert value is vars(module)[name]
    # Named by the module that makes it, and not by one that uses it; an alias has no module.
    assert getattr(value, "__module__", None) in (module.__name__, "typing", None)


def test_package_has_its_names_and_no_others() -> None:
    assert set(resultant.__all__) <= set(dir(resultant))
    code = "import resultant; assert resultant.gain.realize is resultant.realize; resultant.losss"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=ENVIRONMENT
    )
    assert done.stderr.endswith("AttributeError: module 'resultant' has no attribute 'losss'\n")
