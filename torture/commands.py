"""Every command on small inputs, and its results as text that two runs can be compared by."""

from __future__ import annotations

import csv
import hashlib
import importlib
import json
import os
import pickle
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image

from resultant._core.vision import declare_operators
from resultant.cli.main import main
from torture.watched import PROGRAMS, SYNCS, Call, Outcome, Watcher, run

SMALL = "--device cpu --dim 8 --batch-size 8 --learning-rate 0.02 --checkpoint-every 1"
PYTHON = os.path.join(
    os.path.realpath(os.path.dirname(sys.executable)), os.path.basename(sys.executable)
)
# Times, versions and names of folders: two runs of a command differ in them.
TIMES = re.compile(r"seconds|time|date|created|beside|versions|store$|where|command")

# Imported once, before children are forked: for the short form, and for everything.
SHORT = (
    *("torch._dynamo", "pyarrow.parquet", "pyarrow.csv", "h5py", "shallow"),
    *("resultant.features.prepare", "resultant.images.opening", "resultant.training.loading"),
    *("resultant.training.cifar", "resultant.training.proco_checkpoint", "encodings.cp437"),
    *(f"resultant.cli.{name}" for name in ("train", "extract", "probe", "import_proco")),
    *("resultant.cli.progress", "rich.table", "rich.live"),
)
LOADED = (
    *("bokeh.plotting", "matplotlib.figure", "sklearn.linear_model", "timm", *SHORT),
    *("resultant.report.analysis_page", "resultant.report.comparison_page"),
    *("resultant.training.image_evaluation", "resultant.cli.analyze", "resultant.cli.compare"),
    *("resultant_reproduction.verify", "resultant_reproduction.artefacts"),
)


class Command(NamedTuple):
    """A command: its arguments for a folder of inputs and a folder of outputs."""

    arguments: Callable[[Path, Path], list[str]]
    result: str = ""  # the output below the folder

    def run(self, inputs: Path, out: Path) -> int:
        return main(self.arguments(inputs, out))


def _words(text: str) -> Callable[[Path, Path], list[str]]:
    return lambda inputs, out: [word.format(inputs=inputs, out=out) for word in text.split()]


COMMANDS = {
    "analyze": Command(
        _words(
            "analyze {inputs}/a.safetensors --references none --temperature 0.1 --out {out}/report"
        )
    ),
    "compare": Command(
        _words(
            "compare {inputs}/a.safetensors {inputs}/b.npz --references none --temperature 0.1"
            " --out {out}/report"
        )
    ),
    "probe": Command(
        _words("probe {inputs}/a.safetensors --device cpu --epochs 2 --out {out}/probes.json")
    ),
    "import-proco": Command(_words("import-proco {inputs}/ckpt.pth.tar {out}/proco.safetensors")),
    "train": Command(
        _words(
            f"train cifar-controlled {SMALL} --imbalance 3 --stack 1 --epochs 2 --no-evaluate"
            " --objective joint --data {inputs} --out {out}/train"
        )
    ),
    "train-images": Command(
        _words(
            f"train images {SMALL} --architecture test_resnet --size 32 --epochs 2 --workers 0"
            " --data {inputs}/images --out {out}/train"
        )
    ),
    "extract": Command(
        _words(
            "extract {inputs}/network.safetensors --data {inputs} --device cpu"
            " --out {out}/features.safetensors"
        )
    ),
    "verify": Command(_words("verify --only leading-gain --out {out}/verify")),
    "reproduce": Command(
        _words("reproduce table-01 --results {inputs}/results --out {out}/reproduce")
    ),
}


def warm(modules: Sequence[str] = LOADED) -> None:
    """Do the imports once, and let the commands do less work."""
    torch.set_num_threads(1)
    declare_operators()
    Image.init()
    for module in modules:
        importlib.import_module(module)
    from resultant import analysis
    from resultant.analysis import response

    # Fewer questions and temperatures; the files are the same.
    response.STEPS = (1.0,)
    analysis.QUESTIONS = ("gains", "grid", "cosine", "gradients")


def write_inputs(folder: Path) -> None:
    """Write the inputs of all commands."""
    from proco_alike import checkpoint, loss_modules, small
    from resultant.features.store import write_store
    from tiny_cifar import tiny_cifar

    generator = torch.Generator().manual_seed(3)
    centres = torch.randn(4, 8, generator=generator)
    arrays: dict[str, Any] = {}
    for split, number in (("train", 48), ("test", 24)):
        labels = torch.arange(number) % 4
        arrays[f"{split}/encoder"] = centres[labels] + torch.randn(number, 8, generator=generator)
        arrays[f"{split}/labels"] = labels
        arrays[f"{split}/identities"] = torch.arange(number)
    write_store(folder / "a.safetensors", arrays, {})
    changed = {name.replace("/", "_"): a.numpy() for name, a in arrays.items()}
    changed["test_encoder"] = changed["test_encoder"] + np.float32(0.01)
    np.savez(folder / "b.npz", **changed)
    data = tiny_cifar(10, 6, 3)
    names = ("train_images", "train_labels", "test_images", "test_labels")
    np.savez(folder / "cifar10.npz", **{name: getattr(data, name).numpy() for name in names})
    rng = np.random.default_rng(5)
    for split, number in (("train", 6), ("test", 2)):
        for label in range(2):
            for i in range(number):
                path = folder / "images" / split / f"class {label}" / f"{i}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                noise = rng.integers(0, 60, (32, 32, 3)) + 150 * label
                Image.fromarray(noise.astype(np.uint8)).save(path)
    modules = loss_modules()
    sys.modules.update(modules)
    torch.save(checkpoint(small()), folder / "ckpt.pth.tar", pickle_module=pickle)
    for name in modules:
        del sys.modules[name]
    arguments = COMMANDS["train"].arguments(folder, folder / "made")
    with tempfile.TemporaryDirectory() as scratch:
        end = run(lambda: main(arguments), Path(scratch))
        assert end.status == 0, end.errors
    trained = folder / "made" / "train"
    shutil.move(trained / "native-seed0.safetensors", folder / "network.safetensors")
    for name in ("checkpoint.safetensors", "records.jsonl", "metrics.jsonl"):
        shutil.move(trained / name, folder / name)
    shutil.rmtree(folder / "made")
    torch.save({"a.weight": torch.ones(2, 3)}, folder / "weights.pth")
    (folder / "results").mkdir()
    shutil.copyfile(folder / "records.jsonl", folder / "results" / "records.jsonl")


