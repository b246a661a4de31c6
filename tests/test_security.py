"""The code starts no shell, loads no pickle, reaches no network unless asked, and syncs folders."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import resultant
from programs import run_program
from resultant.features.store import write_store
from small_store import rows_and_labels
from tiny_cifar import tiny_cifar
from torture import ROOT

SOURCE = Path(resultant.__file__).parent
PAPER = ROOT / "reproduction" / "resultant_reproduction"
FILES = sorted([*SOURCE.rglob("*.py"), *PAPER.rglob("*.py")])
# The unpickler of the official CIFAR batches builds arrays and nothing else.
UNPICKLERS = {SOURCE / "images" / "cifar.py"}
FORBIDDEN = {
    *("os.system", "os.popen", "eval", "exec", "marshal.loads", "yaml.load"),
    *("pickle.load", "pickle.loads", "pickle.Unpickler"),
}
# Modules that reach the network or unpickle.
REFUSED = {
    *("socket", "urllib", "requests", "http", "ftplib", "httpx"),
    *("dill", "cloudpickle", "joblib"),
}


# Sockets and programs are refused by an audit hook of Python, which cannot be removed: a process
# of its own.
WATCHED = """
import sys

from resultant.cli.main import main


def refuse(event, arguments):
    # ctypes of Python looks for libraries by ldconfig, for packages that torch imports.
    if arguments[:1] == ("/sbin/ldconfig",):
        return
    if event in ("socket.connect", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"):
        raise RuntimeError(f"expected neither sockets nor programs, got {event} {arguments}")


sys.addaudithook(refuse)
sys.exit(main(sys.argv[1:]))
"""


def require_safe_call(name: str, options: dict[str | None, str], place: str) -> None:
    assert name not in FORBIDDEN, place
    assert options.get("shell", "False") == "False", place
    assert options.get("allow_pickle", "False") == "False", place
    assert name != "torch.load" or options.get("weights_only") == "True", place
    # A folder that make_folder creates survives a power failure.
    assert not (name.endswith(".mkdir") and "parents" in options), place


@pytest.mark.slow
def test_no_shell_no_pickle_no_network_in_the_code() -> None:
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            used: list[str] = []
            if isinstance(node, ast.Import):
                used = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                used = [node.module or ""]
            elif isinstance(node, ast.Call):
                options: dict[str | None, str] = {
                    option.arg: ast.unparse(option.value)
                    for option in node.keywords
                    if option.arg in ("shell", "allow_pickle", "weights_only")
                }
                name = ast.unparse(node.func)
                require_safe_call(name, options, f"{path}:{node.lineno}")
            elif isinstance(node, ast.ClassDef) and "Unpickler" in " ".join(
                map(ast.unparse, node.bases)
            ):
                # A class that unpickles decides about every name.
                methods = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
                assert path in UNPICKLERS and "find_class" in methods, path
            modules = {name.partition(".")[0] for name in used}
            assert not REFUSED & modules, path


@pytest.mark.slow
@pytest.mark.parametrize("command", ["analyze", "train"])
def test_commands_open_no_socket_and_start_no_program(tmp_path: Path, command: str) -> None:
    if command == "analyze":
        x, y = rows_and_labels()
        write_store(tmp_path / "a.safetensors", {"train/features": x, "train/labels": y})
        words = [str(tmp_path / "a.safetensors"), "--temperature", "0.1", "--references", "none"]
    else:
        data = tiny_cifar(10, 3, 1)
        names = ("train_images", "train_labels", "test_images", "test_labels")
        np.savez(tmp_path / "cifar10.npz", **{n: getattr(data, n).numpy() for n in names})
        small = "cifar-controlled --device cpu --stack 1 --imbalance 3 --dim 8 --batch-size 8"
        words = [*small.split(), "--epochs", "1", "--no-evaluate", "--data", str(tmp_path)]
    words = [command, *words, "--out", str(tmp_path / "out")]
    run_program(WATCHED, *words)
