"""The code starts no shell, loads no pickle, reaches no network unless asked, and syncs folders."""

import ast
from pathlib import Path

import pytest

import resultant
from cli.conftest import TRAIN
from programs import run_program
from resultant.features.store import write_store
from small_features import small_features
from tiny_cifar import write_cifar
from torture import ROOT

SOURCE = Path(resultant.__file__).parent
PAPER = ROOT / "reproduction" / "resultant_reproduction"
# The unpickler of the official CIFAR batches builds arrays and nothing else.
UNPICKLERS = {PAPER / "cifar" / "data.py"}
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


def require_safe(node: ast.AST, path: Path) -> None:
    """Require that a node neither imports nor calls what is forbidden."""
    used: list[str] = []
    if isinstance(node, ast.Import):
        used = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        used = [node.module or ""]
    elif isinstance(node, ast.Call):
        name, place = ast.unparse(node.func), f"{path}:{node.lineno}"
        options = {option.arg: ast.unparse(option.value) for option in node.keywords}
        assert name not in FORBIDDEN, place
        assert options.get("shell", "False") == "False", place
        assert options.get("allow_pickle", "False") == "False", place
        assert name != "torch.load" or options.get("weights_only") == "True", place
        # A folder that make_folder creates survives a power failure.
        assert not (name.endswith(".mkdir") and "parents" in options), place
    elif isinstance(node, ast.ClassDef) and "Unpickler" in " ".join(map(ast.unparse, node.bases)):
        # A class that unpickles decides about every name.
        methods = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
        assert path in UNPICKLERS and "find_class" in methods, path
    assert not REFUSED & {name.partition(".")[0] for name in used}, path


@pytest.mark.slow
def test_no_shell_no_pickle_no_network_in_the_code() -> None:
    files = [*SOURCE.rglob("*.py"), *PAPER.rglob("*.py")]
    assert set(files) > UNPICKLERS
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            require_safe(node, path)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["analyze", "train"])
def test_commands_open_no_socket_and_start_no_program(tmp_path: Path, command: str) -> None:
    if command == "analyze":
        write_store(tmp_path / "a.safetensors", small_features())
        words = f"analyze {tmp_path}/a.safetensors --temperature 0.1 --references none"
    else:
        words = f"{TRAIN} --epochs 1 --no-evaluate --data {write_cifar(tmp_path, 3)}"
    run_program(WATCHED, *words.split(), "--out", tmp_path / "out")