class Guard:
    """A watcher that refuses writes outside some folders, sockets and programs, and keeps them."""

    def __init__(self, *folders: Path) -> None:
        self.folders = tuple(f"{os.path.realpath(folder)}/" for folder in folders)
        self.refused: list[str] = []

    def __call__(self, call: Call) -> int:
        if call.paths and all(f"{path}/".startswith(self.folders) for path in call.paths):
            return 0
        # The program that reads AnnData files; h5py asks uname for the processor.
        if call.name in PROGRAMS and (
            call.paths == (PYTHON,) or os.path.basename(call.paths[0]) == "uname"
        ):
            return 0
        # oneDNN names its code for profilers.
        if call.name in SYNCS or all(re.fullmatch(r"/tmp/perf-\d+\.map", p) for p in call.paths):
            return 0
        self.refused.append(call.text)
        return 13


class Bench:
    """Inputs and a folder for outputs, where a command runs again and again."""

    def __init__(
        self, folder: Path, inputs: Path, log: Path | None = None, part: tuple[int, int] = (0, 1)
    ) -> None:
        self.inputs, self.out, self.log = inputs, folder / "out", log or folder
        self.part = part
        self.scratch, self.temporary = folder / "scratch", folder / "tmp"
        for path in (self.out, self.scratch, self.temporary):
            path.mkdir(parents=True)

    def shared(self, every: list[Any]) -> list[Any]:
        """Return the part of this process of what several do once."""
        first, step = self.part
        return every[first::step]

    def clear(self) -> None:
        for folder in (self.out, self.temporary):
            shutil.rmtree(folder)
            folder.mkdir()

    def run(self, name: str, watcher: Watcher = lambda call: 0, **options: Any) -> Outcome:
        return run(partial(self._run, name), self.scratch, watcher, **options)

    def _run(self, name: str) -> int:
        tempfile.tempdir = str(self.temporary)
        os.environ["TMPDIR"] = str(self.temporary)
        return COMMANDS[name].run(self.inputs, self.out)

    def results(self) -> dict[str, str]:
        """Return the content of every output, without times."""
        files = (path for path in sorted(self.out.rglob("*")) if path.is_file())
        return {
            str(path.relative_to(self.out)): content(path)
            for path in files
            if path.name != ".in-use"
            and not any(map(is_temporary, path.relative_to(self.out).parts))
        }

    def leftovers(self) -> list[str]:
        """Return temporary files and folders among the outputs."""
        return [str(path) for path in self.out.rglob("*") if is_temporary(path.name)]


def is_temporary(name: str) -> bool:
    """Return True for the name of a private folder, of a test folder, or of another library."""
    return bool(re.fullmatch(r"\..*\.tmp|\.?tmp.{6,8}", name))


def content(path: Path) -> str:
    """The content of an output as a text that is the same for equal results."""
    if path.suffix in (".json", ".jsonl"):
        lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
        return "\n".join(json.dumps(_without_times(json.loads(line))) for line in lines)
    if path.suffix == ".safetensors":
        from safetensors import safe_open

        with safe_open(path, "pt") as file:
            about = {k: json.loads(v) if v[:1] == "{" else v for k, v in file.metadata().items()}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        for part in about.values():
            if isinstance(part, dict):
                part.pop("sha256", None)
        text = json.dumps(_without_times(about), sort_keys=True)
        digest = hashlib.sha256(text.encode())
        for name in sorted(arrays):
            digest.update(arrays[name].contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return f"{text} {digest.hexdigest()}"
    if path.suffix == ".csv":
        rows = list(csv.reader(path.read_text().splitlines()))
        times = ("fit", "predict")
        kept = [i for i, n in enumerate(rows[0]) if not TIMES.search(n) and n not in times]
        return "\n".join(",".join(row[i] for i in kept if i < len(row)) for row in rows)
    # A page holds the date.
    return "" if path.suffix == ".html" else hashlib.sha256(path.read_bytes()).hexdigest()


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_times(v) for k, v in value.items() if not TIMES.search(k)}
    return [_without_times(v) for v in value] if isinstance(value, list) else value
